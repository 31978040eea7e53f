"""Explains why a pod is on its node, or on none, by applying the rules to the present state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moorage.decide.scheduling.framework.target_verdicts import TargetVerdict
from moorage.decide.scheduling.nodes.pod_shape import PodShape
from moorage.decide.scheduling.nodes.verdicts import NodeVerdicts
from moorage.decide.scheduling.nodes.workloads import daemon_index
from moorage.decide.taints.dialects.kubernetes import KUBERNETES
from moorage.decide.taints.eviction_verdict import EvictAt, EvictNow, verdict
from moorage.decide.taints.tolerations import judge_taints
from moorage.insight.explain.chain import EventRecord, Trail
from moorage.insight.explain.explanation import (
    ExplainedTarget,
    Explanation,
    NotFoundError,
    Until,
    Wanted,
    changed_counts,
    details_of,
    eviction_ends,
    ordinal,
    ruled_out,
)
from moorage.insight.explain.grounds import Grounds, decision_on, declared_as, evictions_of, partition_with
from moorage.workers.placement.engine.outbox import Outbox
from moorage.workers.placement.engine.pod_source import PodSource
from moorage.workers.placement.engine.work_queue import Work
from moorage.workers.placement.pods.binder import NODE_NAME_SET, Binder, Slot, node_ref
from moorage.workers.placement.state import PlacementPartition
from moorage_schemas.envelope import Meta
from moorage_schemas.keys import binding_key
from moorage_schemas.placement import PlacementState, WorkloadPlaced
from moorage_schemas.refs import TargetRef, WorkloadRef
from moorage_schemas.resources.workload_kinds import POD
from moorage_schemas.taint import TaintEffect
from moorage_schemas.times import format_time
from moorage_schemas.topics import TAINTS


def explain_pod(
    grounds: Grounds, namespace: str, name: str, wanted: Wanted | None = None, *, cluster: str = ""
) -> Explanation:
    """Explain why a pod is where it is.

    Args:
        grounds: the present state.
        namespace: the namespace of the pod.
        name: the name of the pod.
        wanted: the nodes to show.
        cluster: the cluster that it is in; empty for the home fleet.

    Raises:
        NotFoundError: there is no such pod or node.
    """
    ref = WorkloadRef(kind=POD, namespace=namespace, name=name, cluster=cluster)
    found = decision_on(grounds, ref.key)
    placed = found[0] if found is not None else None
    owner = placed.owner.key if placed is not None else ref.key
    if placed is None and declared_as(grounds, owner) is None:
        raise NotFoundError("pods", ref.name)
    with partition_with(grounds, owner, [placed] if placed is not None else []) as state:
        return _Pod(grounds, ref, found, wanted or Wanted(), state).tell()


class _Pod:
    """Explains one pod."""

    def __init__(
        self,
        grounds: Grounds,
        ref: WorkloadRef,
        found: tuple[WorkloadPlaced, EventRecord] | None,
        wanted: Wanted,
        state: PlacementPartition,
    ) -> None:
        self.grounds, self.key, self.wanted, self.now = grounds, ref.key, wanted, grounds.taken
        self.placed: WorkloadPlaced | None = found[0] if found is not None else None
        self.kept: EventRecord | None = found[1] if found is not None else None
        self.state, self.view = state, state.view.pods_of(ref.cluster)
        self.pods = state.pods_in(ref.cluster)
        self.owner_key = self.placed.owner.key if self.placed is not None else ref.key
        self.node = self.placed.target.name if self.placed is not None and self.placed.target is not None else ""

    def tell(self) -> Explanation:
        """Return the explanation."""
        told = Explanation(
            workload=self.key,
            kind_of_target="Node",
            at=self.grounds.taken,
            owner=self.owner_key if self.owner_key != self.key else "",
            record=self.placed,
            here=(self.node,) if self.node else (),
            considered=len(self.view.fleet),
        )
        owner = self.pods.state.owners.get(self.owner_key)
        trouble = self._trouble(owner)
        if trouble or owner is None:
            told.agrees = trouble is None
            told.notes = (trouble,) if trouble else ()
        else:
            self._judge(told, owner)
        told.until = (*told.until, *self._ends(owner))
        told.chains = tuple(Trail(self.grounds.records).chains(self._behind()))
        return told

    def _node_ref(self, name: str) -> TargetRef:
        """Return the reference of a node of the pod's cluster."""
        return node_ref(name, self.view.cluster)

    def _trouble(self, owner: PodSource | None) -> str | None:
        """Return why the rules cannot be applied to this pod now."""
        if owner is None:
            return f"{self.owner_key} is no longer declared, so its pods are about to end"
        if owner.error:
            return f"{self.owner_key} cannot be read: {owner.error}"
        if self.state.karmada.state.claims(self.owner_key):
            return f"a policy places {self.owner_key} on clusters, so it makes no pods on nodes"
        if self.placed is not None and self.placed.owner_uid != owner.uid:
            return f"{self.owner_key} was deleted and made again since this was decided"
        return None

    def _judge(self, told: Explanation, owner: PodSource) -> None:
        shape = owner.shape(self.view.rules, self.view.rules_version)
        if self.node:
            # The pod's own reservation, and its own part in the spread of replicas, do not count against it.
            self.view.set_aside(self.pods, binding_key(self.key, self._node_ref(self.node)))
        binder = Binder(self.pods, self.pods.state, Outbox(lambda *_given: None, self.now))
        binder.begin(Work(self.owner_key, Meta(id="explain", source="explain", type="explain", time=self.now)))
        only = self._only(owner)
        verdicts = NodeVerdicts(self.view.scheduler, binder.request(owner, shape, self._slot(owner)), only=only)
        told.considered, told.fitting = verdicts.considered, len(verdicts.ranked)
        told.reasons = verdicts.reasons
        names = self.wanted.choose(verdicts, [self.node] if self.node else [], "nodes")
        told.targets = tuple(self._target(name, verdicts.verdict(name), shape, owner) for name in names)
        told.left_out = len(self.view.fleet) - len(names)
        told.notes = tuple(self._notes(owner, only))
        told.differences = tuple(self._differences(verdicts, owner))
        told.agrees = self._agrees(verdicts, owner)

    def _slot(self, owner: PodSource) -> Slot:
        """Return the pod as it is placed."""
        placed = self.placed
        if placed is None:
            return Slot(workload=WorkloadRef.parse(self.key), uid=owner.uid)
        return Slot(placed.workload, placed.uid, placed.index, placed.template_hash)

    def _only(self, owner: PodSource) -> str | None:
        """Return the only node that a pod of a DaemonSet may be on."""
        if owner.controller is None or not owner.controller.daemon or self.placed is None:
            return None
        index = self.placed.index
        return next((name for name in self.view.fleet.names() if daemon_index(name) == index), self.node)

    def _target(self, name: str, found: TargetVerdict, shape: PodShape, owner: PodSource) -> ExplainedTarget:
        facts = self.view.fleet.facts(name)
        judged = judge_taints(facts.taints if facts is not None else (), shape.tolerations, KUBERNETES)
        here = name == self.node
        if owner.runs_on(name) and not found.passed:
            outcome = f"bound there in its cluster; the filters would rule it out: {ruled_out(found)}"
        elif owner.node_name == name:
            outcome = "spec.nodeName names it, so no filter applies"
        elif not found.passed:
            outcome = f"{'would be ' if here else ''}ruled out: {ruled_out(found)}"
        elif here:
            best = "still the best" if found.rank == 1 else f"{ordinal(found.rank or 0)} best now, and it stays"
            outcome = f"here; {best}"
        else:
            outcome = f"{ordinal(found.rank or 0)} best" if self.node or found.rank != 1 else "best: it would go here"
        return ExplainedTarget(name, here, found, judged, outcome)

    def _notes(self, owner: PodSource, only: str | None) -> Iterator[str]:
        if only is not None:
            yield f"a DaemonSet's pod belongs on one node: {only}"
        if owner.node_name:
            yield f"spec.nodeName names {owner.node_name}, so no filter was applied"
        placed, controller = self.placed, owner.controller
        if placed is None:
            yield "no decision is written yet"
        elif controller is not None and controller.rolls and placed.template_hash != controller.template_hash:
            yield "the template has changed since then; the nodes are shown for the present one"
        if placed is not None and placed.replaces:
            yield f"it replaces {placed.replaces}"
        if placed is not None and placed.state is PlacementState.EVICTED:
            yield "it was evicted, and a bare pod is not replaced; the nodes are shown as if it were"

    def _agrees(self, verdicts: NodeVerdicts, owner: PodSource) -> bool:
        placed = self.placed
        if placed is None or placed.state is PlacementState.EVICTED:
            return True
        if placed.reason == NODE_NAME_SET or owner.node_name:
            return placed.target is not None and placed.target.name == owner.node_name
        return (verdicts.ranked[0] if verdicts.ranked else "") == self.node

    def _differences(self, verdicts: NodeVerdicts, owner: PodSource) -> Iterator[str]:
        """Yield what has changed since the recorded decision."""
        placed = self.placed
        if placed is None or placed.reason == NODE_NAME_SET or owner.node_name:
            return
        if placed.targets_considered != verdicts.considered:
            yield f"{placed.targets_considered} nodes were considered then, {verdicts.considered} are there now"
        yield from changed_counts(placed, verdicts)
        if not self.node or self.node not in verdicts:
            if self.node:
                yield f"node {self.node} no longer exists"
            elif verdicts.ranked and placed.state is PlacementState.PENDING:
                yield f"node {verdicts.ranked[0]} fits now"
            return
        yield from self._scored_otherwise(verdicts, placed)

    def _scored_otherwise(self, verdicts: NodeVerdicts, placed: WorkloadPlaced) -> Iterator[str]:
        mine = verdicts.verdict(self.node)
        if not mine.passed:
            why = f"{ruled_out(mine)} ({details_of(mine)})"
            yield f"node {self.node} would be ruled out now, but filters do not move pods that are placed: {why}"
            return
        scored = next((one for one in placed.scores if one.target == self.node), None)
        if scored is not None and scored.total != mine.total:
            parts = {one.prioritizer: one.points for one in mine.scores}
            other = [
                f"{by} {scored.scores.get(by, 0)} → {parts.get(by, 0)}"
                for by in sorted(scored.scores.keys() | parts.keys())
                if scored.scores.get(by, 0) != parts.get(by, 0)
            ]
            yield f"node {self.node} had a total of {scored.total} then and has {mine.total} now: {', '.join(other)}"
        best = verdicts.ranked[0]
        if best != self.node:
            total = verdicts.verdict(best).total
            yield (
                f"node {best} would be chosen now (total {total}, {self.node} {mine.total}); "
                "pods that are placed are not moved for that"
            )

    def _ends(self, owner: PodSource | None) -> Iterator[Until]:
        placed = self.placed
        if placed is None or placed.state is PlacementState.PENDING:
            if owner is not None:
                yield Until(
                    "is decided again when a node is added or changes, a taint is removed, or a pod frees resources"
                )
            return
        if not self.node:
            return
        target = self._node_ref(self.node).key
        found = evictions_of(self.grounds, self.key, {target: placed.binding_generation})
        ends = [end for event, _ in found if (end := eviction_ends(event)) is not None]
        yield from ends
        tainted = self.view.nodes.targets.tainted(self.node)
        for held in tainted.held if tainted is not None else ():
            wait = f"since {format_time(held.since)} and waits: {held.reason}"
            yield Until(f"taint {held.key}:{held.effect} is wanted on node {self.node} {wait}")
        evicts = tainted is not None and any(held.effect == TaintEffect.NO_EXECUTE for held in tainted.held)
        if owner is not None and not owner.error:
            yield from self._by_taints(owner, evicted=bool(ends), evicts=evicts)

    def _by_taints(self, owner: PodSource, *, evicted: bool, evicts: bool) -> Iterator[Until]:
        """Yield until when the present taints let the pod stay.

        Args:
            owner: the pod's owner.
            evicted: whether there is an eviction, which has been yielded already.
            evicts: whether a NoExecute taint is held.
        """
        facts = self.view.fleet.facts(self.node)
        if facts is None:
            return
        tolerations = owner.shape(self.view.rules, self.view.rules_version).tolerations
        said = verdict(facts.taints, tolerations, seen_at=self.now)
        if isinstance(said, EvictAt):
            if not evicted:
                yield Until(f"has to leave node {self.node}: {said.reason}", said.deadline)
        elif isinstance(said, EvictNow):
            if not evicted:
                yield Until(f"has to leave node {self.node} at once: {said.reason}", self.now)
        elif evicts:
            yield Until(f"stays on node {self.node} at least until that taint is added: {said.reason} now")
        else:
            yield Until(f"stays on node {self.node} until something changes: {said.reason}")

    def _behind(self) -> Iterator[tuple[str, EventRecord]]:
        """Yield the records whose chains are shown."""
        if self.kept is not None:
            yield "the decision", self.kept
        if self.node and self.placed is not None:
            generations = {self._node_ref(self.node).key: self.placed.binding_generation}
            for event, kept in evictions_of(self.grounds, self.key, generations):
                yield f"the eviction from node {event.target.name}", kept
        for name in dict.fromkeys(one for one in (self.wanted.one, self.node) if one):
            tainted = with_taints(self.grounds, self._node_ref(name).key)
            if tainted is not None:
                yield f"the taints of node {name}", tainted


def with_taints(grounds: Grounds, target: str) -> EventRecord | None:
    """Return the record of a target's taints, if it has any."""
    kept = grounds.last(TAINTS, target)
    event: Any = kept.event if kept is not None else None
    return kept if event is not None and event.taints else None
