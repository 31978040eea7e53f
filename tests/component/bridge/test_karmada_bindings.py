"""What a bridge writes to the bindings of a Karmada control plane, and what it reports of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from moorage.bridges.engine.acts import Contention
from moorage.bridges.engine.reports import Report
from moorage.bridges.engine.silence import Leases
from moorage.bridges.karmada.binding_acts import BindingActs
from moorage.bridges.karmada.plane import (
    APPLIED_PLACEMENT,
    CLUSTER,
    READY,
    PlaneState,
    SeenBinding,
    binding_path,
    reduced,
)
from moorage.bridges.karmada.plane_bridge import PlaneObservations
from moorage.bridges.karmada.plane_tables import PlaneTables
from moorage.bridges.kube.client import KubeClient
from moorage.runtime.service import Input
from moorage_schemas.base import Model
from moorage_schemas.condition import EVICTED, HEALTHY
from moorage_schemas.envelope import Meta
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.placement import LeavingTarget, PlacedTarget, PlacementState, WorkloadBound, WorkloadPlaced
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.resources.workload_kinds import CLUSTER_RESOURCE_BINDING, RESOURCE_BINDING
from moorage_schemas.topics import BINDINGS, EVICTIONS, PLACEMENTS, Topic

_AT = datetime(2026, 1, 1, tzinfo=UTC)
_WRITTEN = "2026-01-01T00:00:00Z"
_KEY = "ResourceBinding/shop/web-deployment"
_REF = WorkloadRef.parse(_KEY)
_PLACEMENT = {"clusterAffinity": {"clusterNames": ["m1", "m2"]}}
_TASK = {
    "fromCluster": "m1",
    "purgeMode": "Gracefully",
    "replicas": 2,
    "reason": "TaintUntolerated",
    "producer": "TaintManager",
    "creationTimestamp": _WRITTEN,
    "gracePeriodSeconds": 600,
}
_OF_OTHERS = {"fromCluster": "m9", "producer": "ResourceBindingApplicationFailoverController"}


def _binding(
    clusters: dict[str, int] | None = None, *, tasks: list[dict[str, Any]] | None = None, **parts: Any
) -> dict[str, Any]:
    spec = {
        "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
        "replicas": 2,
        "schedulerName": "moorage",
        "placement": _PLACEMENT,
        "clusters": [{"name": name, "replicas": replicas} for name, replicas in (clusters or {}).items()],
        **({"gracefulEvictionTasks": tasks} if tasks else {}),
        **parts.pop("spec", {}),
    }
    return {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": RESOURCE_BINDING,
        "metadata": {
            "name": "web-deployment",
            "namespace": "shop",
            "uid": "u1",
            "resourceVersion": "7",
            "generation": 3,
            **parts.pop("metadata", {}),
        },
        "spec": spec,
        "status": parts.pop("status", {}),
    }


def _cluster(name: str) -> TargetRef:
    return TargetRef(kind=TargetKind.CLUSTER, name=name)


def _placed(targets: dict[str, int], leaving: dict[str, int] | None = None, **fields: Any) -> WorkloadPlaced:
    return WorkloadPlaced(
        workload=_REF,
        owner=_REF,
        generation=4,
        decided_time=_AT,
        targets=tuple(
            PlacedTarget(target=_cluster(name), replicas=replicas, binding_generation=1)
            for name, replicas in targets.items()
        ),
        leaving=tuple(
            LeavingTarget(
                target=_cluster(name),
                replicas=replicas,
                binding_generation=1,
                since=_AT,
                until=_AT + timedelta(seconds=600),
                purge_mode="Gracefully",
            )
            for name, replicas in (leaving or {}).items()
        ),
        **{"uid": "u1", "owner_uid": "u1", "state": PlacementState.PLACED, "reason": "Scheduled", **fields},
    )


class _World:
    """A bridge's view of one binding and of the topics."""

    def __init__(self, found: dict[str, Any], scheduler: str = "moorage") -> None:
        self.events: list[dict[str, Any]] = []
        self.state = PlaneState(scheduler, lambda _kind, _key: None)
        self.state.put(RESOURCE_BINDING, found)
        self.tables = PlaneTables(lambda _kind, _key: None)
        client: KubeClient = None  # type: ignore[assignment]  # only what would be sent is computed
        self.acts = BindingActs(
            client,
            self.tables,
            self.state.bindings.get,
            seen=lambda _found: None,
            undone=Contention("bindings", lambda _key, _seconds: None, lambda _key: None),
            tell=self.events.append,
        )
        self.leases = Leases(40.0)
        self.observations = PlaneObservations(
            "bridge/karmada", self.state, self.tables, self.leases, lambda _key, _uid: True
        )

    def decide(self, placed: WorkloadPlaced) -> _World:
        self._fold(PLACEMENTS, _KEY, placed)
        return self

    def bind(self, name: str, generation: int = 1) -> _World:
        bound = WorkloadBound(
            workload=_REF, uid="u1", owner=_REF, target=_cluster(name), generation=generation, bound_time=_AT
        )
        self._fold(BINDINGS, f"{_KEY}|Cluster/{name}", bound)
        return self

    def evict(self, name: str, generation: int = 1, *, uid: str = "u1", purge_mode: str = "Gracefully") -> _World:
        event = EvictionDecided(
            workload=_REF,
            workload_uid=uid,
            owner=_REF,
            target=_cluster(name),
            generation=generation,
            revision=1,
            state=EvictionState.REQUESTED,
            purge_mode=purge_mode,
            decided_time=_AT,
        )
        self._fold(EVICTIONS, f"{_KEY}|Cluster/{name}|{generation}", event)
        return self

    def patch(self) -> dict[str, Any] | None:
        """The patch of the binding, which is complete: after it there is none."""
        found = self.acts.patch(_KEY, self.binding)
        if found is not None:
            assert found["metadata"]["uid"] == "u1"
            assert found["metadata"]["resourceVersion"] == "7"
        return found

    @property
    def binding(self) -> SeenBinding:
        return self.state.bindings[_KEY]

    def report(self, cluster: str, kind: str) -> Report | None:
        return self.observations.present(f"{_KEY}|{cluster}|{kind}")

    def _fold(self, topic: Topic, key: str, event: Model) -> None:
        meta = Meta(id="i", source="s", type="t", time=_AT)
        self.tables.apply(Input(topic=topic, partition=0, offset=0, key=key, event=event, meta=meta))


