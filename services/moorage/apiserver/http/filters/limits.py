"""How much the gateway does at a time: requests in flight, and watches of one user. More are refused for now.

A request is in flight until its answer is sent, so clients that do not read their answers count as well. Watches do not
count once they are open, because they last; neither do the checks of the process's health, which must not fail because
it is busy.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from moorage.apiserver.http.filters.access import is_open, user_of
from moorage.apiserver.http.in_flight import (
    READING,
    WRITING,
    ClientShare,
    CountedClient,
    RequestsInFlight,
    RequestSlot,
    slot_of,
    too_many,
    with_slot,
)
from moorage.decide.kubernetes.attributes import ANONYMOUS, CONSOLE, UNAUTHENTICATED, User

_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_METRICS: Final = "/metrics"


class InFlightMiddleware:
    """Gives each request its slot, and takes it back when the answer is sent."""

    def __init__(self, app: ASGIApp, in_flight: RequestsInFlight) -> None:
        self._app = app
        self._in_flight = in_flight

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        slot = RequestSlot(self._in_flight, READING if scope["method"] in _READING else WRITING)
        try:
            await self._app(with_slot(scope, slot), receive, send)
        finally:
            slot.end()


def enter(request: Request, without: User | None) -> None:
    """Count a request that was let through. Raises StatusError: 429 if too many are in flight.

    Args:
        request: the request.
        without: the user of requests without credentials, if they are let through.
    """
    path = request.url.path
    if not is_open(path) and path != _METRICS:
        slot_of(request).enter(client_of(request, without))


def client_of(request: Request, without: User | None) -> CountedClient:
    """Return whom a request counts for. One whose user is not known yet counts as a stranger's."""
    user: User | None = getattr(request.state, "user", None)
    if user is None or UNAUTHENTICATED in user.groups:
        return CountedClient(ClientShare.STRANGERS, address_of(request))
    if user is without:  # on a machine where all users are the administrator
        return CountedClient(ClientShare.USERS)
    return CountedClient(ClientShare.ADMINISTRATORS if user.is_master else ClientShare.USERS, user.name)


def address_of(request: Request) -> str:
    """Return the address from which a request comes."""
    return request.client.host if request.client else "an unknown address"


class OpenWatches:
    """Counts the watches of each user. Anonymous users are distinguished by their addresses.

    Each may have `most`; 0 means any number.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[str] = Counter()

    def begin(self, request: Request) -> None:
        """Count a request as a watch, and no longer as one in flight, until its answer is sent.

        Raises:
            StatusError: 429 if its user has enough.
        """
        slot = slot_of(request)
        slot.keep(self.opened(request))
        slot.leave()

    def check(self, request: Request) -> None:
        """Check that a user may have one more watch. Raises StatusError: 429 if not."""
        who = _who(request)
        if 0 < self._most <= self._open[who] and who != CONSOLE:
            raise too_many(f"too many watches: a user may have {self._most} at a time")

    @contextlib.contextmanager
    def opened(self, request: Request) -> Iterator[None]:
        """Count a watch of its user for as long as the context lasts. Raises StatusError: as `check`."""
        self.check(request)
        who = _who(request)
        self._open[who] += 1
        try:
            yield
        finally:
            self._open[who] -= 1
            if not self._open[who]:
                del self._open[who]


def _who(request: Request) -> str:
    user = user_of(request)
    return user.name if user.name != ANONYMOUS else f"{user.name} at {address_of(request)}"
