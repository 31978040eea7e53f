"""Watches of the API that all pages share, under the console's own identity.

A watch keeps the names of its objects and the version of the latest change. Pages check the rights of their user before
they show any of them. A watch that ends is not renewed. The next page opens another one, which begins with
all present objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

import orjson
import structlog

from moorage.console.api import JSON, METADATA, ApiClient
from moorage.console.host import PageError
from moorage.console.kinds import ApiKind, Kinds
from moorage.decide.kubernetes.unstructured import at

_log = structlog.get_logger(__name__)

IDLE: Final = 600.0
"""Seconds after which an unused watch is closed."""

_ALL: Final = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
_INITIAL_END: Final = "k8s.io/initial-events-end"
_FAILED: Final = 400


class Listener(Protocol):
    """Gets the whole objects of some kinds of a fleet as they change."""

    kinds: tuple[str, ...]

    def changed(self, kind: str, namespace: str, name: str, document: Mapping[str, Any] | None) -> None:
        """Take in an object as it is now. None if it was deleted."""

    def ended(self) -> None:
        """Take in that no more changes will come."""


class KindWatch:
    """The objects of a kind in one fleet, as a watch shows them. `listener` is None if their names are enough."""

    def __init__(self, api: ApiClient, kind: ApiKind, listener: Listener | None) -> None:
        self._kind = kind
        self._listener = listener
        self._began = asyncio.Event()
        self._more = asyncio.Event()
        self._rest = b""
        self._is_whole = False
        self._refusal = ""
        self._problem: PageError | None = None
        self.names: dict[str, dict[str, None]] = {}
        """The names of the objects by namespace."""

        self.changed_at = 0
        """The version of the latest change. At the beginning, the version of the present objects."""

        self.is_over = False
        self.used = 0.0
        """When it was used last, in the time of the event loop."""

        self.task = asyncio.create_task(self._run(api), name=f"console-watch-{kind.plural}")

    async def began(self) -> None:
        """Return when it has all objects that existed when it was opened. Raises PageError if the API refuses it."""
        await self._began.wait()
        if self._problem is not None:
            raise self._problem
        if not self._is_whole:
            raise PageError(503, f"{self._kind.plural} are not read yet: try again", retry_after=1)

    async def changed(self) -> None:
        """Return at the next change, or when it ends."""
        if not self.is_over:
            await self._more.wait()

    async def _run(self, api: ApiClient) -> None:
        try:
            form = METADATA if self._listener is None else JSON
            code = await api.watch(self._kind.path(), _ALL, form, self._take)
            if code >= _FAILED:
                self._problem = PageError(code, self._refusal or f"the gateway answered {code}")
        except Exception:  # noqa: BLE001 - pages that need it open another one, and the log gets the trace
            _log.exception("console.watch_failed", kind=self._kind.kind)
            self._problem = PageError(500, "The gateway failed on this page. Its log has the reason.")
        finally:
            self.is_over = True
            self._began.set()
            self._wake()
            if self._listener is not None:
                self._listener.ended()

    def _wake(self) -> None:
        woken, self._more = self._more, asyncio.Event()
        woken.set()

    def _take(self, content: bytes) -> bool:
        """Take in a part of the answer. Returns whether it is one of many at the beginning."""
        *lines, self._rest = (self._rest + content).split(b"\n")
        for line in lines:
            self._fold(orjson.loads(line))
        if lines and self._is_whole:
            self._wake()
        return not self._is_whole

    def _fold(self, event: Mapping[str, Any]) -> None:
        word, found = event.get("type", "ERROR"), event.get("object", event)
        if word == "ERROR":  # the watch ends, and another one begins with all present objects
            self._refusal = str(found.get("message") or "")
            return
        metadata = found["metadata"]
        version = int(metadata.get("resourceVersion") or 0)
        if word == "BOOKMARK":
            if not self._is_whole and at(metadata, "annotations", _INITIAL_END):
                self.changed_at = version
                self._is_whole = True
                self._began.set()
            return
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        if word == "DELETED":
            names = self.names.get(namespace, {})
            names.pop(name, None)
            if not names:
                self.names.pop(namespace, None)
        else:
            self.names.setdefault(namespace, {})[name] = None
        if self._is_whole:
            self.changed_at = max(self.changed_at, version)
        if self._listener is not None:
            self._listener.changed(self._kind.kind, namespace, name, None if word == "DELETED" else found)


class Watches:
    """The watches that are open. `kept` are kinds of the home fleet that are followed all the time."""

    def __init__(self, api: ApiClient, kinds: Kinds, kept: Iterable[str]) -> None:
        self._api = api
        self._kinds = kinds
        self._kept = frozenset(kept)
        self._open: dict[tuple[str, str], KindWatch] = {}
        self._listeners: dict[tuple[str, str], Listener] = {}

    async def of(self, kind: str, cluster: str = "") -> KindWatch:
        """Return the watch of a kind in a fleet, with all present objects. Raises PageError if the API refuses it."""
        now = asyncio.get_running_loop().time()
        place = cluster, kind
        found = self._open.get(place)
        if found is None or found.is_over:
            self._close_idle(now)
            api = ApiClient(self._api.app, cluster)
            found = self._open[place] = KindWatch(api, self._kinds.named(kind), self._listeners.get(place))
        found.used = now
        await found.began()
        return found

    def _close_idle(self, now: float) -> None:
        for (cluster, kind), watch in list(self._open.items()):
            if watch.is_over or (now - watch.used > IDLE and (cluster or kind not in self._kept)):
                watch.task.cancel()
                del self._open[cluster, kind]

    def listen(self, cluster: str, listener: Listener) -> None:
        """Have a listener get the objects of its kinds in a fleet from now on, beginning with all present ones."""
        for kind in listener.kinds:
            place = cluster, kind
            self._listeners[place] = listener
            if (before := self._open.pop(place, None)) is not None:
                before.task.cancel()

    def forget(self, cluster: str) -> None:
        """Close the watches of a deleted cluster."""
        for place in [place for place in self._open if place[0] == cluster]:
            self._open.pop(place).task.cancel()
        for place in [place for place in self._listeners if place[0] == cluster]:
            del self._listeners[place]

    def clusters(self) -> set[str]:
        """Return the fleets of which something is followed. The home fleet has an empty name."""
        return {cluster for cluster, _ in self._open}

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """The tasks that follow the API. Each is cancelled to end it."""
        return [watch.task for watch in self._open.values()]


async def settle() -> None:
    """Let the watches show what the API shows now.

    They run in the same event loop as the API. What it has taken in wakes them at once, so they have it after one turn.
    """
    await asyncio.sleep(0)
    await asyncio.sleep(0)
