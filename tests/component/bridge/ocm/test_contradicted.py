"""A bridge beside a controller that undoes what it writes to managed clusters."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest
from tests.component.bridge.cluster import client_of
from tests.component.bridge.topics import a_taint
from tests.support.kube_api import KubeApi, serve_kube_api
from tests.support.kube_store import Change
from tests.support.virtual_time import virtual_time

from moorage.bridges.engine.acts import ActQueue, Contention
from moorage.bridges.ocm.cluster_acts import ClusterActs
from moorage.bridges.ocm.hub import SeenCluster
from moorage.bridges.ocm.hub_tables import HubTables

_LABEL: Final = "feature.open-cluster-management.io/addon-work"
_FAR: Final = 40
"""Writes of two controllers that contradict each other without a pause, in far less than a second."""


async def _fight(
    api: KubeApi, monkeypatch: pytest.MonkeyPatch, act: str, undone: dict[str, Any], seconds: float
) -> int:
    """Let somebody undo each write of a bridge at once. Return how often the bridge has written."""
    store, tables = api.store, HubTables(lambda _kind, _key: None)
    available = [{"type": "ManagedClusterConditionAvailable", "status": "True"}]
    store.create("ManagedCluster", {"metadata": {"name": "c1"}, "spec": {}, "status": {"conditions": available}})
    monkeypatch.setattr(tables, "own_taints", lambda _name, _uid: (a_taint("broken", "NoSelect"),))
    monkeypatch.setattr(ClusterActs, "_labels", _wanted_label)
    queue: ActQueue
    noticed: list[str] = []

    def later(key: str, pause: float) -> None:
        queue.add_later(key, pause)

    acts = ClusterActs(
        client_of(api),
        tables,
        lambda name: SeenCluster.of(store.get("ManagedCluster", name)),
        seen=lambda _: None,
        is_settled=lambda _: True,
        add_ons=lambda _: (),
        undone=Contention("taints", later, noticed.append),
        labels=Contention("labels", later, noticed.append),
    )
    queue = ActQueue(act)

    def undo(change: Change) -> None:
        if change.type == "MODIFIED":
            asyncio.get_running_loop().call_soon(_undo)

    def _undo() -> None:
        assert len(api.writes) < _FAR, "both write in turn, as fast as they can"
        found = store.get("ManagedCluster", "c1")
        if found["spec"].get("taints") or _LABEL in found["metadata"].get("labels", {}):
            store.change("ManagedCluster", "c1", patch=undone, manager="registration", strategic=False)
        queue.add("c1")

    store.told.append(undo)
    running = asyncio.create_task(queue.run({"taints": acts.taint, "labels": acts.label}[act]))
    queue.add("c1")
    try:
        await asyncio.sleep(seconds)
        assert not running.done()
    finally:
        store.told.clear()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert set(noticed) == {"c1"}
    return len(api.writes)


def _wanted_label(_acts: ClusterActs, cluster: SeenCluster) -> dict[str, str | None]:
    return {} if _LABEL in cluster.add_on_labels else {_LABEL: "available"}


@virtual_time
@pytest.mark.parametrize(
    ("act", "undone"), [("taints", {"spec": {"taints": None}}), ("labels", {"metadata": {"labels": {_LABEL: None}}})]
)
async def test_it_writes_less_and_less_often(monkeypatch: pytest.MonkeyPatch, act: str, undone: dict[str, Any]) -> None:
    async with serve_kube_api() as api:
        written = await _fight(api, monkeypatch, act, undone, 300)
    assert 5 <= written < _FAR, "it goes on, since the other may have been switched off"
