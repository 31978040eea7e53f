"""The bridge to one Karmada control plane: mirrors it, reports its conditions, and writes the decisions there.

Consumes: resources, taints, conditions, bindings, placements, evictions, workload-conditions.
Keeps: nothing that is not in the topics or on the control plane.
Emits: nothing itself; it sends objects and reports to the gateway.

Leaving takes back what was written to Clusters. What was written to bindings stays: their clusters, their eviction
tasks, which Karmada's graceful eviction controller ends, and the note of the placement that was applied, without which
Karmada's scheduler would decide anew.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, Final

from typing_extensions import override

from moorage.bridges.engine.cluster_events import Regarding
from moorage.bridges.engine.leaving import Bridged, remove_taints
from moorage.bridges.engine.loop import BridgeLoop, BridgeOutlets
from moorage.bridges.engine.member import BridgeMember
from moorage.bridges.engine.observations import ReportKey, WorkObservations
from moorage.bridges.engine.plan import BridgePlan, LeaseResource, Link
from moorage.bridges.engine.reports import Report
from moorage.bridges.engine.seen_target import SeenCondition
from moorage.bridges.karmada.binding_acts import BindingActs
from moorage.bridges.karmada.member_acts import MemberActs
from moorage.bridges.karmada.plane import (
    CLUSTER,
    FOLLOWED,
    LEASES,
    MIRRORED,
    READY,
    PlaneState,
    SeenBinding,
    SeenMember,
)
from moorage.bridges.karmada.plane_tables import PlaneTables
from moorage.bridges.kube.client import KubeClient
from moorage.decide.scheduling.karmada.mirrored_bindings import SCHEDULER
from moorage.decide.taints.dialects.karmada import READY_TAINTS
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.condition import EVICTED, HEALTHY
from moorage_schemas.refs import TargetKind
from moorage_schemas.resources.workload_kinds import BINDING_KINDS

_NEVER_READY: Final = SeenCondition("False", "ClusterStatusNeverUpdated", "The cluster has no condition Ready yet.")
"""Of a cluster without the condition, for which Karmada's cluster controller decides the same."""

_HEALTH: Final = {"Healthy": "True", "Unhealthy": "False"}


class PlaneObservations(WorkObservations[PlaneState, PlaneTables]):
    """Reports from what was seen."""

    kind = TargetKind.CLUSTER
    ready = READY
    judged = (READY,)
    silent = SeenCondition(
        "Unknown", "ClusterStatusUnknown", "Cluster status controller stopped posting cluster status."
    )  # as in Karmada

    @override
    def of_work(self, key: str) -> list[str]:
        bound = [str(ReportKey(key, name, HEALTHY)) for name in self.tables.bound.get(key, ())]
        evicted = {one.target.name for one in self.tables.evictions.get(key, {}).values()}
        return [*bound, *(str(ReportKey(key, name, EVICTED)) for name in sorted(evicted))]

    @override
    def was_silent(self, name: str) -> bool:
        cluster = self.state.targets.get(name)
        is_pulling = cluster is not None and cluster.is_pulling and cluster.conditions.get(READY) != self.silent
        return is_pulling and super().was_silent(name)

    @override
    def is_settled(self, target: SeenMember) -> bool:
        # Before that, a cluster that was just mirrored counts as one without conditions.
        tainted = self.tables.taints.get(target.name)
        if not self._has(target) or tainted is None or tainted.target_uid not in {"", target.uid}:
            return False
        for key in self.of_target(target.name):
            report = self.present(key)
            if report is not None and not self.is_taken_over(key) and not self._says(target, report):
                return False
        if self.state.keeps_taints:
            return self._has_its_taints(target)
        if tainted.settles_at is not None or tainted.held:
            return True
        # The record of the taints may be older than that of the condition.
        ready = self.tables.conditions.get(target.name, {}).get(READY)
        wanted = READY_TAINTS.get(ready.status.value) if ready is not None else None
        present = {one.identity for one in tainted.taints} & {one.identity for one in READY_TAINTS.values()}
        return wanted is None or wanted.identity in present

    def _says(self, cluster: SeenMember, report: Report) -> bool:
        record = self.tables.condition_of(cluster.name, cluster.uid, report.type)
        return record is not None and record.status.value == report.status

    @override
    def _condition(self, target: SeenMember, kind: str) -> SeenCondition | None:
        return super()._condition(target, kind) or (_NEVER_READY if kind == READY else None)

    @override
    def _of_work(self, about: str, name: str, kind: str) -> Report | None:
        binding = self.state.bindings.get(about)
        if binding is None:
            return None
        return self._left(about, binding, name) if kind == EVICTED else self._health(about, binding, name)

    def _health(self, key: str, binding: SeenBinding, cluster: str) -> Report | None:
        """Return how the work is on a cluster where it is bound. An unknown health is not reported."""
        bound, status = self.tables.bound.get(key, {}).get(cluster), _HEALTH.get(binding.health(cluster))
        if bound is None or bound.uid != binding.uid or status is None:
            return None
        if cluster not in binding.clusters and binding.task(cluster) is None:
            return None
        return self._report(key, bound.uid, bound.generation, target=cluster, kind=HEALTHY, status=status)

    def _left(self, key: str, binding: SeenBinding, cluster: str) -> Report | None:
        """Return the report that the work has left a cluster that it had to leave."""
        asked = (one for one in self.tables.requested(key, binding.uid) if one.target.name == cluster)
        eviction = max(asked, key=lambda one: one.generation, default=None)
        if eviction is None or eviction.acknowledged is not None or not binding.has_left(cluster):
            return None
        return self._report(key, binding.uid, eviction.generation, target=cluster, kind=EVICTED, status="True")


