"""The parts of an explanation. They are the same for pods, resources on clusters and OCM placements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from moorage.decide.scheduling.framework.target_verdicts import Reason, TargetVerdict, Verdicts
from moorage.decide.taints.tolerations import JudgedTaint
from moorage.insight.explain.chain import Chain
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.placement import WorkloadPlaced

BEST: Final = 10
"""The number of targets that are shown in addition to the chosen ones, unless all are requested."""

CHOSEN: Final = 25
"""The largest number of chosen targets that are shown, unless all are requested."""


class NotFoundError(LookupError):
    """There is no such object. The message is kubectl's.

    Args:
        resource: the plural with its group, such as `pods` or `deployments.apps`.
    """

    def __init__(self, resource: str, name: str) -> None:
        super().__init__(f'{resource} "{name}" not found')
        self.resource, self.name = resource, name


@dataclass(frozen=True, slots=True)
class ExplainedTarget:
    """One target, and the outcome for the workload there."""

    name: str
    here: bool
    """Whether the recorded decision puts the workload there."""

    verdict: TargetVerdict
    taints: tuple[JudgedTaint, ...] = ()
    outcome: str = ""
    """The outcome in one line: chosen, second best, or ruled out by which filter."""

    replicas: int | None = None
    """The number of replicas that it would get now. None if it gets none, or the workload is not divided."""


@dataclass(frozen=True, slots=True)
class Until:
    """How long something lasts."""

    what: str
    """The end that is expected, in words."""

    when: datetime | None = None
    """The time. None if it is not known."""

    held_by: tuple[str, ...] = ()
    """The reason why a due eviction is held."""


@dataclass(slots=True)
class Explanation:
    """The explanation of where a workload is."""

    workload: str
    """Its key, such as `Pod/shop/web-0`."""

    kind_of_target: str
    """`Node`, `Cluster` or `ManagedCluster`."""

    at: datetime
    """The time of the state that is explained."""

    owner: str = ""
    """The key of its owner. Empty if it is its own owner."""

    record: WorkloadPlaced | None = None
    """The recorded decision. None if there is none yet."""

    here: tuple[str, ...] = ()
    """The names of the targets on which that decision puts it."""

    agrees: bool = True
    """Whether the decision would be the same now."""

    differences: tuple[str, ...] = ()
    """Changes since the decision."""

    notes: tuple[str, ...] = ()
    considered: int = 0
    fitting: int = 0
    reasons: tuple[Reason, ...] = ()
    """The reasons why targets are ruled out."""

    targets: tuple[ExplainedTarget, ...] = ()
    left_out: int = 0
    """The number of targets that are not shown."""

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
    """The pods of a controller, each with the decision on it."""

    owner: str
    at: datetime
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The targets to show."""

    one: str = ""
    """The only target to show. Empty for the default choice."""

    every: bool = False

    def choose(self, verdicts: Verdicts, chosen: Iterable[str], resource: str) -> list[str]:
        """Return the names to show: one, all, or the chosen ones and the best of the others.

        Raises:
            NotFoundError: the requested one does not exist.
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
    """Return until when an eviction lets the workload stay. None if the eviction has ended."""
    where = f"{event.target.kind.value.lower()} {event.target.name}"
    match event.state:
        case EvictionState.SCHEDULED:
            return Until(f"has to leave {where}: {event.message or event.reason}", event.deadline)
        case EvictionState.HELD:
            # The message is that of the governor, or ends with the reason of a row of docs/eviction.md.
            message = event.message
            if event.held_by and not message.startswith("held by "):
                message = f"held by {', '.join(event.held_by)}: {message}".removesuffix(": ")
            return Until(f"was due to leave {where}, {message or 'waits for a grant'}", event.deadline, event.held_by)
        case EvictionState.REQUESTED:
            why = f"is being evicted from {where}: {event.message or event.reason}"
            if (said := event.escalation) is not None:
                why += f"; {said.source} reports {said.reason}{f': {said.message}' if said.message else ''}"
            elif event.deployer and event.acknowledged is None:
                why += f"; waits for {event.deployer} to acknowledge"
            return Until(why, event.deadline)
        case _:
            return None


def changed_counts(placed: WorkloadPlaced, verdicts: Verdicts) -> Iterator[str]:
    """Yield for each filter what it ruled out at the time of the decision and rules out now, if that differs."""
    then = {(one.filter, one.reason): one.count for one in placed.filters}
    now = {(one.filter, one.reason): one.count for one in verdicts.reasons}
    for by, why in sorted(then.keys() | now.keys()):
        if then.get((by, why), 0) != now.get((by, why), 0):
            yield f'{by} ruled out {then.get((by, why), 0)} then and {now.get((by, why), 0)} now: "{why}"'


def ruled_out(verdict: TargetVerdict) -> str:
    """Return which filters rule a target out, in one line."""
    return "; ".join(f"{one.filter}: {', '.join(one.reasons)}" for one in verdict.filters if not one.passed)


def details_of(verdict: TargetVerdict) -> str:
    """Return the details of the filters that rule a target out, in one line."""
    return "; ".join(detail for one in verdict.filters if not one.passed for detail in one.details)


def ordinal(rank: int) -> str:
    """Return `1st`, `2nd`, `3rd`, `11th` and so on."""
    ending = "th" if rank % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    return f"{rank}{ending}"
