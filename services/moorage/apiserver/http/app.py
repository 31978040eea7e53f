"""The gateway's HTTP application."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import structlog
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from moorage.apiserver.admission.validation import warning_header
from moorage.apiserver.authentication.account_tokens import StoredAccounts
from moorage.apiserver.authentication.authenticator import Authenticator
from moorage.apiserver.authorization.authorizer import Authorizer
from moorage.apiserver.authorization.guards import WriteGuards
from moorage.apiserver.authorization.report_guard import ReportGuard
from moorage.apiserver.controllers.controller_manager import ControllerManager
from moorage.apiserver.controllers.events import EventRecorder
from moorage.apiserver.controllers.roles import DefaultRoles
from moorage.apiserver.http import health, paths
from moorage.apiserver.http.backend import Backend
from moorage.apiserver.http.discovery import cluster_views, definitions, groups, openapi, reviews
from moorage.apiserver.http.filters import limits
from moorage.apiserver.http.filters.access import Access
from moorage.apiserver.http.filters.hosts import check_host
from moorage.apiserver.http.filters.limits import InFlightMiddleware, OpenWatches
from moorage.apiserver.http.filters.refused_requests import RefusedRequests
from moorage.apiserver.http.filters.request_attributes import (
    CLUSTERS_PATH,
    CONDITIONS_PATH,
    DECISIONS_PATH,
    EXPLAIN_PATH,
    MIRROR_PATH,
    SIMULATE_PATH,
)
from moorage.apiserver.http.forwarding import Forwarding, ForwardingMiddleware
from moorage.apiserver.http.in_flight import RequestLimits, RequestsInFlight
from moorage.apiserver.http.intake.audit_events import AuditEventsApi
from moorage.apiserver.http.intake.dead_letter_replay import DeadLetterReplay
from moorage.apiserver.http.intake.dead_letters import DeadLettersApi
from moorage.apiserver.http.intake.decisions import Decisions
from moorage.apiserver.http.intake.explain import Explanations
from moorage.apiserver.http.intake.mirror import MirrorApi, MirroredClusters
from moorage.apiserver.http.intake.reports import Intake
from moorage.apiserver.http.intake.topic_lists import TopicListApi
from moorage.apiserver.http.messages import answers
from moorage.apiserver.http.messages.answers import warn, warnings_of
from moorage.apiserver.http.messages.negotiation import AnswerForm, form_of_errors
from moorage.apiserver.http.paths import ClusterPaths, cluster_of
from moorage.apiserver.http.resources import ClusterApis, ResourcesApi
from moorage.apiserver.http.subresources.pods import bindings_path, is_binding
from moorage.apiserver.kinds import audit_event
from moorage.apiserver.kinds.views import DEAD_LETTER
from moorage.apiserver.machinery.api_errors import StatusError, no_such_path
from moorage.apiserver.metrics import Metrics
from moorage.apiserver.rbac.cluster_sets import VIEW_GROUP
from moorage.apiserver.storage.cluster_store import ClusterNames, ClusterStore, fleet_of
from moorage.apiserver.storage.durable_log import Log, ReportOutcomes
from moorage.apiserver.storage.store import Store
from moorage.apiserver.storage.topic_pages import TopicRecords
from moorage.apiserver.writing.configuration import Configured, FirstContent
from moorage.apiserver.writing.object_records import ObjectLocks
from moorage.apiserver.writing.writer import Writer
from moorage.decide.conditions.report_limits import Rate
from moorage.runtime.process.clock import Clock, WallClock
from moorage.runtime.reports.report_seals import seals_of
from moorage.runtime.settings.process_settings import Settings

_log = structlog.get_logger(__name__)

_READING = ["GET", "HEAD"]
_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]

Handler = Callable[[Request], Awaitable[Response]]


async def nothing_to_read() -> None:
    """Return at once, because everything that was written is shown already."""


@dataclass
class Gateway:
    """The content that an application serves, and the parts that it uses."""

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

    clock_state: Callable[[], str] = lambda: ""
    """A sentence about the clock of this process if it is off. Empty if it is right."""

    catch_up: Callable[[], Awaitable[None]] = nothing_to_read
    """Returns when the objects shown are those that were in the object log at the call."""

    explanations: Explanations = field(default_factory=Explanations)
    """The source of explanations."""

    outcomes: ReportOutcomes | None = None
    """Finds out what becomes of reports. None if callers cannot wait for that."""

    records: TopicRecords | None = None
    """Reads dead letters and the audit. None if this gateway cannot."""

    records_events: bool = True
    """Whether it writes Events about decisions while it leads."""

    authenticator: Authenticator | None = None
    """Authenticates callers. None makes one from the settings."""

    forwarding: Forwarding | None = None
    """Sends writes to the gateway that leads. None if this one always does."""


@dataclass(frozen=True)
class ServedApi:
    """The parts that a front may use beside the API."""

    gateway: Gateway
    access: Access
    watches: OpenWatches
    in_flight: RequestsInFlight


Front = Callable[[ASGIApp, ServedApi], ASGIApp]
"""Makes what answers requests that are not the API's, and passes all others on to it."""


