"""Placement on clusters alone: what wakes it, portions, what it assumes about its own bindings, labels."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.support.tables import table
from tests.support.worlds.flow import START

from moorage.runtime.service import Emit, Input
from moorage.runtime.settings.process_settings import Settings
from moorage.workers.placement import PlacementService, service
from moorage.workers.placement.fleet_view import FleetView
from moorage.workers.placement.karmada.resource import resource_of
from moorage.workers.placement.karmada.terms import binding_ref, binding_uid
from moorage.workers.placement.service import AT_ONCE
from moorage.workers.placement.state import PlacementPartition
from moorage_schemas.condition import ConditionStatus, WorkloadConditionChanged
from moorage_schemas.envelope import Meta
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import binding_key, eviction_key, workload_condition_key
from moorage_schemas.placement import PlacementState, WorkloadBound, WorkloadPlaced
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.taint import Taint, TaintOrigin, TaintRecord, TargetTainted
from moorage_schemas.topics import (
    BINDINGS,
    CONDITIONS,
    EVICTIONS,
    PLACEMENTS,
    RESOURCES,
    TAINTS,
    WORKLOAD_CONDITIONS,
    Topic,
)

DEPLOYMENT = "apps/v1"
POLICY = "policy.karmada.io/v1alpha1"
WEB = WorkloadRef(kind="ResourceBinding", namespace="default", name="web-deployment")
ONE = {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]}

GATES: dict[str, Any] = {"feature_gates": "Failover=true", "enable_no_execute_taint_eviction": True}


class Bench:
    """One process of the service: a view and some partitions, with records from the test."""

    def __init__(self, *clusters: str, partitions: int = 1, **settings: Any) -> None:
        self.service: PlacementService = service(Settings(**{**GATES, **settings}))
        view = self.service.new_globals()
        assert isinstance(view, FleetView)
        self.view = view
        self.states = [self.begin(p) for p in range(partitions)]
        self.offset = 0
        for name in clusters:
            self.cluster(name)
        for partition in range(partitions):
            self.wake(partition)

    def begin(self, partition: int) -> PlacementPartition:
        state = self.service.new_state(partition)
        self.service.use_globals(state, self.view)
        return state

    def fold(self, topic: Topic, key: str, event: Any) -> None:
        self.offset += 1
        assert self.view.wants(topic, key)
        self.view.apply(Input(topic, 0, self.offset, key, event, meta(self.offset)))

    def cluster(self, name: str, *, version: int = 1, **spec: Any) -> None:
        event = declared("Cluster", name, spec, api="cluster.karmada.io/v1alpha1", version=version)
        self.fold(RESOURCES, event.key, event)

    def policy(self, kind: str = "Deployment", api: str = DEPLOYMENT, **spec: Any) -> None:
        body = {"resourceSelectors": [{"apiVersion": api, "kind": kind}], **spec}
        event = declared("PropagationPolicy", f"for-{kind.lower()}", body, api=POLICY)
        self.fold(RESOURCES, event.key, event)

    def declare(self, event: ResourceDeclared, partition: int = 0) -> list[Emit]:
        self.offset += 1
        record = Input(RESOURCES, partition, self.offset, event.key, event, meta(self.offset))
        return self.service.process(self.states[partition], [record], START, fresh=True)

    def wake(self, partition: int = 0, after: float = 0) -> list[Emit]:
        return self.service.wake(self.states[partition], START + timedelta(seconds=after))

    def write(self, emits: list[Emit]) -> None:
        """Apply emitted records to the view."""
        for emit in emits:
            if emit.topic is BINDINGS:
                self.fold(BINDINGS, emit.key, emit.event)

    def evict(self, cluster: str, generation: int = 1) -> None:
        key = eviction_key(WEB, f"Cluster/{cluster}", generation)
        event = EvictionDecided(
            workload=WEB,
            owner=WorkloadRef(kind="Deployment", namespace="default", name="web"),
            target=ref(cluster),
            generation=generation,
            revision=1,
            state=EvictionState.REQUESTED,
            taints=(Taint(key="bad", effect="NoExecute"),),
            taint_generation=1,
            reason="UntoleratedTaint",
            decided_time=START,
        )
        self.fold(EVICTIONS, key, event)

    def taint(self, cluster: str, *keys: str, generation: int = 1) -> None:
        records = tuple(
            TaintRecord(key=key, effect="NoExecute", time_added=START, origins=(TaintOrigin.EXPLICIT,)) for key in keys
        )
        event = TargetTainted(target=ref(cluster), target_uid=f"uid-{cluster}", generation=generation, taints=records)
        self.fold(TAINTS, f"Cluster/{cluster}", event)

    def healthy(self, cluster: str, at: float, *, accepted: float | None = None, status: str = "True") -> None:
        when = START + timedelta(seconds=at)
        event = WorkloadConditionChanged(
            target=ref(cluster),
            type="Healthy",
            status=ConditionStatus(status),
            workload=WEB,
            last_transition_time=when,
            last_heartbeat_time=when,
            generation=1,
            accepted_time=START + timedelta(seconds=at if accepted is None else accepted),
        )
        self.fold(WORKLOAD_CONDITIONS, workload_condition_key(WEB, ref(cluster), "Healthy"), event)

    @property
    def placed(self) -> dict[str, list[str]]:
        state = self.states[0].karmada.state
        return {one.workload: sorted(one.targets) for one in state.last.values()}


def ref(cluster: str) -> TargetRef:
    return TargetRef(kind=TargetKind.CLUSTER, name=cluster)


def meta(number: int) -> Meta:
    return Meta(id=f"event-{number}", source="test", type="test", time=START + timedelta(seconds=number))


def declared(
    kind: str, name: str, spec: dict[str, Any], *, api: str = DEPLOYMENT, version: int = 1, **metadata: Any
) -> ResourceDeclared:
    namespace = {} if kind in {"Node", "Cluster"} else {"namespace": "default"}
    obj = {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": name, "uid": f"uid-{name}", **namespace, **metadata},
        "spec": spec,
    }
    return ResourceDeclared(object=obj, version=version)


def web(replicas: int = 1, *, version: int = 1, **metadata: Any) -> ResourceDeclared:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}}
    return declared("Deployment", "web", {"replicas": replicas, "template": template}, version=version, **metadata)


def bound(emits: list[Emit]) -> list[WorkloadBound]:
    return [emit.event for emit in emits if isinstance(emit.event, WorkloadBound)]


def said(emits: list[Emit]) -> list[WorkloadPlaced]:
    return [emit.event for emit in emits if isinstance(emit.event, WorkloadPlaced)]


@table(
    ("topic", "key", "wanted"),
    [
        (RESOURCES, "Cluster//c1", True),
        (RESOURCES, "PropagationPolicy/default/p", True),
        (RESOURCES, "ClusterPropagationPolicy//p", True),
        (RESOURCES, "ClusterTaintPolicy//p", False),
        (RESOURCES, "Deployment/default/web", False),
        (RESOURCES, "Node//n1", True),
        (RESOURCES, "DedicatedNodes//d", True),
        (TAINTS, "Cluster/c1", True),
        (TAINTS, "Node/n1", True),
        (TAINTS, "ManagedCluster/m1", True),
        (BINDINGS, "ResourceBinding/default/web-deployment|Cluster/c1", True),
        (BINDINGS, "Pod/default/p|Node/n1", True),
        (BINDINGS, "X/default/p|ManagedCluster/m1", False),
        (EVICTIONS, "ResourceBinding/default/web-deployment|Cluster/c1|3", True),
        (EVICTIONS, "Pod/default/p|Node/n1|3", True),
        (WORKLOAD_CONDITIONS, "ResourceBinding/default/web-deployment|Cluster/c1|Healthy", True),
        (WORKLOAD_CONDITIONS, "ResourceBinding/default/web-deployment|Cluster/c1|Other", False),
        (WORKLOAD_CONDITIONS, "Pod/default/p|Node/n1|Healthy", False),
        (CONDITIONS, "Node/n1|Ready", False),
    ],
)
def test_only_what_it_looks_at_is_read(topic: Topic, key: str, wanted: bool) -> None:  # noqa: FBT001 - a column of the table
    assert FleetView().wants(topic, key) is wanted


def test_clusters_do_not_wake_what_is_on_nodes_nor_nodes_what_is_on_clusters() -> None:
    bench = Bench("c1", partitions=2)
    bench.policy()
    bench.declare(web(), 0)
    bench.declare(declared("Pod", "p", {"containers": [{"name": "c"}]}, api="v1"), 1)
    assert bench.states[1].pods.state.pending, "there is no node"
    for partition in (0, 1):
        bench.wake(partition)
    assert list(bench.view.changed() or ()) == []
    bench.cluster("c2")
    assert list(bench.view.changed() or ()) == [0]
    bench.wake(0)
    node = declared("Node", "n1", {}, api="v1")
    bench.fold(RESOURCES, node.key, node)
    assert list(bench.view.changed() or ()) == [1]


def test_a_cluster_that_only_gets_worse_or_roomier_wakes_none_that_are_placed() -> None:
    bench = Bench("c1")
    bench.policy()
    bench.declare(web())
    bench.taint("c1", "bad")
    assert bench.service.next_wake(bench.states[0]) is None
    bench.taint("c1", generation=2)
    assert bench.service.next_wake(bench.states[0]) == AT_ONCE


def test_a_resource_without_a_policy_costs_nothing() -> None:
    bench = Bench("c1")
    assert bench.declare(declared("ConfigMap", "cm", {}, api="v1")) == []
    assert bench.service.next_wake(bench.states[0]) is None


def test_a_policy_wakes_what_it_selects_in_portions() -> None:
    bench = Bench("c1")
    for index in range(450):
        bench.declare(declared("ConfigMap", f"cm{index}", {}, api="v1"))
    bench.policy("ConfigMap", "v1")
    sizes = []
    while bench.service.next_wake(bench.states[0]) == AT_ONCE:
        sizes.append(len(said(bench.wake())))
    assert sum(sizes) == 450
    assert max(sizes) <= 200
    assert len(bench.placed) == 450


def test_a_partition_that_begins_again_knows_what_it_knew() -> None:
    bench = Bench("c1", "c2")
    bench.policy(placement=ONE)
    emits = bench.declare(web())
    bench.write(emits)
    bench.evict("c1")
    emits += (moved := bench.wake())
    bench.write(moved)
    state = bench.begin(0)
    for emit in emits:
        if emit.topic is PLACEMENTS:
            bench.service.apply(state, PLACEMENTS, emit.key, emit.event)
    bench.service.apply(state, RESOURCES, "Deployment/default/web", web())
    assert bench.service.wake(state, START) == [], "everything is as it should be"
    (placed,) = state.karmada.state.last.values()
    assert (sorted(placed.targets), sorted(placed.leaving)) == (["c2"], ["c1"])
    assert bench.service.next_wake(state) == placed.leaving["c1"].until
    assert bench.service.reconcile(state, START) == []


def test_own_bindings_hold_before_they_are_in_the_log() -> None:
    bench = Bench("c1")
    bench.policy()
    first = bench.declare(web())
    assert bench.service.reconcile(bench.states[0], START) == []
    (again,) = bound(bench.declare(web(labels={"x": "y"}, version=2)))
    assert (again.generation, again.revision) == (1, 2)
    bench.write(first)
    assert bench.service.reconcile(bench.states[0], START) == [], "the log is behind, and that is all"


@pytest.mark.parametrize(
    ("reported", "accepted", "status", "ends"),
    [(50, 50, "True", True), (50, 50, "False", False), (1, 50, "True", False), (50, 1, "True", False)],
)
def test_only_what_was_reported_of_the_present_binding_counts(
    reported: float, accepted: float, status: str, *, ends: bool
) -> None:
    bench = Bench("c1", "c2")
    bench.policy(placement=ONE)
    bench.declare(web())
    bench.evict("c1")
    bench.wake()
    bench.healthy("c2", reported, accepted=accepted, status=status)
    emits = bench.wake()
    assert [emit.key for emit in emits if emit.event is None] == ([binding_key(WEB, "Cluster/c1")] if ends else [])


def test_a_report_in_whole_seconds_counts_for_the_second_of_the_binding() -> None:
    bench = Bench("c1", "c2")
    bench.policy(placement=ONE)
    bench.write(bench.declare(web()))
    bench.evict("c1")
    (new,) = bound(bench.wake())
    second = (new.bound_time - START).total_seconds()
    half = new.model_copy(update={"bound_time": new.bound_time + timedelta(milliseconds=500), "revision": 2})
    bench.view.karmada.detach(bench.states[0].karmada)
    bench.view.karmada.attach(bench.states[0].karmada)
    bench.fold(BINDINGS, binding_key(WEB, "Cluster/c2"), half)
    bench.healthy("c2", second - 0.001, accepted=second + 1)
    assert not [emit for emit in bench.wake() if emit.event is None]
    bench.healthy("c2", second, accepted=second + 1)
    assert [emit.key for emit in bench.wake() if emit.event is None] == [binding_key(WEB, "Cluster/c1")]


def test_nothing_leaves_while_evictions_from_clusters_are_switched_off() -> None:
    """A workload that could not leave, and was requested to before, stays even when there is room elsewhere."""
    bench = Bench("c1", enable_no_execute_taint_eviction=False)
    bench.policy(placement=ONE)
    bench.write(bench.declare(web()))
    bench.taint("c1", "bad")
    bench.evict("c1")
    bench.write(bench.wake())
    bench.cluster("c2")
    bench.write(bench.wake())
    assert bench.placed == {WEB.key: ["c1"]}


def test_a_report_of_health_wakes_only_what_is_leaving() -> None:
    bench = Bench("c1")
    bench.policy()
    bench.write(bench.declare(web()))
    bench.healthy("c1", 50)
    assert bench.service.next_wake(bench.states[0]) is None


def test_an_eviction_whose_taint_is_not_known_yet_is_not_taken_back() -> None:
    bench = Bench("c1")
    bench.policy(placement=ONE)
    bench.declare(web())
    bench.evict("c1")
    (stays,) = said(bench.wake())
    assert stays.reason == "NoReplacement", "the eviction is here before the taint"
    bench.taint("c1", "bad")
    bench.wake()
    assert bench.placed == {WEB.key: ["c1"]}
    bench.taint("c1", generation=2)
    (kept,) = said(bench.wake())
    assert (kept.reason, kept.targets[0].binding_generation) == ("Scheduled", kept.generation)


def test_an_eviction_that_is_told_after_its_taint_is_gone_moves_nothing() -> None:
    """Nothing changes after it, so a workload that had left would not come back."""
    bench = Bench("c1", "c2")
    bench.policy()
    bench.write(bench.declare(web()))
    bench.taint("c1", "bad")
    bench.taint("c1", generation=2)
    bench.write(bench.wake())
    bench.evict("c1")
    (kept,) = said(bench.wake())
    assert (bench.placed, kept.leaving) == ({WEB.key: ["c1", "c2"]}, ())
    assert {one.target.name: one.binding_generation for one in kept.targets} == {"c1": kept.generation, "c2": 1}


def test_of_several_that_are_to_leave_those_go_that_find_room() -> None:
    bench = Bench()
    for name, pods in (("c1", 5), ("c2", 5), ("c3", 4)):
        event = declared("Cluster", name, {}, api="cluster.karmada.io/v1alpha1")
        event.object["status"] = {"resourceSummary": {"allocatable": {"pods": pods}}}
        bench.fold(RESOURCES, event.key, event)
    dynamic = {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {"dynamicWeight": "AvailableReplicas"},
    }
    only = {"clusterNames": ["c1", "c2"]}
    bench.policy(placement={"replicaScheduling": dynamic, "clusterAffinity": only})
    bench.write(bench.declare(web(6)))
    assert bench.placed == {WEB.key: ["c1", "c2"]}
    bench.policy(placement={"replicaScheduling": dynamic})
    bench.write(bench.wake())
    for name in ("c1", "c2"):
        bench.taint(name, "bad")
        bench.evict(name)
    (moved,) = said(bench.wake())
    assert {one.target.name: one.replicas for one in moved.targets} == {"c2": 3, "c3": 3}
    assert [one.target.name for one in moved.leaving] == ["c1"]
    assert moved.reason == "NoReplacement"
    assert "Cluster/c2" in moved.message


def test_labels_of_pods_are_in_their_bindings() -> None:
    bench = Bench()
    node = declared("Node", "n1", {}, api="v1")
    bench.fold(RESOURCES, node.key, node)
    (one,) = bound(bench.declare(web()))
    assert one.labels.keys() == {"app", "pod-template-hash"}
    containers = [{"name": "c"}]
    template = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": containers}}
    (one,) = bound(bench.declare(declared("StatefulSet", "db", {"template": template})))
    assert one.labels["statefulset.kubernetes.io/pod-name"] == "db-0"
    pod = declared("Pod", "p", {"containers": containers}, api="v1", labels={"a": "1"})
    (one,) = bound(bench.declare(pod))
    assert one.labels == {"a": "1"}
    edited = declared("Pod", "p", {"containers": containers}, api="v1", labels={"a": "2"}, version=2)
    (one,) = bound(bench.declare(edited))
    assert (one.labels, one.revision) == ({"a": "2"}, 2)


def test_a_resource_that_cannot_be_read_waits_and_says_why() -> None:
    bench = Bench("c1")
    bench.policy()
    (placed,) = said(bench.declare(declared("Deployment", "web", {"replicas": "many"})))
    assert (placed.state, placed.reason) == (PlacementState.PENDING, "Invalid")
    assert "spec.replicas" in placed.message
    assert bound(bench.declare(web(version=2)))[0].replicas == 1


def test_a_long_name_makes_a_name_that_is_not_too_long() -> None:
    long = declared("ConfigMap", "x" * 250, {}, api="v1")
    longer = declared("ConfigMap", "x" * 251, {}, api="v1")
    names = {binding_ref(resource_of(event)).name for event in (long, longer)}
    assert len(names) == 2
    assert all(len(name) == 253 and name.endswith("-configmap") for name in names)
    assert binding_uid(resource_of(long)) != binding_uid(resource_of(longer))


def test_a_bad_policy_or_cluster_changes_nothing() -> None:
    bench = Bench("c1")
    bench.policy(placement=ONE)
    bench.declare(web())
    for kind, spec in (("PropagationPolicy", {"resourceSelectors": 5}), ("Cluster", {"zones": 5})):
        name = "for-deployment" if kind == "PropagationPolicy" else "c1"
        event = declared(kind, name, spec, api=POLICY, version=2)
        bench.fold(RESOURCES, event.key, event)
    bench.wake()
    assert bench.placed == {WEB.key: ["c1"]}