SOURCE: Final = "bridge/karmada"
"""The source of this bridge's reports."""

LEASE_NAME: Final = "moorage-bridge-karmada"
"""The name of the Lease that elects one of several bridges."""


class PlaneAct(StrEnum):
    """The acts of a bridge on its control plane."""

    TAINTS = "taints"
    BINDINGS = "bindings"
    """The clusters, the eviction tasks and the scheduler's status of ResourceBindings and ClusterResourceBindings."""


@dataclass(frozen=True, slots=True)
class PlaneOptions:
    """How a control plane is bridged.

    Attributes:
        link: how it is reached.
        scheduler: the `spec.schedulerName` of the bindings that Moorage places, beside those that name it.
        grace: seconds without a sign of life of its agent after which a cluster is silent.
    """

    link: Link
    acts: frozenset[PlaneAct] = field(default_factory=frozenset)
    scheduler: str = SCHEDULER
    grace: float = 40.0

    @property
    def plan(self) -> BridgePlan[PlaneAct]:
        """The plan of the bridge."""
        return BridgePlan(
            link=self.link,
            source=SOURCE,
            lease=LEASE_NAME,
            acts=self.acts,
            target_acts=(PlaneAct.TAINTS,),
            held_acts=frozenset({PlaneAct.BINDINGS}),
            target=CLUSTER,
            work=frozenset(BINDING_KINDS),
            followed=FOLLOWED,
            mirrored=MIRRORED,
            leases=LeaseResource(LEASES, {}, lambda cluster: f"{LEASES}/{cluster}"),
            grace=self.grace,
            patience=None,  # a binding that was decided without its clusters would lose them
        )


class PlaneBridge(BridgeMember[PlaneAct, PlaneState]):
    """A bridge to one control plane."""

    def __init__(self, settings: Settings, options: PlaneOptions) -> None:
        state = PlaneState(options.scheduler, self._noticed)
        tables = PlaneTables(self._touched)
        super().__init__(settings, options.plan, state, tables, partial(PlaneLoop, state, tables))

    @override
    def _grace(self, target: SeenMember) -> float:
        return target.grace(self._plan.grace)

    @override
    def _state_of(self) -> dict[str, Any]:
        counts = {"clusters": len(self._state.targets), "bindings": len(self._state.bindings)}
        return {**super()._state_of(), **counts}


class PlaneLoop(BridgeLoop[PlaneAct, PlaneState]):
    """The parts of a bridge to a control plane that send and act."""

    _observations: PlaneObservations

    def __init__(
        self,
        state: PlaneState,
        tables: PlaneTables,
        outlets: BridgeOutlets[PlaneAct],
    ) -> None:
        observations = PlaneObservations(SOURCE, state, tables, outlets.leases, outlets.objects.has)
        clusters = MemberActs(
            outlets.client,
            tables,
            state.targets.get,
            seen=partial(state.answered, CLUSTER),
            is_settled=observations.is_settled,
            undone=outlets.contention(PlaneAct.TAINTS, "taints", self._target),
            tell=outlets.events.tell,
        )
        bindings = BindingActs(
            outlets.client,
            tables,
            state.bindings.get,
            seen=lambda found: state.answered(str(found["kind"]), found),
            undone=outlets.contention(PlaneAct.BINDINGS, "clusters and eviction tasks", self._binding),
            tell=outlets.events.tell,
        )
        works = {PlaneAct.TAINTS: clusters.taint, PlaneAct.BINDINGS: bindings.place}
        super().__init__(state, outlets, observations=observations, works=works)

    @override
    def work_changed(self, key: str) -> None:
        self.reports.mark(*self._observations.of_work(key))
        self._act(key, PlaneAct.BINDINGS)  # which forgets one that is gone

    @override
    def _work(self) -> Collection[str]:
        return self._state.bindings

    def _binding(self, key: str) -> Regarding | None:
        binding = self._state.bindings.get(key)
        return binding.about[0] if binding is not None else None


def bridged_plane(link: Link) -> Bridged:
    """Return what to take back when a control plane is left."""
    return Bridged(PlaneOptions(link).plan, clean_cluster)


async def clean_cluster(client: KubeClient, found: dict[str, Any]) -> bool:
    """Remove the taints from a cluster that a bridge has set. Return whether there were any."""
    cluster = SeenMember.of(found)
    path = MemberActs.path(cluster.name)
    return await remove_taints(client, cluster, path=path, read=lambda one: SeenMember.of({**one, "kind": CLUSTER}))
