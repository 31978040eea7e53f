"""Follows what changes of a page that is open, as server-sent events.

Each event has the parts of the page that look different now, whole. So a page that was away shows the present after one
event, and nothing depends on which events it has seen. Changes that come together are one event, at most four a second,
and fewer if a page costs the gateway much.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from moorage.gateway.console.rendering import Pages, replacing
from moorage.gateway.console.sessions import LoginNeededError
from moorage.gateway.console.views import Content, PageView
from moorage.gateway.errors import StatusError
from moorage.gateway.history import TooOldError
from moorage.gateway.store import FleetObjects

PAUSE: Final = 0.25
"""Seconds between two events."""

HEARTBEAT: Final = 15.0
"""Seconds without a change after which a comment is sent, so that both ends see whether the other is there. The session
is looked at again then."""

_SHARE: Final = 4
"""A page is made again at most for a fifth of the gateway's time on the processor. The time that other
programs or a slow browser take does not count: it would only make pages late."""

Again = Callable[[], Awaitable[tuple[PageView, Content]]]


class Follower:
    """Follows one page.

    Args:
        store: tells of changes.
        pages: makes the parts.
        again: makes the content of the page, as its user may see it now.
        version: the version that the page shows already. None sends everything first.
        heartbeat: see `HEARTBEAT`.
    """

    def __init__(
        self, store: FleetObjects, pages: Pages, again: Again, version: int | None, heartbeat: float = HEARTBEAT
    ) -> None:
        self._store = store
        self._pages = pages
        self._again = again
        self._version = version
        self._heartbeat = heartbeat
        self._sent: dict[str, bytes] = {}

    async def events(self) -> AsyncIterator[bytes]:
        """The events. They end when the user may see nothing any more, or the gateway does."""
        is_first, before = True, math.inf
        while not self._store.history.closed:
            began = time.thread_time()
            number, version = self._store.history.count, self._store.version
            try:
                view, content = await self._again()
            except (LoginNeededError, StatusError):
                yield b"event: reload\ndata: \n\n"
                return
            kinds = tuple(content.kinds)
            event = self._event(view, content, version, is_sent=not (is_first and self._is_shown(kinds)))
            spent = time.thread_time() - began
            # What is dear once, because the garbage collector ran meanwhile, says nothing of the next time.
            cost, before = min(spent, before), spent
            if is_first:
                yield b"retry: 1000\n\n"
                is_first = False
            if event:
                yield event
            await asyncio.sleep(max(PAUSE, _SHARE * cost))
            while not self._changed(kinds, number) and not self._store.history.closed:
                if not await self._more(kinds):
                    yield b": still here\n\n"
                    break

    def _event(self, view: PageView, content: Content, version: int, *, is_sent: bool) -> bytes:
        """The parts that look different. Empty if none do."""
        changed = []
        for name, html in self._pages.parts(view, content).items():
            mark = hashlib.blake2b(html.encode(), digest_size=16).digest()
            if self._sent.get(name) != mark:
                self._sent[name] = mark
                changed.append(replacing(name, html))
        if not changed or not is_sent:
            return b""
        data = "".join(f"data: {line}\n" for line in "".join(changed).splitlines())
        return f"id: {version}\n{data}\n".encode()

    def _is_shown(self, kinds: tuple[str, ...]) -> bool:
        """Whether the page shows the present already."""
        if self._version is None or self._version > self._store.version:
            return False
        try:
            return not self._changed(kinds, self._store.history.position(self._version))
        except TooOldError:
            return False

    def _changed(self, kinds: tuple[str, ...], number: int) -> bool:
        """Whether something has changed of these kinds, beginning with the change of that number."""
        try:
            return any(self._store.history.since(number, kind) for kind in kinds)
        except TooOldError:
            return True

    async def _more(self, kinds: tuple[str, ...]) -> bool:
        """Wait for a change. False if there was none for long."""
        waits = [asyncio.ensure_future(self._store.history.wait(kind)) for kind in kinds]
        try:
            done, _ = await asyncio.wait(waits, timeout=self._heartbeat, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return bool(done)
