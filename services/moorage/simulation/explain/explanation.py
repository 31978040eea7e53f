"""What an explanation consists of: the same for pods, for resources on clusters, and for OCM placements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from moorage.core.scheduling.framework.verdicts import Reason, TargetVerdict, Verdicts
from moorage.core.taints.tolerations import JudgedTaint
from moorage.simulation.copy.snapshot import Kept, Snapshot
from moorage.simulation.explain.chain import Chain, Trail
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import ResourceKey
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.topics import EVICTIONS, PLACEMENTS, RESOURCES

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


@dataclass(frozen=True, slots=True)
class Target:
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

    targets: tuple[Target, ...] = ()
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


@dataclass(slots=True)
class Grounds:
    """The records that an explanation is made from."""

    snapshot: Snapshot
    history: Sequence[Kept] = field(default_factory=tuple)
    """Records that are in the topics beside the last ones of their keys, as far as they may matter here."""

    def records(self) -> Iterable[Kept]:
        """All of them."""
        yield from self.snapshot.all()
        yield from self.history


def retraced(told: Explanation, trail: Trail) -> None:
    """Follow the chains of an explanation once more, over more records."""
    lasts = [(chain.about, last) for chain in told.chains if (last := chain.steps[-1].record) is not None]
    told.chains = tuple(trail.chains(lasts))


def summary_of(snapshot: Snapshot, owner: str, resource: str) -> Summary:
    """What was decided on the pods of a controller.

    Args:
        snapshot: where they are looked for.
        owner: the controller's key.
        resource: its plural, for the message.

    Raises:
        NotFoundError: it is not declared, and has no pods.
    """
    rows = []
    for key, event in sorted(snapshot.table(PLACEMENTS).items()):
        if isinstance(event, WorkloadPlaced) and event.owner.key == owner:
            generations = {str(event.target): event.binding_generation} if event.target is not None else {}
            ends = [eviction_ends(one) for one, _ in evictions_of(snapshot, key, generations)]
            rows.append(Row(key, event, ends[0] if ends else None))
    declared = snapshot.last(RESOURCES, owner)
    if not rows and (declared is None or declared.event is None):
        raise NotFoundError(resource, ResourceKey.parse(owner).name)
    return Summary(owner, snapshot.taken, tuple(rows))


def decision_on(snapshot: Snapshot, workload: str) -> tuple[WorkloadPlaced, Kept] | None:
    """The decision that is written down on a workload, with its record; None when there is none."""
    kept = snapshot.last(PLACEMENTS, workload)
    return (kept.event, kept) if kept is not None and isinstance(kept.event, WorkloadPlaced) else None


def evictions_of(snapshot: Snapshot, workload: str, generations: dict[str, int]) -> list[tuple[EvictionDecided, Kept]]:
    """The evictions of a workload's present bindings that are under way.

    Args:
        snapshot: where they are looked for.
        workload: its key.
        generations: of the present bindings, by the target's key.
    """
    found = []
    for target, generation in generations.items():
        kept: Any = snapshot.last(EVICTIONS, f"{workload}|{target}|{generation}")
        if kept is not None and isinstance(kept.event, EvictionDecided):
            found.append((kept.event, kept))
    return found


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
