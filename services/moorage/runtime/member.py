"""What runs in a process: the worker of a service, or something that only reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from moorage.runtime.kafka.consumer_lag import Behind
from moorage.runtime.settings import Settings


class Member(Protocol):
    """What a process starts, watches and stops, as it does a `Worker`."""

    @property
    def name(self) -> str:
        """As `moorage run` has it."""

    @property
    def ready(self) -> bool:
        """Whether it does its work."""

    @property
    def owners(self) -> Mapping[int, Any]:
        """The owners of partitions; none of what only reads."""

    @property
    def moves(self) -> int:
        """Changes with each step of getting to work; for the watchdog."""

    @property
    def idle(self) -> bool:
        """Whether it has got to work; for the watchdog."""

    @property
    def lacks(self) -> str:
        """What is missing while it has not, in words: `is not in its group`."""

    async def behind(self) -> Behind:
        """Where Kafka has more than has come here."""

    def report(self) -> dict[str, Any]:
        """How far it is, for the readiness page."""

    async def start(self) -> None:
        """Begin; returns at once."""

    async def join(self) -> None:
        """Wait until it ends.

        Raises:
            RuntimeFailure: it cannot go on.
        """

    async def stop(self) -> None:
        """End in order."""


MemberMaker = Callable[[Settings], Member]
"""Makes a member; the settings it gets hold the fleet's true number of partitions."""
