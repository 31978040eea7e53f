"""Simulations of clusters: Karmada's policies and feature gates, OCM's placements and add-ons."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.component.simulation.copying import applied, ask, client, copy_of, nothing, outage
from tests.support.worlds.karmada import KarmadaWorld
from tests.support.worlds.ocm import OcmWorld, tolerates

from moorage.insight.copy.gateway import Edge
from moorage.insight.copy.run import Change
from moorage.insight.copy.snapshot import Snapshot
from moorage.insight.copy.stack import MemoryStack
from moorage.insight.diff.changes import ChangeError, ZoneOutage
from moorage.runtime.settings.process_settings import Settings
from moorage.workers import condition_ingest, eviction, governor, taint_manager, timer
from moorage_schemas.times import format_time
from moorage_schemas.topics import TAINTS

MERGE = {"content-type": "application/merge-patch+json"}
GROUP = "/apis/cluster.open-cluster-management.io/v1"
AVAILABLE = "ManagedClusterConditionAvailable"


def karmada(**settings: Any) -> KarmadaWorld:
    """Two clusters with reports, and a deployment that a policy divides over them."""
    world = KarmadaWorld(
        "m1", "m2", **{"resource_eviction_rate": 0.5, "allow_no_execute_taint_policy": True, **settings}
    )
    for name in ("m1", "m2"):
        world.ready(name)
    world.policy(placement={"replicaScheduling": {"replicaSchedulingType": "Divided"}})
    for number in range(4):
        world.deploy(f"web{number}", 2)
    world.run()
    return world


def test_a_policy_that_evicts_is_simulated_with_its_gates_and_its_rate() -> None:
    world = karmada()
    policy = {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "ClusterTaintPolicy",
        "metadata": {"name": "drain"},
        "spec": {
            "targetClusters": {"clusterNames": ["m1"]},
            "addOnConditions": [{"conditionType": "Ready", "operator": "In", "statusValues": ["True"]}],
            "taints": [{"key": "drain", "effect": "NoExecute"}],
        },
    }
    made = dict(policy)

    def change(edge: Edge, _stack: MemoryStack) -> list[str]:
        answer = client(edge).post("/apis/policy.karmada.io/v1alpha1/clustertaintpolicies", json=made)
        assert answer.status_code == 201, answer.text
        return []

    said, _ = ask(copy_of(world.flow), world.settings, change)
    assert [one["target"] for one in said["targets"]] == ["Cluster/m1"]
    times = [one["at"] for one in said["leaving"]]
    start = world.flow.now
    assert len(times) == 4
    assert times == [format_time(start + timedelta(seconds=2 * number)) for number in range(4)]
    assert said["leaving"][3]["holds"][0]["by"] == ["resource-eviction-rate"]
    assert {tuple(one["to"]["targets"]) for one in said["decisions"]} == {("Cluster/m2 x2",)}
    without_gate = world.settings.model_copy(update={"enable_no_execute_taint_eviction": False})
    said, _ = ask(copy_of(world.flow), without_gate, change)
    assert said["leaving"] == []
    assert said["summary"]["targets"] == 1


def test_the_gateway_of_the_copy_refuses_as_the_live_one() -> None:
    world = karmada()
    strict = world.settings.model_copy(update={"allow_no_execute_taint_policy": False})
    taints = [{"key": "drain", "effect": "NoExecute"}]
    policy = {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "ClusterTaintPolicy",
        "metadata": {"name": "drain"},
        "spec": {"taints": taints},
    }
    with pytest.raises(AssertionError, match="NoExecute"):
        ask(copy_of(world.flow), strict, applied(policy))


class Hub(OcmWorld):
    """Managed clusters with an add-on each. An agent reports on the clusters, and leases on the add-ons."""

    def __init__(self, *clusters: str) -> None:
        modules = (condition_ingest, taint_manager, governor, eviction, timer)
        super().__init__(services=[module.service(Settings(partitions=3)) for module in modules])
        for name in clusters:
            self.cluster(name, labels={"topology.kubernetes.io/zone": name[0]}, spec={"hubAcceptsClient": True})
            self.declare("ManagedClusterAddOn", "observability", namespace=name)
        self.clusters = clusters
        self.beat()

    def beat(self) -> None:
        """Report that every cluster is available, and renew the leases of the add-ons."""
        for name in self.clusters:
            lease = {"renewTime": format_time(self.flow.now), "leaseDurationSeconds": 60}
            self.declare("Lease", "observability", lease, namespace=name)
            self.available(name)
        self.flow.run()

    def copy(self) -> Snapshot:
        return copy_of(self.flow)


def hub() -> Hub:
    """Three clusters, and a placement that selects two of them and tolerates `busy` for five minutes."""
    made = Hub("a1", "a2", "b1")
    made.placement(numberOfClusters=2, tolerations=[tolerates("busy", seconds=300)])
    made.flow.advance(100)
    assert made.selected() == ["a1", "a2"]
    return made


def tainted(cluster: str, key: str) -> Change:
    """Put a taint on a managed cluster."""

    def change(edge: Edge, _stack: MemoryStack) -> list[str]:
        body = {"spec": {"taints": [{"key": key, "effect": "NoSelect"}]}}
        answer = client(edge).patch(f"{GROUP}/managedclusters/{cluster}", json=body, headers=MERGE)
        assert answer.status_code == 200, answer.text
        return []

    return change


def test_nothing_runs_out_in_the_copy() -> None:
    """Neither clusters nor leases of add-ons fall silent, although the copy runs for a day."""
    made = hub()
    labels = {key: event.labels for key, event in made.flow.table(TAINTS).items()}
    assert all("available" in one.values() for one in labels.values())
    said, found = ask(made.copy(), made.settings, nothing, timedelta(days=1))
    assert found.changed.records == {}
    assert said["quiet"]


def test_an_outage_moves_what_placements_select() -> None:
    made = hub()
    said, _ = ask(made.copy(), made.settings, outage("zone=a"))
    assert [one["target"] for one in said["targets"]] == ["ManagedCluster/a1", "ManagedCluster/a2"]
    (row,) = said["placements"]
    assert (row["placement"], row["added"], row["removed"]) == ("Placement/default/p", ["b1"], ["a1", "a2"])
    assert (row["without"], row["selected"], row["at"]) == (2, 1, format_time(made.flow.now))
    assert row["reason"] == "NotAllDecisionsScheduled"


def test_a_taint_that_is_tolerated_for_a_while_moves_a_placement_when_that_ends() -> None:
    made = hub()
    said, _ = ask(made.copy(), made.settings, tainted("a1", "busy"))
    (row,) = said["placements"]
    assert (row["added"], row["removed"]) == (["b1"], ["a1"])
    assert row["at"] == format_time(made.flow.now + timedelta(seconds=300))
    assert said["decisions"] == []
    said, _ = ask(made.copy(), made.settings, tainted("a1", "busy"), timedelta(seconds=200))
    assert said["placements"] == []
    assert said["quiet"] is False


def test_a_new_placement_says_what_it_would_select() -> None:
    made = hub()
    placement = {
        "apiVersion": "cluster.open-cluster-management.io/v1beta1",
        "kind": "Placement",
        "metadata": {"name": "new", "namespace": "default"},
        "spec": {},
    }
    said, _ = ask(made.copy(), made.settings, applied(placement))
    (row,) = said["placements"]
    assert (row["placement"], row["added"], row["without"]) == ("Placement/default/new", ["a1", "a2", "b1"], 0)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("zone=a", ["ManagedCluster/a1", "ManagedCluster/a2"]),
        ("zone=none.a", ["ManagedCluster/a1", "ManagedCluster/a2"]),  # the API's name for a zone without a region
        ("cluster=b1", ["ManagedCluster/b1"]),
        ("topology.kubernetes.io/zone=b", ["ManagedCluster/b1"]),
        ("topology.kubernetes.io/zone in (a,b)", ["ManagedCluster/a1", "ManagedCluster/a2", "ManagedCluster/b1"]),
    ],
)
def test_what_an_outage_names(text: str, names: list[str]) -> None:
    made = Hub("a1", "a2", "b1")
    assert sorted(target.key for target in ZoneOutage.parse(text).targets(made.flow)) == names


def test_an_outage_of_nothing_is_an_error() -> None:
    made = Hub("a1")
    with pytest.raises(ChangeError, match="--outage zone=z: no node or cluster matches"):
        ZoneOutage.parse("zone=z").targets(made.flow)
    for text in ("", "  ", "a==b=c", "(x)"):
        with pytest.raises(ChangeError, match="invalid outage"):
            ZoneOutage.parse(text)
