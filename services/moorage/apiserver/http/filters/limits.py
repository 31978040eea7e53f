"""How much the gateway does at a time: requests in flight, and watches of one user. More are refused for now.

A request is in flight until its answer is sent, so clients that do not read their answers count as well. Watches do not
count, because they last; neither do the checks of the process's health, which must not fail because it is busy.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from moorage.apiserver.http.filters.access import OPEN, user_of
from moorage.apiserver.http.filters.request_attributes import DECISIONS_PATH
from moorage.apiserver.http.messages import answers
from moorage.apiserver.http.messages.options import is_true
from moorage.apiserver.machinery.api_errors import StatusError
from moorage.apiserver.metrics import Metrics
from moorage.decide.kubernetes.attributes import ANONYMOUS, CONSOLE

READING: Final = "reading"
WRITING: Final = "writing"

_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_EXEMPT: Final = (*OPEN, "/metrics")
_OBJECTS: Final = ("/api/", "/apis/")
_AGAIN: Final = 1  # seconds after which a client may try again, as in Kubernetes


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """How many requests may be in flight. 0 means any number."""

    reading: int = 400
    writing: int = 200


def too_many(message: str = "Too many requests, please try again later.") -> StatusError:
    """429: the client is to come again."""
    return StatusError(429, message, reason="TooManyRequests", retry_after=_AGAIN)


class InFlightMiddleware:
    """Refuses requests while too many are in flight."""

    def __init__(self, app: ASGIApp, limits: RequestLimits, metrics: Metrics) -> None:
        self._app = app
        self._limits = {READING: limits.reading, WRITING: limits.writing}
        self._in_flight = dict.fromkeys(self._limits, 0)
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it while too many are in flight."""
        if scope["type"] != "http" or scope["path"].startswith(_EXEMPT) or _is_watch(scope):
            await self._app(scope, receive, send)
            return
        of = READING if scope["method"] in _READING else WRITING
        if 0 < self._limits[of] <= self._in_flight[of]:
            request = Request(scope, receive)
            self._metrics.requests.labels(scope["method"], "limited", "429").inc()
            await answers.failure(request, too_many())(scope, receive, send)
            return
        self._in_flight[of] += 1
        gauge = self._metrics.in_flight.labels(of)
        gauge.set(self._in_flight[of])
        try:
            await self._app(scope, receive, send)
        finally:
            self._in_flight[of] -= 1
            gauge.set(self._in_flight[of])


def _is_watch(scope: Scope) -> bool:
    """Return whether a request is a watch, which lasts."""
    path: str = scope["path"]
    if path == DECISIONS_PATH:
        return True
    if scope["method"] not in _READING or not path.startswith(_OBJECTS):
        return False
    return "/watch/" in path or is_true(QueryParams(scope.get("query_string", b"")), "watch")


class OpenWatches:
    """Counts the watches of each user. Anonymous users are distinguished by their addresses.

    Each may have `most`; 0 means any number.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[str] = Counter()

    def check(self, request: Request) -> str:
        """Return whose watch it would be. Raises StatusError: 429 if that one has enough."""
        who = _who(request)
        if 0 < self._most <= self._open[who] and who != CONSOLE:
            raise too_many(f"too many watches: a user may have {self._most} at a time")
        return who

    @contextlib.contextmanager
    def opened(self, who: str) -> Iterator[None]:
        """Count a watch for as long as the context lasts."""
        self._open[who] += 1
        try:
            yield
        finally:
            self._open[who] -= 1
            if not self._open[who]:
                del self._open[who]


def _who(request: Request) -> str:
    user = user_of(request)
    if user.name != ANONYMOUS:
        return user.name
    return f"{user.name} at {request.client.host if request.client else 'an unknown address'}"
