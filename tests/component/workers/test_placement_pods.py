"""The parts of the placement of pods that make it fast decide the same as the plain way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.decide.scheduling.nodes.fleet import Fleet, NodeFacts
from moorage.decide.scheduling.nodes.plugin import PodRequest
from moorage.decide.scheduling.nodes.pod_shape import shape_of
from moorage.decide.scheduling.nodes.scheduler import NodeScheduler
from moorage.workers.placement.engine.pod_source import PodSource
from moorage.workers.placement.pods.pod_view import ReplicaRows
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.pod import PodSpec

NAMES = [f"n{number}" for number in range(4)]
POD_SOURCES = ["a", "b"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "remove", "ask", "node"]), st.sampled_from(POD_SOURCES), st.sampled_from(NAMES)
        ),
        max_size=40,
    )
)
def test_the_rows_of_replicas_follow_pods_and_nodes(steps: list[tuple[str, str, str]]) -> None:
    fleet = Fleet()
    rows = ReplicaRows(fleet)
    pods: dict[str, list[str]] = {owner: [] for owner in POD_SOURCES}
    for step, owner, node in steps:
        if step == "node" and node in fleet:
            fleet.remove(node)
        elif step == "node":
            fleet.put(NodeFacts(node))
        elif step == "add":
            pods[owner].append(node)
            rows.add(owner, node)
        elif step == "remove" and node in pods[owner]:
            pods[owner].remove(node)
            rows.remove(owner, node)
        expected = sorted(fleet.row_of(one) for one in pods[owner] if one in fleet)
        assert sorted(rows.of(owner, pods[owner]).tolist()) == expected


def test_rows_are_kept_for_few_owners() -> None:
    fleet = Fleet()
    fleet.put(NodeFacts("n"))
    rows = ReplicaRows(fleet)
    for number in range(1000):
        assert rows.of(f"owner-{number}", ["n"]).tolist() == [0]
        assert len(rows._kept) <= 32


def test_pods_one_after_another_get_what_a_new_scheduler_decides() -> None:
    fleet = Fleet()
    for number in range(300):
        fleet.put(NodeFacts(f"n{number:03}", allocatable={"cpu": 4000 + number % 5 * 100, "memory": 2**33, "pods": 9}))
    kept = NodeScheduler(fleet)
    shapes = [
        shape_of(PodSpec.model_validate({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}))
        for cpu in ("100m", "300m", "2")
    ]
    rng = np.random.default_rng(1)
    placed: list[tuple[str, Any]] = []
    for number in range(400):
        request = PodRequest(shape=shapes[number % 3])
        decision = kept.decide(request)
        assert decision == NodeScheduler(fleet).decide(request)
        assert decision.target is not None
        fleet.take(decision.target, request.shape.requests)
        placed.append((decision.target, request.shape.requests))
        if number % 10 == 9:
            for _ in range(5):
                node, requests = placed.pop(int(rng.integers(len(placed))))
                fleet.take(node, requests, -1)
        if number % 150 == 149:
            fleet.put(NodeFacts(f"new{number}", allocatable={"cpu": 4000, "pods": 9}))


def pod(name: str, **spec: Any) -> PodSource:
    made = {"containers": [{"name": "c"}], **spec}
    metadata = {"name": name, "namespace": "default", "uid": name}
    return PodSource(
        ResourceDeclared(object={"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": made}, version=1)
    )


def test_equal_specs_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []
    validate = PodSpec.model_validate

    def counted(spec: Any) -> PodSpec:
        read.append(spec)
        return validate(spec)

    monkeypatch.setattr(PodSpec, "model_validate", counted)
    owners = [pod(f"p{number}", priority=4711) for number in range(50)]
    assert len(read) == 1
    assert len({id(one.shape((), 0)) for one in owners}) == 1
    assert pod("named", priority=4711, nodeName="n1").node_name == "n1"


@pytest.mark.parametrize(
    ("spec", "message"),
    [({"priority": 2**70}, ""), ({"containers": "none"}, "valid list"), ({"overhead": {"cpu": "x"}}, "cpu")],
)
def test_a_spec_is_read_the_same_whatever_it_holds(spec: dict[str, Any], message: str) -> None:
    for _ in range(2):
        error = pod("p", **spec).error
        assert (message in error) if message else not error
