"""Two clusters under one name do not forget each other's objects."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.component.bridge.cluster import node
from tests.component.bridge.rig import Rig, rig
from tests.support.kube_api import serve_kube_api
from tests.support.virtual_time import virtual_time
from tests.support.waiting import until

from moorage.bridges.kubernetes.cluster_bridge import KubernetesBridge
from moorage.runtime.process.failures import RuntimeFailure
from moorage_schemas.topics import RESOURCES

SYSTEM = "kube-system"


@asynccontextmanager
async def another_cluster(here: Rig, folder: Path) -> AsyncIterator[Rig]:
    """A second cluster, and the bridges from it to the same topics."""
    async with serve_kube_api() as api:
        found = Rig(api, here.gateway, made(folder))
        try:
            yield found
        finally:
            for bridge in tuple(found.bridges):
                await found.stop(bridge)


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def uid_of(here: Rig) -> str:
    """The uid by which a cluster is told apart."""
    return str(here.store.get("Namespace", SYSTEM)["metadata"]["uid"])


async def failure_of(here: Rig, bridge: KubernetesBridge) -> str:
    """What a bridge says that ends by itself."""
    here.bridges.remove(bridge)
    with pytest.raises(RuntimeFailure) as failed:
        await bridge.join()
    return str(failed.value)


@virtual_time
@pytest.mark.parametrize("cluster", ["", "east"])
async def test_a_second_cluster_under_one_name_is_not_mirrored(tmp_path: Path, cluster: str) -> None:
    async with rig(tmp_path) as here, another_cluster(here, tmp_path / "other") as other:
        here.store.create("Node", node("n1"))
        other.store.create("Node", node("n2"))
        await here.run(cluster=cluster)
        await until(lambda: here.gateway.objects == ["Node/n1"])
        text = await failure_of(other, await other.start(cluster=cluster))
        where, option = ("the cluster east", " --cluster east") if cluster else ("the home fleet", "")
        assert text == (
            f"{where} has objects that bridge/{cluster or 'home'} has mirrored from the cluster with the uid "
            f"{uid_of(here)}, and this cluster has the uid {uid_of(other)} (of its namespace kube-system). "
            "Two clusters cannot have one name: give this one another with --cluster. If the other one no longer "
            f"exists, remove its mirrored objects with `moorage bridge leave{option} --gone`"
        )
        assert here.gateway.objects == ["Node/n1"]
        assert other.api.writes == []


@virtual_time
async def test_of_two_clusters_that_begin_together_one_is_mirrored(tmp_path: Path) -> None:
    """Neither knows of the other from the topics, so the gateway decides."""
    async with rig(tmp_path) as here, another_cluster(here, tmp_path / "other") as other:
        other.store.create("Node", node("n2"))
        first, second = await here.run(acts=()), await other.run(acts=())
        here.store.create("Node", node("n1"))
        await until(lambda: here.gateway.objects == ["Node/n2"])
        text = await failure_of(here, first)
        assert f"there is {uid_of(other)}. Two clusters cannot have one name" in text
        await other.quiet(65)
        assert second.ready
        assert here.gateway.objects == ["Node/n2"]


@virtual_time
async def test_clusters_with_names_of_their_own_are_side_by_side(tmp_path: Path) -> None:
    async with rig(tmp_path) as here, another_cluster(here, tmp_path / "other") as other:
        here.store.create("Node", node("n1"))
        other.store.create("Node", node("n1"))
        await here.run()
        await other.run(cluster="east")
        await until(lambda: here.topics.event(RESOURCES, "east:Node//n1") is not None)
        await here.quiet(65)
        found = [here.topics.event(RESOURCES, key).mirrored.cluster_uid for key in ("Node//n1", "east:Node//n1")]
        assert found == [uid_of(here), uid_of(other)]


@virtual_time
@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        ("east", "west", "This bridge has --cluster west, and the other one --cluster east."),
        ("east", "", "This bridge has no --cluster, and the other one --cluster east."),
        ("", "west", "This bridge has --cluster west, and the other one no --cluster."),
    ],
)
async def test_one_cluster_under_two_names_ends_the_second_bridge(
    tmp_path: Path, first: str, second: str, text: str
) -> None:
    async with rig(tmp_path) as here:
        here.store.create("Node", node("n1"))
        one = await here.run(cluster=first)
        await until(lambda: here.gateway.objects == ["Node/n1"])
        other = await here.start(cluster=second)
        told = await failure_of(here, other)
        assert f"409 clusterUID: bridge/{first or 'home'} mirrors it. {text} Run one of them only." in told
        option = f" --cluster {first}" if first else ""
        assert told.endswith(f"forget what it has mirrored with `moorage bridge leave{option}`")
        await here.quiet(65)
        assert one.ready
        assert here.gateway.objects == ["Node/n1"]


@virtual_time
async def test_what_was_mirrored_before_clusters_were_told_apart_is_of_this_one(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        here.topics.declare({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0", "uid": "u0"}})
        here.store.create("Node", node("n1"))
        await here.run()
        await until(lambda: sorted(here.gateway.objects) == ["-Node/n0", "Node/n1"])
        assert here.topics.event(RESOURCES, "Node//n1").mirrored.cluster_uid == uid_of(here)


@virtual_time
async def test_a_cluster_that_does_not_say_which_it_is_is_not_mirrored(tmp_path: Path) -> None:
    """As long as the role of the bridge lacks the right, for example."""
    async with rig(tmp_path) as here:
        here.store.create("Node", node("n1"))
        fault = here.api.fault("GET", f"/namespaces/{SYSTEM}", times=3, status=403)
        bridge = await here.start()
        await fault.reached.wait()
        assert not bridge.ready
        assert here.gateway.objects == []
        await until(lambda: bridge.ready)
        await until(lambda: here.gateway.objects == ["Node/n1"])


@virtual_time
async def test_a_bridge_ends_when_another_cluster_answers_at_its_address(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        bridge = await here.run()
        was = uid_of(here)
        here.store.delete("Namespace", SYSTEM)
        here.store.create("Namespace", {"metadata": {"name": SYSTEM}})
        text = await failure_of(here, bridge)
        assert text == (
            f"{here.api.server} is another cluster now: its namespace kube-system has the uid {uid_of(here)}, and had "
            f"{was}"
        )


@virtual_time
async def test_a_cluster_that_is_away_is_not_another_one(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        bridge = await here.run()
        here.api.go_away()
        await here.quiet(300)
        here.api.heal()
        await here.quiet(120)
        assert bridge.ready


@virtual_time
async def test_a_bridge_says_regularly_that_it_is_there(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        await here.run(acts=())
        here.gateway.is_away = True
        await here.quiet(60)
        here.gateway.is_away = False
        here.gateway.mirrored.clear()
        await here.quiet(65)
        found = [(one["source"], one["clusterUID"], one["objects"]) for one in here.gateway.mirrored]
        assert found == [("bridge/home", uid_of(here), [])] * 2
