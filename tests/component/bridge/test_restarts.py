"""A bridge that is killed before or after any of its writes: another one comes to the same end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.component.bridge.cluster import node, pod
from tests.component.bridge.rig import Rig, rig
from tests.component.bridge.topics import a_taint
from tests.support.kube_api import Seen
from tests.support.virtual_time import virtual_time
from tests.support.waiting import until

WRITES = 10
"""Two patches of a node, the mark on a pod and its deletion, a binding, why another pod waits, and four events."""


def is_write(seen: Seen) -> bool:
    return seen.method != "GET" and "/leases" not in seen.path


async def prepare(here: Rig) -> None:
    """A cluster, and all that may be decided on it."""
    here.pods_go()
    here.store.create("Node", node("n1", taints=[{"key": "dedicated", "effect": "NoSchedule"}]))
    here.store.create("Pod", pod("web", node="n1", uid="u-web"))
    here.store.create("Pod", pod("job", scheduler="moorage", uid="u-job"))
    here.store.create("Pod", pod("large", scheduler="moorage", uid="u-large"))


def decide(here: Rig) -> None:
    here.topics.taint("n1", a_taint("broken"))
    here.topics.condition("n1", "DiskIsFailing", "True", reason="Smart")
    here.topics.bind("web", "u-web", "n1")
    here.topics.evict("web", "u-web", "n1")
    here.topics.bind("job", "u-job", "n1")
    here.topics.wait_for_room("large", "u-large", "0/1 nodes are available: 1 Insufficient cpu.")


def end(here: Rig) -> dict[str, Any]:
    """What the cluster is like, without versions, and without events, of which a killed process may owe one."""
    found = here.store.get("Node", "n1")
    pods = {one["metadata"]["name"]: one for one in here.store.all("Pod")}
    return {
        "taints": [(one["key"], one["effect"], one.get("timeAdded")) for one in found["spec"]["taints"]],
        "annotations": found["metadata"].get("annotations"),
        "conditions": {one["type"]: one["status"] for one in found["status"]["conditions"]},
        "pods": {
            name: (
                one["metadata"]["uid"],
                one["spec"].get("nodeName"),
                {kind["type"]: kind["status"] for kind in one["status"].get("conditions") or ()},
            )
            for name, one in pods.items()
        },
    }


EXPECTED = {
    "taints": [("dedicated", "NoSchedule", None), ("broken", "NoExecute", "2026-01-01T00:00:00Z")],
    "annotations": {"moorage.io/taints": '[{"key":"broken","effect":"NoExecute"}]'},
    "conditions": {"Ready": "True", "DiskIsFailing": "True"},
    "pods": {
        "job": ("u-job", "n1", {"PodScheduled": "True"}),
        "large": ("u-large", None, {"PodScheduled": "False"}),
    },
}


@virtual_time
async def test_without_a_restart_it_comes_to_this_end_with_so_many_writes(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        await prepare(here)
        await here.run()
        decide(here)
        await until(lambda: end(here) == EXPECTED)
        await here.quiet(120)
        assert end(here) == EXPECTED
        assert len(here.api.writes) == WRITES - 1, "one pod is evicted, one bound, one waits: three events"


@virtual_time
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("number", range(WRITES - 1))
async def test_it_may_be_killed_at_any_moment_between_decision_and_act(
    tmp_path: Path, number: int, moment: str
) -> None:
    async with rig(tmp_path) as here:
        await prepare(here)
        bridge = await here.run()
        await here.quiet()
        count = iter(range(100))
        held: dict[str, Any] = {moment: asyncio.Event()}
        fault = here.api.fault_of(lambda seen: is_write(seen) and next(count) == number, **held)
        decide(here)
        await fault.reached.wait()
        await here.kill(bridge)
        await here.run()
        await until(lambda: end(here) == EXPECTED)
        await here.quiet(10)
        assert end(here) == EXPECTED


@virtual_time
@pytest.mark.parametrize("number", range(WRITES - 1))
async def test_an_answer_may_be_lost(tmp_path: Path, number: int) -> None:
    async with rig(tmp_path) as here:
        await prepare(here)
        await here.run()
        await here.quiet()
        count = iter(range(100))
        here.api.fault_of(lambda seen: is_write(seen) and next(count) == number, lost=True)
        decide(here)
        await until(lambda: end(here) == EXPECTED)
        await here.quiet(10)
        assert end(here) == EXPECTED
        # The event of an act may be lost with its answer, and none is told twice.
        assert sum(1 for _ in here.store.all("Event")) in {2, 3}


@virtual_time
async def test_a_decision_that_is_taken_back_while_nobody_bridges_is_not_acted_on(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        await prepare(here)
        bridge = await here.run()
        await here.quiet()
        await here.kill(bridge)
        decide(here)
        here.topics.taint("n1")
        here.topics.write_end_of_eviction("web", "n1")
        await here.run()
        await here.quiet(120)
        assert [one["key"] for one in here.store.get("Node", "n1")["spec"]["taints"]] == ["dedicated"]
        assert here.store.has("Pod", "web", "default")
