"""Whole bridges to a hub and to a Karmada control plane: what they mirror, report and write, and what they forget."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tests.component.bridge.rig import leads, rig
from tests.component.bridge.topics import a_taint
from tests.support.records import T0
from tests.support.virtual_time import virtual_time
from tests.support.waiting import until

from moorage.bridges.karmada.plane_bridge import PlaneAct, PlaneBridge, PlaneOptions
from moorage.bridges.ocm.hub_bridge import HubAct, HubBridge, HubOptions
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.placement import DecisionGroupStatus, PlacedTarget, PlacementState, WorkloadPlaced
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.resources.names import PLACEMENT_LABEL
from moorage_schemas.taint import TargetTainted
from moorage_schemas.topics import PLACEMENTS, TAINTS

OCM: Final = "cluster.open-cluster-management.io"


def conditions(**statuses: str) -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": status} for kind, status in statuses.items()]}


def placed(what: WorkloadRef, uid: str, **fields: Any) -> WorkloadPlaced:
    owner = fields.pop("owner", what)
    return WorkloadPlaced(
        workload=what,
        uid=uid,
        owner=owner,
        owner_uid=uid,
        generation=1,
        state=PlacementState.PLACED,
        decided_time=T0,
        **fields,
    )


@virtual_time
async def test_a_hub_is_mirrored_and_gets_what_was_decided(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        status = conditions(HubAcceptedManagedCluster="True", ManagedClusterConditionAvailable="True")
        here.store.create("ManagedCluster", {"metadata": {"name": "c1"}, "spec": {}, "status": status})
        found = here.store.create("Placement", {"metadata": {"name": "p", "namespace": "shop"}, "spec": {}})
        uid = str(found["metadata"]["uid"])
        bridge = HubBridge(Settings(), HubOptions(here.link, frozenset(HubAct)))
        assert bridge.report()["leading"] is False
        await here.begin(bridge)
        await until(lambda: here.gateway.objects == ["ManagedCluster/c1"] and len(here.gateway.reported) == 2)
        await here.quiet(10)
        assert bridge.ready
        assert leads(bridge)
        assert here.gateway.objects == ["ManagedCluster/c1"], "it is not decided on before the cluster has its taints"
        assert {one.target.key for one in here.gateway.reported} == {"ManagedCluster/c1"}
        assert {one.type for one in here.gateway.reported} == {one["type"] for one in status["conditions"]}
        where = TargetRef(kind=TargetKind.MANAGED_CLUSTER, name="c1")
        tainted = TargetTainted(target=where, generation=1, taints=(a_taint("broken", "NoSelect"),))
        here.topics.write(TAINTS, where.key, tainted)
        await until(lambda: bool(here.store.get("ManagedCluster", "c1")["spec"].get("taints")))
        await until(lambda: here.gateway.objects == ["ManagedCluster/c1", "Placement/p"])
        owner = WorkloadRef(kind="Placement", namespace="shop", name="p")
        page = WorkloadRef(kind="PlacementDecision", namespace="shop", name="p-decision-1")
        named = {"clusters": ("c1",), "labels": {PLACEMENT_LABEL: "p"}}
        here.topics.write(PLACEMENTS, page.key, placed(page, uid, owner=owner, **named))
        group = DecisionGroupStatus(index=0, decisions=("p-decision-1",), clusters=1)
        here.topics.write(PLACEMENTS, owner.key, placed(owner, uid, selected=1, decision_groups=(group,)))
        await until(lambda: here.store.has("PlacementDecision", "p-decision-1", "shop"))
        await here.quiet(2)
        (decision,) = here.store.get("PlacementDecision", "p-decision-1", "shop")["status"]["decisions"]
        assert decision["clusterName"] == "c1"
        assert here.store.get("Placement", "p", "shop")["status"]["numberOfSelectedClusters"] == 1
        report = bridge.report()
        assert (report["fleet_known"], report["clusters"], report["placements"]) == (True, 1, 1)
        here.store.delete("ManagedCluster", "c1")
        await until(lambda: here.gateway.objects[-1] == "-ManagedCluster/c1")


@virtual_time
async def test_a_managed_cluster_whose_lease_is_not_renewed_is_reported(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        status = conditions(HubAcceptedManagedCluster="True", ManagedClusterConditionAvailable="True")
        here.store.create("ManagedCluster", {"metadata": {"name": "c1"}, "spec": {}, "status": status})
        lease = {"metadata": {"name": "managed-cluster-lease", "namespace": "c1"}, "spec": {"renewTime": "t1"}}
        here.store.create("Lease", lease)
        await here.begin(HubBridge(Settings(), HubOptions(here.link)))
        await until(lambda: len(here.gateway.reported) == 2)
        await until(lambda: here.gateway.reported[-1].status == "Unknown", seconds=600)
        assert here.gateway.reported[-1].reason == "ManagedClusterLeaseUpdateStopped"
        here.store.change("Lease", "managed-cluster-lease", "c1", patch={"spec": {"renewTime": "t2"}})
        await until(lambda: here.gateway.reported[-1].status == "True")


@virtual_time
async def test_a_control_plane_is_mirrored_and_gets_what_was_decided(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        here.store.create("Cluster", {"metadata": {"name": "m1"}, "spec": {}, "status": conditions(Ready="True")})
        resource = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"}
        spec = {"resource": resource, "schedulerName": "moorage", "placement": {}, "replicas": 2}
        found = here.store.create("ResourceBinding", {"metadata": {"name": "b", "namespace": "shop"}, "spec": spec})
        bridge = PlaneBridge(Settings(), PlaneOptions(here.link, frozenset(PlaneAct)))
        await here.begin(bridge)
        await until(lambda: here.gateway.objects == ["Cluster/m1"] and len(here.gateway.reported) == 1)
        await here.quiet(60)
        assert leads(bridge)
        assert here.gateway.objects == ["Cluster/m1"], "it is not decided on before the cluster has its taints"
        where = TargetRef(kind=TargetKind.CLUSTER, name="m1")
        tainted = TargetTainted(target=where, generation=1, taints=(a_taint("broken", "NoSchedule"),))
        here.topics.write(TAINTS, where.key, tainted)
        await until(lambda: bool(here.store.get("Cluster", "m1")["spec"].get("taints")))
        await until(lambda: here.gateway.objects == ["Cluster/m1", "ResourceBinding/b"])
        what = WorkloadRef(kind="ResourceBinding", namespace="shop", name="b")
        targets = (PlacedTarget(target=where, replicas=2, binding_generation=1),)
        decided = placed(what, str(found["metadata"]["uid"]), reason="Scheduled", targets=targets)
        here.topics.write(PLACEMENTS, what.key, decided)
        await until(lambda: bool(here.store.get("ResourceBinding", "b", "shop")["spec"].get("clusters")))
        await here.quiet(2)
        written = here.store.get("ResourceBinding", "b", "shop")
        assert written["spec"]["clusters"] == [{"name": "m1", "replicas": 2}]
        assert written["status"]["conditions"][0]["reason"] == "Success"
        report = bridge.report()
        assert (report["fleet_known"], report["clusters"], report["bindings"]) == (True, 1, 1)
        here.store.delete("ResourceBinding", "b", "shop")
        await until(lambda: here.gateway.objects[-1] == "-ResourceBinding/b")


@virtual_time
async def test_a_cluster_whose_agent_has_fallen_silent_is_reported(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        cluster = {"metadata": {"name": "m1"}, "spec": {"syncMode": "Pull"}, "status": conditions(Ready="True")}
        here.store.create("Cluster", cluster)
        lease = {"metadata": {"name": "m1", "namespace": "karmada-cluster"}, "spec": {"renewTime": "t1"}}
        here.store.create("Lease", lease)
        await here.begin(PlaneBridge(Settings(), PlaneOptions(here.link)))
        await until(lambda: len(here.gateway.reported) == 1)
        await until(lambda: here.gateway.reported[-1].status == "Unknown", seconds=60)
        assert here.gateway.reported[-1].reason == "ClusterStatusUnknown"
        here.store.change("Lease", "m1", "karmada-cluster", patch={"spec": {"renewTime": "t2"}})
        await until(lambda: here.gateway.reported[-1].status == "True")
