"""A client of an API server that follows objects with watches, and waits for what they show."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx
from tests.conformance.patching_plane import connection

Document = dict[str, Any]
Found = TypeVar("Found")

MERGE: Final = "application/merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
STRATEGIC: Final = "application/strategic-merge-patch+json"

_BUSY: Final = 0.1  # seconds before a watch that was refused is opened again
_ATTEMPTS: Final = 20  # of a change that others keep overtaking


class NotSeenError(AssertionError):
    """The API server did not show in time what the engine was to do."""


class RefusedError(AssertionError):
    """The API server refused what the test needs."""


class Cluster:
    """A client of an API server, as an administrator."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def get(self, path: str) -> Document:
        """An object or a list."""
        return await self.send("GET", path)

    async def create(self, path: str, document: Document) -> Document:
        """Create an object."""
        return await self.send("POST", path, document)

    async def patch(self, path: str, change: Any, media: str = MERGE) -> Document:
        """Patch an object."""
        return await self.send("PATCH", path, change, media)

    async def delete(self, path: str, **options: Any) -> None:
        """Delete an object, or all of a collection. What is not there is deleted already."""
        await self.send("DELETE", path, options or None, missing=True)

    async def update(self, path: str, change: Callable[[Document], None], part: str = "") -> Document:
        """Change an object, or its subresource `part`, as it is now, and again if somebody else was faster."""
        for _ in range(_ATTEMPTS):
            found = await self.get(path)
            change(found)
            response = await self._http.put(f"{path}/{part}" if part else path, json=found)
            if response.status_code != HTTPStatus.CONFLICT:
                return self._read(response)
        raise AssertionError(f"{path}: others changed it {_ATTEMPTS} times in a row")

    async def send(
        self, method: str, path: str, body: Any = None, media: str = "application/json", *, missing: bool = False
    ) -> Document:
        """Send a request. Its answer must not be an error, but may be 404 where `missing` says so."""
        content = None if body is None else json.dumps(body)
        response = await self._http.request(method, path, content=content, headers={"content-type": media})
        return {} if missing and response.status_code == HTTPStatus.NOT_FOUND else self._read(response)

    @staticmethod
    def _read(response: httpx.Response) -> Document:
        request = response.request
        if not response.is_success:
            raise RefusedError(f"{request.method} {request.url.path}: {response.status_code} {response.text}")
        document: Document = response.json()
        return document

    @asynccontextmanager
    async def watched(self, path: str, version: str) -> AsyncIterator[AsyncIterator[Document]]:
        """The events of a watch."""
        options = {"watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true"}
        timeout = httpx.Timeout(30, read=None)
        async with self._http.stream("GET", path, params=options, timeout=timeout) as response:
            if not response.is_success:
                await response.aread()
            response.raise_for_status()
            yield (json.loads(line) async for line in response.aiter_lines())


@dataclass(frozen=True)
class Seen:
    """A version of an object."""

    time: dt.datetime
    """When the watch brought it."""

    change: str
    """`ADDED`, `MODIFIED` or `DELETED`."""

    object: Document


