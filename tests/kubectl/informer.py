"""An informer and its writers: they keep a copy of what the API shows, and count what it was told too little or twice.

Writers give each object numbers, one after the other. An informer that begins with a list, and then follows a watch
from version to version, is told of each number once, also when its connection breaks and when the server is replaced.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

NUMBER: Final = "example.com/number"
_PATH: Final = "/api/v1/namespaces/{namespace}/configmaps"
_GONE: Final = 410
_CONFLICT: Final = 409
_ERROR: Final = 400
_PAUSE: Final = 0.05  # seconds before a request is sent again

Connect = Callable[[], httpx.AsyncClient]
"""A client of a server, of any that is there."""


@dataclass
class Counts:
    """What an informer was told."""

    events: int = 0
    reconnects: int = 0
    """Watches that ended, and went on where they had stopped."""

    relists: int = 0
    """Versions that were gone, so that everything was listed anew."""

    doubled: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    bookmarks: int = 0


@dataclass
class Informer:
    """A copy of the config maps of a namespace."""

    connect: Connect
    namespace: str
    counts: Counts = field(default_factory=Counts)
    seen: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The objects by name, as they were last told."""

    version: str = ""
    synced: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            try:
                async with self.connect() as client:
                    if not self.version:
                        await self._list(client)
                    async for event in self._watch(client):
                        self.take(event["type"], event["object"])
            except (httpx.HTTPError, ValueError):
                await asyncio.sleep(_PAUSE)
            self.counts.reconnects += 1

    async def _list(self, client: httpx.AsyncClient) -> None:
        response = await client.get(_PATH.format(namespace=self.namespace))
        if response.status_code >= _ERROR:
            raise ValueError(response.text)
        self.begin(response.json())
        self.synced.set()

    def begin(self, found: dict[str, Any]) -> None:
        """Begin with a list."""
        self.seen = {one["metadata"]["name"]: one for one in found["items"]}
        self.version = found["metadata"]["resourceVersion"]

    async def _watch(self, client: httpx.AsyncClient) -> AsyncIterator[dict[str, Any]]:
        query = {"watch": "true", "resourceVersion": self.version, "allowWatchBookmarks": "true"}
        path = _PATH.format(namespace=self.namespace)
        async with client.stream("GET", path, params=query, timeout=httpx.Timeout(10, read=60)) as response:
            if response.status_code >= _ERROR:
                body = json.loads(await response.aread())
                yield {"type": "ERROR", "object": body}
                return
            async for line in response.aiter_lines():
                if line:
                    yield json.loads(line)

    def take(self, kind: str, found: dict[str, Any]) -> None:
        """Take an event of a watch, and count what is wrong with it."""
        if kind == "ERROR":
            if found.get("code") == _GONE:
                self.counts.relists += 1
                self.version = ""
                return
            raise ValueError(str(found))
        self.version = found["metadata"]["resourceVersion"]
        if kind == "BOOKMARK":
            self.counts.bookmarks += 1
            return
        self.counts.events += 1
        name = found["metadata"]["name"]
        before = self.seen.get(name)
        if kind == "DELETED":
            if self.seen.pop(name, None) is None:
                self.counts.doubled.append(f"{name} was deleted twice")
            return
        if before is not None and before["metadata"]["uid"] == found["metadata"]["uid"]:
            old, new = number_of(before), number_of(found)
            if new > old + 1:
                self.counts.missed.append(f"{name}: {new} after {old}")
            elif new <= old:
                self.counts.doubled.append(
                    f"{name}: {new} after {old}: {json.dumps(before)} and then {json.dumps(found)}"
                )
        self.seen[name] = found


@dataclass
class Writer:
    """Gives some objects numbers, and sometimes deletes and makes them anew."""

    connect: Connect
    namespace: str
    name: str
    objects: int
    seed: int
    writes: int = 0
    retries: int = 0

    def __post_init__(self) -> None:
        self._dice = random.Random(self.seed)  # noqa: S311 - seeded on purpose

    async def run(self, until: Callable[[], bool]) -> None:
        """Write until told to end. A write whose answer was lost is looked after before it is sent again."""
        while not until():
            name = f"{self.name}-{self._dice.randrange(self.objects)}"
            while True:
                try:
                    async with self.connect() as client:
                        if await self._write(client, name):
                            break
                except (httpx.HTTPError, ValueError):
                    self.retries += 1
                    await asyncio.sleep(_PAUSE)
            self.writes += 1

    async def _write(self, client: httpx.AsyncClient, name: str) -> bool:
        """Whether one change was made."""
        path = _PATH.format(namespace=self.namespace)
        found = await client.get(f"{path}/{name}")
        if found.status_code == httpx.codes.NOT_FOUND:
            metadata = {"name": name, "annotations": {NUMBER: "1"}}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
            response = await client.post(path, json=body)
        elif found.status_code >= _ERROR:
            raise ValueError(found.text)
        elif self._dice.random() < 0.05:
            response = await client.delete(f"{path}/{name}")
        else:
            now = found.json()
            now["metadata"]["annotations"][NUMBER] = str(number_of(now) + 1)
            response = await client.put(f"{path}/{name}", json=now)
        if response.status_code >= _ERROR and response.status_code != _CONFLICT:
            raise ValueError(response.text)
        return response.status_code < _ERROR


def number_of(found: dict[str, Any]) -> int:
    """The number that a writer gave an object."""
    return int((found["metadata"].get("annotations") or {}).get(NUMBER, "0"))


async def listed(client: httpx.AsyncClient, namespace: str) -> dict[str, tuple[str, int]]:
    """Version and number of each object, as a list shows them."""
    response = await client.get(_PATH.format(namespace=namespace))
    response.raise_for_status()
    return {name: marks(found) for name, found in ((one["metadata"]["name"], one) for one in response.json()["items"])}


def marks(found: dict[str, Any]) -> tuple[str, int]:
    """Version and number of an object."""
    return found["metadata"]["resourceVersion"], number_of(found)