def create_app(gateway: Gateway, front: Front | None = None) -> Starlette:
    """Create the application of a gateway. Its state has `first_content`, which writes the first configuration.

    Its state also has the `controllers`, and `leading`: a context within which they run, because the gateway leads. An
    application without `forwarding` is in it for as long as it lives.
    """
    settings = gateway.settings
    in_force = Configured(gateway.store, settings)
    refused = RefusedRequests(gateway.log, gateway.clock, gateway.metrics)
    authenticator = gateway.authenticator or Authenticator(settings, StoredAccounts(gateway.store), gateway.metrics)
    authorizer = Authorizer(gateway.store)
    access = Access(authenticator, authorizer, refused)
    guards, locks = WriteGuards(authorizer), ObjectLocks()
    writer = Writer(gateway.store, gateway.log, gateway.clock, lambda: in_force.gates, guards, locks=locks)
    controllers = _controllers(gateway, writer)
    watches = OpenWatches(settings.max_watches_per_user)
    in_flight = RequestsInFlight(
        RequestLimits(
            settings.max_requests_in_flight,
            settings.max_mutating_requests_in_flight,
            settings.max_body_bytes_in_flight,
        ),
        lambda kind, count: gateway.metrics.in_flight.labels(kind).set(count),
    )
    issued = groups.Issuer(authenticator.accounts)
    guard = ReportGuard(
        gateway.store,
        authorizer,
        gateway.clock,
        seals_of(settings),
        rate=Rate.of(settings.report_qps, settings.report_burst),
        metrics=gateway.metrics,
    )
    intake = Intake(
        gateway.store, gateway.log, gateway.clock, lambda: in_force.limits, guard=guard, outcomes=gateway.outcomes
    )

    def writer_of(cluster: str) -> Writer:
        if not cluster:
            return writer
        fleet = ClusterStore(gateway.store, cluster)
        return Writer(fleet, gateway.log, gateway.clock, lambda: in_force.gates, guards, locks=locks)

    endpoints = _Endpoints(gateway, writer, in_force, access, watches, intake=intake, guard=guard, writer_of=writer_of)
    decisions = Decisions(gateway.store, gateway.metrics, watches, gateway.catch_up)

    def guarded(verb: str, handler: Handler) -> Handler:
        return _guarded(gateway, access, verb, handler)

    @contextlib.asynccontextmanager
    async def leading() -> AsyncIterator[None]:
        # The tables that they read are those of this term.
        app.state.controllers = _controllers(gateway, writer)
        async with app.state.controllers.running():
            yield

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as life:
            life.push_async_callback(gateway.explanations.close)
            life.push_async_callback(authenticator.close)
            await life.enter_async_context(refused.running())
            if gateway.forwarding is None:
                await life.enter_async_context(app.state.controllers.running())
            else:
                life.push_async_callback(gateway.forwarding.close)
            yield

    app = Starlette(
        routes=_routes(guarded, endpoints, intake, decisions, issued),
        exception_handlers={404: _no_such_path, 405: _method_not_allowed},
        lifespan=lifespan,
    )
    if gateway.forwarding is not None:
        app.add_middleware(
            ForwardingMiddleware,
            forwarding=gateway.forwarding,
            access=access,
            store=gateway.store,
            metrics=gateway.metrics,
            hosts=gateway.hosts,
        )
    app.add_middleware(InFlightMiddleware, in_flight=in_flight)
    app.add_middleware(ClusterPaths)
    if front is not None:
        app.add_middleware(_Before, front=front, api=ServedApi(gateway, access, watches, in_flight))
    app.state.in_flight = in_flight
    app.state.leading = leading
    app.state.controllers = controllers
    roles = DefaultRoles(gateway.store, writer)
    app.state.first_content = FirstContent(gateway.store, writer, gateway.settings, roles.write)
    return app