class Follower:
    """All versions of all objects of a resource, in the order in which a watch brought them."""

    def __init__(self, cluster: Cluster, path: str) -> None:
        self._cluster, self._path = cluster, path
        self._versions: dict[tuple[str, str], list[Seen]] = defaultdict(list)
        self._waiting: set[asyncio.Future[None]] = set()
        self._synced = asyncio.Event()

    def versions(self, name: str, namespace: str = "") -> list[Seen]:
        """Everything that was seen of an object, and of earlier objects of its name."""
        return self._versions[namespace, name]

    def get(self, name: str, namespace: str = "") -> Document | None:
        """An object as it is now. None if it is not there."""
        versions = self._versions[namespace, name]
        return versions[-1].object if versions and versions[-1].change != "DELETED" else None

    def all(self, namespace: str = "") -> list[Document]:
        """All objects of a namespace as they are now."""
        found = (self.get(name, namespace) for where, name in list(self._versions) if where == namespace)
        return [one for one in found if one is not None]

    async def until(self, expected: str, find: Callable[[], Found | None], seconds: float) -> Found:
        """Return what `find` finds, which is called after each event.

        Raises:
            NotSeenError: it found nothing in time.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while (found := find()) is None:
            waiter = loop.create_future()
            self._waiting.add(waiter)
            try:
                await asyncio.wait_for(waiter, max(0.0, deadline - loop.time()))
            except TimeoutError:
                raise NotSeenError(f"not seen within {seconds:g} s: {expected}") from None
            finally:
                self._waiting.discard(waiter)
        return found

    async def synced(self) -> None:
        """Return when everything that is there was read."""
        await self._synced.wait()

    async def run(self) -> None:
        """Follow until cancelled. A watch that the server ends goes on after its last event.

        A kind that was just defined may not be served yet, so what is refused is tried again.
        """
        version = ""
        while True:
            try:
                version = version or await self._list()
                async with self._cluster.watched(self._path, version) as events:
                    async for event in events:
                        version = self._take(event)
                        if not version:
                            break
            except (httpx.TransportError, httpx.HTTPStatusError, RefusedError) as error:
                if isinstance(error, httpx.HTTPStatusError) and error.response.status_code == HTTPStatus.GONE:
                    version = ""
                await asyncio.sleep(_BUSY)

    async def _list(self) -> str:
        listed = await self._cluster.get(self._path)
        there = {self._key(one) for one in listed["items"]}
        for key, versions in list(self._versions.items()):
            if versions and versions[-1].change != "DELETED" and key not in there:
                self._note("DELETED", versions[-1].object)
        for one in listed["items"]:
            self._note("MODIFIED" if self._versions[self._key(one)] else "ADDED", one)
        self._synced.set()
        return str(listed["metadata"]["resourceVersion"])

    def _take(self, event: Document) -> str:
        """Note an event, and return the version after which the watch goes on. Empty for a new list."""
        if event["type"] == "ERROR":
            return ""
        if event["type"] != "BOOKMARK":
            self._note(event["type"], event["object"])
        return str(event["object"]["metadata"]["resourceVersion"])

    def _note(self, change: str, document: Document) -> None:
        self._versions[self._key(document)].append(Seen(dt.datetime.now(dt.UTC), change, document))
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    @staticmethod
    def _key(document: Document) -> tuple[str, str]:
        return document["metadata"].get("namespace", ""), document["metadata"]["name"]


@asynccontextmanager
async def connected(folder: Path) -> AsyncIterator[Cluster]:
    """A client of the plane in a folder."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(**connection(folder), limits=limits, trust_env=False) as http:
        yield Cluster(http)


@asynccontextmanager
async def following(cluster: Cluster, *paths: str) -> AsyncIterator[list[Follower]]:
    """Followers of resources that have read what is there."""
    async with AsyncExitStack() as stack:
        followers = [Follower(cluster, path) for path in paths]
        for follower in followers:
            task = asyncio.create_task(follower.run())
            stack.push_async_callback(_ended, task)
        async with asyncio.timeout(60):
            await asyncio.gather(*(follower.synced() for follower in followers))
        yield followers


async def event_told(events: Follower, namespace: str, wanted: tuple[str, str, str, str], seconds: float) -> None:
    """Return when there is an event with the kind and name of its object, the type and the reason that are wanted.

    Raises:
        NotSeenError: there is none in time.
    """

    def find() -> bool | None:
        return True if any(_said(one) == wanted for one in events.all(namespace)) else None

    await events.until(f"{wanted[3]} of {wanted[0]} {wanted[1]}", find, seconds)


def _said(event: Document) -> tuple[str, str, str, str]:
    """What an event is about, its type and its reason."""
    about = event["involvedObject"]
    return about["kind"], about["name"], event["type"], event["reason"]


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
