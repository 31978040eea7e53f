"""Watches: the changes of a kind after a resource version, as JSON lines.

A watch keeps only the number of the next change. It takes the changes themselves from the history that all watches
share. So a client that reads slowly takes no memory: if it falls behind the history, its watch ends. Watches that show
the same share the encoded events.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from moorage.apiserver.http.messages.representations import EventEncoder, JsonEvents
from moorage.apiserver.http.messages.selectors import Selector
from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.machinery.api_errors import Cause, StatusError
from moorage.apiserver.storage.history import ObjectChange, TooOldError
from moorage.apiserver.storage.shown_objects import ShownObject
from moorage.apiserver.storage.store import FleetObjects

BOOKMARK_EVERY = 30.0
"""Seconds without a change after which a bookmark is sent, if bookmarks are requested."""

FRESH_WITHIN: Final = 3.0
"""Seconds for which a request waits for a version that this gateway has not reached, as in Kubernetes."""

_FAR: Final = 1_000_000
"""A version that is so far ahead is not from this log. Versions had other numbers before there was one."""

INITIAL_END = {"k8s.io/initial-events-end": "true"}
_CHUNK: Final = 256 << 10  # bytes after which events are sent before more are encoded
_SHARED: Final = 16 << 20  # bytes of encoded events that watches share


@dataclass(frozen=True, slots=True)
class Watch:
    """A request to watch."""

    kind: ServedKind
    namespace: str
    selected: Selector
    version: int | None
    """Changes after this version are sent. None starts with all present objects."""

    bookmarks: bool = False
    initial_end: bool = False
    """Whether a bookmark marks the end of the objects that existed already (`sendInitialEvents`), if any are sent."""

    timeout: float | None = None
    """Seconds after which the watch ends. None means never."""

    encoder: EventEncoder = field(default_factory=JsonEvents)
    """Makes the bytes of the events."""


class SharedEvents:
    """Encoded events that several watches send. The earliest are forgotten.

    `most` is the number of bytes that are kept.
    """

    def __init__(self, most: int = _SHARED) -> None:
        self._most = most
        self._size = 0
        self._events: OrderedDict[Hashable, bytes] = OrderedDict()

    def event(self, watch: Watch, word: str, change: ObjectChange) -> bytes:
        """Return the event of a change."""
        encoder, kind = watch.encoder, watch.kind
        if encoder.form is None:
            return encoder.event(word, kind, change.last)
        key = (change.number, word, kind.version, type(encoder), encoder.form)
        found = self._events.get(key)
        if found is None:
            found = self._events[key] = encoder.event(word, kind, change.last)
            self._size += len(found)
            while self._size > self._most and self._events:
                self._size -= len(self._events.popitem(last=False)[1])
        return found


def expired(version: int, floor: int) -> StatusError:
    """410: the version is older than the history."""
    return StatusError(410, f"too old resource version: {version} ({floor})", reason="Expired")


def too_large(version: int, present: int) -> StatusError:
    """504: this gateway has not reached the version."""
    message = "Too large resource version"
    cause = Cause("ResourceVersionTooLarge", message)
    return StatusError(504, f"Timeout: {message}: {version}, current: {present}", causes=[cause], retry_after=1)


async def fresh(store: FleetObjects, version: int) -> None:
    """Wait until the store has reached a version.

    Raises:
        StatusError: 504 if it does not reach it, 410 if it cannot be a version of this fleet.
    """
    if version > store.version + _FAR:
        raise expired(version, store.history.floor)
    try:
        async with asyncio.timeout(FRESH_WITHIN):
            await store.reached(version)
    except TimeoutError:
        raise too_large(version, store.version) from None


def start(store: FleetObjects, watch: Watch) -> int:
    """Return the number of the first change that a watch shows.

    Raises:
        StatusError: 410 if its version is too old, 504 if it is in the future.
    """
    if watch.version is None:
        return store.history.count
    if watch.version > store.version:
        raise too_large(watch.version, store.version)
    try:
        return store.history.position(watch.version)
    except TooOldError:
        raise expired(watch.version, store.history.floor) from None


async def events(
    store: FleetObjects, watch: Watch, number: int, shared: SharedEvents | None = None
) -> AsyncIterator[bytes]:
    """Yield the lines of a watch, starting with the change of this number. They end at the timeout."""
    shared = shared or SharedEvents()
    if watch.version is None:
        number, reached = store.history.count, store.version
        present = store.all(watch.kind.kind, watch.namespace)
        for chunk in chunks(_present(watch, present, reached)):
            yield chunk
    end = None if watch.timeout is None else asyncio.get_running_loop().time() + watch.timeout
    while True:
        try:
            changes = store.history.since(number, watch.kind.kind)
        except TooOldError:
            yield watch.encoder.error(expired(store.version, store.history.floor).document())
            return
        number, reached = store.history.count, store.version
        sent = False
        for chunk in chunks(line for change in changes if (line := _line(watch, change, shared))):
            yield chunk
            sent = True
        if sent:
            continue  # more changes may have come while these were being sent
        ended, waited = await _more(store, watch, end)
        if watch.bookmarks and (ended or waited):
            # Not the present version: a change may have come at the end of the wait, and is sent next.
            yield bookmark(reached, watch)
        if ended:
            return


async def _more(store: FleetObjects, watch: Watch, end: float | None) -> tuple[bool, bool]:
    """Wait for more changes. Returns whether the watch has ended, and whether there was none for long."""
    left = None if end is None else end - asyncio.get_running_loop().time()
    if store.history.closed or (left is not None and left <= 0):
        return True, False
    try:
        async with asyncio.timeout(BOOKMARK_EVERY if left is None else min(left, BOOKMARK_EVERY)):
            await store.history.wait(watch.kind.kind, watch.namespace)
    except TimeoutError:
        return False, left is None or left > BOOKMARK_EVERY
    return False, False


def chunks(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Return lines joined to parts that are sent together, each of a bounded size."""
    waiting: list[bytes] = []
    size = 0
    for line in lines:
        waiting.append(line)
        size += len(line)
        if size >= _CHUNK:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


def _present(watch: Watch, objects: Iterable[ShownObject], version: int) -> Iterator[bytes]:
    """Yield the present objects, as if they had just been added."""
    for shown in objects:
        if watch.selected.selects(shown.json):
            yield watch.encoder.event("ADDED", watch.kind, shown)
    if watch.initial_end and watch.bookmarks:
        yield bookmark(version, watch, INITIAL_END)


def _line(watch: Watch, change: ObjectChange, shared: SharedEvents) -> bytes:
    """Return the event of a change. Empty if the watch does not show it."""
    if watch.namespace not in {"", change.object_id.namespace}:
        return b""
    before, after = _selects(watch, change.before), _selects(watch, change.after)
    if not before and not after:
        return b""
    word = "MODIFIED" if before and after else "ADDED" if after else "DELETED"
    return shared.event(watch, word, change)


def _selects(watch: Watch, state: bytes | None) -> bool:
    return state is not None and watch.selected.selects(state)


def bookmark(version: int, watch: Watch, annotations: Mapping[str, str] | None = None) -> bytes:
    """Return a bookmark: the watch has shown everything up to a version."""
    metadata: dict[str, Any] = {"resourceVersion": str(version)}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return watch.encoder.bookmark(watch.kind, metadata)
