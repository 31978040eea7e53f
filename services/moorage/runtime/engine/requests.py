"""What the engine asks of whoever drives it. Each request says what is sent back."""

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
    """Where partitions begin and end. Sends back `Bounded`."""

    begin: tuple[Topic, ...] = ()
    end: tuple[Topic, ...] = ()
    """High watermarks: another writer's open transaction must not hide one's own latest records."""

    committed: tuple[Topic, ...] = ()
    """Last stable offsets: what is committed now."""


@dataclass(frozen=True, slots=True)
class Bounded:
    """The answer to `Bounds`."""

    begin: dict[Topic, int]
    end: dict[Topic, int]


@dataclass(frozen=True, slots=True)
class Announce:
    """All that the restore will read, as far as is known, so that it can be fetched in one go. Sends back nothing."""

    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Read:
    """Give these records to `PartitionEngine.fold`, in the order of each topic. Sends back nothing, once it is done."""

    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Turn:
    """Let others have their turn. Sends back nothing."""


@dataclass(frozen=True, slots=True)
class CatchUp:
    """Read the followed topics, and these global ones, up to their ends. Sends back nothing."""

    globals: frozenset[Topic]


@dataclass(frozen=True, slots=True)
class Written:
    """Wait until everything that was decided before is committed. Sends back nothing."""


@dataclass(frozen=True, slots=True)
class Refresh:
    """Offer the records of the needed tables up to their present ends, and read the rest. Sends back `Freshness`.

    None is sent back when that cannot be now, as when the partition is being taken away.
    """

    needs: Needs


Request = Bounds | Announce | Read | Turn | CatchUp | Written | Refresh
Steps = Generator[Request, Any, R]
"""Steps of the engine, which end with a result."""
