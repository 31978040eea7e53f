"""A bridge that leaves takes back what is its own, and nothing of others; what was mirrored is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from tests.component.bridge.cluster import client_of
from tests.component.bridge.gateway import GatewayDouble, serve_gateway
from tests.component.bridge.topics import Topics, TopicsReader
from tests.support.kube_api import KubeApi, serve_kube_api
from tests.support.virtual_time import virtual_time
from tests.support.waiting import until

from moorage.bridges.engine import leaving
from moorage.bridges.engine.gateway_client import GatewayAddress
from moorage.bridges.engine.leaving import Bridged, Left, leave
from moorage.bridges.engine.plan import Link
from moorage.bridges.engine.seen_target import TAINTS_ANNOTATION
from moorage.bridges.karmada.plane_bridge import bridged_plane
from moorage.bridges.kube.client import FIELD_MANAGER, ClusterAccess
from moorage.bridges.kube.election import Election
from moorage.bridges.kubernetes.cluster_bridge import bridged_cluster
from moorage.bridges.ocm.hub_bridge import bridged_hub
from moorage.decide.taints.desired.addons import LABEL_PREFIX
from moorage.runtime.process.failures import RuntimeFailure
from moorage.runtime.settings.process_settings import Settings

Json = dict[str, Any]

MINE: Final = {"key": "broken", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}
THEIRS: Final = {"key": "dedicated", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}
NOTED: Final = {TAINTS_ANNOTATION: '[{"effect":"NoSchedule","key":"broken"}]', "other": "x"}


KINDS: Final = [bridged_cluster, bridged_hub, bridged_plane]
LASTS: Final = 4.0
"""Seconds that the Lease of a bridge lasts."""


class Ends:
    """A cluster, the gateway, and what is taken back from both."""

    def __init__(self, api: KubeApi, gateway: GatewayDouble, link: Link) -> None:
        self.api, self.store, self.gateway, self.topics = api, api.store, gateway, gateway.topics
        self._link = link

    def of(self, kind: Any) -> Bridged:
        found: Bridged = kind(self._link)
        return found

    def target(self, kind: str, name: str, **metadata: Any) -> None:
        self.store.create(kind, {"metadata": {"name": name, **metadata}, "spec": {"taints": [MINE, THEIRS]}})

    def taints(self, kind: str, name: str) -> list[str]:
        return [one["key"] for one in self.store.get(kind, name)["spec"].get("taints", ())]


@asynccontextmanager
async def _ends(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Ends]:
    async with serve_kube_api() as api, serve_gateway(Topics()) as gateway:

        async def ensured(_: Settings) -> dict[str, int]:
            return {"resources": 1}

        def reader(*, view: Any, **_: Any) -> TopicsReader:
            return TopicsReader(gateway.topics, view)

        monkeypatch.setattr(leaving, "ensure_topics", ensured)
        monkeypatch.setattr(leaving, "GlobalReader", reader)
        link = Link(ClusterAccess(api.kubeconfig(folder)), GatewayAddress(gateway.server), "kube-system")
        yield Ends(api, gateway, link)


@pytest.mark.parametrize("kind", KINDS)
async def test_its_taints_go_and_those_of_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    async with _ends(tmp_path, monkeypatch) as ends:
        bridged = ends.of(kind)
        ends.target(bridged.plan.target, "a", annotations=NOTED)
        ends.target(bridged.plan.target, "b")
        before = ends.store.get(bridged.plan.target, "b")
        left = await leave(Settings(), bridged)
        assert left == Left(targets=1, objects=0)
        found = ends.store.get(bridged.plan.target, "a")
        assert ends.taints(bridged.plan.target, "a") == ["dedicated"]
        assert found["metadata"]["annotations"] == {"other": "x"}
        assert ends.store.get(bridged.plan.target, "b") == before
        assert await leave(Settings(), bridged) == Left(0, 0), "a second time there is nothing to do"


@pytest.mark.parametrize("kind", KINDS)
async def test_of_many_targets_none_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:
    async with _ends(tmp_path, monkeypatch) as ends:
        bridged = ends.of(kind)
        ends.api.page = 2
        for number in range(5):
            ends.target(bridged.plan.target, f"t{number}", annotations=NOTED)
        ends.api.between_pages = lambda: (
            ends.store.delete(bridged.plan.target, "t4") if ends.store.has(bridged.plan.target, "t4") else None
        )
        assert (await leave(Settings(), bridged)).targets == 5
        assert [ends.taints(bridged.plan.target, f"t{number}") for number in range(4)] == [["dedicated"]] * 4


@pytest.mark.parametrize("kind", KINDS)
async def test_what_was_mirrored_is_forgotten_with_the_targets_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    async with _ends(tmp_path, monkeypatch) as ends:
        bridged = ends.of(kind)
        work = min(bridged.plan.work)
        for one in (bridged.plan.target, "Between", work):
            space = {} if one == bridged.plan.target else {"namespace": "default"}
            metadata = {"name": "x", "uid": f"u-{one}", **space}
            found = {"apiVersion": "v1", "kind": one, "metadata": metadata}
            ends.topics.declare(found, source=bridged.plan.source)
            others = {**found, "metadata": {**metadata, "name": "y"}}
            ends.topics.declare(others, source="bridge/other")
        assert await leave(Settings(), bridged) == Left(targets=0, objects=3)
        assert ends.gateway.objects == [f"-{work}/x", "-Between/x", f"-{bridged.plan.target}/x"]


@asynccontextmanager
async def _acting(ends: Ends, bridged: Bridged) -> AsyncIterator[None]:
    """A bridge that has tainted `a` and holds the Lease. In the end it is killed."""
    ends.target(bridged.plan.target, "a", annotations=NOTED)
    client = client_of(ends.api)
    election = Election(
        client,
        namespace="kube-system",
        name=bridged.plan.lease,
        identity="a-bridge",
        duration=LASTS,
        on_change=lambda _: None,
    )
    task = asyncio.create_task(election.run())
    try:
        await until(lambda: election.leading)
        yield
    finally:
        task.cancel()
        await client.close()


@pytest.mark.parametrize("kind", KINDS)
@virtual_time
async def test_while_a_bridge_acts_nothing_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    async with _ends(tmp_path, monkeypatch) as ends:
        bridged = ends.of(kind)
        async with _acting(ends, bridged):
            with pytest.raises(RuntimeFailure, match="the bridge a-bridge acts on this cluster"):
                await leave(Settings(), bridged)
        assert ends.api.writes == []


@pytest.mark.parametrize("kind", KINDS)
@virtual_time
async def test_a_bridge_that_was_killed_is_over_when_its_lease_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    async with _ends(tmp_path, monkeypatch) as ends:
        bridged = ends.of(kind)
        async with _acting(ends, bridged):
            pass
        began = asyncio.get_running_loop().time()
        assert (await leave(Settings(), bridged)).targets == 1
        assert asyncio.get_running_loop().time() - began == pytest.approx(LASTS, abs=LASTS / 8)


@pytest.mark.parametrize("kind", KINDS)
async def test_another_cluster_of_the_name_is_left_alone_and_forgotten_when_it_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    async with _ends(tmp_path, monkeypatch) as ends:
        bridged = ends.of(kind)
        ends.target(bridged.plan.target, "a", annotations=NOTED)
        found = {"apiVersion": "v1", "kind": bridged.plan.target, "metadata": {"name": "x", "uid": "u"}}
        ends.topics.declare(found, source=bridged.plan.source, cluster_uid="another")
        with pytest.raises(RuntimeFailure, match="from the cluster with the uid another, and this cluster has the uid"):
            await leave(Settings(), bridged)
        assert ends.gateway.objects == []
        ends.api.go_away()
        assert await leave(Settings(), bridged, is_gone=True) == Left(targets=0, objects=1)
        assert ends.gateway.objects == [f"-{bridged.plan.target}/x"]
        assert ends.api.writes == []


async def test_what_the_gateway_refuses_to_forget_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with _ends(tmp_path, monkeypatch) as ends:
        bridged = ends.of(bridged_hub)
        metadata = {"name": "x", "uid": "u"}
        ends.topics.declare(
            {"apiVersion": "v1", "kind": bridged.plan.target, "metadata": metadata}, source="bridge/ocm"
        )
        ends.gateway.answer = {"results": [{"key": "x", "outcome": "Refused", "message": "because"}]}
        with pytest.raises(RuntimeFailure, match="ManagedCluster//x: the gateway does not forget it: because"):
            await leave(Settings(), bridged)


async def test_the_labels_of_add_ons_go_that_a_bridge_has_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with _ends(tmp_path, monkeypatch) as ends:
        theirs, mine, changed = (f"{LABEL_PREFIX}{name}" for name in ("theirs", "mine", "changed"))
        ends.store.create(
            "ManagedCluster", {"metadata": {"name": "a", "labels": {theirs: "available"}}}, manager="registration"
        )
        labels = {mine: "available", changed: "available", "region": "eu"}
        ends.store.change("ManagedCluster", "a", patch={"metadata": {"labels": labels}}, manager=FIELD_MANAGER)
        patch = {"metadata": {"labels": {changed: "unreachable"}}}
        ends.store.change("ManagedCluster", "a", patch=patch, manager="registration")
        assert (await leave(Settings(), ends.of(bridged_hub))).targets == 1
        left = ends.store.get("ManagedCluster", "a")["metadata"]["labels"]
        assert left == {theirs: "available", changed: "unreachable", "region": "eu"}
