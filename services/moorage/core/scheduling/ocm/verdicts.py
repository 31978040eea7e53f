"""Every filter's and prioritizer's word on every managed cluster for one placement, and what it saw there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Final

from moorage.core.scheduling.framework.verdicts import FilterVerdict, PartScore, Reason, TargetVerdict
from moorage.core.scheduling.ocm.cluster_sets import ManagedSets, UsableSets
from moorage.core.scheduling.ocm.facts import ClusterFacts
from moorage.core.scheduling.ocm.fleet import ManagedFleet
from moorage.core.scheduling.ocm.result import Scheduled
from moorage.core.scheduling.ocm.selector import LabelTerms
from moorage.core.scheduling.ocm.terms import PREDICATE, TAINT_TOLERATION, PlacementTerms, SelectorTerms
from moorage.core.taints.dialects.ocm import NO_SELECT, NO_SELECT_IF_NEW, OCM
from moorage.core.taints.matching import tolerates
from moorage.core.taints.tolerations import JudgedTaint, near_misses, toleration_text
from moorage_schemas.taint import Taint, Toleration
from moorage_schemas.times import format_time

CLUSTER_SETS: Final = "ManagedClusterSets"
"""Stands for a filter: a placement chooses from its sets."""

NOT_IN_SETS: Final = "the cluster is in no set that the placement may choose from"
DELETED: Final = "the cluster is about to be deleted"


@dataclass(frozen=True, slots=True)
class Asking:
    """The placement that is explained.

    Attributes:
        terms: what it asks for.
        sets: the sets that it may choose from.
        existing: all sets that there are.
        decided: the clusters that it has.
        now: the instant of the decision.
    """

    terms: PlacementTerms
    sets: UsableSets
    existing: ManagedSets
    decided: frozenset[str]
    now: datetime


class ManagedVerdicts:
    """What becomes of each cluster of a fleet, as it is now, for one placement; holds until the fleet changes.

    Args:
        scheduled: what comes of deciding now.
        fleet: the clusters.
        asking: the placement.
    """

    def __init__(self, scheduled: Scheduled, fleet: ManagedFleet, asking: Asking) -> None:
        self.scheduled = scheduled
        self.considered = scheduled.considered
        self.reasons = tuple(Reason(one.filter, one.reason, one.count) for one in scheduled.ruled_out())
        """Why clusters are ruled out, each counted once, by the first filter against it."""

        self._fleet, self._asking = fleet, asking
        self._chosen = frozenset(scheduled.decisions)

    @cached_property
    def ranked(self) -> tuple[str, ...]:
        """The clusters that pass every filter, best first; none when the placement is misconfigured."""
        if self.scheduled.status.is_error:
            return ()
        names = self._fleet.names_at(self.scheduled.rows)
        totals = dict(zip(names, self.scheduled.totals.tolist(), strict=True))
        return tuple(sorted(names, key=lambda name: (-totals[name], name)))

    def __contains__(self, name: object) -> bool:
        """Whether there is such a cluster."""
        return name in self._fleet

    def names(self) -> Iterator[str]:
        """Every cluster: those that pass, best first, then the others by name."""
        yield from self.ranked
        passed = set(self.ranked)
        yield from (name for name in sorted(self._fleet.names) if name not in passed)

    def chosen(self, name: str) -> bool:
        """Whether the placement would have the cluster now."""
        return name in self._chosen

    def verdict(self, name: str) -> TargetVerdict:
        """All that is said of one cluster.

        Raises:
            LookupError: there is no such cluster.
        """
        found = self.scheduled.verdict(name)
        facts = self._fleet.at(self._fleet.row(name))
        filters = [self._of_sets(facts, candidate=found.candidate)]
        for by, passed, reason in found.filters:
            filters.append(FilterVerdict(by, () if passed else (reason,), tuple(self._details(by, facts))))
        scores = tuple(PartScore(by, score, weight) for by, score, weight in found.scores)
        return TargetVerdict(name, tuple(filters), scores, found.rank)

    def until(self, name: str) -> datetime | None:
        """Until before when a cluster's taints are tolerated; None when no time ends that, or it does not pass."""
        return self.scheduled.verdict(name).until

    def taints(self, name: str) -> tuple[JudgedTaint, ...]:
        """Each taint of a cluster with what tolerates it."""
        facts = self._fleet.at(self._fleet.row(name))
        return tuple(self._judge(taint, decided=name in self._asking.decided) for taint in facts.taints)

    def _of_sets(self, facts: ClusterFacts, *, candidate: bool) -> FilterVerdict:
        sets = self._asking.sets
        details = (
            f"the placement may choose from {', '.join(sets.eligible) or 'no set'}",
            f"the cluster is in {', '.join(sorted(self._asking.existing.of(facts.labels))) or 'no set'}",
        )
        reason = DELETED if facts.deleting else NOT_IN_SETS
        return FilterVerdict(CLUSTER_SETS, () if candidate else (reason,), details)

    def _details(self, by: str, facts: ClusterFacts) -> Iterable[str]:
        if by == PREDICATE:
            return _predicates(self._asking.terms, facts)
        if by == TAINT_TOLERATION:
            return [str(one) for one in self.taints(facts.name) if one.keeps_away]
        return ()

    def _judge(self, taint: Taint, *, decided: bool) -> JudgedTaint:
        """The first toleration that matches and whose time is not over counts."""
        keeps_away = taint.effect in OCM.filtering and not (decided and taint.effect == NO_SELECT_IF_NEW)
        over: list[str] = []
        for one in self._asking.terms.tolerations:
            if not tolerates(one, taint):
                continue
            end = _end(taint, one)
            if end is None or end > self._asking.now:
                return JudgedTaint(taint, keeps_away, taint.effect == NO_SELECT, one, end)
            over.append(f"{{{toleration_text(one)}}} was over at {format_time(end)}")
        near = (*over, *near_misses(taint, self._asking.terms.tolerations))
        return JudgedTaint(taint, keeps_away, taint.effect == NO_SELECT, None, None, near)


