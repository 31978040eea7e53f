"""`GET /v1/clusters`: which clusters are mirrored, and when their bridges were last heard."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from tests.component.gateway.double import NOW, Fixture, Json
from tests.component.gateway.test_access import allow, call, gateway_of
from tests.component.gateway.test_mirror import gone, mirrored, of_cluster, seen, seen_node, seen_pod

from moorage_schemas.times import format_time

PATH = "/v1/clusters"


async def listed(gateway: Fixture) -> list[Json]:
    found: list[Json] = (await gateway.ok("GET", PATH))["items"]
    return found


async def test_each_bridge_is_listed_with_what_it_has_mirrored() -> None:
    gateway = Fixture()
    assert await listed(gateway) == []
    await gateway.ok("POST", "/api/v1/nodes", {"metadata": {"name": "mine"}})
    hub = seen(
        {"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster", "metadata": {"name": "a"}}
    )
    east = of_cluster("c1", seen_node(), seen_node("n2"), seen_pod(), source="bridge/east", cluster="east")
    await gateway.ok("POST", "/v1/mirror", east)
    await gateway.ok("POST", "/v1/mirror", of_cluster("c2", hub, source="bridge/ocm"))
    gateway.clock.time = NOW + timedelta(seconds=30)
    await gateway.ok("POST", "/v1/mirror", of_cluster("c1", source="bridge/east", cluster="east"))
    assert await listed(gateway) == [
        {
            "name": "home",
            "source": "bridge/ocm",
            "clusterUID": "c2",
            "targets": 1,
            "workloads": 0,
            "lastHeardTime": format_time(NOW),
        },
        {
            "name": "east",
            "source": "bridge/east",
            "clusterUID": "c1",
            "targets": 2,
            "workloads": 1,
            "lastHeardTime": format_time(NOW + timedelta(seconds=30)),
        },
    ]


async def test_a_cluster_without_objects_is_listed_while_its_bridge_speaks() -> None:
    gateway = Fixture()
    await gateway.ok("POST", "/v1/mirror", of_cluster("c1", cluster="east"))
    assert [(one["name"], one["targets"]) for one in await listed(gateway)] == [("east", 0)]
    gateway.clock.time = NOW + timedelta(minutes=11)
    assert await listed(gateway) == []


async def test_a_cluster_that_was_left_is_not_listed_any_more() -> None:
    gateway = Fixture()
    await gateway.ok("POST", "/v1/mirror", of_cluster("c1", seen_node()))
    assert len(await listed(gateway)) == 1
    await mirrored(gateway, deleted=[gone(seen_node())])
    assert await listed(gateway) == []


async def test_a_second_name_of_a_cluster_is_not_listed() -> None:
    gateway = Fixture()
    await gateway.ok("POST", "/v1/mirror", of_cluster("c1", seen_node(), cluster="east"))
    await gateway.ok("POST", "/v1/mirror", of_cluster("c1", cluster="west", source="bridge/west"))
    assert [one["name"] for one in await listed(gateway)] == ["east", "west"]
    refused = await gateway.call(
        "POST", "/v1/mirror", of_cluster("c1", seen_node(), cluster="west", source="bridge/west")
    )
    assert refused.status_code == 409
    assert [one["name"] for one in await listed(gateway)] == ["east"]


async def test_a_gateway_that_has_just_begun_to_lead_does_not_know_when_bridges_spoke() -> None:
    before, after = Fixture(), Fixture(ready=False, namespaces=())
    await before.ok("POST", "/v1/mirror", of_cluster("c1", seen_node(), cluster="east"))
    for write in before.declared:
        after.log.append(write.topic, write.key, write.partition_key, write.event, write.meta)
    after.begin()
    (found,) = await listed(after)
    assert (found["name"], found["clusterUID"], found["targets"]) == ("east", "c1", 1)
    assert "lastHeardTime" not in found


async def test_who_lists_clusters_needs_the_right(tmp_path: Path) -> None:
    gateway = await gateway_of(tmp_path)
    assert (await call(gateway, "a", "GET", PATH)).status_code == 403
    rule = {"verbs": ["list"], "apiGroups": ["moorage.io"], "resources": ["clusters"]}
    await allow(gateway, "listing", [{"kind": "User", "name": "ann"}], rule)
    assert (await call(gateway, "a", "GET", PATH)).status_code == 200
    assert (await call(gateway, "root", "POST", PATH, {})).status_code == 405
