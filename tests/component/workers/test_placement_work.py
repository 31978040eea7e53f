"""The work that a change causes: it is done for what the change concerns, once, and in portions."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from tests.component.workers import test_placement as nodes
from tests.component.workers import test_placement_clusters as clusters
from tests.support.tables import table
from tests.support.worlds.flow import START

from moorage.runtime.service import Emit, Input
from moorage.workers.placement.engine.outbox import DECISION, Outbox
from moorage.workers.placement.engine.placement_controller import EFFORT, PORTION
from moorage.workers.placement.engine.work_queue import Work, WorkQueue
from moorage.workers.placement.karmada.controller import BindingController
from moorage.workers.placement.pods import reconcile
from moorage.workers.placement.pods.controller import PodController
from moorage.workers.placement.pods.pod_state import PodState
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.taint import TaintOrigin, TaintRecord, TargetTainted
from moorage_schemas.topics import BINDINGS, RESOURCES, TAINTS

POD_SPEC = {"template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c"}]}}}


def drain(bench: nodes.Bench | clusters.Bench) -> list[list[Emit]]:
    """Wake until nothing is due. Returns the records of each call. They come back from the log."""
    state = bench.states[0]
    calls = []
    while state.due():
        calls.append(bench.service.wake(state, START))
        for emit in calls[-1]:
            if emit.topic is BINDINGS:
                bench.fold(BINDINGS, emit.key, emit.event)
    return calls


def daemon(name: str, **spec: Any) -> ResourceDeclared:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c"}], **spec}}
    return nodes.declared("DaemonSet", name, {"template": template})


def taint(bench: nodes.Bench, name: str, generation: int, *effects: str) -> None:
    records = tuple(
        TaintRecord(key=f"k-{effect.lower()}", effect=effect, time_added=START, origins=(TaintOrigin.EXPLICIT,))
        for effect in effects
    )
    target = TargetRef(kind=TargetKind.NODE, name=name)
    event = TargetTainted(target=target, target_uid=f"uid-{name}", generation=generation, taints=records)
    bench.fold(TAINTS, target.key, event)


def daemons(node_count: int, count: int) -> nodes.Bench:
    bench = nodes.Bench()
    for number in range(node_count):
        bench.node(f"n{number:03}")
    drain(bench)
    for number in range(count):
        bench.declare(daemon(f"d{number}"))
        drain(bench)
    return bench


def pods_of(bench: nodes.Bench, owner: str) -> list[str]:
    state = bench.states[0].pods.state
    return sorted(one.node for one in state.pods_of(owner).values() if one.placed)


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[Any]:
    """Count the calls of a function. Returns a list that gets the arguments of each."""
    calls: list[Any] = []
    function: Callable[..., Any] = getattr(owner, name)

    def called(*args: Any, **named: Any) -> Any:
        calls.append(args)
        return function(*args, **named)

    monkeypatch.setattr(owner, name, called)
    return calls


@pytest.mark.parametrize("size", [10, 60])
def test_a_changed_node_is_visited_alone(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = daemons(size, 5)
    everywhere = counted(monkeypatch, reconcile, "_daemon_slots")
    visited = counted(monkeypatch, PodState, "pods_at")
    taint(bench, "n003", 1, "NoSchedule")
    drain(bench)
    assert everywhere == []
    assert len(visited) == 2 * 5  # before and after the pods that must leave, for each DaemonSet, whatever the size
    bench.node("new")
    drain(bench)
    assert everywhere == []
    assert all("new" in pods_of(bench, f"DaemonSet/default/d{number}") for number in range(5))


def test_changes_of_nodes_that_wait_are_one_piece_of_work() -> None:
    bench = daemons(30, 3)
    for generation in range(1, 40):
        taint(bench, f"n{generation % 4:03}", generation, *(["NoSchedule"] if generation % 2 else []))
        bench.states[0].pods.gather(START)
        assert len(bench.states[0].pods.work) <= 3
    assert {work.nodes for work in bench.states[0].pods.work} == {("n001", "n003")}


def test_after_very_many_changes_everything_is_visited_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = daemons(5, 2)
    for generation in range(1, 1100):
        taint(bench, "n003", generation, *(["NoSchedule"] if generation % 2 else []))
    everywhere = counted(monkeypatch, reconcile, "_daemon_slots")
    drain(bench)
    assert len(everywhere) == 2


@table("seed", range(8))
def test_visiting_changed_nodes_leaves_what_visiting_all_would(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - a seed for a test
    bench = daemons(8, 0)
    bench.declare(daemon("plain"))
    bench.declare(daemon("tolerant", tolerations=[{"operator": "Exists"}]))
    bench.declare(daemon("large", containers=[{"name": "c", "resources": {"requests": {"cpu": "2"}}}]))
    bench.declare(daemon("picky", nodeSelector={"disk": "ssd"}))
    drain(bench)
    version = 1
    for step in range(60):
        name, version = f"n{rng.randrange(10):03}", version + 1
        change = rng.randrange(4)
        if change == 0:
            effects = [one for one in ("NoSchedule", "PreferNoSchedule") if rng.random() < 0.5]
            taint(bench, name, version, *effects)
        elif change == 1:
            bench.fold(RESOURCES, f"Node//{name}", None)
        else:
            labels = {"disk": rng.choice(["ssd", "hdd"])}
            event = ResourceDeclared(
                object={
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels},
                    "status": {"allocatable": {"cpu": str(rng.choice([1, 3]))}},
                },
                version=version,
            )
            bench.fold(RESOURCES, event.key, event)
        if step % 3 == 0:
            drain(bench)
    drain(bench)
    state = bench.states[0]
    repairs = bench.service.reconcile(state, START)
    for key in list(state.pods.state.daemons):
        state.pods.work.add(Work(key, None))
    assert [emits for emits in (repairs, *drain(bench)) if emits] == []


def test_a_restore_is_worked_off_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = daemons(700, 20)
    state = bench.states[0]
    made = counted(monkeypatch, Outbox, "__init__")
    for key in list(state.pods.state.daemons):
        state.pods.work.add(Work(key, None))
    assert [emits for emits in drain(bench) if emits] == []
    efforts = [args[0].effort for args in made]
    assert sum(efforts) == 20 * (2 * 700 + 1)
    assert max(efforts) <= EFFORT


def deployment(replicas: int, version: int = 1, **spec: Any) -> ResourceDeclared:
    template = {"spec": {"containers": [{"name": "c"}], **spec}}
    return ResourceDeclared(
        object={
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "default", "uid": "uid-web"},
            "spec": {"replicas": replicas, "template": template},
        },
        version=version,
    )


def test_an_owner_with_many_replicas_is_worked_off_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = nodes.Bench()
    for number in range(100):
        bench.node(f"n{number:03}", cpu="64", pods="30")
    made = counted(monkeypatch, Outbox, "__init__")
    web = deployment(4000)
    bench.declare(web)
    drain(bench)
    state = bench.states[0].pods.state
    pods = state.pods_of(web.key).values()
    assert (len(pods), sum(pod.placed for pod in pods)) == (4000, 3000)
    state_before = {pod.workload: pod.node for pod in pods}
    assert sum(args[0].effort for args in made) < 4000 * (DECISION + 5), "no call begins anew"
    made.clear()
    for _ in range(2):
        bench.states[0].pods.work.add(Work(web.key, None))
    assert [emits for emits in drain(bench) if emits] == []
    assert len(made) > 1
    assert max(args[0].effort for args in made) <= EFFORT + 1
    assert {pod.workload: pod.node for pod in state.pods_of(web.key).values()} == state_before


def test_an_owner_that_changes_between_two_portions_is_begun_anew() -> None:
    bench = nodes.Bench()
    for number in range(20):
        bench.node(f"n{number:03}", cpu="64", pods="110")
    drain(bench)
    web = deployment(1000)
    bench.declare(web)
    state = bench.states[0].pods.state
    assert 0 < len(state.pods_of(web.key)) < 1000
    bench.declare(deployment(50, 2))
    drain(bench)
    assert len(state.pods_of(web.key)) == 50
    bench.declare(deployment(1000, 3))
    assert 50 < len(state.pods_of(web.key)) < 1000
    bench.declare(deployment(1000, 4, priority=7))
    drain(bench)
    pods = state.pods_of(web.key).values()
    assert len(pods) == 1000
    assert len({pod.template_hash for pod in pods}) == 1


def test_pods_that_fit_nowhere_are_tried_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = nodes.Bench()
    bench.node("n1", cpu="1")
    drain(bench)
    for number in range(300):
        bench.declare(nodes.bare(f"p{number:03}", f"{2000 + number}m"))
    made = counted(monkeypatch, Outbox, "__init__")
    bench.node("n1", version=2, cpu="1500m")
    calls = drain(bench)
    assert sum(map(len, calls)) == 0
    assert len(calls) >= 300 * DECISION // EFFORT
    assert all(args[0].effort <= EFFORT + DECISION + 2 for args in made)


def test_waiting_pods_are_queued_once_however_often_room_is_made() -> None:
    bench = nodes.Bench()
    bench.node("n1", cpu="1")
    drain(bench)
    for number in range(50):
        bench.declare(nodes.bare(f"p{number:03}", "2"))
    for version in range(2, 22):
        bench.node("n1", version=version, cpu=f"{1000 + version}m")
        bench.states[0].pods.gather(START)
        assert len(bench.states[0].pods.work) == 50


def test_untainting_a_cluster_queues_every_resource_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = clusters.Bench("c1", "c2")
    bench.policy(placement=clusters.ONE)
    for number in range(300):
        bench.declare(clusters.declared("Deployment", f"web-{number:03}", POD_SPEC))
        drain(bench)
    reconciled = counted(monkeypatch, BindingController, "reconcile_one")
    longest = 0
    for generation in range(1, 41):
        bench.taint("c2", *(["bad"] if generation % 2 else []), generation=generation)
        bench.states[0].karmada.gather(START)
        longest = max(longest, len(bench.states[0].karmada.work))
    assert longest == 300
    drain(bench)
    assert len(reconciled) == 300


def test_a_call_writes_no_more_than_a_portion() -> None:
    bench = nodes.Bench()
    for number in range(30):
        bench.node(f"n{number:02}")
    drain(bench)
    first = bench.declare(nodes.declared("Deployment", "web", {"replicas": 700, **POD_SPEC}))
    calls = [first, *drain(bench)]
    assert sum(map(len, calls)) == 1400
    assert max(map(len, calls)) <= PORTION + 2


def test_nodes_are_added_to_work_that_waits_until_it_is_taken() -> None:
    queue = WorkQueue()
    queue.add_nodes(Work("a", None, nodes=("n1",)))
    queue.add(Work("a", None))
    queue.add_nodes(Work("a", None, nodes=("n2", "n1")))
    assert [(work.key, work.nodes) for work in queue] == [("a", ("n1", "n2")), ("a", ())]
    assert queue.take().nodes == ("n1", "n2")
    queue.add_nodes(Work("a", None, nodes=("n3",)))
    assert [work.nodes for work in queue] == [(), ("n3",)]


def test_taking_other_work_keeps_what_waits_once() -> None:
    queue = WorkQueue()
    queue.add(Work("a", None))
    queue.add_once(Work("a", None))
    queue.take()
    queue.add_once(Work("a", None))
    assert len(queue) == 1


def test_the_index_of_daemon_pods_is_empty_when_they_are_gone() -> None:
    bench = daemons(6, 2)
    state = bench.states[0].pods.state
    assert isinstance(bench.states[0].pods, PodController)
    for number in range(2):
        key = f"DaemonSet/default/d{number}"
        record = Input(RESOURCES, 0, 10_000 + number, key, None, nodes.meta(10_000 + number))
        bench.service.process(bench.states[0], [record], START, fresh=True)
    drain(bench)
    assert not state._places