def _end(taint: Taint, toleration: Toleration) -> datetime | None:
    """When a tolerated time is over; None for never. A taint without `timeAdded` was added long ago."""
    if toleration.toleration_seconds is None or taint.effect == NO_SELECT_IF_NEW:
        return None
    if taint.time_added is None:
        return datetime.min.replace(tzinfo=UTC)
    try:
        return taint.time_added + timedelta(seconds=toleration.toleration_seconds)
    except OverflowError:
        return None if toleration.toleration_seconds > 0 else datetime.min.replace(tzinfo=UTC)


def _predicates(terms: PlacementTerms, facts: ClusterFacts) -> Iterator[str]:
    """The predicate that holds, or what of each fails."""
    failing = [list(_failing(one, facts)) for one in terms.predicates]
    holds = next((number for number, wrong in enumerate(failing) if not wrong), None)
    if holds is not None:
        yield f"predicates[{holds}] matches"
        return
    for number, wrong in enumerate(failing):
        yield f"predicates[{number}] fails: {', '.join(wrong)}"


def _failing(terms: SelectorTerms, facts: ClusterFacts) -> Iterator[str]:
    yield from _unmet(terms.labels, facts.labels, "label")
    yield from _unmet(terms.claims, facts.claims, "claim")
    yield from (f"CEL {one.text}" for one in terms.expressions if not one.holds(facts.document))


def _unmet(terms: LabelTerms, present: Mapping[str, str], kind: str) -> Iterator[str]:
    for requirement in terms.requirements:
        if not LabelTerms((requirement,)).hold(present):
            key, operator, values = requirement
            asked = f" [{', '.join(sorted(values))}]" if values else ""
            has = f"it is {present[key]!r}" if key in present else f"the {kind} is not there"
            yield f"{kind} {key} {operator}{asked} ({has})"
