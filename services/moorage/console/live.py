"""Changes of an open page as server-sent events.

Each event has the parts of the page that look different now, whole. So a page that was away shows the present after one
event, and nothing depends on which events it has seen. Changes that come together are one event, at most four a second,
and fewer if a page costs the gateway much.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

from moorage.console.host import PageError
from moorage.console.rendering import Pages, replacing
from moorage.console.sessions import LoginNeededError
from moorage.console.views import Content, PageView
from moorage.console.watches import KindWatch

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

    `again` makes the content of the page, as its user may see it now. None as the version sends everything first.
    """

    def __init__(self, pages: Pages, again: Again, version: int | None, heartbeat: float = HEARTBEAT) -> None:
        self._pages = pages
        self._again = again
        self._version = version
        self._heartbeat = heartbeat
        self._sent: dict[str, bytes] = {}

    async def events(self) -> AsyncIterator[bytes]:
        """Yield the events. They end when the user may no longer see anything, or a watch of the API ends."""
        is_first, before = True, math.inf
        while True:
            began = time.thread_time()
            try:
                view, content = await self._again()
                watches = [await view.reader.watches.of(kind, view.cluster) for kind in content.kinds]
            except (LoginNeededError, PageError):
                yield b"event: reload\ndata: \n\n"
                return
            event = self._event(view, content, is_sent=not (is_first and self._is_shown(view, watches)))
            spent = time.thread_time() - began
            # What is dear once, because the garbage collector ran meanwhile, predicts nothing.
            cost, before = min(spent, before), spent
            if is_first:
                yield b"retry: 1000\n\n"
                is_first = False
            if event:
                yield event
            await asyncio.sleep(max(PAUSE, _SHARE * cost))
            while not _has_changed(watches, view.version):
                if any(one.is_over for one in watches):
                    return  # the browser connects again
                if not await self._more(watches):
                    yield b": still here\n\n"
                    break

    def _event(self, view: PageView, content: Content, *, is_sent: bool) -> bytes:
        """Return the parts that look different. Empty if none do."""
        changed = []
        for name, html in self._pages.parts(view, content).items():
            mark = hashlib.blake2b(html.encode(), digest_size=16).digest()
            if self._sent.get(name) != mark:
                self._sent[name] = mark
                changed.append(replacing(name, html))
        if not changed or not is_sent:
            return b""
        data = "".join(f"data: {line}\n" for line in "".join(changed).splitlines())
        return f"id: {view.version}\n{data}\n".encode()

    def _is_shown(self, view: PageView, watches: Sequence[KindWatch]) -> bool:
        """Return whether the page shows the present already."""
        if self._version is None or self._version > view.version:
            return False
        return not _has_changed(watches, self._version)

    async def _more(self, watches: Sequence[KindWatch]) -> bool:
        """Wait for a change. False if there was none for long."""
        waits = [asyncio.ensure_future(one.changed()) for one in watches]
        try:
            done, _ = await asyncio.wait(waits, timeout=self._heartbeat, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return bool(done)


def _has_changed(watches: Sequence[KindWatch], version: int) -> bool:
    """Return whether something has changed after a version, as far as is known."""
    return any(one.changed_at > version for one in watches)
