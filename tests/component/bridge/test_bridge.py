"""A whole bridge: what the cluster says gets into Moorage, and what Moorage decides is done in the cluster."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.component.bridge.cluster import lease, node, pod
from tests.component.bridge.rig import ALL, Rig, leads, rig
from tests.component.bridge.topics import a_taint
from tests.support.records import T0
from tests.support.virtual_time import virtual_time
from tests.support.waiting import until

from moorage.bridges.engine.metrics import ACTS
from moorage.bridges.kubernetes.cluster_bridge import BridgeAct
from moorage.bridges.kubernetes.pod_acts import EvictionMode
from moorage_schemas.eviction import EvictionState
from moorage_schemas.resource import TaintWish, resource_key
from moorage_schemas.taint import TaintOrigin
from moorage_schemas.topics import CONDITIONS, EVICTIONS, RESOURCES, WORKLOAD_CONDITIONS

DELETED = "deletionTimestamp"


def taints(here: Rig, name: str = "n1") -> list[str]:
    """The taints of a node in the cluster, as `key:effect`."""
    return [f"{one['key']}:{one['effect']}" for one in here.store.get("Node", name)["spec"].get("taints") or ()]


def conditions(here: Rig, kind: str, name: str, namespace: str = "") -> dict[str, dict[str, Any]]:
    """The conditions of an object in the cluster, by type."""
    found = here.store.get(kind, name, namespace)
    return {one["type"]: one for one in found.get("status", {}).get("conditions") or ()}


def events(here: Rig) -> list[str]:
    """The events in the cluster: their reasons and messages."""
    return sorted(f"{one['reason']}: {one['message']}" for one in here.store.all("Event"))


def uid(here: Rig, kind: str, name: str) -> str:
    return str(here.store.get(kind, name, "" if kind == "Node" else "default")["metadata"]["uid"])


def said(here: Rig, name: str, kind: str = "Ready") -> tuple[str, str]:
    """What the topics have of a node's condition: its status, and who says it."""
    found = here.topics.event(CONDITIONS, f"Node/{name}|{kind}")
    return (found.status.value, found.source) if found is not None else ("", "")


# The mirror.


