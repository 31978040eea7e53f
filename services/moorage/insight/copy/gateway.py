"""The real gateway on a copy. It validates, admits and writes objects as usual, but into memory.

It is called over HTTP within the process. Changes of the copy are therefore made with the same requests, and get the
same answers, as those of the live state.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from typing import Any, Self, TypeVar

import httpx

from moorage.apiserver.http.app import Gateway, create_app
from moorage.apiserver.kinds.status.clusters import cluster_of
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.storage.durable_log import Write
from moorage.apiserver.storage.shown_objects import ShownObject, unkept
from moorage.apiserver.storage.store import Store
from moorage.insight.copy.stack import MemoryStack
from moorage.runtime.service import Input
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import CONDITIONS, PLACEMENTS, RESOURCES, TAINTS

ADDRESS = "http://localhost"
"""The address of the copy's gateway in requests."""

_READ = frozenset(topic.short for topic in (RESOURCES, TAINTS, CONDITIONS, PLACEMENTS))
"""The topics that it needs to validate and admit a change. The others are only for showing objects."""

_ROUNDS = 10_000

T = TypeVar("T")


class _Clock:
    """The copy's clock."""

    def __init__(self, stack: MemoryStack) -> None:
        self._stack = stack

    def now(self) -> datetime:
        return self._stack.now

    async def sleep_until(self, when: datetime) -> None:
        """Return at once, because the copy's clock is moved from outside."""


class _Store(Store):
    """Builds an object when it is first used, because most objects of a large fleet never are.

    It has the objects of the home fleet, which are those that a simulation can change.
    """

    def __init__(self) -> None:
        super().__init__()
        self.complete = self.caught_up = True

    def fold(self, records: Iterable[Input]) -> None:
        """Take records in."""
        for record in records:
            if not cluster_of(record.topic.short, record.key):
                self.tables.apply(record.topic, record.key, record.event)
            self.version += 1
        if self.applied is not None:
            self.applied()
        self.history.wake()

    def get(self, object_id: ObjectId) -> ShownObject | None:
        document = self.builder.build(object_id)
        return unkept(self.version, document) if document is not None else None

    def all(self, place: str, namespace: str = "") -> list[ShownObject]:
        known = {ObjectId.of(key) for key in (*self.tables.resources, *self.tables.placements)}
        chosen = sorted(one for one in known if one.kind == place and namespace in {"", one.namespace})
        return [shown for object_id in chosen if (shown := self.get(object_id)) is not None]


class _Log:
    """Writes to the copy's topics, and applies at once what it has written."""

    obstacle = ""

    def __init__(self, stack: MemoryStack, store: _Store) -> None:
        self._stack = stack
        self._store = store

    async def commit(self, writes: Sequence[Write], *, is_shown: bool = True) -> int:  # noqa: ARG002 - as `_Store` says
        for write in writes:
            self._write(write)
        return self._store.version

    async def report(self, writes: Sequence[Write]) -> list[int]:
        return [self._write(write) for write in writes]

    def _write(self, write: Write) -> int:
        record = self._stack.write(write.topic, write.key, write.partition_key, write.event, write.meta)
        if write.topic.short in _READ:
            found = Input(write.topic, record.partition, record.offset, write.key, write.event, write.meta)
            self._store.fold([found])
        return record.offset


class _Transport(httpx.BaseTransport):
    """Carries requests to the copy's gateway. Closing a client does not close the gateway."""

    def __init__(self, answer: Callable[[httpx.Request], httpx.Response]) -> None:
        self._answer = answer

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._answer(request)


class Edge:
    """The gateway of a copy. A context manager.

    Args:
        stack: the copy. The gateway has the present content of its topics.
        settings: the settings of the process, for a copy without a configuration.
    """

    def __init__(self, stack: MemoryStack, settings: Settings) -> None:
        self._store = store = _Store()
        for record in sorted(
            (record for short in _READ for record in stack.topics.topic(short)), key=lambda record: record.seq
        ):
            found = record.decode()
            if isinstance(found, Input):
                store.fold([found])
        gateway = Gateway(
            store=store,
            log=_Log(stack, store),
            clock=_Clock(stack),
            settings=settings.for_own_process(),
            hosts=None,
            records_events=False,
        )
        self._app = create_app(gateway)
        self._asgi = httpx.ASGITransport(app=self._app)
        self._loop = asyncio.new_event_loop()
        self._life = AsyncExitStack()
        self._lock = threading.Lock()
        self.transport: httpx.BaseTransport = _Transport(lambda request: self._wait(self._answer(request)))
        """A transport for any number of HTTP clients."""

    def __enter__(self) -> Self:
        self._wait(self._life.enter_async_context(self._app.router.lifespan_context(self._app)))
        return self

    def __exit__(self, *_: object) -> None:
        self._wait(self._life.aclose())
        self._loop.close()

    def settle(self) -> None:
        """Let the gateway's own controllers finish: machine sets create nodes, and what has lost its owners goes."""
        self._wait(self._settled())

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        answer = await self._asgi.handle_async_request(request)
        content = await answer.aread()
        return httpx.Response(answer.status_code, headers=answer.headers, content=content)

    async def _settled(self) -> None:
        for _ in range(_ROUNDS):
            await asyncio.sleep(0)
            if not self._app.state.controllers.busy:
                return

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        with self._lock:
            return self._loop.run_until_complete(work)
