"""Explains why a claimed resource is on its clusters, or on none, by applying the rules to the present state."""

from __future__ import annotations

from collections.abc import Iterator

from moorage.decide.scheduling.framework.target_verdicts import TargetVerdict
from moorage.decide.scheduling.karmada.plugin import ClusterRequest
from moorage.decide.scheduling.karmada.policy_match import Policy
from moorage.decide.scheduling.karmada.scheduler import is_steady
from moorage.decide.scheduling.karmada.verdicts import ClusterVerdicts
from moorage.decide.taints.dialects.karmada import KARMADA
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
    eviction_ends,
    ordinal,
    ruled_out,
)
from moorage.insight.explain.grounds import Grounds, decision_on, evictions_of, partition_with
from moorage.insight.explain.pod_reasons import with_taints
from moorage.workers.placement.engine.outbox import Outbox
from moorage.workers.placement.engine.work_queue import Work
from moorage.workers.placement.karmada.binding_state import UNSCHEDULABLE
from moorage.workers.placement.karmada.binding_writer import BindingWriter, cluster_ref
from moorage.workers.placement.karmada.departure import decide
from moorage.workers.placement.karmada.reconcile import draft_of, request_of
from moorage.workers.placement.karmada.resource import ClaimedResource
from moorage.workers.placement.state import PlacementPartition
from moorage_schemas.envelope import Meta
from moorage_schemas.keys import ResourceKey
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.resources.workload_kinds import RESOURCE_BINDING


def binding_of(grounds: Grounds, owner: str) -> str | None:
    """Return the key of the ResourceBinding of a resource. None if there is no decision on the resource."""
    mine = (key for key in grounds.decisions_for(owner) if key.startswith(f"{RESOURCE_BINDING}/"))
    return min(mine, default=None)


def explain_binding(grounds: Grounds, key: str, wanted: Wanted | None = None) -> Explanation:
    """Explain why a claimed resource is where it is. Raises NotFoundError if there is no such binding or cluster."""
    found = decision_on(grounds, key)
    if found is None:
        kind, _, name, _ = ResourceKey.parse(key)
        raise NotFoundError(f"{kind.lower()}s.work.karmada.io", name)
    placed, _ = found
    with partition_with(grounds, placed.owner.key, [placed]) as state:
        return _Binding(grounds, found, wanted or Wanted(), state).tell()