def test_a_decision_becomes_clusters_and_the_placement_that_was_applied() -> None:
    patch = _World(_binding()).decide(_placed({"m2": 2})).patch()
    assert patch is not None
    assert patch["spec"] == {"clusters": [{"name": "m2", "replicas": 2}], "gracefulEvictionTasks": None}
    assert json.loads(patch["metadata"]["annotations"][APPLIED_PLACEMENT]) == _PLACEMENT


def test_one_without_a_namespace_is_a_cluster_resource_binding() -> None:
    found = _binding({"m2": 2})
    found |= {"kind": CLUSTER_RESOURCE_BINDING}
    del found["metadata"]["namespace"]
    world = _World(_binding())
    world.state.put(CLUSTER_RESOURCE_BINDING, found)
    key = "ClusterResourceBinding//web-deployment"
    mirrored, seen = world.state.object(key), world.state.bindings[key]
    assert mirrored is not None
    assert (mirrored["kind"], mirrored["spec"]["clusters"]) == (CLUSTER_RESOURCE_BINDING, found["spec"]["clusters"])
    assert seen.clusters == {"m2": 2}
    assert binding_path(seen.namespace, seen.name).endswith("/v1alpha2/clusterresourcebindings/web-deployment")
    assert world.tables.wants(PLACEMENTS, key)
    world.state.drop(CLUSTER_RESOURCE_BINDING, key)
    assert world.state.bindings.keys() == {_KEY}


def test_what_is_there_is_not_written_again() -> None:
    noted = {"annotations": {APPLIED_PLACEMENT: json.dumps(_PLACEMENT, indent=2)}}
    world = _World(_binding({"m2": 2}, metadata=noted)).decide(_placed({"m2": 2}))
    assert world.patch() is None


def test_nothing_is_written_without_a_decision_on_this_binding() -> None:
    assert _World(_binding({"m1": 2})).patch() is None
    assert _World(_binding({"m1": 2})).decide(_placed({"m2": 2}, uid="u0")).patch() is None


def test_a_cluster_that_is_left_becomes_a_task() -> None:
    patch = _World(_binding({"m1": 2}, tasks=[_OF_OTHERS])).decide(_placed({"m2": 2}, {"m1": 2})).patch()
    assert patch is not None
    assert patch["spec"] == {
        "clusters": [{"name": "m2", "replicas": 2}],
        "gracefulEvictionTasks": [_OF_OTHERS, _TASK],
    }


_RULES = [
    {"aliasLabelName": "resume.example.com/replicas", "jsonPath": "{.readyReplicas}"},
    {"aliasLabelName": "resume.example.com/at", "jsonPath": '{.conditions[?(@.type=="Saved")].message}'},
]


def _stateful(*tasks: dict[str, Any], status: Any, **spec: Any) -> dict[str, Any]:
    failover = {"cluster": {"purgeMode": "Directly", "statePreservation": {"rules": _RULES}}}
    items = [{"clusterName": "m2", "status": {"readyReplicas": 9}}, {"clusterName": "m1", "status": status}]
    return _binding(
        {"m1": 2}, tasks=list(tasks), spec={"failover": failover, **spec}, status={"aggregatedStatus": items}
    )


