"""Writes at a gateway that does not lead: they are sent to the one that does, and answered as that one answers.

The answer is passed on when this gateway shows what was written, so that a client reads its own writes here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, MutableMapping
from typing import Any, Final

import httpx
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from moorage.gateway.errors import StatusError, unavailable
from moorage.gateway.http import answers, bodies
from moorage.gateway.http.hosts import check_host
from moorage.gateway.metrics import Metrics
from moorage.gateway.store import Store, within
from moorage.gateway.writer import READ_BACK_WITHIN
from moorage_schemas.shown import GatewayLeader

FORWARDED: Final = "x-moorage-forwarded-by"
"""The header that names the gateway that has forwarded a request. Such a request is not forwarded again."""

VERSION: Final = "x-moorage-version"
"""The header of an answer to a forwarded request: the version that shows what was written."""

_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_EVERYWHERE: Final = ("/v1/conditions", "/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/")
"""How the paths begin of what every gateway answers: reports, and reviews, which write nothing."""

_CONNECT_SECONDS: Final = 2.0
_ANSWER_SECONDS: Final = 30.0
"""Longer than the leader ever takes."""

_GRACE_SECONDS: Final = 1.0
_UNKNOWN: Final = "it is not known whether the object was written"
_IDLE_SECONDS: Final = 2.0
"""For how long an idle connection is used again. The leader closes it after five seconds, and a request that is sent at
that moment would fail."""

_AT_ONCE: Final = 100
_NOT_FORWARDED: Final = frozenset(
    {"host", "origin", "content-length", "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
_NOT_RETURNED: Final = frozenset({"content-length", "connection", "keep-alive", "transfer-encoding", "date", VERSION})


class Forwarding:
    """What is forwarded where.

    Args:
        store: knows the leader.
        own: says who this gateway is.
        leads: returns whether this gateway leads, or is about to.
        transport: sends the requests, in tests.
    """

    def __init__(
        self,
        store: Store,
        own: GatewayLeader,
        leads: Callable[[], bool],
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._store = store
        self._own = own
        self._leads = leads
        self._transport = transport
        self._http: httpx.AsyncClient | None = None

    @property
    def leads(self) -> bool:
        """Whether this gateway leads, or is about to."""
        return self._leads()

    @property
    def obstacle(self) -> str:
        """Why nothing can be forwarded. Empty if a leader is known."""
        leader = self._store.leader
        if leader is None or leader.instance == self._own.instance:
            return "no gateway leads at present"
        return "" if leader.address else "the address of the leading gateway is not known"

    async def answer(self, request: Request) -> Response:
        """Return the leader's answer to a request.

        Raises:
            StatusError: 503 if there is no leader or it cannot be reached, 504 if it is not known what it has done, 413
                if the body is too large.
        """
        if request.headers.get(FORWARDED):
            raise unavailable("the gateway to which this was forwarded does not lead any more")
        if self.obstacle:
            raise unavailable(self.obstacle)
        leader = self._store.leader
        address = leader.address if leader is not None else ""
        headers = [(name, value) for name, value in request.headers.items() if name not in _NOT_FORWARDED]
        target = httpx.URL(address).copy_with(raw_path=_raw_path(request))
        asked = self._client().build_request(
            request.method,
            target,
            headers=[*headers, (FORWARDED, self._own.instance)],
            content=await bodies.read_body(request),
        )
        found, content = await self._sent(asked)
        await self._read_back(found.headers.get(VERSION, ""))
        response = Response(content, found.status_code)
        response.raw_headers = [
            (name.encode("latin-1"), value.encode("latin-1"))
            for name, value in found.headers.multi_items()
            if name not in _NOT_RETURNED
        ]
        response.headers["content-length"] = str(len(content))
        return response

    async def _sent(self, asked: httpx.Request) -> tuple[httpx.Response, bytes]:
        """The answer to a request, and its body.

        Raises:
            StatusError: 503 if the request was not sent, 504 if it is not known what became of it.
        """
        sending = asyncio.ensure_future(self._exchanged(asked))
        replaced = asyncio.ensure_future(self._replaced(self._store.leader_version))
        try:
            await asyncio.wait({sending, replaced}, return_when=asyncio.FIRST_COMPLETED)
            # An answer that is on its way counts. A leader that hangs and was replaced sends none.
            await asyncio.wait({sending}, timeout=_GRACE_SECONDS)
            if not sending.done():
                raise StatusError(504, f"{_UNKNOWN}: another gateway has taken over meanwhile")
            return sending.result()
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise unavailable(
                f"the leading gateway at {asked.url.netloc.decode()} does not answer: {error!r}"
            ) from None
        except httpx.HTTPError as error:
            raise StatusError(504, f"{_UNKNOWN}: {error!r}") from None
        finally:
            sending.cancel()
            replaced.cancel()
            await asyncio.gather(sending, replaced, return_exceptions=True)

    async def _exchanged(self, asked: httpx.Request) -> tuple[httpx.Response, bytes]:
        found = await self._client().send(asked, stream=True)
        return found, b"".join([part async for part in found.aiter_raw()])

    async def _replaced(self, version: int) -> None:
        """Return when another gateway has taken over since that version."""
        while self._store.leader_version == version:
            await self._store.history.wait()

    async def _read_back(self, version: str) -> None:
        """Wait until this gateway shows what the leader shows."""
        try:
            await within(READ_BACK_WITHIN, self._store, int(version) if version.isdecimal() else 0)
        except TimeoutError:
            why = f"the leading gateway has answered, but this one has not read that back within {READ_BACK_WITHIN:g} s"
            raise StatusError(504, why) from None

    def _client(self) -> httpx.AsyncClient:
        self._http = self._http or httpx.AsyncClient(
            timeout=httpx.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=_AT_ONCE, keepalive_expiry=_IDLE_SECONDS),
            transport=self._transport,
            trust_env=False,
        )
        return self._http

    async def close(self) -> None:
        """Disconnect."""
        if self._http is not None:
            await self._http.aclose()
            self._http = None


def _raw_path(request: Request) -> bytes:
    path: bytes = request.scope.get("raw_path") or request.url.path.encode()
    query: bytes = request.scope.get("query_string", b"")
    return path + b"?" + query if query else path


class ForwardingMiddleware:
    """Forwards writes while this gateway does not lead.

    Args:
        app: answers everything else.
        forwarding: forwards.
        store: its version goes with answers to forwarded requests.
        metrics: forwarded requests are counted here.
        hosts: the host names under which the gateway may be called; see `check_host`.
    """

    def __init__(
        self, app: ASGIApp, forwarding: Forwarding, store: Store, metrics: Metrics, hosts: frozenset[str] | None
    ) -> None:
        self._app = app
        self._forwarding = forwarding
        self._store = store
        self._metrics = metrics
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        writes = (
            scope["type"] == "http" and scope["method"] not in _READING and not scope["path"].startswith(_EVERYWHERE)
        )
        if not writes:
            await self._app(scope, receive, send)
        elif self._forwarding.leads:
            await self._app(scope, receive, self._versioned(scope, send))
        else:
            request = Request(scope, receive)
            try:
                check_host(request, self._hosts)
                response = await self._forwarding.answer(request)
            except StatusError as error:
                response = answers.failure(request, error)
            self._metrics.requests.labels(request.method, "forwarded", str(response.status_code)).inc()
            await response(scope, receive, send)

    def _versioned(self, scope: Scope, send: Send) -> Send:
        """What sends an answer with the version that this gateway shows. Only other gateways need it."""
        if not any(name.decode("latin-1").lower() == FORWARDED for name, _ in scope["headers"]):
            return send

        async def sending(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                version = (VERSION.encode(), str(self._store.version).encode())
                message = {**message, "headers": [*message.get("headers", ()), version]}
            await send(message)

        return sending
