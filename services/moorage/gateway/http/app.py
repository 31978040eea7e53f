"""The gateway's HTTP application."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import structlog
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from moorage.gateway.configuration import Configured, FirstContent
from moorage.gateway.controllers.controllers import Controllers
from moorage.gateway.durable_log import Log
from moorage.gateway.errors import StatusError, no_such_path
from moorage.gateway.http import discovery, paths
from moorage.gateway.http.explain import Explanations
from moorage.gateway.http.hosts import check_host
from moorage.gateway.http.reports import Intake
from moorage.gateway.http.resources import ResourcesApi, answer
from moorage.gateway.metrics import Metrics
from moorage.gateway.store import Store
from moorage.gateway.writer import Writer
from moorage.runtime.clock import Clock, WallClock
from moorage.runtime.settings import Settings

_log = structlog.get_logger(__name__)

_READING = ["GET", "HEAD"]
_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]

Handler = Callable[[Request], Awaitable[Response]]


@dataclass
class Gateway:
    """What an application serves, and the parts that it uses."""

    store: Store
    log: Log
    clock: Clock = field(default_factory=WallClock)
    metrics: Metrics = field(default_factory=Metrics)
    settings: Settings = field(default_factory=Settings)
    """The process's own settings. A configuration replaces those that change decisions."""

    hosts: frozenset[str] | None = frozenset()
    """Host names, in addition to the local ones, under which the gateway may be called. None allows every name."""

    progress: Callable[[], str] = lambda: "reading its tables"
    """The progress of the restore, as text."""

    behind: Callable[[], str] = lambda: ""
    """Why the objects shown may be out of date. Empty if they are not."""

    explanations: Explanations = field(default_factory=Explanations)
    """The source of explanations."""


def create_app(gateway: Gateway) -> Starlette:
    """Create the application of a gateway. Its state has `first_content`, which writes the first configuration.

    Its state also has the `controllers`.
    """
    in_force = Configured(gateway.store, gateway.settings)
    writer = Writer(gateway.store, gateway.log, gateway.clock, lambda: in_force.gates)
    controllers = Controllers(gateway.store, writer)
    endpoints = _Endpoints(gateway, writer, in_force)
    intake = Intake(gateway.store, gateway.log, gateway.clock, lambda: in_force.limits)

    def route(path: str, verb: str, handler: Handler, methods: list[str]) -> Route:
        return Route(path, _guarded(gateway, verb, handler), methods=methods)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with controllers.running():
            yield
        await gateway.explanations.close()

    app = Starlette(
        routes=[
            route("/healthz", "health", endpoints.healthz, _READING),
            route("/livez", "health", endpoints.healthz, _READING),
            route("/readyz", "health", endpoints.readyz, _READING),
            route("/metrics", "metrics", endpoints.metrics, _READING),
            route("/version", "discovery", endpoints.version, _READING),
            route("/v1/conditions", "conditions", intake.handle, _METHODS),
            route("/v1/explain", "explain", gateway.explanations.handle, _METHODS),
            route("/api", "discovery", endpoints.core, _READING),
            route("/apis", "discovery", endpoints.groups, _READING),
            route("/api/{path:path}", "resources", endpoints.core, _METHODS),
            route("/apis/{path:path}", "resources", endpoints.groups, _METHODS),
            route("/{path:path}", "unknown", endpoints.unknown, _METHODS),
        ],
        lifespan=lifespan,
    )
    app.state.controllers = controllers
    app.state.first_content = FirstContent(gateway.store, writer, gateway.settings)
    return app


class _Endpoints:
    """The endpoints other than condition reports."""

    def __init__(self, gateway: Gateway, writer: Writer, in_force: Configured) -> None:
        self._gateway = gateway
        self._api = ResourcesApi(gateway.store, writer, gateway.metrics, lambda: in_force.gates)

    async def core(self, request: Request) -> Response:
        """`/api/…`: the core group."""
        parts = request.path_params.get("path", "").rstrip("/").split("/")
        if parts == [""]:
            return answer(200, discovery.api_versions())
        return await self._resource("", parts[0], parts[1:], request)

    async def groups(self, request: Request) -> Response:
        """`/apis/…`: the named groups."""
        parts = request.path_params.get("path", "").rstrip("/").split("/")
        if parts == [""]:
            return answer(200, discovery.api_groups())
        if len(parts) == 1:
            return answer(200, discovery.api_group(parts[0]))
        return await self._resource(parts[0], parts[1], parts[2:], request)

    async def _resource(self, group: str, version: str, parts: list[str], request: Request) -> Response:
        if not parts:
            return answer(200, discovery.resources(group, version))
        return await self._api.handle(request, paths.parse(group, version, parts))

    async def version(self, _: Request) -> Response:
        """`/version`."""
        return answer(200, discovery.server_version())

    async def healthz(self, _: Request) -> Response:
        """`/healthz`: the process answers."""
        return PlainTextResponse("ok")

    async def readyz(self, _: Request) -> Response:
        """`/readyz`: reads and writes are served. Otherwise the reason why not."""
        obstacle = _obstacle(self._gateway)
        return PlainTextResponse(obstacle or "ok", 503 if obstacle else 200)

    async def metrics(self, _: Request) -> Response:
        """`/metrics`: the metrics of the gateway and of the process."""
        own = self._gateway.metrics
        own.ready.set(0 if _obstacle(self._gateway) else 1)
        for topic, size in self._gateway.store.tables.sizes().items():
            own.records.labels(topic).set(size)
        return Response(generate_latest(REGISTRY) + generate_latest(own.registry), media_type=CONTENT_TYPE_LATEST)

    async def unknown(self, _: Request) -> Response:
        """Every other path."""
        raise no_such_path()


def _obstacle(gateway: Gateway) -> str:
    if not gateway.store.ready:
        return f"not ready: {gateway.progress()}"
    obstacle = gateway.log.obstacle or gateway.behind()
    return f"not ready: {obstacle}" if obstacle else ""


def _guarded(gateway: Gateway, verb: str, handler: Handler) -> Handler:
    """Wrap a handler: errors become `Status` answers, and requests are counted and timed."""

    async def guard(request: Request) -> Response:
        began = time.monotonic()
        try:
            check_host(request, gateway.hosts)
            response = await handler(request)
        except StatusError as error:
            response = _failure(error)
        except Exception:  # noqa: BLE001 - after any error the caller gets an answer, and the log gets the trace
            _log.exception("gateway.request_failed", method=request.method, path=request.url.path)
            response = _failure(StatusError(500, "the gateway failed on this request; see its log"))
        gateway.metrics.requests.labels(request.method, verb, str(response.status_code)).inc()
        gateway.metrics.seconds.labels(f"{verb} {request.method}").observe(time.monotonic() - began)
        return response

    return guard


def _failure(error: StatusError) -> Response:
    response = answer(error.code, error.document())
    if error.retry_after:
        response.headers["retry-after"] = str(error.retry_after)
    return response