_SAVED = {"readyReplicas": 2, "conditions": [{"type": "Ready"}, {"type": "Saved", "message": "step 7"}]}
_KEPT = {"resume.example.com/replicas": "2", "resume.example.com/at": "step 7"}


def test_a_task_keeps_the_state_that_the_failover_preserves() -> None:
    patch = _World(_stateful(status=_SAVED)).decide(_placed({"m2": 2}, {"m1": 2})).patch()
    assert patch is not None
    assert patch["spec"]["gracefulEvictionTasks"] == [{**_TASK, "preservedLabelState": _KEPT}]
    other = _World(_stateful(status=_SAVED, schedulerName="default-scheduler")).bind("m1").evict("m1")
    patch = other.patch()
    assert patch is not None
    assert patch["spec"]["gracefulEvictionTasks"][0]["preservedLabelState"] == _KEPT


@pytest.mark.parametrize("status", [None, {}, {"readyReplicas": 2}, {**_SAVED, "conditions": "none"}, [1]])
def test_state_that_is_missing_keeps_no_work_where_it_has_to_leave(status: Any) -> None:
    world = _World(_stateful(status=status)).decide(_placed({"m2": 2}, {"m1": 2}))
    patch = world.patch()
    assert patch is not None
    assert patch["spec"]["gracefulEvictionTasks"] == [_TASK]
    assert {one["reason"] for one in world.events} == {"StateNotPreserved"}
    assert "The state on cluster m1 was not preserved" in world.events[0]["message"]


def test_a_task_that_keeps_state_is_ended_by_karmada_when_the_next_cluster_has_it() -> None:
    task = {**_TASK, "purgeMode": "Directly", "preservedLabelState": _KEPT}
    patch = _World(_stateful(task, status=_SAVED)).decide(_placed({"m2": 2})).patch()
    assert patch is not None
    assert patch["spec"] == {"clusters": [{"name": "m2", "replicas": 2}], "gracefulEvictionTasks": [task]}


def test_the_task_of_a_cluster_that_is_deleted_names_that_reason() -> None:
    placed = _placed({"m2": 2}, {"m1": 2})
    left = placed.leaving[0].model_copy(update={"reason": "ClusterDeleted"})
    patch = _World(_binding({"m1": 2})).decide(placed.model_copy(update={"leaving": (left,)})).patch()
    assert patch is not None
    assert patch["spec"]["gracefulEvictionTasks"] == [{**_TASK, "reason": "ClusterDeleted"}]


def test_a_task_that_karmada_has_ended_is_not_written_again() -> None:
    noted = {"annotations": {APPLIED_PLACEMENT: json.dumps(_PLACEMENT)}}
    world = _World(_binding({"m2": 2}, metadata=noted)).decide(_placed({"m2": 2}, {"m1": 2})).evict("m1")
    assert world.patch() is None
    report = world.report("m1", EVICTED)
    assert report is not None
    assert (report.status, report.workload_uid, report.binding_generation) == ("True", "u1", 1)


def test_a_task_ends_with_the_decision_and_those_of_others_stay() -> None:
    patch = _World(_binding({"m2": 2}, tasks=[_TASK, _OF_OTHERS])).decide(_placed({"m2": 2})).patch()
    assert patch is not None
    assert patch["spec"]["gracefulEvictionTasks"] == [_OF_OTHERS]


@pytest.mark.parametrize(("mode", "left"), [("Gracefully", False), ("Directly", True), ("Immediately", True)])
def test_work_has_left_when_its_task_does_not_keep_it(mode: str, left: bool) -> None:  # noqa: FBT001 - the expected value
    world = _World(_binding({"m2": 2}, tasks=[{**_TASK, "purgeMode": mode}])).evict("m1")
    assert (world.report("m1", EVICTED) is not None) is left


def test_work_that_is_there_has_not_left() -> None:
    world = _World(_binding({"m1": 2})).evict("m1")
    assert world.report("m1", EVICTED) is None
    assert world.report("m2", EVICTED) is None


def test_a_binding_of_another_scheduler_only_loses_what_has_to_leave() -> None:
    found = _binding({"m1": 1, "m2": 1}, spec={"schedulerName": "default-scheduler"})
    world = _World(found).bind("m1").decide(_placed({"m1": 1, "m2": 1}))
    assert world.patch() is None
    patch = world.evict("m1").patch()
    assert patch is not None
    task = {name: value for name, value in _TASK.items() if name != "gracePeriodSeconds"} | {"replicas": 1}
    assert patch["spec"] == {"clusters": [{"name": "m2", "replicas": 1}], "gracefulEvictionTasks": [task]}
    assert "annotations" not in patch["metadata"], "its own scheduler keeps it"


