"""The members of a process: the workers of services, and readers such as the query worker."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from aiokafka import TopicPartition
from typing_extensions import override

from moorage.runtime.process.failures import RuntimeFailure
from moorage.runtime.settings.process_settings import Settings


@dataclass(frozen=True, slots=True)
class Behind:
    """Where Kafka has more than this worker has received.

    Attributes:
        partitions: running partitions with sources that the consumer has not read to the end.
        tables: partitions of followed and global topics that are not read to the end, each with the offset that it has
            reached.
    """

    partitions: frozenset[int] = frozenset()
    tables: Mapping[TopicPartition, int] = field(default_factory=dict)


class Member(Protocol):
    """Something that a process starts, watches and stops. `Worker` is one."""

    @property
    def name(self) -> str:
        """The name that `moorage run` takes."""

    @property
    def ready(self) -> bool:
        """Whether it is ready to work."""

    @property
    def tasks(self) -> Mapping[int, Any]:
        """The partition tasks by partition; empty for a reader."""

    @property
    def moves(self) -> int:
        """A number that changes with each step towards readiness. The watchdog reads it."""

    @property
    def restored(self) -> object:
        """The restored object, a new one after each restore. `Freezing` compares it."""

    @property
    def idle(self) -> bool:
        """Whether it has finished starting. The watchdog reads it."""

    @property
    def lacks(self) -> str:
        """The missing part while it is not idle, such as `is not in its group`. The watchdog's message contains it."""

    async def behind(self) -> Behind:
        """Return where Kafka has more than was received."""

    def report(self) -> dict[str, Any]:
        """Return the progress for the readiness page."""

    async def start(self) -> None:
        """Start. Returns at once."""

    async def join(self) -> None:
        """Wait until it ends. Raises RuntimeFailure if it cannot continue."""

    async def stop(self) -> None:
        """Stop in order."""


class TaskMember(Member, ABC):
    """The life of a `Member` without partitions, whose work is one task.

    Args:
        name: the name that `moorage run` takes.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._failure: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    @override
    def name(self) -> str:
        return self._name

    @property
    @override
    def tasks(self) -> Mapping[int, Any]:
        return {}

    @override
    async def start(self) -> None:
        self._failure = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(self._failure), name=self._name)

    @override
    async def join(self) -> None:
        if self._task is not None:
            await asyncio.shield(self._task)

    @override
    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, RuntimeFailure):
                await task

    @abstractmethod
    async def _run(self, failure: asyncio.Future[None]) -> None:
        """Work until cancelled."""


MemberMaker = Callable[[Settings], Member]
"""Creates a member. The settings that it gets have the fleet's actual number of partitions."""
