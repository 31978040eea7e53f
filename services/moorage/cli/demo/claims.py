"""The claims of the demo, checked against the topics: what follows from a cause, up to the last placement."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import ceil
from statistics import median

from rich.text import Text

from moorage.cli.api.topics import Seen
from moorage.cli.demo import lines
from moorage.cli.render import colors
from moorage.decide.taints.eviction_verdict import EvictAt, EvictNow, Keep, Verdict, verdict
from moorage_schemas.condition import ConditionChanged
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.placement import PlacementState, WorkloadBound, WorkloadPlaced
from moorage_schemas.taint import TargetTainted
from moorage_schemas.timer import TimerFired
from moorage_schemas.topics import BINDINGS

SOON = timedelta(seconds=30)
"""The demo waits for deadlines within this time. It only checks that later ones are set."""

LATEST = timedelta(seconds=60)
"""How late an eviction may be on a busy machine. The claim names the seconds within which all of them came."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim, and whether it holds."""

    text: str
    holds: bool
    problem: str = ""


@dataclass(slots=True)
class Fate:
    """The expected and the observed course of one workload on a tainted node."""

    bound: WorkloadBound
    verdict: Verdict
    scheduled: datetime | None = None
    """The deadline that the eviction service has set."""

    requested: datetime | None = None
    ended: bool = False
    """Whether its binding has ended."""

    successor: WorkloadPlaced | None = None
    gone: bool = False
    """Whether it is a bare pod that has been evicted."""

    @property
    def bare(self) -> bool:
        """Whether it is a bare pod, for which there will be no replacement."""
        return self.bound.owner == self.bound.workload

    @property
    def due(self) -> datetime | None:
        """When it has to leave. None for never."""
        return self.verdict.deadline if isinstance(self.verdict, EvictAt) else None

    def complete(self, cause: datetime) -> bool:
        """Return whether everything has happened that should happen soon."""
        if isinstance(self.verdict, Keep):
            return True
        if self.due is not None and self.due - cause > SOON:
            return self.scheduled is not None
        return self.requested is not None and self.ended and (self.gone or self.successor is not None)


