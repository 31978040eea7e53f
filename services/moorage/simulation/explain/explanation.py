"""What an explanation consists of: the same for pods, for resources on clusters, and for OCM placements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from moorage.core.scheduling.framework.verdicts import Reason, TargetVerdict, Verdicts
from moorage.core.taints.tolerations import JudgedTaint
from moorage.simulation.explain.chain import Chain
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.placement import WorkloadPlaced

BEST: Final = 10
"""Targets that are shown beside the chosen ones, unless all are asked for."""

CHOSEN: Final = 25
"""Chosen targets that are shown at most, unless all are asked for."""


class NotFoundError(LookupError):
    """There is no such thing; the words are kubectl's.

    Args:
        resource: the plural with its group, such as `pods` or `deployments.apps`.
        name: which one.
    """

    def __init__(self, resource: str, name: str) -> None:
        super().__init__(f'{resource} "{name}" not found')
        self.resource, self.name = resource, name


@dataclass(frozen=True, slots=True)
class ExplainedTarget:
    """One target, and what becomes of the workload there."""

    name: str
    here: bool
    """Whether the decision on record puts the workload there."""

    verdict: TargetVerdict
    taints: tuple[JudgedTaint, ...] = ()
    outcome: str = ""
    """What becomes of it, in one line: chosen, second best, ruled out by what."""

    replicas: int | None = None
    """Of the workload, as it would be divided now; None when it gets none, or nothing is divided."""


@dataclass(frozen=True, slots=True)
class Until:
    """Until when something holds."""

    what: str
    """What ends, or is waited for, in words."""

    when: datetime | None = None
    """None when no time is set for it."""

    held_by: tuple[str, ...] = ()
    """What holds an eviction that is due."""


@dataclass(slots=True)
class Explanation:
    """The answer to why a workload is where it is."""

    workload: str
    """The key: `Pod/shop/web-0`."""

    kind_of_target: str
    """`Node`, `Cluster` or `ManagedCluster`."""

    at: datetime
    """The state that is explained is that of this moment."""

    owner: str = ""
    """The key of what makes it; empty for what makes itself."""

    record: WorkloadPlaced | None = None
    """The decision that is written down; None while none is."""

    here: tuple[str, ...] = ()
    """Every target that it is on by that decision, by name."""

    agrees: bool = True
    """Whether it would be decided the same way now."""

    differences: tuple[str, ...] = ()
    """What is different now from when it was decided."""

    notes: tuple[str, ...] = ()
    considered: int = 0
    fitting: int = 0
    reasons: tuple[Reason, ...] = ()
    """Why targets are ruled out."""

    targets: tuple[ExplainedTarget, ...] = ()
    left_out: int = 0
    """Targets that are not shown."""

    until: tuple[Until, ...] = ()
    chains: tuple[Chain, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """One pod of a controller."""

    workload: str
    record: WorkloadPlaced
    until: Until | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """The pods of a controller, each with what was decided on it."""

    owner: str
    at: datetime
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which targets are to be shown."""

    one: str = ""
    """The only one; empty for the usual choice."""

    every: bool = False

    def choose(self, verdicts: Verdicts, chosen: Iterable[str], resource: str) -> list[str]:
        """The names to show: one, all, or those that are chosen and the best of the others.

        Raises:
            NotFoundError: the one that is asked for is not there.
        """
        if self.one:
            if self.one not in verdicts:
                raise NotFoundError(resource, self.one)
            return [self.one]
        if self.every:
            return list(verdicts.names())
        first = [name for name in dict.fromkeys(chosen) if name in verdicts][:CHOSEN]
        return first + [name for name in verdicts.ranked[: BEST + len(first)] if name not in set(first)][:BEST]


def eviction_ends(event: EvictionDecided) -> Until | None:
    """Until when an eviction lets the workload stay; None when it asks for nothing any more."""
    where = f"{event.target.kind.value.lower()} {event.target.name}"
    match event.state:
        case EvictionState.SCHEDULED:
            return Until(f"has to leave {where}: {event.message or event.reason}", event.deadline)
        case EvictionState.HELD:
            waits = f"held by {', '.join(event.held_by)}" if event.held_by else "waits for the governor's answer"
            # The governor's words name who holds it, too.
            told = event.message if event.message.startswith("held by ") else f"{waits}: {event.message}"
            return Until(f"was due to leave {where}, {told.removesuffix(': ')}", event.deadline, event.held_by)
        case EvictionState.REQUESTED:
            return Until(f"is being evicted from {where}: {event.message or event.reason}", event.deadline)
        case _:
            return None


def changed_counts(placed: WorkloadPlaced, verdicts: Verdicts) -> Iterator[str]:
    """What each filter ruled out when a decision was made and rules out now, where that differs."""
    then = {(one.filter, one.reason): one.count for one in placed.filters}
    now = {(one.filter, one.reason): one.count for one in verdicts.reasons}
    for by, why in sorted(then.keys() | now.keys()):
        if then.get((by, why), 0) != now.get((by, why), 0):
            yield f'{by} ruled out {then.get((by, why), 0)} then and {now.get((by, why), 0)} now: "{why}"'


def ruled_out(verdict: TargetVerdict) -> str:
    """Which filters rule a target out, in one line."""
    return "; ".join(f"{one.filter}: {', '.join(one.reasons)}" for one in verdict.filters if not one.passed)


def details_of(verdict: TargetVerdict) -> str:
    """What the filters that rule a target out see there, in one line."""
    return "; ".join(detail for one in verdict.filters if not one.passed for detail in one.details)


def ordinal(rank: int) -> str:
    """`1st`, `2nd`, `3rd`, `11th`."""
    ending = "th" if rank % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    return f"{rank}{ending}"
