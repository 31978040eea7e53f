"""Watches: the changes of a kind after a resource version, one event after the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from moorage.gateway.errors import Cause, StatusError
from moorage.gateway.history import ObjectChange, TooOldError
from moorage.gateway.http.representations import EventEncoder, JsonEvents
from moorage.gateway.http.selectors import Selector
from moorage.gateway.store import Store
from moorage.kinds.kind import ServedKind

BOOKMARK_EVERY = 30.0
"""Seconds without a change after which a bookmark is sent, if bookmarks are requested."""

_INITIAL_END = {"k8s.io/initial-events-end": "true"}


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
    """Whether a bookmark marks the end of the objects that existed already (`sendInitialEvents`)."""

    timeout: float | None = None
    """Seconds after which the watch ends. None means never."""

    encoder: EventEncoder = field(default_factory=JsonEvents)
    """Makes the bytes of the events."""


def expired(version: int, floor: int) -> StatusError:
    """410: the version is older than the history."""
    return StatusError(410, f"too old resource version: {version} ({floor})", reason="Expired")


def start(store: Store, watch: Watch) -> int:
    """Returns the number of the first change that a watch shows.

    Raises:
        StatusError: 410 if its version is too old, 504 if it is in the future.
    """
    if watch.version is None:
        return store.history.count
    if watch.version > store.version:
        raise StatusError(
            504,
            f"Timeout: Too large resource version: {watch.version}, current: {store.version}",
            causes=[Cause("ResourceVersionTooLarge", "Too large resource version")],
            retry_after=1,
        )
    try:
        return store.history.position(watch.version)
    except TooOldError:
        raise expired(watch.version, store.history.floor) from None


async def events(store: Store, watch: Watch, number: int) -> AsyncIterator[bytes]:
    """The lines of a watch, starting with the change of this number. They end at the timeout."""
    if watch.version is None:
        number = store.history.count
        if first := _present(store, watch):
            yield first
    loop = asyncio.get_running_loop()
    end = None if watch.timeout is None else loop.time() + watch.timeout
    while True:
        try:
            changes = store.history.since(number)
        except TooOldError:
            yield watch.encoder.error(expired(store.version, store.history.floor).document())
            return
        number, reached = store.history.count, store.version
        if lines := b"".join(line for change in changes for line in _lines(watch, change)):
            yield lines
            continue  # more changes may have come while these were being sent
        left = None if end is None else end - loop.time()
        if store.history.closed or (left is not None and left <= 0):
            if watch.bookmarks:
                yield _bookmark(reached, watch)
            return
        try:
            async with asyncio.timeout(BOOKMARK_EVERY if left is None else min(left, BOOKMARK_EVERY)):
                await store.history.wait()
        except TimeoutError:
            if watch.bookmarks and (left is None or left > BOOKMARK_EVERY):
                # Not the present version: a change may have come at the end of the wait, and is sent next.
                yield _bookmark(reached, watch)


def _present(store: Store, watch: Watch) -> bytes:
    """The present objects, as if they had just been added."""
    objects = store.all(watch.kind.kind, watch.namespace)
    lines = [watch.encoder.event("ADDED", watch.kind, shown) for shown in objects if watch.selected.selects(shown.json)]
    if watch.initial_end:
        lines.append(_bookmark(store.version, watch, _INITIAL_END))
    return b"".join(lines)


def _lines(watch: Watch, change: ObjectChange) -> Iterator[bytes]:
    object_id = change.object_id
    if object_id.kind != watch.kind.kind or watch.namespace not in {"", object_id.namespace}:
        return
    before, after = _selects(watch, change.before), _selects(watch, change.after)
    if before or after:
        word = "MODIFIED" if before and after else "ADDED" if after else "DELETED"
        yield watch.encoder.event(word, watch.kind, change.last)


def _selects(watch: Watch, state: bytes | None) -> bool:
    return state is not None and watch.selected.selects(state)


def _bookmark(version: int, watch: Watch, annotations: Mapping[str, str] | None = None) -> bytes:
    metadata: dict[str, Any] = {"resourceVersion": str(version), "creationTimestamp": None}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return watch.encoder.bookmark(watch.kind, metadata)