@virtual_time
async def test_the_cluster_is_mirrored_and_its_conditions_are_reported(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        here.store.create("Node", node("n1", taints=[{"key": "dedicated", "effect": "NoSchedule"}]))
        here.store.create("Pod", pod("web", node="n1"))
        here.store.create("Deployment", {"metadata": {"name": "web", "namespace": "default"}, "spec": {"replicas": 1}})
        await here.run(acts=())
        await until(lambda: said(here, "n1") == ("True", "bridge/home"))
        found = here.topics.event(RESOURCES, "Node//n1")
        assert found.uid == uid(here, "Node", "n1")
        assert [one.key for one in found.mirrored.taints] == ["dedicated"]
        assert sorted(here.gateway.objects) == ["Deployment/web", "Node/n1", "Pod/web"]
        here.store.create("Node", node("n2", ready="False"))
        here.store.delete("Pod", "web", "default")
        await until(lambda: said(here, "n2") == ("False", "bridge/home"))
        await until(lambda: here.topics.event(RESOURCES, "Pod/default/web") is None)
        await here.quiet(300)
        assert here.gateway.objects[3:] == ["Node/n2", "-Pod/web"] or here.gateway.objects[3:] == [
            "-Pod/web",
            "Node/n2",
        ]
        assert len(here.gateway.reported) == 2, "what has not changed is not said again"
        assert here.api.writes == [], "it only reads"


@virtual_time
async def test_a_bridge_that_acts_but_not_on_taints_mirrors_all_taints_of_the_cluster(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        there = [
            {"key": "dedicated", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
        ]

        def is_mirrored(*, keeps: bool) -> bool:
            found = here.topics.event(RESOURCES, "Node//n1")
            keys = [one["key"] for one in (there if keeps else there[:1])]
            return found is not None and (found.mirrored.keeps_taints, [one.key for one in found.mirrored.taints]) == (
                keeps,
                keys,
            )

        here.store.create("Node", node("n1", taints=there))
        for acts, keeps in (
            ({BridgeAct.PLACEMENT, BridgeAct.EVICTIONS}, True),
            (ALL, False),
            ({BridgeAct.CONDITIONS}, True),
            ((), False),
        ):
            bridge = await here.start(acts=acts)
            await until(partial(is_mirrored, keeps=keeps))
            await here.quiet(65)
            sent = len(here.gateway.objects)
            await here.quiet(65)
            assert len(here.gateway.objects) == sent, "what is recorded is not sent again"
            await here.stop(bridge)


@virtual_time
async def test_a_bridge_that_starts_again_sends_only_what_differs(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        for name in ("n1", "n2", "n3"):
            here.store.create("Node", node(name))
        first = await here.run(acts=())
        await until(lambda: said(here, "n3")[0] == "True")
        await here.kill(first)
        here.store.delete("Node", "n1")
        here.store.change("Node", "n2", patch={"spec": {"unschedulable": True}})
        here.gateway.mirrored.clear()
        here.gateway.reported.clear()
        await here.run(acts=())
        await until(lambda: len(here.gateway.objects) == 2)
        await here.quiet(65)
        assert sorted(here.gateway.objects) == ["-Node/n1", "Node/n2"]
        assert here.gateway.reported == []


@virtual_time
async def test_a_gateway_that_is_away_loses_nothing(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        here.gateway.is_away = True
        here.store.create("Node", node("n1"))
        await here.run(acts=())
        await here.quiet(60)
        here.store.create("Node", node("n2"))
        here.store.delete("Node", "n1")
        await here.quiet(60)
        here.gateway.is_away = False
        await until(lambda: said(here, "n2")[0] == "True")
        assert here.gateway.objects == ["Node/n2"]


@virtual_time
@pytest.mark.parametrize("answer", [{}, [], {"results": []}, {"results": "all", "items": {}}, {"items": [7] * 4}])
async def test_an_answer_that_is_none_of_the_gateway_s_is_no_success(tmp_path: Path, answer: Any) -> None:
    """Such as that of a proxy before it."""
    async with rig(tmp_path) as here:
        here.gateway.answer = answer
        here.store.create("Node", node("n1"))
        await here.run(acts=())
        await here.quiet(60)
        here.gateway.answer = None
        await until(lambda: said(here, "n1")[0] == "True")


@virtual_time
async def test_what_a_killed_bridge_has_sent_may_come_late(tmp_path: Path) -> None:
    """The request waits at a gateway, and is carried out after a newer one of the next bridge."""
    async with rig(tmp_path) as here:
        here.store.create("Node", node("n1"))
        first = await here.run(acts=())
        await until(lambda: here.topics.event(RESOURCES, "Node//n1") is not None)
        old = here.topics.event(RESOURCES, "Node//n1")
        await here.kill(first)
        here.store.change("Node", "n1", patch={"spec": {"unschedulable": True}})
        await here.run(acts=())
        await until(lambda: here.topics.event(RESOURCES, "Node//n1").object["spec"] == {"unschedulable": True})
        here.topics.declare(old.object)
        await until(lambda: here.topics.event(RESOURCES, "Node//n1").object["spec"] == {"unschedulable": True}, 150)
        here.gateway.mirrored.clear()
        await here.quiet(150)
        assert here.gateway.objects == [], "nothing is sent that the topics have"


@virtual_time
async def test_a_node_that_comes_back_under_its_name_is_another_one(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        here.store.create("Node", node("n1", ready="False"))
        await here.run()
        await until(lambda: said(here, "n1")[0] == "False")
        old = uid(here, "Node", "n1")
        here.topics.taint("n1", a_taint("broken"), uid=old)
        await until(lambda: taints(here) == ["broken:NoExecute"])
        here.api.cut()
        here.store.delete("Node", "n1")
        here.store.create("Node", node("n1"))
        await until(lambda: here.topics.event(RESOURCES, "Node//n1").uid == uid(here, "Node", "n1"))
        await until(lambda: said(here, "n1")[0] == "True")
        await here.quiet(65)
        assert taints(here) == [], "what was decided on the earlier one is not done to this one"


@virtual_time
async def test_clusters_side_by_side_are_told_apart(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        here.store.create("Node", node("n1"))
        await here.run(cluster="east")
        await until(lambda: here.topics.event(CONDITIONS, "east:Node/n1|Ready") is not None)
        assert here.topics.event(RESOURCES, resource_key("Node", "", "n1", "east")).mirrored.source == "bridge/east"
        here.topics.taint("n1", a_taint("home"))
        here.topics.taint("n1", a_taint("west"), cluster="west")
        here.topics.taint("n1", a_taint("east"), cluster="east")
        await until(lambda: taints(here) == ["east:NoExecute"])
        await here.quiet(65)
        assert taints(here) == ["east:NoExecute"]


# Taints.


@virtual_time
async def test_a_node_gets_its_taints_and_loses_them_and_those_of_others_stay(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        here.store.create("Node", node("n1", taints=[{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]))
        await here.run()
        here.topics.taint(
            "n1", a_taint("broken"), a_taint("dedicated", "NoSchedule", "db", origin=TaintOrigin.EXPLICIT)
        )
        await until(lambda: taints(here) == ["dedicated:NoSchedule", "broken:NoExecute"])
        found = here.store.get("Node", "n1")["spec"]["taints"]
        assert "timeAdded" not in found[0]
        assert found[1]["timeAdded"] == T0.strftime("%Y-%m-%dT%H:%M:%SZ")
        await here.quiet(65)
        assert len(here.api.writes) == 1
        mirrored = here.topics.event(RESOURCES, "Node//n1").mirrored
        assert [one.key for one in mirrored.taints] == ["dedicated"], "its own does not come back as a wish"
        here.topics.taint("n1")
        await until(lambda: taints(here) == ["dedicated:NoSchedule"])


@virtual_time
async def test_a_taint_that_somebody_removes_in_the_cluster_is_not_set_again_from_an_older_record(
    tmp_path: Path,
) -> None:
    async with rig(tmp_path) as here:
        here.store.create("Node", node("n1", taints=[{"key": "dedicated", "effect": "NoSchedule"}]))
        await here.run()
        here.topics.taint("n1", a_taint("dedicated", "NoSchedule", origin=TaintOrigin.EXPLICIT))
        await here.quiet()
        here.store.change("Node", "n1", patch={"spec": {"taints": []}}, strategic=False)
        await until(lambda: here.topics.event(RESOURCES, "Node//n1").mirrored.taints == ())
        await here.quiet(65)
        assert taints(here) == []
        assert here.api.writes == []


@virtual_time
async def test_a_taint_that_somebody_wishes_at_the_gateway_is_set(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        here.store.create("Node", node("n1"))
        await here.run()
        await until(lambda: here.topics.event(RESOURCES, "Node//n1") is not None)
        wish = TaintWish(key="repair", effect="NoSchedule", present=True, generation=2, time=T0, actor="alice")
        here.topics.declare(here.topics.event(RESOURCES, "Node//n1").object, wishes=[wish])
        here.topics.taint("n1", a_taint("repair", "NoSchedule", origin=TaintOrigin.EXPLICIT))
        await until(lambda: taints(here) == ["repair:NoSchedule"])


@virtual_time
async def test_a_taint_of_moorage_that_somebody_removes_comes_back(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        here.store.create("Node", node("n1"))
        await here.run()
        here.topics.taint("n1", a_taint("broken"))
        await until(lambda: taints(here) == ["broken:NoExecute"])
        here.store.change("Node", "n1", patch={"spec": {"taints": None}}, strategic=False)
        await until(lambda: taints(here) == ["broken:NoExecute"])


NOT_READY = "node.kubernetes.io/not-ready"
LEFT = [
    {"key": NOT_READY, "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"},
    {"key": "dedicated", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"},
]
"""What Kubernetes' own controller had set on a node when it was switched off, and what a person has."""


@virtual_time
async def test_a_taint_that_kubernetes_own_controller_left_on_a_node_goes_after_a_while(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        here.store.create("Node", node("n1", taints=LEFT))
        await here.run()
        await until(lambda: here.topics.event(RESOURCES, "Node//n1") is not None)
        here.topics.taint("n1", a_taint("dedicated", origin=TaintOrigin.EXPLICIT))
        await here.quiet(55)
        assert here.api.writes == [], "the controller may be running, and remove it itself"
        await until(lambda: taints(here) == ["dedicated:NoExecute"], seconds=90)


@virtual_time
async def test_a_taint_of_kubernetes_own_controller_that_the_state_demands_stays(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        here.store.create("Node", node("n1", ready="False", taints=LEFT))
        await here.run()
        await until(lambda: here.topics.event(RESOURCES, "Node//n1") is not None)
        mine = a_taint(NOT_READY, "NoSchedule")
        here.topics.taint("n1", mine, a_taint("dedicated", origin=TaintOrigin.EXPLICIT))
        await here.quiet(300)
        assert taints(here) == [f"{NOT_READY}:NoExecute", "dedicated:NoExecute", f"{NOT_READY}:NoSchedule"]
        # It counts from when the state does not demand it any more.
        here.topics.taint("n1", a_taint("dedicated", origin=TaintOrigin.EXPLICIT))
        await until(lambda: taints(here) == [f"{NOT_READY}:NoExecute", "dedicated:NoExecute"])
        await here.quiet(50)
        assert taints(here) == [f"{NOT_READY}:NoExecute", "dedicated:NoExecute"]
        await until(lambda: taints(here) == ["dedicated:NoExecute"], seconds=130)


@virtual_time
async def test_somebody_who_writes_taints_meanwhile_loses_nothing(tmp_path: Path) -> None:
    """The list is one value: who writes it with an old version overwrites the others."""
    async with rig(tmp_path) as here:
        here.store.create("Node", node("n1"))
        await here.run()
        await here.quiet()
        go = asyncio.Event()
        fault = here.api.fault("PATCH", "/nodes/n1", before=go)
        here.topics.taint("n1", a_taint("broken"))
        await fault.reached.wait()
        here.store.change("Node", "n1", patch={"spec": {"taints": [{"key": "theirs", "effect": "NoSchedule"}]}})
        go.set()
        await until(lambda: taints(here) == ["theirs:NoSchedule", "broken:NoExecute"])


# Conditions.


@virtual_time
async def test_what_probes_report_to_moorage_is_a_condition_of_the_node(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        here.store.create("Node", node("n1"))
        await here.run()
        here.topics.condition("n1", "FrequentRestarts", "True", reason="Restarts", message="5 in an hour")
        await until(lambda: "FrequentRestarts" in conditions(here, "Node", "n1"))
        found = conditions(here, "Node", "n1")
        assert (found["FrequentRestarts"]["status"], found["Ready"]["status"]) == ("True", "True")
        await here.quiet(65)
        assert len(here.api.writes) == 1
        assert said(here, "n1", "FrequentRestarts") == ("True", "probe/disk"), "it does not come back as the cluster's"
        here.topics.write(CONDITIONS, "Node/n1|FrequentRestarts", None)
        await until(lambda: "FrequentRestarts" not in conditions(here, "Node", "n1"))
        assert conditions(here, "Node", "n1")["Ready"]["status"] == "True"


@virtual_time
async def test_a_condition_that_the_cluster_has_itself_is_not_overwritten(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        here.store.create("Node", node("n1"))
        await here.run()
        here.topics.condition("n1", "Ready", "False", source="probe/mine")
        await here.quiet(65)
        assert conditions(here, "Node", "n1")["Ready"]["status"] == "True"
        assert here.api.writes == []


# Silence.


def renew(here: Rig, name: str, time: str) -> None:
    here.store.change("Lease", name, "kube-node-lease", patch={"spec": {"renewTime": time}})


@virtual_time
async def test_a_node_whose_lease_is_not_renewed_is_unknown_until_it_is(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        for name in ("n1", "n2"):
            here.store.create("Node", node(name))
            here.store.create("Lease", lease(name, "2026-01-01T12:00:00.000000Z"))
        await here.run(grace=50)
        for number in range(12):
            await asyncio.sleep(10)
            renew(here, "n2", f"2026-01-01T12:00:{number + 10}.000000Z")
            assert said(here, "n1")[0] == ("True" if number < 4 else said(here, "n1")[0])
        assert said(here, "n1") == ("Unknown", "bridge/home")
        assert said(here, "n2") == ("True", "bridge/home")
        await until(lambda: conditions(here, "Node", "n1")["Ready"]["status"] == "Unknown")
        assert conditions(here, "Node", "n1")["Ready"]["reason"] == "NodeStatusUnknown"
        renew(here, "n1", "2026-01-01T12:02:00.000000Z")
        status = [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "up"}]
        here.store.change(
            "Node", "n1", patch={"status": {"conditions": status}}, subresource="status", manager="kubelet"
        )
        await until(lambda: said(here, "n1") == ("True", "bridge/home"))
        await here.quiet(30)
        assert conditions(here, "Node", "n1")["Ready"]["status"] == "True"


@virtual_time
async def test_nothing_is_concluded_from_the_silence_of_a_cluster_that_is_away(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        here.store.create("Node", node("n1"))
        here.store.create("Lease", lease("n1", "2026-01-01T12:00:00.000000Z"))
        await here.run(grace=50)
        await until(lambda: said(here, "n1")[0] == "True")
        here.api.go_away()
        await here.quiet(200)
        assert said(here, "n1")[0] == "True"
        here.api.heal()
        await here.quiet(45)
        assert said(here, "n1")[0] == "True", "it has a whole grace period again"
        await until(lambda: said(here, "n1")[0] == "Unknown", seconds=90)


@virtual_time
async def test_a_watch_that_is_behind_makes_no_node_silent(tmp_path: Path) -> None:
    """The Leases are read before a node counts as silent."""
    async with rig(tmp_path) as here:
        here.store.create("Node", node("n1"))
        here.store.create("Lease", lease("n1", "2026-01-01T12:00:00.000000Z"))
        await here.run(grace=50)
        await until(lambda: said(here, "n1")[0] == "True")
        for watch in here.api.watches:
            if watch.resource.kind == "Lease":
                watch.is_behind = True
        for number in range(30):
            await asyncio.sleep(10)
            renew(here, "n1", f"2026-01-01T12:00:{number + 10}.000000Z")
        assert said(here, "n1")[0] == "True"


@virtual_time
async def test_a_new_node_is_not_silent_because_an_earlier_one_of_its_name_was(tmp_path: Path) -> None:
    """The Lease outlives its node, and is seen after it."""
    async with rig(tmp_path) as here:
        here.store.create("Node", node("n1", uid="first"))
        here.store.create("Lease", lease("n1", "2026-01-01T12:00:00.000000Z"))
        await here.run(grace=50)
        await until(lambda: said(here, "n1")[0] == "True")
        here.store.delete("Node", "n1")
        await here.quiet(5)
        renew(here, "n1", "2026-01-01T12:00:09.000000Z")
        await here.quiet(200)
        here.gateway.reported.clear()
        here.store.create("Node", {**node("n1", uid="second"), "status": {}})
        await here.quiet(45)
        assert here.gateway.reported == []
        await until(lambda: said(here, "n1")[0] == "Unknown", seconds=90)  # but it has to speak


# Evictions.


@virtual_time
@pytest.mark.parametrize("mode", list(EvictionMode))
async def test_a_pod_that_has_to_leave_is_removed(tmp_path: Path, mode: EvictionMode) -> None:
    async with rig(tmp_path) as here:
        here.store.create("Node", node("n1"))
        here.store.create("Pod", pod("web", node="n1"))
        here.store.create("Pod", pod("stays", node="n1"))
        await here.run(eviction_mode=mode)
        await until(lambda: here.topics.event(RESOURCES, "Pod/default/web") is not None)
        here.topics.bind("web", uid(here, "Pod", "web"), "n1")
        here.topics.evict("web", uid(here, "Pod", "web"), "n1")
        await until(lambda: DELETED in here.store.get("Pod", "web", "default")["metadata"])
        await here.quiet(65)
        assert here.topics.event(EVICTIONS, "Pod/default/web|Node/n1|1") is not None, "it waits for the pod to be gone"
        asked = here.api.seen("DELETE", "/web") + here.api.seen("POST", "/eviction")
        assert len(asked) == 1
        assert ("DisruptionTarget" in conditions(here, "Pod", "web", "default")) is (mode is EvictionMode.DELETE)
        assert events(here) == ["TaintManagerEviction: Marking for deletion Pod default/web"]
        here.store.delete("Pod", "web", "default")
        await until(lambda: here.topics.event(RESOURCES, "Pod/default/web") is None)
        await here.quiet(65)
        assert DELETED not in here.store.get("Pod", "stays", "default")["metadata"]


@virtual_time
async def test_a_pod_that_may_stay_after_all_gets_an_event_once(tmp_path: Path) -> None:
    cancelled = "TaintManagerEviction: Cancelling deletion of Pod default/web"
    async with rig(tmp_path) as here:
        here.store.create("Node", node("n1"))
        for name in ("web", "other", "early"):
            here.store.create("Pod", pod(name, node="n1"))
        here.topics.evict("early", uid(here, "Pod", "early"), "n1", state=EvictionState.SCHEDULED)
        here.topics.evict("early", uid(here, "Pod", "early"), "n1", state=EvictionState.CANCELLED)
        bridge = await here.run()
        web = uid(here, "Pod", "web")
        here.topics.evict("other", "an earlier pod", "n1", state=EvictionState.SCHEDULED)
        here.topics.evict("other", "an earlier pod", "n1", state=EvictionState.CANCELLED)
        for state in (EvictionState.SCHEDULED, EvictionState.HELD, EvictionState.CANCELLED):
            assert events(here) == []
            here.topics.evict("web", web, "n1", state=state)
        await until(lambda: events(here) == [cancelled])
        await here.quiet(65)
        await here.stop(bridge)
        await here.run()
        await here.quiet(65)
        assert events(here) == [cancelled]


@virtual_time
async def test_the_older_labels_of_a_node_follow_the_stable_ones(tmp_path: Path) -> None:
    beta = "beta.kubernetes.io/"
    async with rig(tmp_path) as here:
        for name, labels in (
            ("n1", {"kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64", f"{beta}arch": "amd64"}),
            ("n2", {f"{beta}os": "windows"}),
        ):
            found = node(name)
            found["metadata"]["labels"] = labels
            here.store.create("Node", found)
        await here.run(acts={BridgeAct.TAINTS})

        def older(name: str) -> dict[str, str]:
            labels = here.store.get("Node", name)["metadata"].get("labels") or {}
            return {key: value for key, value in labels.items() if key.startswith(beta)}

        await until(lambda: older("n1") == {f"{beta}os": "linux", f"{beta}arch": "arm64"})
        writes = len(here.api.writes)
        await here.quiet(65)
        assert len(here.api.writes) == writes
        assert older("n2") == {f"{beta}os": "windows"}


@virtual_time
@pytest.mark.parametrize("state", [one for one in EvictionState if one is not EvictionState.REQUESTED])
async def test_only_a_requested_eviction_removes(tmp_path: Path, state: EvictionState) -> None:
    async with rig(tmp_path) as here:
        here.store.create("Node", node("n1"))
        here.store.create("Pod", pod("web", node="n1"))
        await here.run()
        here.topics.evict("web", uid(here, "Pod", "web"), "n1", state=state)
        await here.quiet(65)
        assert here.api.writes == []


@virtual_time
async def test_a_pod_of_the_same_name_that_is_another_one_stays(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        here.store.create("Node", node("n1"))
        here.store.create("Pod", pod("web", node="n1"))
        await here.run()
        await here.quiet()
        old = uid(here, "Pod", "web")
        go = asyncio.Event()
        fault = here.api.fault("PATCH", "/pods/web/status", before=go)
        here.topics.evict("web", old, "n1")
        await fault.reached.wait()
        here.store.delete("Pod", "web", "default")
        here.store.create("Pod", pod("web", node="n1"))
        go.set()
        await here.quiet(65)
        found = here.store.get("Pod", "web", "default")
        assert DELETED not in found["metadata"]
        assert "DisruptionTarget" not in conditions(here, "Pod", "web", "default")


@virtual_time
async def test_a_pod_that_may_stay_after_all_is_marked_and_not_removed(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        here.store.create("Node", node("n1"))
        here.store.create("Pod", pod("web", node="n1"))
        await here.run()
        await here.quiet()
        go = asyncio.Event()
        fault = here.api.fault("PATCH", "/pods/web/status", before=go)
        here.topics.evict("web", uid(here, "Pod", "web"), "n1")
        await fault.reached.wait()
        here.topics.evict("web", uid(here, "Pod", "web"), "n1", state=EvictionState.CANCELLED)
        await here.quiet()
        go.set()
        await here.quiet(65)
        assert "DisruptionTarget" in conditions(here, "Pod", "web", "default")
        assert here.api.seen("DELETE") == []
        here.topics.evict("web", uid(here, "Pod", "web"), "n1", generation=2)
        await until(lambda: DELETED in here.store.get("Pod", "web", "default")["metadata"])


@virtual_time
@pytest.mark.parametrize("status", [403, 422, 500])
async def test_a_pod_that_cannot_be_marked_is_not_removed(tmp_path: Path, status: int) -> None:
    """As by upstream's taint eviction controller."""
    async with rig(tmp_path) as here:
        here.store.create("Node", node("n1"))
        here.store.create("Pod", pod("web", node="n1"))
        await here.run()
        fault = here.api.fault("PATCH", "/pods/web/status", status=status, times=1000)
        here.topics.evict("web", uid(here, "Pod", "web"), "n1")
        await fault.reached.wait()
        await here.quiet(65)
        assert here.api.seen("DELETE") == []
        here.api.heal()
        await until(lambda: DELETED in here.store.get("Pod", "web", "default")["metadata"], seconds=60)


@virtual_time
async def test_nothing_comes_between_the_mark_and_the_removal(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        here.link = replace(here.link, access=replace(here.link.access, in_flight=1))
        here.store.create("Node", node("n1"))
        for name in "abc":
            here.store.create("Pod", pod(name, node="n1"))
            here.store.create("Pod", pod(f"new-{name}", scheduler="moorage"))
        await here.run()
        for name in "abc":
            here.topics.evict(name, uid(here, "Pod", name), "n1")
            here.topics.bind(f"new-{name}", uid(here, "Pod", f"new-{name}"), "n1")
        await until(lambda: len(here.api.seen("DELETE")) == 3)
        writes = [str(one) for one in here.api.writes if "/events" not in one.path]
        for name in "abc":
            path = f"/api/v1/namespaces/default/pods/{name}"
            assert writes[writes.index(f"PATCH {path}/status") + 1] == f"DELETE {path}"


async def held_by_a_budget(here: Rig) -> None:
    """Let the pod `web` have to leave, and return when it is reported that a budget of the cluster holds it."""
    here.store.create("Node", node("n1"))
    here.store.create("Pod", pod("web", node="n1"))
    here.api.held_by_budget.add("web")
    await here.run(eviction_mode=EvictionMode.API)
    await here.quiet()
    here.topics.bind("web", uid(here, "Pod", "web"), "n1")
    here.topics.evict("web", uid(here, "Pod", "web"), "n1")
    await until(lambda: any(one.type == "Evicted" for one in here.gateway.reported))


@virtual_time
async def test_a_budget_of_the_cluster_holds_an_eviction_and_the_reason_is_reported(tmp_path: Path) -> None:
    refused = ACTS.labels("evict", "refused")
    before = float(refused._value.get())
    async with rig(tmp_path) as here:
        await held_by_a_budget(here)
        assert float(refused._value.get()) > before
        report = here.gateway.reported[-1]
        assert (report.status.value, report.reason, report.binding_generation) == ("False", "Failed", 1)
        assert "disruption budget" in report.message
        await here.quiet(65)
        assert conditions(here, "Pod", "web", "default") == {}, "it is no target of a disruption while it may stay"
        here.api.held_by_budget.clear()
        await until(lambda: DELETED in here.store.get("Pod", "web", "default")["metadata"])


@virtual_time
async def test_why_a_pod_was_not_evicted_is_not_said_of_the_next_one_of_its_name(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        await held_by_a_budget(here)
        go = asyncio.Event()
        # The new pod is tried, and the answer is not there yet.
        fault = here.api.fault("POST", "/pods/web/eviction", before=go)
        here.store.delete("Pod", "web", "default")
        here.store.create("Pod", pod("web", node="n1"))
        new = uid(here, "Pod", "web")
        await until(lambda: here.topics.event(RESOURCES, "Pod/default/web").uid == new)
        here.gateway.reported.clear()
        here.topics.bind("web", new, "n1", generation=2)
        here.topics.evict("web", new, "n1", generation=2)
        await fault.reached.wait()
        await here.quiet(20)
        assert [one for one in here.gateway.reported if one.type == "Evicted"] == []
        here.api.held_by_budget.clear()
        go.set()
        await until(lambda: DELETED in here.store.get("Pod", "web", "default")["metadata"])


# Placement.


@virtual_time
async def test_a_pod_is_bound_where_it_belongs(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        here.store.create("Node", node("n1"))
        here.store.create("Pod", pod("job", scheduler="moorage"))
        here.store.create("Pod", pod("other"))
        await here.run()
        here.topics.wait_for_room("job", uid(here, "Pod", "job"), "0/1 nodes are available: 1 Too many pods.")
        await until(lambda: "PodScheduled" in conditions(here, "Pod", "job", "default"))
        assert conditions(here, "Pod", "job", "default")["PodScheduled"]["reason"] == "Unschedulable"
        here.topics.bind("job", uid(here, "Pod", "job"), "n1")
        here.topics.bind("other", uid(here, "Pod", "other"), "n1")
        await until(lambda: here.store.get("Pod", "job", "default")["spec"].get("nodeName") == "n1")
        await here.quiet(65)
        assert "nodeName" not in here.store.get("Pod", "other", "default")["spec"], "another scheduler's"
        assert conditions(here, "Pod", "job", "default")["PodScheduled"]["status"] == "True"
        assert events(here) == [
            "FailedScheduling: 0/1 nodes are available: 1 Too many pods.",
            "Scheduled: Successfully assigned default/job to n1",
        ]


@virtual_time
async def test_the_pods_of_a_scheduler_that_it_stands_in_for_are_its_own(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        here.store.create("Node", node("n1"))
        for name, scheduler in (("job", "default-scheduler"), ("ours", "moorage"), ("other", "example.com/theirs")):
            here.store.create("Pod", pod(name, scheduler=scheduler))
        await here.run(scheduler="default-scheduler")
        keys = {name: f"Pod/default/{name}" for name in ("job", "ours", "other")}
        await until(lambda: all(here.topics.event(RESOURCES, key) is not None for key in keys.values()))
        for name in keys:
            here.topics.bind(name, uid(here, "Pod", name), "n1")
        mirrored = {name: here.topics.event(RESOURCES, key).object for name, key in keys.items()}
        named = {name: found["spec"]["schedulerName"] for name, found in mirrored.items()}
        assert named == {"job": "moorage", "ours": "moorage", "other": "example.com/theirs"}
        await here.quiet(65)
        bound = {name: here.store.get("Pod", name, "default")["spec"].get("nodeName") for name in named}
        assert bound == {"job": "n1", "ours": "n1", "other": None}
        assert here.store.get("Pod", "job", "default")["spec"]["schedulerName"] == "default-scheduler"


@virtual_time
async def test_the_health_of_a_pod_is_reported_for_its_binding(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        here.store.create("Node", node("n1"))
        here.store.create("Pod", pod("web", node="n1"))
        await here.run(acts=())
        here.topics.bind("web", uid(here, "Pod", "web"), "n1", generation=3)
        await here.quiet(30)
        assert [one for one in here.gateway.reported if one.workload] == [], "it has never been ready"

        def ready(status: str) -> None:
            found = {"status": {"conditions": [{"type": "Ready", "status": status, "reason": "Probe"}]}}
            here.store.change("Pod", "web", "default", patch=found, subresource="status", manager="kubelet")

        for status in ("True", "False", "True"):
            ready(status)
            await until(partial(is_healthy, here, status))
        found = [one for one in here.gateway.reported if one.workload]
        assert {one.binding_generation for one in found} == {3}
        assert {one.workload_uid for one in found} == {uid(here, "Pod", "web")}


def is_healthy(here: Rig, status: str) -> bool:
    """Whether the topics have this health of the pod `web`."""
    found = here.topics.event(WORKLOAD_CONDITIONS, "Pod/default/web|Node/n1|Healthy")
    return found is not None and found.status.value == status


# What it may write, and who does.


@virtual_time
async def test_it_does_only_what_it_is_told_to_do(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        here.store.create("Node", node("n1"))
        here.store.create("Pod", pod("web", node="n1"))
        here.store.create("Pod", pod("job", scheduler="moorage"))
        await here.run(acts={BridgeAct.PLACEMENT})
        here.topics.taint("n1", a_taint("broken"))
        here.topics.condition("n1", "Disk")
        here.topics.evict("web", uid(here, "Pod", "web"), "n1")
        here.topics.bind("job", uid(here, "Pod", "job"), "n1")
        await until(lambda: here.store.get("Pod", "job", "default")["spec"].get("nodeName") == "n1")
        await here.quiet(65)
        assert {str(one) for one in here.api.writes} == {
            "POST /api/v1/namespaces/default/pods/job/binding",
            "POST /api/v1/namespaces/default/events",
        }


@virtual_time
@pytest.mark.parametrize("how", ["stopped", "killed"])
async def test_one_of_two_bridges_acts_and_the_other_takes_over(tmp_path: Path, how: str) -> None:
    async with rig(tmp_path) as here:
        here.store.create("Node", node("n1"))
        first = await here.run()
        second = await here.start()
        await until(lambda: second.ready)
        here.topics.taint("n1", a_taint("broken"))
        await until(lambda: taints(here) == ["broken:NoExecute"])
        await here.quiet(30)
        assert leads(first)
        assert not leads(second)
        assert len(here.api.writes) == 1
        await (here.stop(first) if how == "stopped" else here.kill(first))
        here.topics.taint("n1")
        await until(lambda: taints(here) == [], seconds=10)
        assert leads(second)