@pytest.mark.parametrize("other", [{"generation": 2}, {"uid": "u0"}])
def test_an_eviction_of_another_life_does_nothing(other: dict[str, Any]) -> None:
    found = _binding({"m1": 2}, spec={"schedulerName": "default-scheduler"})
    assert _World(found).bind("m1").evict("m1", **other).patch() is None


def test_the_bindings_of_a_scheduler_that_moorage_stands_in_for_are_mirrored_as_its_own() -> None:
    found = _binding(spec={"schedulerName": "default-scheduler"})
    assert reduced(found, "default-scheduler")["spec"]["schedulerName"] == "moorage"
    assert reduced(found, "moorage")["spec"]["schedulerName"] == "default-scheduler"
    del found["spec"]["schedulerName"]
    assert reduced(found, "default-scheduler")["spec"]["schedulerName"] == "moorage"


def test_the_status_of_the_scheduler_follows_the_decision() -> None:
    applied = {"type": "FullyApplied", "status": "True"}
    world = _World(_binding({"m2": 2}, status={"conditions": [applied]})).decide(_placed({"m2": 2}))
    patch = world.acts.status_patch(_KEY, world.binding)
    assert patch is not None
    status = patch["status"]
    assert (status["schedulerObservedGeneration"], status["lastScheduledTime"]) == (3, _WRITTEN)
    scheduled = status["conditions"][1]
    assert (status["conditions"][0], scheduled["status"], scheduled["reason"]) == (applied, "True", "Success")
    world = _World(_binding({"m2": 2}, status=status)).decide(_placed({"m2": 2}))
    assert world.acts.status_patch(_KEY, world.binding) is None
    world.decide(_placed({}, state=PlacementState.PENDING, reason="Unschedulable", message="0/2 clusters fit"))
    patch = world.acts.status_patch(_KEY, world.binding)
    assert patch is not None
    scheduled = patch["status"]["conditions"][1]
    assert (scheduled["status"], scheduled["reason"], scheduled["message"]) == (
        "False",
        "NoClusterFit",
        "0/2 clusters fit",
    )


@pytest.mark.parametrize(("health", "status"), [("Healthy", "True"), ("Unhealthy", "False"), ("Unknown", None)])
def test_the_health_of_work_is_reported_under_its_binding(health: str, status: str | None) -> None:
    items = [{"clusterName": "m1", "health": health}, {"clusterName": "m2", "health": health}]
    world = _World(_binding({"m1": 2}, status={"aggregatedStatus": items})).bind("m1", 5)
    report = world.report("m1", HEALTHY)
    assert (report.status if report is not None else None) == status
    if report is not None:
        assert (report.workload_uid, report.binding_generation) == ("u1", 5)
    assert world.report("m2", HEALTHY) is None, "it is not bound there"


def test_a_binding_that_cannot_be_read_is_left_alone() -> None:
    world = _World(_binding(spec={"clusters": "everywhere"}))
    assert not world.state.bindings
    assert world.state.object(_KEY) is not None, "the gateway says what is wrong with it"


def test_an_answer_that_is_older_than_the_watch_changes_nothing() -> None:
    world = _World(_binding({"m1": 2}))
    world.state.put(RESOURCE_BINDING, _binding({"m2": 2}, metadata={"resourceVersion": "6"}))
    assert world.binding.clusters == {"m1": 2}
    world.state.put(RESOURCE_BINDING, _binding({"m2": 2}, metadata={"resourceVersion": "6", "uid": "u2"}))
    assert world.binding.clusters == {"m2": 2}


# Clusters.


def _seen(sync: str, *conditions: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": CLUSTER,
        "metadata": {"name": "m1", "uid": "c1", "resourceVersion": "9"},
        "spec": {"syncMode": sync},
        "status": {"conditions": list(conditions)},
    }


_IS_READY = {"type": READY, "status": "True", "reason": "ClusterReady", "message": "cluster is healthy"}


def test_a_cluster_without_the_condition_is_not_ready() -> None:
    world = _World(_binding())
    world.state.put(CLUSTER, _seen("Pull"))
    report = world.observations.present("cluster|m1|Ready")
    assert report is not None
    assert (report.status, report.reason) == ("False", "ClusterStatusNeverUpdated")


@pytest.mark.parametrize(("sync", "silent"), [("Pull", ["m1"]), ("Push", [])])
def test_only_an_agent_in_a_cluster_falls_silent(sync: str, silent: list[str]) -> None:
    world = _World(_binding())
    world.state.put(CLUSTER, _seen(sync, _IS_READY))
    cluster = world.state.targets["m1"]
    world.leases.set_grace("m1", cluster.grace(40.0))
    world.leases.renewed("m1", 0.0, heartbeat=cluster.heartbeat)
    assert world.leases.due(100.0) == silent
    world.leases.silence(silent)
    report = world.observations.present("cluster|m1|Ready")
    assert report is not None
    assert report.status == ("Unknown" if silent else "True")
