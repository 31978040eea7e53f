"""From declared workloads and taints to placements and back, through all services on a virtual clock."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.support.tables import table
from tests.support.worlds.flow import Crash
from tests.support.worlds.nodes import NodeWorld, pod_spec
from tests.support.worlds.world import TEMPLATE

from moorage_schemas.eviction import EvictionState
from moorage_schemas.placement import PlacementState
from moorage_schemas.topics import BINDINGS, EVICTIONS, PLACEMENTS, TAINTS


def test_an_evicted_bare_pod_is_gone_until_it_is_made_again() -> None:
    world = NodeWorld("n1")
    world.declare("Pod", "p", pod_spec())
    assert world.run().where("p") == ["n1"]
    world.taint("n1", "bad")
    world.run()
    gone = world.pods()["p"]
    assert (gone.state, gone.reason, gone.target) == (PlacementState.EVICTED, "TaintEviction", None)
    assert gone.previous_target is not None
    assert gone.previous_target.name == "n1"
    assert [event.state for event in world.flow.events(EVICTIONS)][-1] is EvictionState.COMPLETED
    world.untaint("n1", "bad")
    world.declare("Pod", "p", pod_spec())
    assert world.run().pods()["p"].state is PlacementState.EVICTED
    world.declare("Pod", "p", pod_spec(), uid="another")
    again = world.run().pods()["p"]
    assert (again.state, again.uid) == (PlacementState.PLACED, "another")
    assert again.generation > gone.generation


def test_a_pod_made_again_under_its_name_is_not_taken_for_the_one_before() -> None:
    world = NodeWorld("n1", "n2")
    world.taint("n2", "full", "NoSchedule")
    world.declare("Pod", "p", pod_spec())
    world.run()
    world.taint("n1", "bad")
    world.run()
    (task, *_) = world.flow.events(EVICTIONS)
    world.delete("Pod", "p")
    world.untaint("n1", "bad")
    world.run()
    world.declare("Pod", "p", pod_spec(), uid="another")
    world.run()
    assert world.where() == ["n1"]
    assert world.flow.events(BINDINGS)[-1].generation > task.generation
    world.taint("n1", "bad")
    assert world.run().pods()["p"].state is PlacementState.EVICTED


def test_an_evicted_replica_is_placed_elsewhere_with_the_reasons_kept() -> None:
    world = NodeWorld("n1", "n2", "n3")
    world.declare("Deployment", "web", {"replicas": 3, "template": TEMPLATE})
    before = world.run().pods("web")
    assert world.where("web") == ["n1", "n2", "n3"]
    report = world.taint("n1", "bad")
    after = world.run().pods("web")
    assert "n1" not in world.where("web")
    (name,) = after.keys() - before.keys()
    (old,) = before.keys() - after.keys()
    assert after[name].replaces == f"Pod/default/{old}"
    assert after[name].previous_target == before[old].target
    assert "bad:NoExecute" in after[name].message
    record = next(record for record in world.flow.records(PLACEMENTS) if record.name == f"Pod/default/{name}")
    assert record.meta.correlation_id == report.meta.correlation, "one chain from the wish to the new placement"
    assert after[name].filters[0].reason == "node(s) had untolerated taint(s)"
    target = after[name].target
    assert target is not None
    assert after[name].scores[0].target == target.name


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet"])
def test_nobody_goes_where_the_tolerated_time_is_over(kind: str) -> None:
    world = NodeWorld("n1")
    patient = {"key": "bad", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    template = {**TEMPLATE, "spec": pod_spec(tolerations=[patient])}
    world.declare(kind, "web", {"template": template})
    assert world.run().where() == ["n1"]
    world.taint("n1", "bad")
    world.run()
    world.flow.advance(4)
    assert world.where() == ["n1"]
    world.flow.advance(2)
    world.check()
    assert world.where() == ["-"], "its replacement would have to leave at once"
    assert world.pods()[next(iter(world.pods()))].message.startswith(
        "0/1 nodes are available: 1 node(s) had taint(s) that are tolerated no longer."
    )
    assert [event.state for event in world.flow.events(EVICTIONS)].count(EvictionState.REQUESTED) == 1
    world.node("n2")
    assert world.run().where() == (["n2"] if kind != "DaemonSet" else ["-", "n2"])
    world.untaint("n1", "bad")
    assert world.run().where() == (["n2"] if kind != "DaemonSet" else ["n1", "n2"])
    world.taint("n1", "bad")
    world.declare("Deployment", "more", {"template": {**TEMPLATE, "spec": pod_spec(tolerations=[patient])}})
    assert world.run().where("more") == ["n1"], "the time runs from when the taint was added again"


def test_replicas_wait_and_come_back_when_there_is_room() -> None:
    world = NodeWorld()
    world.node("n1", allocatable={"cpu": "2"})
    world.declare("Deployment", "web", {"replicas": 4, "template": {"spec": pod_spec("1")}})
    assert world.run().where() == ["-", "-", "n1", "n1"]
    waiting = [event for event in world.pods().values() if event.state is PlacementState.PENDING]
    assert {event.message for event in waiting} == {"0/1 nodes are available: 1 Insufficient cpu."}
    world.node("n2", allocatable={"cpu": "1"})
    assert world.run().where() == ["-", "n1", "n1", "n2"]
    world.declare("Deployment", "web", {"replicas": 2, "template": {"spec": pod_spec("1")}})
    assert len(world.run().where()) == 2


def test_no_schedule_moves_nobody_but_keeps_new_ones_away() -> None:
    world = NodeWorld("n1")
    world.declare("Pod", "old", pod_spec())
    world.run()
    world.taint("n1", "full", "NoSchedule")
    world.declare("Pod", "new", pod_spec())
    world.run()
    assert (world.where("old"), world.where("new")) == (["n1"], ["-"])
    world.untaint("n1", "full", "NoSchedule")
    assert world.run().where("new") == ["n1"]


def test_prefer_no_schedule_is_avoided_when_it_can_be() -> None:
    world = NodeWorld("n1", "n2")
    world.taint("n1", "meh", "PreferNoSchedule")
    world.declare("Pod", "p", pod_spec())
    assert world.run().where() == ["n2"]


def test_a_named_node_is_taken_whatever_filters_say() -> None:
    world = NodeWorld("n1")
    world.taint("n1", "full", "NoSchedule")
    world.declare("Pod", "p", pod_spec(nodeName="n1"))
    world.run()
    assert (world.pods()["p"].reason, world.where()) == ("NodeNameSet", ["n1"])
    (binding,) = world.flow.events(BINDINGS)
    assert binding.bypassed
    world.taint("n1", "bad", "NoExecute")
    assert world.run().pods()["p"].state is PlacementState.EVICTED


def test_a_named_node_that_is_not_there_is_waited_for() -> None:
    world = NodeWorld("n1")
    world.declare("Pod", "p", pod_spec(nodeName="n9"))
    assert world.run().pods()["p"].reason == "NodeNotFound"
    world.node("n9")
    assert world.run().where() == ["n9"]


def test_changed_tolerations_of_a_bound_pod_reach_eviction() -> None:
    world = NodeWorld("n1")
    world.declare("Pod", "p", pod_spec())
    world.run()
    first = world.flow.events(BINDINGS)[-1]
    world.declare("Pod", "p", pod_spec(tolerations=[{"key": "bad", "operator": "Exists"}]))
    world.run()
    second = world.flow.events(BINDINGS)[-1]
    assert (second.generation, second.revision) == (first.generation, first.revision + 1)
    world.taint("n1", "bad")
    assert world.run().where() == ["n1"]


def test_a_deleted_node_sends_its_pods_elsewhere() -> None:
    world = NodeWorld("n1", "n2")
    world.declare("Deployment", "web", {"replicas": 2, "template": TEMPLATE})
    world.declare("Pod", "p", pod_spec(nodeName="n1"))
    world.run()
    world.delete("Node", "n1")
    world.run()
    assert world.where("web") == ["n2", "n2"]
    assert (world.pods()["p"].state, world.pods()["p"].reason) == (PlacementState.EVICTED, "TargetGone")


def test_a_node_made_again_between_two_looks_starts_empty() -> None:
    world = NodeWorld("n1")
    world.declare("Deployment", "web", {"replicas": 1, "template": TEMPLATE})
    (old,) = world.run().pods("web")
    world.delete("Node", "n1")
    world.node("n1")
    (new,) = world.run().pods("web")
    assert new != old
    assert world.where("web") == ["n1"]


OWNERS = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job")


def test_deleting_an_owner_ends_all_of_it() -> None:
    world = NodeWorld("n1", "n2")
    for kind in OWNERS:
        world.declare(kind, kind.lower(), {"replicas": 2, "parallelism": 2, "template": TEMPLATE})
    assert len(world.run().where()) == 12
    for kind in OWNERS:
        world.delete(kind, kind.lower())
    world.run()
    assert world.flow.table(PLACEMENTS) == {}
    assert world.flow.table(BINDINGS) == {}


def test_a_stateful_pod_keeps_its_name() -> None:
    world = NodeWorld("n1", "n2")
    world.declare("StatefulSet", "db", {"replicas": 2, "template": TEMPLATE})
    before = world.run().pods()
    assert set(before) == {"db-0", "db-1"}
    moved = next(name for name, event in before.items() if event.target and event.target.name == "n1")
    world.taint("n1", "bad")
    after = world.run().pods()
    assert set(after) == {"db-0", "db-1"}
    assert after[moved].uid != before[moved].uid
    assert after[moved].binding_generation > before[moved].binding_generation
    assert after[moved].replaces == f"Pod/default/{moved}"
    assert world.where() == ["n2", "n2"]


def test_a_daemon_set_follows_the_nodes() -> None:
    world = NodeWorld("n1", "n2")
    world.taint("n2", "gpu", "NoSchedule")
    world.declare("DaemonSet", "agent", {"template": TEMPLATE})
    assert world.run().where() == ["n1"]
    world.node("n3")
    assert world.run().where() == ["n1", "n3"]
    world.untaint("n2", "gpu", "NoSchedule")
    assert world.run().where() == ["n1", "n2", "n3"]
    world.taint("n3", "full", "NoSchedule")
    assert world.run().where() == ["n1", "n2", "n3"], "a running one stays"
    world.taint("n1", "bad")
    assert world.run().where() == ["n2", "n3"]
    world.untaint("n1", "bad")
    assert world.run().where() == ["n1", "n2", "n3"]
    world.report("n1", "Ready", "False")
    assert world.run().where() == ["n1", "n2", "n3"], "tolerated forever"
    world.delete("Node", "n2")
    assert world.run().where() == ["n1", "n3"]
    assert {event.state for event in world.flow.events(PLACEMENTS)} == {PlacementState.PLACED}


def test_a_daemon_set_that_names_a_node_has_one_pod_there() -> None:
    world = NodeWorld("n1", "n2")
    named = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "nodeName": "n2"}}
    world.declare("DaemonSet", "agent", {"template": named})
    assert world.run().where() == ["n2"]
    world.node("n3")
    assert world.run().where() == ["n2"]
    world.declare("DaemonSet", "agent", {"template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], "nodeName": "n4"}}})
    assert world.run().where() == []
    world.node("n4")
    assert world.run().where() == ["n4"]


def test_a_job_has_as_many_pods_as_run_at_once() -> None:
    world = NodeWorld("n1")
    world.declare("Job", "j", {"parallelism": 5, "completions": 3, "template": TEMPLATE})
    assert len(world.run().where()) == 3
    world.declare("Job", "j", {"parallelism": 5, "completions": 3, "suspend": True, "template": TEMPLATE})
    assert world.run().where() == []


def changed(cpu: str) -> dict[str, Any]:
    return {"spec": pod_spec(cpu)}


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet"])
def test_a_changed_template_replaces_the_pods(kind: str) -> None:
    world = NodeWorld()
    world.node("n1", allocatable={"cpu": "4"})
    world.node("n2", allocatable={"cpu": "4"})
    world.declare(kind, "w", {"replicas": 2, "template": changed("1")})
    before = world.run().pods()
    assert len(before) == 2
    world.declare(kind, "w", {"replicas": 2, "template": changed("2")})
    after = world.run().pods()
    assert len(after) == 2
    assert {event.uid for event in after.values()}.isdisjoint(event.uid for event in before.values())
    assert {event.template_hash for event in after.values()}.isdisjoint(e.template_hash for e in before.values())
    assert all(event.state is PlacementState.PLACED for event in after.values())


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet"])
def test_old_pods_stay_while_new_ones_do_not_fit(kind: str) -> None:
    world = NodeWorld()
    world.node("n1", allocatable={"cpu": "2"})
    world.declare(kind, "w", {"replicas": 2 if kind != "DaemonSet" else None, "template": changed("1")})
    before = {name for name, event in world.run().pods().items() if event.state is PlacementState.PLACED}
    world.declare(kind, "w", {"replicas": 2 if kind != "DaemonSet" else None, "template": changed("3")})
    now = {name for name, event in world.run().pods().items() if event.state is PlacementState.PLACED}
    assert now == before
    waiting = [event for event in world.pods().values() if event.state is PlacementState.PENDING]
    assert len(waiting) == (1 if kind == "Deployment" else 0), "a surge of one"
    world.declare("Pod", "late", pod_spec("2"))
    assert world.run().where("late") == ["-"], "what was only asked about is not given away"
    world.delete("Pod", "late")
    world.run()
    world.node("n2", allocatable={"cpu": "9"})
    world.node("n3", allocatable={"cpu": "9"})
    world.run()
    hashes = {event.template_hash for event in world.pods().values() if event.target and event.target.name != "n1"}
    assert len(hashes) == 1
    if kind != "DaemonSet":
        assert set(world.where()) <= {"n2", "n3"}


def test_a_replica_set_keeps_pods_of_the_old_template() -> None:
    world = NodeWorld("n1")
    world.declare("ReplicaSet", "rs", {"replicas": 2, "template": TEMPLATE})
    before = world.run().pods()
    world.declare("ReplicaSet", "rs", {"replicas": 3, "template": changed("1")})
    after = world.run().pods()
    assert before.keys() < after.keys()
    assert len(after) == 3


def test_scaling_down_and_up_gives_new_names() -> None:
    world = NodeWorld("n1")
    names: list[set[str]] = []
    for replicas in (3, 1, 3):
        world.declare("Deployment", "web", {"replicas": replicas, "template": TEMPLATE})
        names.append(set(world.run().pods()))
    first, second, third = names
    assert second < first
    assert third & first == second


def test_dedicated_nodes_get_the_pods_of_their_group_and_no_others() -> None:
    world = NodeWorld()
    world.node("gpu", allocatable={"cpu": "8"}, labels={"dedicated": "gpu"})
    world.node("plain")
    rule = {"value": "gpu", "podSelector": {"matchLabels": {"app": "web"}}}
    world.declare("DedicatedNodes", "gpu", rule)
    world.run()
    world.declare("Deployment", "web", {"replicas": 3, "template": TEMPLATE})
    assert world.run().where("web") == ["gpu"] * 3
    (binding, *_) = world.flow.events(BINDINGS)
    assert any(toleration.key == "dedicated" for toleration in binding.tolerations)


def test_a_node_whose_taints_are_wished_in_one_breath_gets_nobody() -> None:
    world = NodeWorld()
    world.declare("Deployment", "web", {"replicas": 2, "template": TEMPLATE})
    world.node("n1")
    world.taint("n1", "a", "NoSchedule")
    world.flow.step("placement", world.flow.partition("Deployment/default/web"))
    assert world.flow.table(TAINTS) == {}, "the taint-manager has not been at it yet"
    assert world.flow.table(BINDINGS) == {}
    assert world.run().where() == ["-", "-"]


def scenario(world: NodeWorld) -> None:
    """A long history of a small fleet."""
    for number in range(4):
        world.node(f"n{number}", allocatable={"cpu": "4"})
    world.declare("Deployment", "web", {"replicas": 5, "template": changed("1")})
    world.declare("StatefulSet", "db", {"replicas": 2, "template": TEMPLATE})
    world.declare("DaemonSet", "agent", {"template": TEMPLATE})
    world.declare("Pod", "lone", pod_spec("2"))
    world.flow.run()
    world.node("n9")
    world.taint("n9", "soft", "PreferNoSchedule")
    world.report("n9", "Ready", "False")
    world.flow.run()
    world.taint("n9", "bad")
    world.declare("Deployment", "web", {"replicas": 7, "template": changed("2")})
    world.flow.run()
    world.delete("Node", "n9")
    world.delete("StatefulSet", "db")
    world.flow.advance(400)


def settled(world: NodeWorld) -> dict[str, int]:
    """How many pods of each owner run and wait, regardless of their nodes and names."""
    counts: dict[str, int] = {}
    for event in world.pods().values():
        key = f"{event.owner.name} {event.state.value}"
        counts[key] = counts.get(key, 0) + 1
    return counts


def test_replay_gives_the_same_decisions_byte_for_byte() -> None:
    runs = [NodeWorld(), NodeWorld()]
    for world in runs:
        scenario(world)
    first, second = ([record.content for record in world.flow.records(PLACEMENTS)] for world in runs)
    assert first == second


@table("seed", range(8))
def test_crashes_at_any_point_lose_and_double_nothing(seed: int) -> None:
    calm = NodeWorld()
    scenario(calm)
    world = NodeWorld(seed=seed)
    rng = random.Random(seed)  # noqa: S311 - the random choices must be repeatable

    def maybe(service: str, _partition: int) -> Crash | None:
        return (
            rng.choice([Crash.BEFORE_COMMIT, Crash.AFTER_COMMIT, None, None, None]) if service == "placement" else None
        )

    world.flow.crash_when = maybe
    scenario(world)
    world.flow.crash_when = lambda _service, _partition: None
    world.run()
    assert settled(world) == settled(calm)
    assert world.flow.reconcile("placement") == []
    room: dict[str, int] = {}
    for binding in world.flow.table(BINDINGS).values():
        room[binding.target.name] = room.get(binding.target.name, 0) + binding.requests.get("cpu", 0)
    assert max(room.values()) <= 4000


def test_a_restarted_process_with_compacted_topics_decides_nothing_anew() -> None:
    world = NodeWorld()
    scenario(world)
    before = len(world.flow.records(PLACEMENTS))
    world.flow.crash_process("placement")
    world.flow.compact()
    compacted = len(world.flow.records(PLACEMENTS))
    world.run()
    assert len(world.flow.records(PLACEMENTS)) == compacted <= before


@pytest.mark.parametrize("first", [0, 1])
def test_a_taint_that_was_written_just_before_is_known_in_time(first: int) -> None:
    """A worker that was cut off reads the workload, or its new size, before it reads the taint."""
    world = NodeWorld("n1", "n2")
    world.declare("Deployment", "web", {"replicas": first, "template": TEMPLATE})
    world.run()
    world.flow.behind.add("placement")
    world.taint("n2" if world.where("web") == ["n1"] else "n1", "full", "NoSchedule")
    world.flow.run()
    world.declare("Deployment", "web", {"replicas": 4, "template": TEMPLATE})
    world.flow.run()
    world.flow.behind.clear()
    world.run()
    assert len(world.where("web")) == 4
    assert len(set(world.where("web"))) == 1, "nothing is on the node that was tainted"


@pytest.mark.parametrize("seconds", [0, -5])
def test_a_taint_that_is_tolerated_for_no_time_at_all_keeps_replicas_away(seconds: int) -> None:
    """Otherwise each pod and each replacement would be evicted at once, without end."""
    world = NodeWorld("n1")
    world.taint("n1", "bad")
    world.run()
    toleration = {"key": "bad", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "tolerations": [toleration]}}
    world.declare("Deployment", "web", {"replicas": 1, "template": template})
    assert world.run().where("web") == ["-"]
    assert not world.flow.records(EVICTIONS)
    world.untaint("n1", "bad")
    assert world.run().where("web") == ["n1"]
