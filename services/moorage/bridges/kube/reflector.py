"""Follows the objects of one resource: a list, then watches that go on where the last one ended."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import structlog

from moorage.bridges.kube.api_error import GONE, ApiError
from moorage.bridges.kube.client import KubeClient

_log = structlog.get_logger(__name__)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 30.0
_SHORTEST_WATCH, _LONGEST_WATCH = 300, 600
"""Seconds after which the server ends a watch. They vary, so that not all begin again together."""

_SHORT: Final = 1.0  # seconds
_TOO_LARGE: Final = "ResourceVersionTooLarge"


class Sink(Protocol):
    """A receiver of the objects that a reflector finds. They are decoded JSON that the reflector does not keep."""

    def replaced(self, objects: Sequence[dict[str, Any]]) -> None:
        """Take all objects after a list."""

    def changed(self, found: dict[str, Any]) -> None:
        """Take an object that is new or different."""

    def deleted(self, found: dict[str, Any]) -> None:
        """Take the last state of a deleted object."""


class Reflector:
    """A follower of one resource, until it is cancelled.

    Args:
        path: of the list, such as `/api/v1/nodes`.
        params: selectors of the list.
    """

    def __init__(self, client: KubeClient, path: str, sink: Sink, params: Mapping[str, str] | None = None) -> None:
        self.path = path
        self.synced = asyncio.Event()
        """Set when the first list was read."""

        self.watching = False
        """Whether a watch is open, so that everything that happens is seen."""

        self._client = client
        self._sink = sink
        self._params = dict(params or {})
        self._version = ""
        """From where to watch. Empty: a list is needed."""

    async def run(self) -> None:
        """Follow the resource. Errors are logged, and it goes on after a pause that grows.

        A `403` or `404` is an error like others, because a role may come later.
        """
        pause = _FIRST_PAUSE
        while True:
            began = asyncio.get_running_loop().time()
            try:
                if not self._version:
                    await self._list()
                began = asyncio.get_running_loop().time()
                await self._watch()
                if asyncio.get_running_loop().time() - began > _SHORT:
                    pause = _FIRST_PAUSE
                    continue
                wait = pause  # a server that ends watches at once is not asked in a loop
            except ApiError as error:
                if error.status == GONE or _TOO_LARGE in error.causes:
                    # What the watch has missed is not known, or the server was restored from a backup.
                    _log.info("reflector.expired", path=self.path)
                    self._version = ""
                    if asyncio.get_running_loop().time() - began > _SHORT:
                        continue
                    wait = pause  # lists are dear to a server that takes none of their versions
                else:
                    wait = max(pause, error.retry_after or 0.0)
                    _log.warning("reflector.refused", path=self.path, error=str(error))
            except OSError as error:
                if self.watching and asyncio.get_running_loop().time() - began > _SHORT:
                    pause = _FIRST_PAUSE  # it was there until now
                wait = pause
                _log.warning("reflector.interrupted", path=self.path, error=str(error))
            finally:
                self.watching = False
            await asyncio.sleep(wait * random.uniform(0.8, 1.2))  # noqa: S311 - no secret
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _list(self) -> None:
        found: list[dict[str, Any]] = []
        metadata: Mapping[str, Any] = {}
        async for page in self._client.pages(self.path, self._params):
            found += page["items"]
            metadata = page.get("metadata") or {}
        self._sink.replaced(found)
        self._version = str(metadata.get("resourceVersion") or "")
        self.synced.set()

    async def _watch(self) -> None:
        seconds = random.randint(_SHORTEST_WATCH, _LONGEST_WATCH)  # noqa: S311 - no secret
        params = {
            **self._params,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(seconds),
        }
        self.watching = True
        async for event in self._client.watch(self.path, params):
            kind, found = event.get("type"), event.get("object") or {}
            if kind == "ERROR":
                raise ApiError.of(int(found.get("code") or 500), found, None)
            if kind in {"ADDED", "MODIFIED"}:
                self._sink.changed(found)
            elif kind == "DELETED":
                self._sink.deleted(found)
            self._version = str((found.get("metadata") or {}).get("resourceVersion") or self._version)