class _Binding:
    """Explains one binding to clusters."""

    def __init__(
        self,
        grounds: Grounds,
        found: tuple[WorkloadPlaced, EventRecord],
        wanted: Wanted,
        state: PlacementPartition,
    ) -> None:
        self.grounds, self.wanted, self.now = grounds, wanted, grounds.taken
        self.placed, self.kept = found
        self.owner = self.placed.owner.key
        self.state, self.view = state, state.view.karmada
        bindings = state.karmada
        self.rules = bindings.rules
        self.writer = BindingWriter(bindings, bindings.state, self.rules, Outbox(lambda *_given: None, self.now))
        cause = Meta(id="explain", source="explain", type="explain", time=self.now)
        self.writer.begin(Work(self.owner, cause))
        self.here = {one.target.name: one for one in self.placed.targets}

    def tell(self) -> Explanation:
        """Return the explanation."""
        told = Explanation(
            workload=self.placed.workload.key,
            kind_of_target="Cluster",
            at=self.grounds.taken,
            owner=self.owner,
            record=self.placed,
            here=tuple(sorted(self.here)),
            considered=len(self.view.fleet),
        )
        clusters = self.state.karmada.state
        resource, policy = clusters.resources.get(self.owner), clusters.policy_for(self.owner)
        if resource is None:
            told.agrees, told.notes = (
                False,
                (f"{self.owner} is no longer declared, so its bindings are about to end",),
            )
        elif policy is None:
            told.agrees, told.notes = (
                False,
                (f"no policy selects {self.owner} now, so its bindings are about to end",),
            )
        else:
            self._judge(told, resource, policy)
            told.until = tuple(self._ends(policy))
        told.chains = tuple(Trail(self.grounds.records).chains(self._behind()))
        return told

    def _judge(self, told: Explanation, resource: ClaimedResource, policy: Policy) -> None:
        draft = draft_of(
            self.writer,
            resource,
            policy,
            self.state.karmada.state.last.get(self.owner),
            self.state.demand(self.owner),
        )
        if draft.demand.error:
            told.notes = (f"{self.owner} cannot be read: {draft.demand.error}",)
            return
        request = request_of(draft, self.now if self.rules.evicts else None)
        verdicts = ClusterVerdicts(self.view.scheduler, request)
        told.considered, told.fitting = verdicts.considered, len(verdicts.ranked)
        told.reasons = verdicts.reasons
        # A cluster that the resource is leaving is only chosen again as a last resort.
        now = dict(decide(self.view.scheduler, request).targets or {})
        stays = self._stays(request)
        if stays:
            now = {name: one.replicas for name, one in self.here.items()}
        names = self.wanted.choose(verdicts, [*self.here, *now], "clusters.cluster.karmada.io")
        told.targets = tuple(self._target(verdicts, name, request, now) for name in names)
        told.left_out = len(self.view.fleet) - len(names)
        told.notes = tuple(self._notes(policy, verdicts, stays=stays))
        told.differences = tuple(self._differences(verdicts, policy, now))
        told.agrees = now == {name: one.replicas for name, one in self.here.items()}

    def _stays(self, request: ClusterRequest) -> bool:
        """Return whether the assignment is complete and stays as it is when only the fleet changes."""
        whole = sum(request.existing.values()) == request.replicas
        settled = self.placed.reason != UNSCHEDULABLE and self.placed.template_hash == request.key
        return is_steady(request) and whole and settled and all(name in self.view.fleet for name in self.here)

    def _target(
        self, verdicts: ClusterVerdicts, name: str, request: ClusterRequest, now: dict[str, int]
    ) -> ExplainedTarget:
        found = verdicts.verdict(name)
        judged = judge_taints(self.view.fleet[name].taints, request.tolerations, KARMADA, seen_at=self.now)
        return ExplainedTarget(
            name, name in self.here, found, judged, self._outcome(verdicts, found, now), now.get(name)
        )

    def _outcome(self, verdicts: ClusterVerdicts, found: TargetVerdict, now: dict[str, int]) -> str:
        name, here = found.target, found.target in self.here
        share = verdicts.share(name)
        if share is None:
            return f"{'would be ' if here else ''}ruled out: {ruled_out(found)}"
        place = f"{ordinal(found.rank or 0)} best, room for {share.room} more"
        if name in now:
            part = f" with {now[name]} replicas" if now[name] else ""
            return f"{'here' if here else 'would go here'}{part}; {place}"
        if verdicts.decision.targets is None:
            return f"passes; {place}, but not all replicas can be placed: {verdicts.decision.message}"
        why = "it gets no replica" if share.chosen else "the spread constraints take others"
        return f"{'leaves' if here else 'passes'}; {place}, and {why}"

    def _notes(self, policy: Policy, verdicts: ClusterVerdicts, *, stays: bool) -> Iterator[str]:
        yield f"{policy.key.replace('//', '/')} places it"
        if verdicts.decision.affinity_name:
            yield f"the clusters are shown for the group {verdicts.decision.affinity_name!r} of clusterAffinities"
        if stays:
            yield "all its replicas are assigned, and stay where they are until they are changed or have to leave"
        if not self.rules.evicts:
            yield (
                "taints do not evict from clusters: that needs the feature gate Failover and "
                "enable-no-execute-taint-eviction (as they are set here)"
            )

    def _differences(self, verdicts: ClusterVerdicts, policy: Policy, now: dict[str, int]) -> Iterator[str]:
        placed = self.placed
        if placed.policy and placed.policy != policy.key:
            yield f"{placed.policy} placed it then, {policy.key} does now"
        elif placed.template_hash != policy.placement_key:
            yield f"the placement of {policy.key} has changed"
        if placed.targets_considered != verdicts.considered:
            yield f"{placed.targets_considered} clusters were considered then, {verdicts.considered} are there now"
        yield from changed_counts(placed, verdicts)
        for name in sorted(self.here.keys() | now.keys()):
            before = self.here[name].replicas if name in self.here else None
            if before != now.get(name):
                yield f"cluster {name}: {_part(before)} on record, {_part(now.get(name))} if decided now"

    def _ends(self, policy: Policy) -> Iterator[Until]:
        placed = self.placed
        generations = _generations(placed)
        for leaving in placed.leaving:
            yield Until(
                f"leaves cluster {leaving.target.name} ({leaving.reason}, {leaving.purge_mode}) "
                "when its replacement is healthy, or at the end of its grace period",
                leaving.until,
            )
        ended = set()
        for event, _ in evictions_of(self.grounds, placed.workload.key, generations):
            end = eviction_ends(event)
            if end is not None:
                ended.add(event.target.name)
                yield end
        tolerations = tuple(policy.spec.placement.cluster_tolerations or ())
        for name in sorted(self.here):
            if name not in self.view.fleet or name in ended or not self.rules.evicts:
                continue
            said = verdict(self.view.fleet[name].taints, tolerations, seen_at=self.now, dialect=KARMADA)
            where = cluster_ref(name).name
            if isinstance(said, EvictAt):
                yield Until(f"has to leave cluster {where}: {said.reason}", said.deadline)
            elif isinstance(said, EvictNow):
                yield Until(f"has to leave cluster {where} at once: {said.reason}", self.now)
            else:
                yield Until(f"stays on cluster {where} until something changes: {said.reason}")
        if not self.here:
            yield Until(
                "is decided again when a cluster is added or changes, a taint is removed, or there is more room"
            )

    def _behind(self) -> Iterator[tuple[str, EventRecord]]:
        """Yield the records whose chains are shown."""
        placed, grounds = self.placed, self.grounds
        yield "the decision", self.kept
        generations = _generations(placed)
        for event, kept in evictions_of(grounds, placed.workload.key, generations):
            yield f"the eviction from cluster {event.target.name}", kept
        for name in [self.wanted.one] if self.wanted.one else sorted(self.here):
            tainted = with_taints(grounds, cluster_ref(name).key)
            if tainted is not None:
                yield f"the taints of cluster {name}", tainted


def _generations(placed: WorkloadPlaced) -> dict[str, int]:
    """Return the generation of each present binding, by the cluster's key."""
    found = {str(one.target): one.binding_generation for one in placed.leaving}
    return found | {str(one.target): one.binding_generation for one in placed.targets}


def _part(replicas: int | None) -> str:
    return "nothing" if replicas is None else f"{replicas} replicas" if replicas else "the whole"
