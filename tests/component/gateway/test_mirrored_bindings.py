"""Bindings of a real Karmada control plane: how they are recorded, and how the API shows them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.component.gateway.double import NOW, Fixture, Json
from tests.component.gateway.test_mirror import mirrored

from moorage_schemas.placement import PlacedTarget, PlacementState, WorkloadBound, WorkloadPlaced
from moorage_schemas.refs import TargetRef, WorkloadRef
from moorage_schemas.topics import BINDINGS, PLACEMENTS, RESOURCES

_KEY = "ResourceBinding/shop/web-deployment"
_PATH = "/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings/web-deployment"


def _binding(**spec: Any) -> Json:
    return {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {"name": "web-deployment", "namespace": "shop", "uid": "u1", "resourceVersion": "7"},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
            "clusters": [{"name": "m1", "replicas": 2}],
            **spec,
        },
        "status": {"aggregatedStatus": [{"clusterName": "m1", "health": "Healthy"}]},
    }


async def test_a_binding_is_shown_as_its_control_plane_has_it() -> None:
    gateway = Fixture()
    assert await mirrored(gateway, _binding(), source="bridge/karmada") == [(_KEY, "Written")]
    assert [write.key for write in gateway.log.written if write.topic is RESOURCES] == [_KEY]
    shown = await gateway.ok("GET", _PATH)
    assert (shown["spec"], shown["status"]) == (_binding()["spec"], _binding()["status"])
    await mirrored(gateway, deleted=[{"kind": "ResourceBinding", "namespace": "shop", "name": "web-deployment"}])
    assert (await gateway.call("GET", _PATH)).status_code == 404


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"clusters": "everywhere"}, "spec.clusters"),
        ({"replicas": "two"}, "spec.replicas"),
        ({"placement": {"spreadConstraints": [{"maxGroups": "x"}]}}, "spec.placement.spreadConstraints[0].maxGroups"),
    ],
)
async def test_one_that_cannot_be_read_is_refused_with_its_field(spec: dict[str, Any], field: str) -> None:
    gateway = Fixture()
    ((key, outcome),) = await mirrored(gateway, _binding(**spec))
    assert (key, outcome.partition(":")[0]) == (_KEY, "Refused")
    assert field in outcome


async def test_one_without_a_namespace_is_shown_beside_its_decision() -> None:
    gateway, key = Fixture(), "ClusterResourceBinding//web-clusterrole"
    found = _binding(clusters=[{"name": "m1"}])
    found |= {"kind": "ClusterResourceBinding", "metadata": {"name": "web-clusterrole", "uid": "u1"}}
    found["metadata"]["resourceVersion"] = "7"
    assert await mirrored(gateway, found, source="bridge/karmada") == [(key, "Written")]
    path = "/apis/work.karmada.io/v1alpha2/clusterresourcebindings"
    (shown,) = (await gateway.ok("GET", path))["items"]
    assert shown["spec"] == found["spec"]
    assert (await gateway.call("DELETE", f"{path}/web-clusterrole")).status_code == 405
    workload, target = WorkloadRef.parse(key), TargetRef.parse("Cluster/m1")
    placed = WorkloadPlaced(
        workload=workload,
        uid="u1",
        owner=workload,
        owner_uid="u1",
        generation=1,
        state=PlacementState.PLACED,
        targets=(PlacedTarget(target=target, binding_generation=1),),
        decided_time=NOW,
    )
    bound = WorkloadBound(workload=workload, uid="u1", owner=workload, target=target, generation=1, bound_time=NOW)
    gateway.log.append(PLACEMENTS, key, key, placed)
    gateway.log.append(BINDINGS, f"{key}|Cluster/m1", "Cluster/m1", bound)
    views = "/apis/moorage.io/v1alpha1/namespaces/default"
    name = "clusterresourcebinding:web-clusterrole"
    decided = await gateway.ok("GET", f"{views}/workloadplacements/{name}")
    assert decided["status"]["targets"][0]["target"]["name"] == "m1"
    assert (await gateway.ok("GET", f"{views}/bindings/{name}:cluster.m1"))["status"]["generation"] == 1