class _Before:
    """A front as a middleware. Starlette makes it with the application that comes after it."""

    def __init__(self, app: ASGIApp, front: Front, api: ServedApi) -> None:
        self._app = front(app, api)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on to the API."""
        await self._app(scope, receive, send)


def _routes(
    guarded: Callable[[str, Handler], Handler],
    endpoints: _Endpoints,
    intake: Intake,
    decisions: Decisions,
    issued: groups.Issuer,
) -> list[Route]:
    """Return what is served where."""

    def route(path: str, verb: str, handler: Handler, methods: list[str]) -> Route:
        return Route(path, guarded(verb, handler), methods=methods)

    return [
        route("/", "discovery", endpoints.root, _READING),
        *(
            route(f"/{name}{rest}", "health", endpoints.health, _READING)
            for name in ("healthz", "livez", "readyz")
            for rest in ("", "/{check:path}")
        ),
        route("/metrics", "metrics", endpoints.metrics, _READING),
        route("/version", "discovery", endpoints.version, _METHODS),
        route("/version/", "discovery", endpoints.version, _METHODS),
        route(groups.ISSUER_CONFIGURATION, "discovery", issued.configuration, _READING),
        route(groups.ISSUER_KEYS, "discovery", issued.keys, _READING),
        route(CONDITIONS_PATH, "conditions", intake.handle, _METHODS),
        route(MIRROR_PATH, "mirror", endpoints.mirror, _METHODS),
        route(CLUSTERS_PATH, "clusters", endpoints.clusters, _METHODS),
        route(DECISIONS_PATH, "decisions", decisions.handle, _METHODS),
        route(EXPLAIN_PATH, "explain", endpoints.explain, _METHODS),
        route(SIMULATE_PATH, "simulate", endpoints.simulate, _METHODS),
        route("/openapi/v2", "openapi", openapi.version_2, _READING),
        route("/openapi/v3", "openapi", openapi.index, _READING),
        route("/openapi/v3/{path:path}", "openapi", openapi.version_3, _READING),
        route("/api", "discovery", endpoints.core, _METHODS),
        route("/apis", "discovery", endpoints.groups, _METHODS),
        route("/api/{path:path}", "resources", endpoints.core, _METHODS),
        route("/apis/{path:path}", "resources", endpoints.groups, _METHODS),
        route("/{path:path}", "unknown", endpoints.unknown, _METHODS),
    ]


def _controllers(gateway: Gateway, writer: Writer) -> ControllerManager:
    settings, recorder = gateway.settings, None
    if gateway.records_events:
        ttl = timedelta(seconds=settings.event_ttl)
        recorder = EventRecorder(gateway.store, gateway.log, gateway.clock, ttl=ttl, kept=settings.events_kept)
    return ControllerManager(gateway.store, writer, gateway.clock, recorder)


class _Endpoints:
    """The endpoints other than condition reports."""

    def __init__(
        self,
        gateway: Gateway,
        writer: Writer,
        in_force: Configured,
        access: Access,
        watches: OpenWatches,
        *,
        intake: Intake,
        guard: ReportGuard,
        writer_of: Callable[[str], Writer],
    ) -> None:
        self._gateway = gateway
        self._access = access
        self.explain = gateway.explanations.handle
        self.simulate = gateway.explanations.simulate
        self._checks = {
            "healthz": {"ping": _always},
            "livez": {"ping": _always},
            "readyz": {"ping": _always, "tables": self._tables, "log": self._log},
        }
        self._backend = Backend(
            gateway.store, writer, gateway.metrics, gateway.clock, lambda: in_force.gates, access, watches
        )
        self._api = ResourcesApi(self._backend)
        replay = DeadLetterReplay(self._backend, intake, guard, lambda: in_force.limits)
        self._lists: dict[str, TopicListApi[Any]] = {
            DEAD_LETTER.kind: DeadLettersApi(self._backend, gateway.records, replay),
            audit_event.KIND.kind: AuditEventsApi(self._backend, gateway.records),
        }
        self._clusters = ClusterApis(gateway.store, self._backend, writer_of)
        names = ClusterNames(gateway.store)
        mirrored = MirroredClusters(gateway.store, names, gateway.clock)
        self.mirror = MirrorApi(writer_of, access, names, mirrored).handle
        self.clusters = mirrored.handle
        self._views = cluster_views.ClusterViews(self._backend, access)

    async def core(self, request: Request) -> Response:
        """`/api/…`: the core group."""
        parts = _parts(request)
        if not parts:
            first = groups.api_versions(request.headers.get("host", ""))
            return groups.answer_groups(_read(request), first, is_core=True)
        return await self._resource("", parts[0], parts[1:], request)

    async def groups(self, request: Request) -> Response:
        """`/apis/…`: the named groups."""
        parts = _parts(request)
        if not parts:
            return groups.answer_groups(_read(request), groups.api_groups(), is_core=False)
        if not groups.has_group(parts[0]):
            return health.no_page()
        if len(parts) == 1:
            document = groups.api_group(parts[0])
            return answers.in_form(200, document, groups.plain_form(_read(request)))
        return await self._resource(parts[0], parts[1], parts[2:], request)

    async def _resource(self, group: str, version: str, parts: list[str], request: Request) -> Response:
        if not parts:
            document = groups.resources(group, version)
            return answers.in_form(200, document, groups.plain_form(_read(request)))
        if cluster := cluster_of(request):
            path = paths.parse(group, version, parts)
            if (listed := self._lists.get(path.kind.kind)) is not None:
                fleet_of(self._gateway.store, cluster)  # it may not exist
                return await listed.handle(request, path, cluster)
            return await self._clusters.handle(cluster, request, path)
        return await self._of_home(group, version, parts, request)

    async def _of_home(self, group: str, version: str, parts: list[str], request: Request) -> Response:
        if version == reviews.VERSION and (review := reviews.answered(request, group, parts)) is not None:
            return await reviews.answer(request, review, self._gateway.clock, self._access)
        if is_binding(group, version, parts):
            return await self._api.handle(request, bindings_path(parts[1]))
        if (group, version) == (VIEW_GROUP, cluster_views.VERSION):
            return await self._views.answer(request, parts)
        if (group, version) == (definitions.GROUP, definitions.SERVED.version):
            found = definitions.answer(request, parts, self._backend)
            if found is not None:
                return found
        path = paths.parse(group, version, parts)
        request.state.deprecation = path.kind.definition.deprecation
        api = self._lists.get(path.kind.kind, self._api)
        return await api.handle(request, path)

    async def root(self, _: Request) -> Response:
        """`/`: the paths of everything."""
        return answers.answer(
            200, groups.root_paths(issues_tokens=bool(self._access.authenticator.accounts.algorithms))
        )

    async def version(self, request: Request) -> Response:
        """`/version`."""
        form = AnswerForm(is_pretty=form_of_errors(_read(request)).is_pretty)
        return answers.in_form(200, groups.server_version(), form)

    async def health(self, request: Request) -> Response:
        """`/healthz`, `/livez`, `/readyz`, and the single checks below them."""
        name = request.url.path.split("/")[1]
        note = self._gateway.clock_state() if name == "readyz" else ""
        return health.health(request, name, self._checks[name], request.path_params.get("check", ""), note=note)

    def _tables(self) -> str:
        return "" if self._gateway.store.ready else f"not ready: {self._gateway.progress()}"

    def _log(self) -> str:
        gateway = self._gateway
        if gateway.forwarding is not None and not gateway.forwarding.leads:
            obstacle = gateway.forwarding.obstacle
        else:
            obstacle = gateway.log.obstacle
        obstacle = obstacle or gateway.behind()
        return f"not ready: {obstacle}" if obstacle else ""

    async def metrics(self, _: Request) -> Response:
        """`/metrics`: the metrics of the gateway and of the process."""
        own = self._gateway.metrics
        own.ready.set(0 if self._tables() or self._log() else 1)
        for topic, size in self._gateway.store.tables.sizes().items():
            own.records.labels(topic).set(size)
        return Response(generate_latest(REGISTRY) + generate_latest(own.registry), media_type=CONTENT_TYPE_LATEST)

    async def unknown(self, _: Request) -> Response:
        """Return every other path."""
        return health.no_page()


def _parts(request: Request) -> list[str]:
    """Return the parts of a path after its first one. A slash at the end means nothing."""
    path = str(request.path_params.get("path", "")).removesuffix("/")
    return path.split("/") if path else []


def _read(request: Request) -> Request:
    """Return the request, if it only reads. Raises StatusError: 405 if it does not."""
    if request.method not in _READING:
        raise paths.not_allowed()
    return request


def _always() -> str:
    return ""


async def _no_such_path(request: Request, _: Exception) -> Response:
    """Answer a path that no route has: one that does not begin with a slash."""
    return answers.failure(request, no_such_path())


async def _method_not_allowed(request: Request, _: Exception) -> Response:
    return answers.failure(request, paths.not_allowed())


def _guarded(gateway: Gateway, access: Access, verb: str, handler: Handler) -> Handler:
    """Wrap a handler: only those come to it who may, errors become `Status` answers, and requests are counted."""

    async def guard(request: Request) -> Response:
        began = time.monotonic()
        try:
            check_host(request, gateway.hosts)
            await access.check(request)
            limits.enter(request, access.authenticator.without)
            response = await handler(request)
        except StatusError as error:
            response = answers.failure(request, error)
            warn(response, warnings_of(request))
        except Exception:  # noqa: BLE001 - after any error the caller gets an answer, and the log gets the trace
            _log.exception("gateway.request_failed", method=request.method, path=request.url.path)
            response = answers.failure(request, StatusError(500, "the gateway failed on this request; see its log"))
        if text := getattr(request.state, "deprecation", ""):  # also beside an error, and before other warnings
            response.raw_headers.insert(0, (b"warning", warning_header(text).encode()))
        # Everything is for its caller alone, and may be another the next moment.
        response.headers.setdefault("cache-control", "no-cache, private")
        gateway.metrics.requests.labels(request.method, verb, str(response.status_code)).inc()
        gateway.metrics.seconds.labels(f"{verb} {request.method}").observe(time.monotonic() - began)
        return response

    return guard