@dataclass(slots=True)
class Consequences:
    """The events that follow from one cause on one node."""

    node: str
    key: str
    """The key of the taint that the cause leads to."""

    title: str
    cause: datetime
    """When the probe observed it, or the person requested it."""

    correlation: str = ""
    """The correlation id. For a report it is known from the start; for a taint it is that of the first event."""

    condition: datetime | None = None
    taint: datetime | None = None
    needs_condition: bool = False
    fates: dict[str, Fate] = field(default_factory=dict)
    strangers: list[str] = field(default_factory=list)
    """The workloads with events that do not have this correlation id."""

    lateness: list[timedelta] = field(default_factory=list)
    early: list[Seen] = field(default_factory=list)
    """Events that were read before the taint, because partitions are read in any order."""

    left: dict[str, tuple[datetime, WorkloadBound]] = field(default_factory=dict)
    """Bindings whose end was read before the taint, each with the time of its end."""

    unnamed: list[Seen] = field(default_factory=list)
    """Events that were read before the probe had printed the id of its report."""

    def begin(self, correlation: str, cause: datetime, bindings: dict[str, WorkloadBound]) -> list[Seen]:
        """Set the id and the time of the probe's report, and return those of the events so far that follow from it."""
        self.correlation, self.cause = correlation, cause
        before, self.unnamed = self.unnamed, []
        return [seen for seen in before if self.take(seen, bindings)]

    @property
    def complete(self) -> bool:
        """Whether everything has happened."""
        return (
            self.taint is not None
            and (self.condition is not None or not self.needs_condition)
            and all(fate.complete(self.cause) for fate in self.fates.values())
        )

    def take(self, seen: Seen, bindings: dict[str, WorkloadBound]) -> bool:  # noqa: C901, PLR0911 - one case for each event
        """Apply an event, and return whether it follows from this cause."""
        event, when = seen.event, seen.meta.time if seen.meta else None
        when = when or seen.timestamp
        ours = seen.meta is not None and bool(self.correlation) and seen.meta.correlation == self.correlation
        if self.taint is None and _ends_binding(seen) and seen.key in bindings:
            self.left[seen.key] = (seen.timestamp, bindings[seen.key])
        if self.needs_condition and not self.correlation:
            self.unnamed.append(seen)
            return False
        if isinstance(event, ConditionChanged):
            if ours:
                self.condition = self.condition or when
            return ours
        if isinstance(event, TargetTainted):
            return self._tainted(seen, event, when, bindings)
        if self.taint is None:
            self.early.append(seen)
            return ours
        if isinstance(event, EvictionDecided):
            return self._eviction(event, ours=ours)
        if isinstance(event, WorkloadPlaced):
            return self._placed(event)
        if isinstance(event, TimerFired):
            if ours:
                self.lateness.append(event.fired_time - event.deadline)
            return ours
        if _ends_binding(seen) and (fate := self.fates.get(seen.key)) is not None:
            fate.ended = True
        return False

    def _tainted(self, seen: Seen, event: TargetTainted, when: datetime, bindings: dict[str, WorkloadBound]) -> bool:
        effects = {taint.effect for taint in event.taints if taint.key == self.key}
        if event.target.name != self.node or "NoExecute" not in effects:
            # While the NoExecute taint waits for a token of the zone, it is among the held taints.
            return event.target.name == self.node and any(one.key == self.key for one in event.held)
        if self.taint is None:
            self.taint = when
            self.correlation = self.correlation or (seen.meta.correlation if seen.meta else "")
            taints = [taint.as_taint() for taint in event.taints]
            left = {key: bound for key, (end, bound) in self.left.items() if end >= when}
            for key, bound in (left | bindings).items():
                if bound.target == event.target:
                    self.fates[key] = Fate(bound, verdict(taints, bound.tolerations))
            for before in self.early:
                self.take(before, bindings)
        return True

    def _eviction(self, event: EvictionDecided, *, ours: bool) -> bool:
        fate = self.fates.get(f"{event.workload}|{event.target}")
        if fate is None:
            return False
        if event.state is EvictionState.SCHEDULED:
            fate.scheduled = event.deadline
        elif event.state is EvictionState.REQUESTED:
            fate.requested = event.decided_time
        if not ours and event.state in {EvictionState.SCHEDULED, EvictionState.REQUESTED}:
            self.strangers.append(str(event.workload))
        return True

    def _placed(self, event: WorkloadPlaced) -> bool:
        for fate in self.fates.values():
            if (
                event.state is PlacementState.EVICTED
                and event.workload == fate.bound.workload
                and event.uid == fate.bound.uid
            ):
                fate.gone = True
                return True
            replaces = event.replaces == fate.bound.workload.key and event.owner == fate.bound.owner
            if event.state is PlacementState.PLACED and replaces and fate.requested is not None:
                fate.successor = event
                return True
        return False

    def claims(self) -> list[Claim]:
        """Return what should have happened, each with whether it has."""
        fates = list(self.fates.values())
        at_once = [fate for fate in fates if isinstance(fate.verdict, EvictNow)]
        soon = [fate for fate in fates if fate.due is not None and fate.due - self.cause <= SOON]
        later = [fate for fate in fates if fate.due is not None and fate.due - self.cause > SOON]
        stay = [fate for fate in fates if isinstance(fate.verdict, Keep)]
        left = at_once + soon
        taint = self.taint or datetime.max.replace(tzinfo=UTC)
        found = [Claim(f"{self.node} carries {self.key}", self.taint is not None, "there was no taint")]
        if self.needs_condition:
            came = self.condition is not None
            found.insert(0, Claim(f"the report made {self.node} not ready", came, "there was no condition"))
        groups: list[tuple[str, list[Fate], Callable[[Fate], bool]]] = [
            (
                f"evicted at once, within {_seconds(at_once, taint)} s",
                at_once,
                lambda fate: fate.requested is not None and fate.requested - taint <= LATEST,
            ),
            (
                f"kept until the deadline and evicted within {_seconds(soon, taint)} s of it, never before",
                soon,
                lambda fate: (
                    fate.requested is not None
                    and fate.due is not None
                    and fate.due <= fate.requested <= fate.due + LATEST
                ),
            ),
            (
                "waiting, with the correct deadline",
                later,
                lambda fate: fate.requested is None and fate.scheduled == fate.due,
            ),
            ("staying, because the taint is tolerated", stay, lambda fate: fate.requested is None),
            ("placed again on another node", [fate for fate in left if not fate.bare], self._moved),
            ("gone, because a bare pod is not replaced", [fate for fate in left if fate.bare], lambda fate: fate.gone),
        ]
        found += [_all(what, some, holds) for what, some, holds in groups if some]
        found.append(
            Claim("one correlation id from the cause to every eviction", not self.strangers, ", ".join(self.strangers))
        )
        return found

    def _moved(self, fate: Fate) -> bool:
        there = fate.successor.target if fate.successor is not None else None
        return there is not None and there.name != self.node


