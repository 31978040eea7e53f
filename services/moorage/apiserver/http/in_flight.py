"""Requests in flight: how many a gateway answers at a time, and how many bytes of their bodies it holds.

A request takes its place once its user is known, and gives it back while its body comes, so a client that sends a byte
now and then takes no place. Requests without credentials have a small share of their own, so that they never take the
place of a user. Administrators with credentials always get one, as in a kube-apiserver.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from starlette.requests import Request
from starlette.types import Scope

from moorage.apiserver.machinery.api_errors import StatusError

READING: Final = "reading"
WRITING: Final = "writing"

_SCOPE: Final = "moorage.in_flight"
_AGAIN: Final = 1  # seconds after which a client may try again, as in Kubernetes


class ClientShare(Enum):
    """The part of the places that a request counts for."""

    ADMINISTRATORS = "administrators"
    USERS = "users"
    STRANGERS = "strangers"
    """Requests without credentials."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """How much may be in flight. 0 means any number."""

    reading: int = 400
    writing: int = 200
    body_bytes: int = 100_000_000


@dataclass(frozen=True, slots=True)
class CountedClient:
    """Whom a request counts for."""

    share: ClientShare
    name: str = ""
    """Its user, or its address if it is a stranger. Empty if it may use the whole share."""


def too_many(message: str = "Too many requests, please try again later.") -> StatusError:
    """429: the client is to come again."""
    return StatusError(429, message, reason="TooManyRequests", retry_after=_AGAIN)


class _Budget:
    """An amount that clients share. `most` is that of all users together; 0 means any amount."""

    def __init__(self, most: int, *, of_one: tuple[int, int], strangers: int, is_free_for_administrators: bool) -> None:
        part, whole = of_one
        self._most = {
            ClientShare.ADMINISTRATORS: 0 if is_free_for_administrators else most,
            ClientShare.USERS: most,
            ClientShare.STRANGERS: most and max(1, most // strangers),
        }
        self._of_one = {share: amount and max(1, amount * part // whole) for share, amount in self._most.items()}
        self._of_one[ClientShare.ADMINISTRATORS] = 0
        self._used: Counter[ClientShare] = Counter()
        self._used_by: Counter[CountedClient] = Counter()

    def take(self, client: CountedClient, amount: int) -> bool:
        """Take an amount. Return whether it was left."""
        most, of_one = self._most[client.share], self._of_one[client.share]
        if 0 < most < self._used[client.share] + amount:
            return False
        if client.name and 0 < of_one < self._used_by[client] + amount:
            return False
        self._used[client.share] += amount
        self._used_by[client] += amount
        return True

    def give_back(self, client: CountedClient, amount: int) -> None:
        """Give an amount back."""
        self._used[client.share] -= amount
        self._used_by[client] -= amount
        if not self._used_by[client]:
            del self._used_by[client]

    @property
    def used(self) -> int:
        """The amount that all clients have taken."""
        return self._used.total()


class RequestsInFlight:
    """The requests in flight at a gateway, and the bytes of their bodies.

    A user may have three quarters of the places and half of the bytes, so that others get one. Strangers together have
    a tenth of the places and a sixteenth of the bytes.

    Args:
        limits: how much may be in flight.
        on_change: called with the kind and the number of requests when that changes.
    """

    def __init__(
        self, limits: RequestLimits, on_change: Callable[[str, int], None] = lambda _kind, _count: None
    ) -> None:
        of_one, strangers = (3, 4), 10
        self._places = {
            kind: _Budget(most, of_one=of_one, strangers=strangers, is_free_for_administrators=True)
            for kind, most in ((READING, limits.reading), (WRITING, limits.writing))
        }
        self._bytes = _Budget(limits.body_bytes, of_one=(1, 2), strangers=16, is_free_for_administrators=False)
        self._on_change = on_change

    def enter(self, kind: str, client: CountedClient) -> None:
        """Take a place. Raises StatusError: 429 if none is left."""
        if not self._places[kind].take(client, 1):
            raise too_many()
        self._on_change(kind, self._places[kind].used)

    def leave(self, kind: str, client: CountedClient) -> None:
        """Give a place back."""
        self._places[kind].give_back(client, 1)
        self._on_change(kind, self._places[kind].used)

    def hold(self, client: CountedClient, size: int) -> None:
        """Count bytes of a body that are held. Raises StatusError: 429 if there is no room for them."""
        if not self._bytes.take(client, size):
            raise too_many("Too many request bodies at a time, please try again later.")

    def drop(self, client: CountedClient, size: int) -> None:
        """Count bytes of a body that are no longer held."""
        self._bytes.give_back(client, size)

    @property
    def held(self) -> int:
        """The bytes of bodies that are held."""
        return self._bytes.used


class RequestSlot:
    """The place of one request, from the moment at which its user is known until its answer is sent."""

    def __init__(self, in_flight: RequestsInFlight, kind: str) -> None:
        self._in_flight = in_flight
        self._kind = kind
        self._client = CountedClient(ClientShare.STRANGERS)
        self._is_in = False
        self._held = 0
        self._ends = contextlib.ExitStack()

    def enter(self, client: CountedClient) -> None:
        """Take a place, unless the request has one. Raises StatusError: 429 if none is left."""
        if not self._is_in:
            self._in_flight.enter(self._kind, client)
            self._client, self._is_in = client, True

    def leave(self) -> None:
        """Give the place back, if the request has one."""
        if self._is_in:
            self._is_in = False
            self._in_flight.leave(self._kind, self._client)

    @contextlib.contextmanager
    def receiving(self) -> Iterator[None]:
        """Give the place back while the body comes. Raises StatusError: 429 if none is left afterwards."""
        was_in = self._is_in
        self.leave()
        yield
        if was_in:
            self.enter(self._client)

    def hold(self, size: int) -> None:
        """Count bytes of the body until the answer is sent. Raises StatusError: 429 if there is no room for them."""
        self._in_flight.hold(self._client, size)
        self._held += size

    def drop(self) -> None:
        """Count the bytes of the body as no longer held."""
        self._in_flight.drop(self._client, self._held)
        self._held = 0

    def keep(self, context: contextlib.AbstractContextManager[None]) -> None:
        """Enter a context until the answer is sent."""
        self._ends.enter_context(context)

    def end(self) -> None:
        """Give everything back, because the answer was sent."""
        self.leave()
        self.drop()
        self._ends.close()


_NO_LIMITS: Final = RequestsInFlight(RequestLimits(0, 0, 0))


def with_slot(scope: Scope, slot: RequestSlot) -> Scope:
    """Return the scope of the same request with its slot."""
    return {**scope, _SCOPE: slot}


def slot_of(request: Request) -> RequestSlot:
    """Return the slot of a request. A server without limits has one for each that never ends."""
    found: RequestSlot | None = request.scope.get(_SCOPE)
    if found is None:
        found = request.scope[_SCOPE] = RequestSlot(_NO_LIMITS, READING)
    return found
