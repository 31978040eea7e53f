"""What a bridge does on a Karmada control plane, what it tells there, and what it does beside who undoes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final

import pytest
from tests.component.bridge.cluster import client_of
from tests.component.bridge.topics import a_taint
from tests.support.kube_api import KubeApi, serve_kube_api
from tests.support.kube_store import Change
from tests.support.virtual_time import virtual_time

from moorage.bridges.engine.acts import ActQueue, Contention
from moorage.bridges.karmada.binding_acts import BindingActs
from moorage.bridges.karmada.member_acts import MemberActs
from moorage.bridges.karmada.plane import CLUSTER, PlaneState
from moorage.bridges.karmada.plane_tables import PlaneTables
from moorage.runtime.service import Input
from moorage_schemas.envelope import Meta
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.placement import PlacedTarget, PlacementState, WorkloadBound, WorkloadPlaced
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.resources.workload_kinds import CLUSTER_RESOURCE_BINDING, RESOURCE_BINDING
from moorage_schemas.topics import BINDINGS, EVICTIONS, PLACEMENTS, Topic

_AT: Final = datetime(2026, 1, 1, tzinfo=UTC)
_FAR: Final = 40
"""Writes of two that contradict each other without a pause, in far less than a second."""


class _Plane:
    """A control plane with one binding and one cluster, and a bridge's view of both."""

    def __init__(self, api: KubeApi, kind: str = RESOURCE_BINDING, scheduler: str = "moorage") -> None:
        self.api, self.kind = api, kind
        self.namespace = "shop" if kind == RESOURCE_BINDING else ""
        self.noticed: list[str] = []
        self.told: list[tuple[str, str, str, str]] = []
        """The kind of the object, the type, the reason and the message of each event."""

        self.state = PlaneState(scheduler, lambda _kind, _key: None)
        self.tables = PlaneTables(lambda _kind, _key: None)
        resource = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": self.namespace, "name": "web"}
        spec = {"resource": resource, "schedulerName": "moorage", "placement": {}, "replicas": 2}
        api.store.create(kind, {"metadata": {"name": "b", "namespace": self.namespace}, "spec": spec})
        api.store.create(CLUSTER, {"metadata": {"name": "m1"}, "spec": {"syncMode": "Push"}})
        self.see()
        self.queues = {act: ActQueue(act) for act in ("bindings", "taints")}
        client = client_of(api)
        bindings = BindingActs(
            client,
            self.tables,
            self.state.bindings.get,
            seen=lambda found: self.state.put(str(found["kind"]), found),
            undone=self._contention("bindings"),
            tell=self._tell,
        )
        clusters = MemberActs(
            client,
            self.tables,
            self.state.targets.get,
            seen=lambda found: self.state.put(CLUSTER, found),
            is_settled=lambda _: True,
            undone=self._contention("taints"),
            tell=self._tell,
        )
        self.works = {"bindings": bindings.place, "taints": clusters.taint}

    @property
    def key(self) -> str:
        return self.state.key_of(self.kind, self.binding)

    @property
    def binding(self) -> dict[str, Any]:
        return self.api.store.get(self.kind, "b", self.namespace)

    def see(self) -> None:
        """Let the bridge see everything as it is now."""
        self.state.put(self.kind, self.api.store.get(self.kind, "b", self.namespace))
        self.state.put(CLUSTER, self.api.store.get(CLUSTER, "m1"))

    def decide(self, *clusters: str, state: PlacementState = PlacementState.PLACED, message: str = "") -> None:
        ref, uid = WorkloadRef.parse(self.key), self.binding["metadata"]["uid"]
        placed = WorkloadPlaced(
            workload=ref,
            uid=uid,
            owner=ref,
            owner_uid=uid,
            generation=1,
            state=state,
            reason="Scheduled" if state is PlacementState.PLACED else "Unschedulable",
            message=message,
            targets=tuple(PlacedTarget(target=_cluster(one), replicas=2, binding_generation=1) for one in clusters),
            decided_time=_AT,
        )
        self._fold(PLACEMENTS, self.key, placed)

    def evict(self, cluster: str) -> None:
        ref, uid = WorkloadRef.parse(self.key), self.binding["metadata"]["uid"]
        key, target = f"{self.key}|Cluster/{cluster}", _cluster(cluster)
        bound = WorkloadBound(workload=ref, uid=uid, owner=ref, target=target, generation=1, bound_time=_AT)
        self._fold(BINDINGS, key, bound)
        eviction = EvictionDecided(
            workload=ref,
            workload_uid=uid,
            owner=ref,
            target=target,
            generation=1,
            revision=1,
            state=EvictionState.REQUESTED,
            purge_mode="Directly",
            decided_time=_AT,
        )
        self._fold(EVICTIONS, f"{key}|1", eviction)

    async def act(self, seconds: float = 1.0) -> None:
        """Let the bridge do what it has to do, for a while."""
        self.see()
        self.queues["bindings"].add(self.key)
        self.queues["taints"].add("m1")
        async with self.running():
            await asyncio.sleep(seconds)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Let all queues work."""
        tasks = [asyncio.create_task(queue.run(self.works[act])) for act, queue in self.queues.items()]
        try:
            yield
            assert not any(task.done() for task in tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _contention(self, act: str) -> Contention:
        return Contention(act, self.queues[act].add_later, self.noticed.append)

    def _tell(self, event: dict[str, Any]) -> None:
        self.told.append((event["involvedObject"]["kind"], event["type"], event["reason"], event["message"]))

    def _fold(self, topic: Topic, key: str, event: Any) -> None:
        meta = Meta(id="i", source="s", type="t", time=_AT)
        self.tables.apply(Input(topic=topic, partition=0, offset=0, key=key, event=event, meta=meta))


def _cluster(name: str) -> TargetRef:
    return TargetRef(kind=TargetKind.CLUSTER, name=name)


@virtual_time
@pytest.mark.parametrize("kind", [RESOURCE_BINDING, CLUSTER_RESOURCE_BINDING])
async def test_where_something_is_placed_is_told_of_its_binding_and_of_itself(kind: str) -> None:
    async with serve_kube_api() as api:
        plane = _Plane(api, kind)
        plane.decide("m1")
        await plane.act()
        assert plane.binding["spec"]["clusters"] == [{"name": "m1", "replicas": 2}]
        text = ("Normal", "ScheduleBindingSucceed", "Scheduled to m1:2")
        assert plane.told == [(kind, *text), ("Deployment", *text)]
        await plane.act(120)
        assert len(plane.told) == 2, "nothing has changed"


@virtual_time
async def test_that_no_cluster_fits_is_told_once() -> None:
    async with serve_kube_api() as api:
        plane = _Plane(api)
        plane.decide(state=PlacementState.PENDING, message="0/1 clusters are available")
        for _ in range(2):
            await plane.act()
        text = ("Warning", "ScheduleBindingFailed", "0/1 clusters are available")
        assert plane.told == [(RESOURCE_BINDING, *text), ("Deployment", *text)]


@virtual_time
async def test_an_eviction_is_told_when_it_is_over() -> None:
    async with serve_kube_api() as api:
        plane = _Plane(api)
        tasks = [{"fromCluster": name, "producer": "TaintManager"} for name in ("m1", "m2")]
        there = {"spec": {"clusters": [{"name": "m3", "replicas": 2}], "gracefulEvictionTasks": tasks}}
        api.store.change(RESOURCE_BINDING, "b", "shop", patch=there, manager="karmada", strategic=False)
        plane.decide("m2")
        await plane.act()
        assert "gracefulEvictionTasks" not in plane.binding["spec"]
        evicted = [(kind, what, text) for kind, what, reason, text in plane.told if reason.startswith("Evict")]
        text = ("Normal", "Evicted from cluster m1")
        assert evicted == [(RESOURCE_BINDING, *text), ("Deployment", *text)], "it has come back to the other one"


@virtual_time
async def test_an_eviction_that_is_refused_is_told() -> None:
    async with serve_kube_api() as api:
        plane = _Plane(api, scheduler="other")
        there = {"spec": {"clusters": [{"name": "m1"}], "schedulerName": "somebody"}}
        api.store.change(RESOURCE_BINDING, "b", "shop", patch=there, manager="karmada", strategic=False)
        plane.evict("m1")
        api.fault("PATCH", "/b", status=422)
        await plane.act()
        assert plane.binding["spec"]["gracefulEvictionTasks"][0]["fromCluster"] == "m1", "it was tried again"
        assert [told[:3] for told in plane.told] == [
            (kind, "Warning", "EvictWorkloadFromClusterFailed") for kind in (RESOURCE_BINDING, "Deployment")
        ]


@virtual_time
async def test_what_the_control_plane_refuses_is_told() -> None:
    async with serve_kube_api() as api:
        plane = _Plane(api)
        api.fault("PATCH", "/b", status=422)
        plane.decide("m1")
        await plane.act()
        assert {(kind, what, reason) for kind, what, reason, _ in plane.told[:2]} == {
            (RESOURCE_BINDING, "Warning", "ScheduleBindingFailed"),
            ("Deployment", "Warning", "ScheduleBindingFailed"),
        }
        assert {reason for *_, reason, _ in plane.told[2:]} == {"ScheduleBindingSucceed"}, "it was tried again"


@virtual_time
async def test_taints_are_told_of_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve_kube_api() as api:
        plane = _Plane(api)
        monkeypatch.setattr(plane.tables, "own_taints", lambda _name, _uid: (a_taint("broken", "NoSchedule"),))
        api.fault("PATCH", "/m1", status=422)
        await plane.act()
        failed, done = plane.told
        assert failed[:3] == (CLUSTER, "Warning", "TaintClusterFailed")
        assert done == (CLUSTER, "Normal", "TaintClusterSucceed", "Its taints are broken:NoSchedule now")


def _undoing(plane: _Plane, act: str, kind: str, patch: dict[str, Any]) -> Callable[[Change], None]:
    """Returns what undoes each write of the bridge at once."""
    name, namespace = ("m1", "") if kind == CLUSTER else ("b", plane.namespace)

    def undo() -> None:
        assert len(plane.api.writes) < _FAR, "both write in turn, as fast as they can"
        spec = plane.api.store.get(kind, name, namespace)["spec"]
        if any(spec.get(field) for field in patch["spec"]):
            plane.api.store.change(kind, name, namespace, patch=patch, manager="other", strategic=False)
        plane.see()
        plane.queues[act].add("m1" if kind == CLUSTER else plane.key)

    def told(change: Change) -> None:
        if change.type == "MODIFIED" and change.resource.kind == kind:
            asyncio.get_running_loop().call_soon(undo)

    return told


@virtual_time
@pytest.mark.parametrize(
    ("act", "kind", "patch"),
    [
        ("taints", CLUSTER, {"spec": {"taints": None}}),
        ("bindings", RESOURCE_BINDING, {"spec": {"clusters": None}}),
        ("bindings", CLUSTER_RESOURCE_BINDING, {"spec": {"clusters": None}}),
    ],
)
async def test_it_writes_less_and_less_often_what_somebody_undoes(
    monkeypatch: pytest.MonkeyPatch, act: str, kind: str, patch: dict[str, Any]
) -> None:
    async with serve_kube_api() as api:
        plane = _Plane(api, RESOURCE_BINDING if kind == CLUSTER else kind)
        if kind == CLUSTER:
            monkeypatch.setattr(plane.tables, "own_taints", lambda _name, _uid: (a_taint("broken", "NoSchedule"),))
        else:
            plane.decide("m1")
        api.store.told.append(_undoing(plane, act, kind, patch))
        await plane.act(300)
        api.store.told.clear()
        moved = [one for one in api.writes if not one.path.endswith("/status")]
        assert 5 <= len(moved) < _FAR, "it goes on, since the other may have been switched off"
        assert plane.noticed == ["m1" if kind == CLUSTER else plane.key] * (len(moved) - 2)