def _ends_binding(seen: Seen) -> bool:
    return seen.topic is BINDINGS and seen.event is None


def whole_story(chains: list[Consequences]) -> Claim:
    """Return the claim that the demo has shown every kind of outcome."""
    fates = [fate for chain in chains for fate in chain.fates.values()]
    kinds = {type(fate.verdict).__name__ for fate in fates}
    kinds |= {"bare" if fate.bare else "replaced" for fate in fates if fate.requested}
    if any(fate.due and fate.successor for chain in chains if chain.needs_condition for fate in chain.fates.values()):
        kinds.add("from a condition to a new placement")
    missing = {"EvictNow", "EvictAt", "Keep", "bare", "replaced", "from a condition to a new placement"} - kinds
    return Claim("every kind of outcome was shown", not missing, f"missing: {', '.join(sorted(missing))}")


def _all(what: str, fates: list[Fate], holds: Callable[[Fate], bool]) -> Claim:
    wrong = [fate.bound.workload.name for fate in fates if not holds(fate)]
    return Claim(f"{len(fates)} {what}", not wrong, "not true for " + ", ".join(wrong))


def _seconds(fates: list[Fate], taint: datetime) -> int:
    """Return within how many whole seconds of their deadlines, or of the taint, workloads were evicted."""
    late = [(fate.requested - (fate.due or taint)).total_seconds() for fate in fates if fate.requested is not None]
    return max(1, ceil(max(late, default=0)))


def spread(times: Iterable[timedelta]) -> str:
    """Return the median and the maximum of some durations, in milliseconds."""
    found = [time.total_seconds() * 1000 for time in times]
    return f"{median(found):.0f} ms, at most {max(found):.0f} ms" if found else "none"


class Show:
    """Writes lines as things happen, in colour on a terminal.

    With `verbose`, events have their whole text, and lines may be long.
    """

    def __init__(self, *, verbose: bool = False) -> None:
        self._verbose = verbose
        self._console = colors.console()
        self._began = time.monotonic()

    def title(self, text: str) -> None:
        """Write the title of a step."""
        self._console.print()
        self._console.print(Text(text, "bold"))

    def note(self, text: str) -> None:
        """Write a note."""
        self._console.print(Text(f"   {text}", "dim"))

    def command(self, text: str) -> None:
        """Write the command of a person or a program."""
        self._console.print(Text(f"   $ {text}", "bold cyan"))

    def event(self, seen: Seen, cause: datetime, about: str) -> None:
        """Write an event: its time, the time since its cause, what it is about, and what happened."""
        self._console.print(lines.line(seen, cause, about, verbose=self._verbose))

    def claim(self, claim: Claim) -> None:
        """Write a claim, and whether it holds."""
        line = Text("   ok    " if claim.holds else "   WRONG ", "green" if claim.holds else "bold red")
        line.append(claim.text if claim.holds else f"{claim.text}: {claim.problem}")
        self._console.print(line)

    @property
    def seconds(self) -> float:
        """The time since the start of the demo."""
        return time.monotonic() - self._began
