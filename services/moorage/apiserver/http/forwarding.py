"""Writes at a gateway that does not lead: they are sent to the one that does, and answered as that one answers.

So are questions that only that one can answer.

The answer is passed on when this gateway shows what was written, so that a client reads its own writes here.

While no gateway takes writes, because the one that led has stopped and its successor is not ready, a write waits for a
limited time.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import MutableMapping
from typing import Any, Final, Protocol

import httpx
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from moorage.apiserver.http.filters.access import Access, is_open
from moorage.apiserver.http.filters.hosts import check_host
from moorage.apiserver.http.filters.limits import enter
from moorage.apiserver.http.filters.request_attributes import CLUSTERS_PATH, CONDITIONS_PATH, MIRROR_PATH, SIMULATE_PATH
from moorage.apiserver.http.messages import answers, bodies
from moorage.apiserver.machinery.api_errors import StatusError
from moorage.apiserver.metrics import Metrics
from moorage.apiserver.storage.store import Store, within
from moorage.apiserver.writing.object_records import READ_BACK_WITHIN
from moorage_schemas.shown import GatewayLeader

FORWARDED: Final = "x-moorage-forwarded-by"
"""The header that names the gateway that has forwarded a request. Such a request is not forwarded again."""

VERSION: Final = "x-moorage-version"
"""The header of an answer to a forwarded request: the version that shows what was written."""

LEADS: Final = "x-moorage-leads"
"""The header of an answer to a forwarded request: `true` if the gateway leads, `false` if it has not dealt with the
request because it does not."""

PATIENCE: Final = 10.0
"""Seconds for which a write waits for a gateway that takes it. A gateway that has stopped is replaced in less."""

_AGAIN: Final = 0.1  # seconds between two looks for such a gateway
_PROBE: Final = "/livez"
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_EVERYWHERE: Final = (CONDITIONS_PATH, SIMULATE_PATH, "/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/")
"""How the paths begin of what every gateway answers: reports, and simulations and reviews, which write nothing."""

_CONNECT_SECONDS: Final = 2.0
_ANSWER_SECONDS: Final = 30.0
"""Longer than the leader ever takes."""

_GRACE_SECONDS: Final = 1.0
_UNKNOWN: Final = "it is not known whether the object was written"
_IDLE_SECONDS: Final = 2.0
"""For how long an idle connection is used again, well within the time for which the leader keeps it open. A request
that is sent as the connection is closed would fail."""

_AT_ONCE: Final = 100
_NOT_FORWARDED: Final = frozenset(
    {"host", "origin", "content-length", "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
_NOT_RETURNED: Final = frozenset(
    {"content-length", "connection", "keep-alive", "transfer-encoding", "date", VERSION, LEADS}
)


class Leading(Protocol):
    """The present knowledge of whether this gateway leads."""

    @property
    def leads(self) -> bool:
        """Whether this gateway leads, or is about to."""

    @property
    def obstacle(self) -> str:
        """Why this gateway can write nothing now. Empty if writes are possible."""

    @property
    def failing(self) -> bool:
        """Whether Kafka takes no writes, as far as is known. Then it is of no use to wait."""


class NotTakenError(StatusError):
    """503: no gateway has dealt with a write. It may be sent again."""

    def __init__(self, message: str) -> None:
        super().__init__(503, message, retry_after=1)


class Forwarding:
    """Forwards requests to the gateway that leads. An empty `ca_file` stands for the authorities of the system."""

    def __init__(
        self,
        store: Store,
        own: GatewayLeader,
        leading: Leading,
        *,
        ca_file: str = "",
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._store = store
        self._own = own
        self._leading = leading
        self._verify: ssl.SSLContext | bool = ssl.create_default_context(cafile=ca_file) if ca_file else True
        self._transport = transport
        self._http: httpx.AsyncClient | None = None
        self._found = False
        """Whether writes were possible, here or at another gateway, since this one began."""

    @property
    def leads(self) -> bool:
        """Whether this gateway leads, or is about to."""
        return self._leading.leads

    @property
    def obstacle(self) -> str:
        """Why this gateway takes no writes. Empty if it does, or if they have to wait for a change of the leader."""
        if self._leading.leads or self._leading.failing:
            return self._leading.obstacle
        return self._unknown or ("" if self._found else "the gateway that led last was not reached yet")

    @property
    def _unknown(self) -> str:
        """Why nothing can be forwarded. Empty if another gateway that leads is known."""
        leader = self._store.leader
        if leader is None or leader.instance == self._own.instance:
            return "no gateway leads at present"
        return "" if leader.address else "the address of the leading gateway is not known"

    async def found(self) -> None:
        """Return when writes are possible, here or at another gateway that answers."""
        while not self._found:
            if self._leading.leads:
                self._found = not self._leading.obstacle
            elif not self._unknown:
                self._found = await self._answers()
            if not self._found:
                await asyncio.sleep(_AGAIN)

    async def _answers(self) -> bool:
        """Return whether the gateway that has taken over last answers, and still leads."""
        leader = self._store.leader
        if leader is None:
            return False
        try:
            found = await self._client().get(
                httpx.URL(leader.address).copy_with(path=_PROBE), headers={FORWARDED: self._own.instance}
            )
        except httpx.HTTPError:
            return False
        return bool(found.headers.get(LEADS) == "true")

    @property
    def takes(self) -> bool:
        """Whether this gateway deals with writes itself. If it must refuse them, it gives the reason."""
        return self._leading.leads and (self._leading.failing or not self._leading.obstacle)

    @property
    def failing(self) -> bool:
        """Whether it is of no use to wait for a gateway that takes writes."""
        return self._leading.failing

    async def answer(self, request: Request, body: bytes, bearer: str = "") -> Response:
        """Return the leader's answer to a request.

        `bearer` identifies the sender to the leader. It is empty if the request's own headers do.

        Raises:
            NotTakenError: there is no leader, or it cannot be reached, or it no longer leads.
            StatusError: 504 if it is not known what it has done.
        """
        if self._unknown:
            raise NotTakenError(self._leading.obstacle if self._leading.failing else self._unknown)
        leader = self._store.leader
        address = leader.address if leader is not None else ""
        headers = [
            (name, value)
            for name, value in request.headers.items()
            if name not in _NOT_FORWARDED and not (bearer and name == "authorization")
        ]
        if bearer:
            headers.append(("authorization", f"Bearer {bearer}"))
        target = httpx.URL(address).copy_with(raw_path=_raw_path(request))
        asked = self._client().build_request(
            request.method, target, headers=[*headers, (FORWARDED, self._own.instance)], content=body
        )
        found, content = await self._sent(asked)
        if found.headers.get(LEADS) == "false":
            raise NotTakenError("the gateway that led no longer leads")
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
        """Return the answer to a request, and its body."""
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
            raise NotTakenError(
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
            verify=self._verify,
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
    """Forwards writes while this gateway does not lead."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        forwarding: Forwarding,
        access: Access,
        store: Store,
        metrics: Metrics,
        hosts: frozenset[str] | None,
    ) -> None:
        self._app = app
        self._forwarding = forwarding
        self._access = access
        self._store = store
        self._metrics = metrics
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request here, or forward it to the gateway that leads."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["path"] == CLUSTERS_PATH or (
            scope["method"] not in _READING and not scope["path"].startswith(_EVERYWHERE) and not is_open(scope["path"])
        ):
            await self._write(scope, receive, send)
        elif scope["path"] == _PROBE and _is_forwarded(scope):
            await self._app(scope, receive, self._marked(send))
        else:
            await self._app(scope, receive, send)

    async def _write(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a write here, or as the leader answers it, or wait until there is one."""
        request, replayed = Request(scope, receive), _Replayed(receive)
        response: Response | None
        try:
            check_host(request, self._hosts)
            if not self._forwarding.leads and _is_forwarded(scope):
                response = answers.failure(request, NotTakenError("this gateway does not lead"))
                response.headers[LEADS] = "false"
            else:
                response = await self._forwarded(request, replayed)
        except StatusError as error:
            response = answers.failure(request, error)
        if response is None:
            await self._app(scope, replayed, self._marked(send) if _is_forwarded(scope) else send)
        else:
            self._metrics.requests.labels(request.method, "forwarded", str(response.status_code)).inc()
            await response(scope, receive, send)

    async def _forwarded(self, request: Request, replayed: _Replayed) -> Response | None:
        """Return the answer of the gateway that leads. None if this one is to answer."""
        forwarding, clock, bearer = self._forwarding, asyncio.get_running_loop().time, ""
        until = clock() + PATIENCE
        if not forwarding.takes:
            # Nothing is kept of a request that may not be made, and only so many wait.
            await self._access.check(request)
            enter(request, self._access.authenticator.without)
        while not forwarding.takes:
            if forwarding.leads:
                if clock() >= until:
                    return None
            else:
                if replayed.body is None:
                    bearer = await self._access.token_for_peer(request)
                    limit = bodies.MIRROR_LIMIT if request.url.path == MIRROR_PATH else bodies.BODY_LIMIT
                    replayed.body = await bodies.read_body(request, limit)
                try:
                    return await forwarding.answer(request, replayed.body, bearer)
                except NotTakenError:
                    if forwarding.failing or clock() >= until:
                        raise
            await asyncio.sleep(_AGAIN)
        return None

    def _marked(self, send: Send) -> Send:
        """Return a sender that adds the shown version, and whether this gateway leads."""

        async def sending(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                marks = [
                    (VERSION.encode(), str(self._store.version).encode()),
                    (LEADS.encode(), b"true" if self._forwarding.leads else b"false"),
                ]
                message = {**message, "headers": [*message.get("headers", ()), *marks]}
            await send(message)

        return sending


class _Replayed:
    """Receives a request whose body may have been read already."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._passed_on = False
        self.body: bytes | None = None
        """The body, if it was read."""

    async def __call__(self) -> MutableMapping[str, Any]:
        """Return the next message of the request, from the body if it was read."""
        if self.body is None or self._passed_on:
            return await self._receive()
        self._passed_on = True
        return {"type": "http.request", "body": self.body, "more_body": False}


def _is_forwarded(scope: Scope) -> bool:
    return any(name.decode("latin-1").lower() == FORWARDED for name, _ in scope["headers"])
