"""Explains why an OCM placement has its managed clusters, by applying the rules to the present state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from moorage.decide.scheduling.framework.plugins import Basis
from moorage.decide.scheduling.ocm.decisions.verdicts import ManagedVerdicts
from moorage.decide.scheduling.ocm.plugin import Plugins
from moorage.decide.scheduling.ocm.terms import PlacementTerms
from moorage.insight.explain.chain import EventRecord, Trail
from moorage.insight.explain.explanation import (
    ExplainedTarget,
    Explanation,
    NotFoundError,
    Until,
    Wanted,
    changed_counts,
    ordinal,
    ruled_out,
)
from moorage.insight.explain.grounds import Grounds, decision_on, declared_as, partition_with
from moorage.insight.explain.pod_reasons import with_taints
from moorage.workers.placement.ocm.spec import DECISION_PREFIX, PLACEMENT, SelectionSpec
from moorage.workers.placement.state import PlacementPartition
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef

PLACEMENTS_RESOURCE: Final = "placements.cluster.open-cluster-management.io"
CLUSTERS_RESOURCE: Final = "managedclusters.cluster.open-cluster-management.io"

_SHOWN: Final = 10
"""The largest number of names or groups in one line."""


def explain_placement(grounds: Grounds, namespace: str, name: str, wanted: Wanted | None = None) -> Explanation:
    """Explain why an OCM placement has its clusters. Raises NotFoundError if there is no such placement or cluster."""
    ref = WorkloadRef(kind=PLACEMENT, namespace=namespace, name=name)
    found = decision_on(grounds, ref.key)
    if found is None and declared_as(grounds, ref.key) is None:
        raise NotFoundError(PLACEMENTS_RESOURCE, ref.name)
    parts = decisions_of(grounds, ref)
    events = [event for event, _ in parts] + ([found[0]] if found is not None else [])
    with partition_with(grounds, ref.key, events) as state:
        return _Placement(grounds, ref, parts, wanted or Wanted(), state).tell()


def decisions_of(grounds: Grounds, placement: WorkloadRef) -> list[tuple[WorkloadPlaced, EventRecord]]:
    """Return the PlacementDecisions of a placement with their records, by number."""
    found: list[tuple[WorkloadPlaced, EventRecord]] = []
    number = 1
    while True:
        key = f"{DECISION_PREFIX}{placement.namespace}/{placement.name}-decision-{number}"
        known = decision_on(grounds, key)
        if known is None:
            return found
        found.append(known)
        number += 1


class _Placement:
    """Explains one placement."""

    def __init__(
        self,
        grounds: Grounds,
        ref: WorkloadRef,
        parts: list[tuple[WorkloadPlaced, EventRecord]],
        wanted: Wanted,
        state: PlacementPartition,
    ) -> None:
        self.grounds, self.ref, self.wanted, self.now = grounds, ref, wanted, grounds.taken
        found = decision_on(grounds, ref.key)
        self.placed: WorkloadPlaced | None = found[0] if found is not None else None
        self.kept: EventRecord | None = found[1] if found is not None else None
        self.parts = parts
        self.here = {name for event, _ in parts for name in event.clusters}
        self.state, self.view = state, state.view.ocm

    def tell(self) -> Explanation:
        """Return the explanation."""
        told = Explanation(
            workload=self.ref.key,
            kind_of_target=TargetKind.MANAGED_CLUSTER.value,
            at=self.grounds.taken,
            record=self.placed,
            here=tuple(sorted(self.here)),
            considered=len(self.view.fleet),
        )
        spec = self.state.ocm.state.specs.get(self.ref.key)
        if spec is None:
            told.agrees = False
            told.notes = (f"{self.ref.key} is no longer declared, so its PlacementDecisions are about to end",)
        elif spec.terms is None:
            told.notes = (f"{self.ref.key} cannot be read, so it keeps its clusters",)
        else:
            self._judge(told, spec, spec.terms)
        told.chains = tuple(Trail(self.grounds.records).chains(self._behind()))
        return told

    def _judge(self, told: Explanation, spec: SelectionSpec, terms: PlacementTerms) -> None:
        view = self.view
        sets = view.members.usable(self.ref.namespace, terms.sets)
        scheduled = view.scheduler.schedule(
            terms, candidates=view.candidates(sets), decided=sorted(self.here), usage=view.usage, now=self.now
        )
        verdicts = ManagedVerdicts(scheduled, view.fleet, sets, view.members.sets)
        told.considered, told.fitting = verdicts.considered, len(verdicts.ranked)
        told.reasons = verdicts.reasons
        names = self.wanted.choose(verdicts, [*sorted(self.here), *scheduled.decisions], CLUSTERS_RESOURCE)
        told.targets = tuple(self._target(verdicts, name, terms) for name in names)
        told.left_out = len(view.fleet) - len(names)
        told.notes = tuple(self._notes(spec, verdicts))
        if not spec.paused:
            told.agrees = self.placed is None or set(scheduled.decisions) == self.here
            told.differences = tuple(self._differences(verdicts, terms))
        told.until = tuple(self._ends(verdicts, names, paused=spec.paused))

    def _target(self, verdicts: ManagedVerdicts, name: str, terms: PlacementTerms) -> ExplainedTarget:
        found, here = verdicts.verdict(name), name in self.here
        status = verdicts.scheduled.status
        if not found.passed:
            outcome = f"{'would be ' if here else ''}ruled out: {ruled_out(found)}"
        elif status.is_error:
            outcome = f"nothing is decided: {status.message}"
        elif verdicts.chosen(name):
            outcome = f"{'selected' if here else 'would be selected'}; {ordinal(found.rank or 0)} best"
        else:
            passes = "would no longer be selected" if here else "passes"
            asked = "1 is asked for" if terms.number == 1 else f"{terms.number} are asked for"
            outcome = f"{passes}; {ordinal(found.rank or 0)} best, and {asked}"
        return ExplainedTarget(name, here, found, verdicts.taints(name), outcome)

    def _notes(self, spec: SelectionSpec, verdicts: ManagedVerdicts) -> Iterator[str]:
        if spec.paused:
            yield "no decision is made while it is disabled by its annotation, or is being deleted"
        if self.placed is None:
            yield "no decision is written yet"
        status = verdicts.scheduled.status
        if status.message:
            yield f"{status.code.value}: {f'{status.plugin}: ' if status.plugin else ''}{status.message}"
        if verdicts.scheduled.unscheduled:
            yield f"{verdicts.scheduled.unscheduled} clusters fewer than requested are selected"
        groups = self.placed.decision_groups if self.placed is not None else ()
        for group in groups[:_SHOWN] if len(groups) > 1 else ():
            name = f" {group.name}" if group.name else ""
            yield f"decision group {group.index}{name}: {group.clusters} clusters in {', '.join(group.decisions)}"

    def _differences(self, verdicts: ManagedVerdicts, terms: PlacementTerms) -> Iterator[str]:
        """Yield what has changed since the recorded decision."""
        placed = self.placed
        if placed is None:
            return
        if placed.targets_considered != verdicts.considered:
            yield f"{placed.targets_considered} clusters were in its sets then, {verdicts.considered} are now"
        yield from changed_counts(placed, verdicts)
        chosen = set(verdicts.scheduled.decisions)
        for more, names in (("would be selected now", chosen - self.here), ("no longer", self.here - chosen)):
            if names:
                some = sorted(names)
                rest = f" and {len(some) - _SHOWN} more" if len(some) > _SHOWN else ""
                yield f"{more}: {', '.join(some[:_SHOWN])}{rest}"
        rated = [one.prioritizer for one in Plugins.discovered().chosen(terms)] if chosen != self.here else []
        for by in (one.name for one in rated if Basis.USAGE in one.rests_on):
            yield f"{by} depends on the decisions of other placements; those alone do not lead to a new decision"

    def _ends(self, verdicts: ManagedVerdicts, shown: list[str], *, paused: bool) -> Iterator[Until]:
        placed = self.placed
        for name in shown:
            if name in self.here and (end := verdicts.scheduled.until(name)) is not None:
                yield Until(f"has cluster {name} as long as its taints are tolerated", end)
        if placed is not None and placed.decide_again is not None:
            yield Until("is decided again when a toleration or a score ends", placed.decide_again)
        elif not paused:
            yield Until("is decided again when a change of a cluster, a set, a score or its spec concerns it")

    def _behind(self) -> Iterator[tuple[str, EventRecord]]:
        """Yield the records whose chains are shown."""
        if self.kept is not None:
            yield "the decision", self.kept
        if not self.wanted.one:
            return
        for event, kept in self.parts:
            if self.wanted.one in event.clusters:
                yield f"{event.workload.name}, which has cluster {self.wanted.one}", kept
        target = TargetRef(kind=TargetKind.MANAGED_CLUSTER, name=self.wanted.one)
        tainted = with_taints(self.grounds, target.key)
        if tainted is not None:
            yield f"the taints of cluster {self.wanted.one}", tainted
