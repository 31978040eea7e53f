"""Pods on a node that is not ready are not ready, as with the node lifecycle controller."""

from __future__ import annotations

from pathlib import Path

from tests.component.bridge.cluster import node, pod
from tests.component.bridge.rig import Rig, rig
from tests.support.virtual_time import virtual_time
from tests.support.waiting import until

from moorage.bridges.kubernetes.cluster_bridge import BridgeAct


@virtual_time
async def test_pods_follow_their_node_as_with_the_node_lifecycle_controller(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        for name in ("n1", "n2"):
            here.store.create("Node", node(name))
        ready = {"type": "Ready", "status": "True"}
        for name, where in (("on-lost", "n1"), ("elsewhere", "n2"), ("unready", "n1")):
            found = pod(name, node=where)
            conditions = [ready] if name != "unready" else [{"type": "Ready", "status": "False", "reason": "Probe"}]
            here.store.create("Pod", {**found, "status": {"phase": "Running", "conditions": conditions}})
        await here.run(acts={BridgeAct.CONDITIONS})

        def is_ready(name: str) -> bool:
            (found,) = here.store.get("Pod", name, "default")["status"]["conditions"]
            return bool(found["status"] == "True")

        def lose(status: str) -> None:
            here.topics.condition("n1", "Ready", status, uid=uid_of(here, "n1"))

        lose("Unknown")
        await until(lambda: not is_ready("on-lost"))
        await here.quiet()
        assert is_ready("elsewhere")
        told = [(one["reason"], one["message"], one["involvedObject"]["name"]) for one in here.store.all("Event")]
        assert told == [("NodeNotReady", "Node is not ready", "on-lost")]
        back = {"status": {"conditions": [ready]}}
        lose("True")
        here.store.change("Pod", "on-lost", "default", patch=back, subresource="status", manager="kubelet")
        await here.quiet(70)
        assert is_ready("on-lost"), "the kubelet has set it to ready"
        lose("False")
        await until(lambda: not is_ready("on-lost"))


def uid_of(here: Rig, name: str) -> str:
    """The uid of a node in the cluster."""
    return str(here.store.get("Node", name)["metadata"]["uid"])
