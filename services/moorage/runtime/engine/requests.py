"""The requests that the engine makes to its driver. Each docstring states the answer."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from moorage.runtime.service import Needs
from moorage_schemas.topics import Topic

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Span:
    """Part of a topic's partition: the records from `begin` on, below `end`."""

    topic: Topic
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Bounds:
    """Request the first and end offsets of partitions. Sends back `Bounded`."""

    begin: tuple[Topic, ...] = ()
    end: tuple[Topic, ...] = ()
    """High watermarks: an open transaction of another writer must not hide the service's own latest records."""

    committed: tuple[Topic, ...] = ()
    """Last stable offsets: everything below them is committed."""


@dataclass(frozen=True, slots=True)
class Bounded:
    """The answer to `Bounds`."""

    begin: dict[Topic, int]
    end: dict[Topic, int]


@dataclass(frozen=True, slots=True)
class Announce:
    """Announce the expected reads of the restore, so that they are fetched together. There is no answer."""

    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Read:
    """Pass these records to `PartitionEngine.fold`, in the order of each topic. Sends back nothing, once it is done."""

    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Turn:
    """Let other tasks run. Sends back nothing."""


@dataclass(frozen=True, slots=True)
class CatchUp:
    """Read the followed topics, and these global topics, to their ends. Sends back whether that may have taken time."""

    globals: frozenset[Topic]


@dataclass(frozen=True, slots=True)
class Written:
    """Wait until all earlier decisions are committed. Sends back nothing."""


@dataclass(frozen=True, slots=True)
class Refresh:
    """Offer the records of the needed tables up to their present ends, and read the rest. Sends back `Freshness`.

    Sends back None when this is not possible now, for example because the partition is being taken away.
    """

    needs: Needs
    most: int | None = None
    """The number of unread records above which it sends back None instead."""


Request = Bounds | Announce | Read | Turn | CatchUp | Written | Refresh
Steps = Generator[Request, Any, R]
"""Steps of the engine. They end with a result."""
