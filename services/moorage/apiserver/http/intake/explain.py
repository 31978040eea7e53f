"""`GET /v1/explain` and `POST /v1/simulate`: forwarded to the query worker.

The gateway may not import what explanations and simulations need.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import httpx
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from moorage.apiserver.authentication.peers import Peers
from moorage.apiserver.http import paths
from moorage.apiserver.http.filters.access import user_of
from moorage.apiserver.http.filters.request_attributes import EXPLAIN_PATH, SIMULATE_PATH
from moorage.apiserver.http.messages import bodies
from moorage.apiserver.http.paths import cluster_of
from moorage.apiserver.machinery.api_errors import bad_request, unavailable

_CONNECT_SECONDS: Final = 2.0
_ANSWER_SECONDS: Final = 20.0
"""Longer than the query worker ever takes."""

_SIMULATION_SECONDS: Final = 30.0
"""The time that a simulation takes beside its own and that of the one before it, for which it waits."""

_AT_ONCE: Final = 32
"""The number of requests that are forwarded at the same time. Others wait."""

_IDLE_SECONDS: Final = 2.0
"""For how long an idle connection is used again. The query worker closes it after five seconds, and a request that is
sent at that moment would fail."""

_WITHIN: Final = "within"
"""The query worker's parameter for the cluster."""

_PASSED_ON: Final = ("content-type", "retry-after")


class Explanations:
    """Forwards requests to a query worker.

    An empty `server` means that there is no query worker; `peers` is None if it requires no identity.
    """

    def __init__(
        self,
        server: str = "",
        transport: httpx.AsyncBaseTransport | None = None,
        peers: Peers | None = None,
        simulation_timeout: float = 60.0,
    ) -> None:
        self._server = server.rstrip("/")
        self._simulation_seconds = 2 * simulation_timeout + _SIMULATION_SECONDS
        self._peers = peers
        self._transport = transport
        self._http: httpx.AsyncClient | None = None

    async def handle(self, request: Request) -> Response:
        """Return the query worker's answer.

        The cluster is in the path, for which its sender was checked, and never in the parameters.

        Raises:
            StatusError: 400 for a cluster in the parameters; 405 for other methods; 503 if there is no query worker, or
                it does not answer.
        """
        paths.check_method(request, "GET", "HEAD")
        query = request.query_params.multi_items()
        if any(name == _WITHIN for name, _ in query):
            raise bad_request(f"{_WITHIN}: must be in the path: /clusters/NAME{EXPLAIN_PATH}")
        if cluster := cluster_of(request):
            query.append((_WITHIN, cluster))
        return await self._asked(request, "GET", EXPLAIN_PATH, query=query)

    async def simulate(self, request: Request) -> Response:
        """Return the query worker's answer to what a change would do. Raises StatusError: as `handle`."""
        paths.check_method(request, "POST")
        body = await bodies.read_body(request)
        return await self._asked(request, "POST", SIMULATE_PATH, body=body, seconds=self._simulation_seconds)

    async def _asked(
        self,
        request: Request,
        method: str,
        path: str,
        *,
        query: Sequence[tuple[str, str]] = (),
        body: bytes = b"",
        seconds: float = _ANSWER_SECONDS,
    ) -> Response:
        """Return the query worker's answer to one request."""
        if not self._server:
            raise unavailable("the gateway has no query worker: MOORAGE_QUERY_SERVER is not set")
        http = self._http = self._http or httpx.AsyncClient(
            base_url=self._server,
            limits=httpx.Limits(max_connections=_AT_ONCE, keepalive_expiry=_IDLE_SECONDS),
            transport=self._transport,
            trust_env=False,
        )
        headers = {"authorization": f"Bearer {self._peers.sign(user_of(request))}"} if self._peers is not None else {}
        if body:
            headers["content-type"] = "application/json"
        asked = http.build_request(
            method,
            path,
            params=list(query),
            headers=headers,
            content=body or None,
            timeout=httpx.Timeout(seconds, connect=_CONNECT_SECONDS),
        )
        try:
            answer = await http.send(asked, stream=True)
        except httpx.HTTPError as error:
            why = str(error) or type(error).__name__
            raise unavailable(f"the query worker at {self._server} does not answer: {why}") from None
        passed_on = {name: answer.headers[name] for name in _PASSED_ON if name in answer.headers}
        return StreamingResponse(
            answer.aiter_bytes(), answer.status_code, headers=passed_on, background=BackgroundTask(answer.aclose)
        )

    async def close(self) -> None:
        """Disconnect."""
        if self._http is not None:
            await self._http.aclose()
            self._http = None
