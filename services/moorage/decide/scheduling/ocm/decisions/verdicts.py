"""The results of all filters and prioritizers on all managed clusters for one placement, with details."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from typing_extensions import override

from moorage.decide.scheduling.framework.target_verdicts import FilterVerdict, Reason, TargetVerdict, Verdicts
from moorage.decide.scheduling.ocm.cluster_sets import ManagedSets, UsableSets
from moorage.decide.scheduling.ocm.columns.cluster_facts import ManagedClusterFacts
from moorage.decide.scheduling.ocm.columns.managed_fleet import ManagedFleet
from moorage.decide.scheduling.ocm.decisions.result import Scheduled
from moorage.decide.scheduling.ocm.judged_taints import judge_taints
from moorage.decide.taints.tolerations import JudgedTaint

CLUSTER_SETS: Final = "ManagedClusterSets"
"""Used in place of a filter name: a placement chooses from its sets."""

NOT_IN_SETS: Final = "the cluster is not in any set that the placement may choose from"
DELETED: Final = "the cluster is being deleted"


class ManagedVerdicts(Verdicts):
    """The results for each cluster of the present fleet, for one placement.

    Args:
        scheduled: the result of scheduling now.
        sets: the sets that the placement may choose from.
    """

    def __init__(self, scheduled: Scheduled, fleet: ManagedFleet, sets: UsableSets, existing: ManagedSets) -> None:
        self.scheduled = scheduled
        self.considered = scheduled.considered
        self.reasons = tuple(Reason(one.filter, one.reason, one.count) for one in scheduled.ruled_out())
        self._fleet, self._sets, self._existing = fleet, sets, existing
        self._chosen = frozenset(scheduled.decisions)
        self.ranked = ()
        if not scheduled.status.is_error:
            names = fleet.names_at(scheduled.rows)
            totals = dict(zip(names, scheduled.totals.tolist(), strict=True))
            self.ranked = tuple(sorted(names, key=lambda name: (-totals[name], name)))

    def __contains__(self, name: object) -> bool:
        """Return whether there is such a cluster."""
        return name in self._fleet

    @override
    def targets(self) -> Iterable[str]:
        return self._fleet.names

    def chosen(self, name: str) -> bool:
        """Return whether the placement would select the cluster now."""
        return name in self._chosen

    @override
    def verdict(self, name: str) -> TargetVerdict:
        found = self.scheduled.verdict(name)
        facts = self._fleet.at(self._fleet.row(name))
        candidate = self.scheduled.is_candidate(name)
        filters = (self._of_sets(facts, candidate=candidate), *found.filters)
        return TargetVerdict(name, filters, found.scores, found.rank)

    def taints(self, name: str) -> tuple[JudgedTaint, ...]:
        """Return each taint of a cluster with the toleration that counts for it."""
        return judge_taints(self.scheduled.request, self._fleet, name)

    def _of_sets(self, facts: ManagedClusterFacts, *, candidate: bool) -> FilterVerdict:
        details = (
            f"the placement may choose from {', '.join(self._sets.eligible) or 'no set'}",
            f"the cluster is in {', '.join(sorted(self._existing.of(facts.labels))) or 'no set'}",
        )
        reason = DELETED if facts.deleting else NOT_IN_SETS
        return FilterVerdict(CLUSTER_SETS, () if candidate else (reason,), details)
