"""Keys on which a service fails when it is woken. They are left out, so that all others are decided on.

A service that works through keys names each before it works on it, with `isolated` or `PendingChecks.portion`. When it
fails, the engine sets the key aside and restores the state, which may have been changed half. From then on the key is
left out until a record about it comes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Final, Self, TypeVar

import structlog

log = structlog.get_logger(__name__)

K = TypeVar("K", bound="str | tuple[str, str]")

_MOST: Final = 1_000
"""The number of keys that are set aside. Beyond it something else is wrong, and the partition waits as a whole."""

_PARTS: Final = re.compile(r"[|]")


class IsolatedKeys:
    """The keys of one partition that are set aside. As a context, it is what `isolated` asks."""

    def __init__(self) -> None:
        self._failed: dict[str, str] = {}
        self._unwritten: dict[str, str] = {}
        self._read: dict[str, int] = {}
        self._present = ""
        self._outer: list[IsolatedKeys | None] = []

    def __bool__(self) -> bool:
        """Return whether any key is set aside."""
        return bool(self._failed)

    def __enter__(self) -> Self:
        global _asked  # noqa: PLW0603 - a service is called without a word about its engine, and never awaits
        self._outer.append(_asked)
        self._present = ""
        _asked = self
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        global _asked  # noqa: PLW0603 - as above
        _asked = self._outer.pop()
        if isinstance(error, Exception) and self._present and len(self._failed) < _MOST:
            why = f"{type(error).__name__}: {error}"
            self._failed[self._present] = self._unwritten[self._present] = why
            log.error("key.set_aside", key=self._present, error=why)
        self._present = ""

    def begin(self, key: str) -> bool:
        """Note the key on which the service works now. Return False if it is set aside."""
        self._present = key
        return key not in self._failed

    def end(self) -> None:
        """Note that the service works on no key."""
        self._present = ""

    @property
    def has_unwritten(self) -> bool:
        """Whether a key has been set aside since the last call of `take_unwritten`."""
        return bool(self._unwritten)

    def take_unwritten(self) -> dict[str, str]:
        """Return the keys that have been set aside since the last call, each with the error."""
        found, self._unwritten = self._unwritten, {}
        return found

    def read_to(self, positions: Mapping[str, int]) -> None:
        """Note how far the sources were read when the service failed. These records are read again."""
        for short, position in positions.items():
            self._read[short] = max(position, self._read.get(short, 0))

    def release(self, records: Iterable[tuple[str, int, str]]) -> None:
        """Forget the keys that new records are about, so that they are tried again.

        Args:
            records: the short name of the topic, the offset and the key of each.
        """
        for short, offset, key in records:
            if offset < self._read.get(short, 0):
                continue
            parts = {key, *_PARTS.split(key)}
            for failed in [one for one in self._failed if one in parts or not parts.isdisjoint(_PARTS.split(one))]:
                del self._failed[failed]


_asked: IsolatedKeys | None = None


def isolated(keys: Iterable[K], drop: Callable[[K], object] = id) -> Iterator[K]:
    """Yield the keys on which the service works one after another, without those that are set aside.

    `drop` is called with each of those, so that it does not stay due.

    A service that leaves the loop early calls `worked`. An error ends the loop in the same way.
    """
    asked = _asked
    if asked is None:
        yield from keys
        return
    for key in keys:
        if asked.begin(key if isinstance(key, str) else "|".join(key)):
            yield key
        else:
            drop(key)
    asked.end()


def worked() -> None:
    """Note that the service has left a loop over `isolated` keys, and works on no key."""
    if _asked is not None:
        _asked.end()
