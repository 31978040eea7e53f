"""Filter → score → select: the columns compared with plain Python, and the messages of kube-scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.scheduling import nodes_reference as reference
from tests.unit.scheduling.nodes_reference import Bound

from moorage.decide.kubernetes.pod_resources import pod_requests
from moorage.decide.scheduling.nodes.fleet import Fleet, NodeFacts
from moorage.decide.scheduling.nodes.plugin import NodePrioritizer, PodRequest
from moorage.decide.scheduling.nodes.pod_shape import PodShape, shape_of
from moorage.decide.scheduling.nodes.scheduler import Decision, NodeScheduler
from moorage_schemas.resources.pod import PodSpec
from moorage_schemas.taint import Taint

NAMES = [f"n{number}" for number in range(6)]
EFFECTS = st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"])
KEYS = st.sampled_from(["a", "b"])
TAINTS = st.lists(
    st.builds(Taint, key=KEYS, value=st.sampled_from(["", "x"]), effect=EFFECTS),
    max_size=3,
    unique_by=lambda taint: taint.identity,
).map(tuple)
LABELS = st.fixed_dictionaries(
    {},
    optional={
        reference.ZONE: st.sampled_from(["z1", "z2"]),
        "disk": st.sampled_from(["ssd", "hdd"]),
        "cores": st.sampled_from(["2", "16", "many"]),
    },
)
OFFERED = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from([0, 500, 2000]),
        "memory": st.sampled_from([10**8, 2**31]),
        "pods": st.integers(0, 3),
        "example.com/gpu": st.integers(0, 2),
    },
)


def facts(name: str) -> st.SearchStrategy[NodeFacts]:
    return st.builds(
        NodeFacts,
        name=st.just(name),
        labels=LABELS,
        taints=TAINTS,
        unschedulable=st.sampled_from([False, False, False, True]),
        allocatable=OFFERED,
    )


NODES = st.lists(st.sampled_from(NAMES), unique=True, max_size=6).flatmap(lambda names: st.tuples(*map(facts, names)))
TOLERATION = st.fixed_dictionaries(
    {"operator": st.sampled_from(["Exists", "Equal"])},
    optional={"key": KEYS, "value": st.just("x"), "effect": EFFECTS},
)
REQUIREMENT = st.one_of(
    st.fixed_dictionaries(
        {"key": st.sampled_from(["disk", "cores"]), "operator": st.sampled_from(["In", "NotIn"])},
    ).map(lambda one: {**one, "values": ["ssd", "16"]}),
    st.fixed_dictionaries(
        {"key": st.sampled_from(["disk", "gone"]), "operator": st.sampled_from(["Exists", "DoesNotExist"])}
    ),
    st.fixed_dictionaries({"key": st.just("cores"), "operator": st.sampled_from(["Gt", "Lt"])}).map(
        lambda one: {**one, "values": ["8"]}
    ),
)
TERM = st.fixed_dictionaries(
    {},
    optional={
        "matchExpressions": st.lists(REQUIREMENT, max_size=2),
        "matchFields": st.sampled_from(["In", "NotIn"]).map(
            lambda operator: [{"key": "metadata.name", "operator": operator, "values": ["n1"]}]
        ),
    },
)
REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(["0", "200m", "1"]),
        "memory": st.sampled_from(["50M", "1Gi"]),
        "example.com/gpu": st.just("1"),
    },
)


@st.composite
def shapes(draw: st.DrawFn) -> PodShape:
    node: dict[str, Any] = {}
    if draw(st.booleans()):
        terms = draw(st.lists(TERM, max_size=2))
        node["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    weights = draw(st.lists(st.tuples(st.integers(1, 9), TERM), max_size=2))
    node["preferredDuringSchedulingIgnoredDuringExecution"] = [
        {"weight": weight, "preference": term} for weight, term in weights
    ]
    spec = {
        "containers": [{"name": "c", "resources": {"requests": draw(REQUESTS)}}],
        "tolerations": draw(st.lists(TOLERATION, max_size=2)),
        "nodeSelector": draw(st.sampled_from([{}, {}, {"disk": "ssd"}])),
        "affinity": {"nodeAffinity": node},
    }
    return shape_of(PodSpec.model_validate(spec))


BOUND = st.lists(
    st.builds(
        Bound,
        node=st.sampled_from(NAMES),
        requests=st.sampled_from([{}, {"cpu": 300}, {"cpu": 100, "memory": 2**30}, {"example.com/gpu": 1}]),
        mine=st.booleans(),
    ),
    max_size=8,
)


def filled(nodes: Iterable[NodeFacts], bound: Sequence[Bound]) -> Fleet:
    fleet = Fleet()
    for number, one in enumerate(bound):
        if number % 2:
            fleet.take(one.node, one.requests.items())
    for node in nodes:
        fleet.put(node)
    for number, one in enumerate(bound):
        if not number % 2:
            fleet.take(one.node, one.requests.items())
    return fleet


def ask(fleet: Fleet, shape: PodShape, bound: Sequence[Bound] = (), *, replica: bool = False) -> PodRequest:
    rows = [fleet.row_of(one.node) for one in bound if one.mine and one.node in fleet]
    return PodRequest(shape=shape, owner="o", replica_rows=np.array(rows, dtype=np.intp), spread=replica)


def check(
    decision: Decision, shape: PodShape, nodes: Sequence[NodeFacts], bound: Sequence[Bound], *, replica: bool
) -> None:
    """Check the decision with plain Python."""
    by_name = {node.name: node for node in nodes}
    expected = reference.totals(shape, by_name, bound, replica=replica)
    ranking = sorted(
        expected, key=lambda name: (-sum(expected[name].values()), sum(one.node == name for one in bound), name)
    )
    assert [score.target for score in decision.scores] == ranking[:5]
    assert decision.target == (ranking[0] if ranking else None)
    for score in decision.scores:
        assert score.scores == expected[score.target]
        assert score.total == sum(score.scores.values())
    counted: dict[str, list[str]] = {}
    for node in nodes:
        for reason in reference.reasons(shape, node, bound):
            counted.setdefault(reason, []).append(node.name)
    assert {result.reason: sorted(result.targets) for result in decision.filters} == {
        reason: sorted(names) for reason, names in counted.items()
    }
    assert all(result.count == len(result.targets) for result in decision.filters)
    assert decision.considered == len(nodes)


@given(NODES, shapes(), BOUND, st.booleans())
@settings(max_examples=200)
def test_the_columns_decide_as_plain_python_does(
    nodes: tuple[NodeFacts, ...],
    shape: PodShape,
    bound: list[Bound],
    replica: bool,  # noqa: FBT001 - generated by hypothesis
) -> None:
    fleet = filled(nodes, bound)
    decision = NodeScheduler(fleet).decide(ask(fleet, shape, bound, replica=replica))
    check(decision, shape, nodes, bound, replica=replica)


@given(shapes(), st.data())
@settings(max_examples=60)
def test_a_fleet_that_changes_answers_as_one_made_new(shape: PodShape, data: st.DataObject) -> None:
    fleet = Fleet()
    scheduler = NodeScheduler(fleet)
    nodes: dict[str, NodeFacts] = {}
    bound: list[Bound] = []
    for _ in range(data.draw(st.integers(1, 12))):
        name = data.draw(st.sampled_from(NAMES))
        step = data.draw(st.sampled_from(["put", "put", "remove", "take", "take", "give"]))
        if step == "put":
            nodes[name] = data.draw(facts(name))
            fleet.put(nodes[name])
        elif step == "remove" and name in nodes:
            del nodes[name]
            fleet.remove(name)
        elif step == "take":
            one = data.draw(BOUND.filter(bool))[0]
            bound.append(one)
            fleet.take(one.node, one.requests.items())
        elif step == "give" and bound:
            one = bound.pop()
            fleet.take(one.node, one.requests.items(), -1)
        decision = scheduler.decide(ask(fleet, shape, bound, replica=True))
        check(decision, shape, list(nodes.values()), bound, replica=True)


def shape(**spec: Any) -> PodShape:
    return shape_of(PodSpec.model_validate({"containers": [{"name": "c"}], **spec}))


def test_the_message_is_kube_schedulers() -> None:
    fleet = Fleet()
    fleet.put(NodeFacts("a", taints=(Taint(key="k", effect="NoSchedule"),)))
    fleet.put(NodeFacts("b", taints=(Taint(key="k", effect="NoExecute"),)))
    fleet.put(NodeFacts("c", allocatable={"cpu": 1, "memory": 1}))
    fleet.put(NodeFacts("d", unschedulable=True))
    fleet.put(NodeFacts("e", allocatable={"pods": 0}))
    wanted = shape(containers=[{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}])
    decision = NodeScheduler(fleet).decide(ask(fleet, wanted))
    assert decision.message == (
        "0/5 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 1 Too many pods, "
        "1 node(s) were unschedulable, 2 node(s) had untolerated taint(s)."
    )
    assert [result.filter for result in decision.filters] == [
        "NodeUnschedulable",
        "TaintToleration",
        "NodeResourcesFit",
        "NodeResourcesFit",
        "NodeResourcesFit",
    ]


def test_a_tolerated_time_that_is_over_keeps_away() -> None:
    added = datetime(2026, 1, 1, tzinfo=UTC)
    fleet = Fleet()
    fleet.put(NodeFacts("a", taints=(Taint(key="k", effect="NoExecute", time_added=added),)))
    patient = shape(tolerations=[{"key": "k", "operator": "Exists", "tolerationSeconds": 10}])

    def decide(wanted: PodShape, seconds: float) -> Decision:
        return NodeScheduler(fleet).decide(replace(ask(fleet, wanted), now=added + timedelta(seconds=seconds)))

    assert [decide(patient, seconds).target for seconds in (0, 9.999, 10, 11)] == ["a", "a", None, None]
    over = "0/1 nodes are available: 1 node(s) had taint(s) that are tolerated no longer."
    assert decide(patient, 10).message == over
    assert NodeScheduler(fleet).decide(ask(fleet, patient)).target == "a", "no time, nothing is over"
    for_ever = shape(tolerations=[{"key": "k", "operator": "Exists"}])
    assert decide(for_ever, 11).target == "a"
    fleet.put(NodeFacts("a"))
    assert decide(patient, 11).target == "a"


def test_without_nodes_that_is_said() -> None:
    fleet = Fleet()
    decision = NodeScheduler(fleet).decide(ask(fleet, shape()))
    assert decision.message == "0/0 nodes are available: no nodes available to schedule pods."


def test_a_daemon_pod_is_shown_only_its_node() -> None:
    fleet = Fleet()
    fleet.put(NodeFacts("a"))
    fleet.put(NodeFacts("b", taints=(Taint(key="k", effect="NoSchedule"),)))
    scheduler = NodeScheduler(fleet)
    assert scheduler.decide(ask(fleet, shape()), only="a").target == "a"
    refused = scheduler.decide(ask(fleet, shape()), only="b")
    assert refused.message == "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
    assert scheduler.decide(ask(fleet, shape()), only="gone").target is None


def test_replicas_of_pods_that_ask_for_nothing_spread() -> None:
    fleet = Fleet()
    for number in range(6):
        fleet.put(NodeFacts(f"n{number}", labels={reference.ZONE: f"z{number % 3}"}))
    scheduler = NodeScheduler(fleet)
    bound: list[Bound] = []
    for _ in range(12):
        target = scheduler.decide(ask(fleet, shape(), bound, replica=True)).target
        assert target is not None
        fleet.take(target, ())
        bound.append(Bound(target, {}, mine=True))
    assert sorted(one.node for one in bound) == sorted(NAMES * 2)


@pytest.mark.parametrize(
    ("spec", "requests"),
    [
        ({"containers": [{"resources": {"requests": {"cpu": "1"}}}] * 2}, {"cpu": 2000}),
        ({"containers": [{"resources": {"limits": {"cpu": "1"}}}]}, {"cpu": 1000}),
        (
            {
                "containers": [{"resources": {"requests": {"cpu": "1"}}}],
                "initContainers": [{"resources": {"requests": {"cpu": "3", "memory": "1Ki"}}}],
            },
            {"cpu": 3000, "memory": 1024},
        ),
        (
            {
                "containers": [{"resources": {"requests": {"cpu": "1"}}}],
                "initContainers": [
                    {"resources": {"requests": {"cpu": "1"}}, "restartPolicy": "Always"},
                    {"resources": {"requests": {"cpu": "2"}}},
                ],
            },
            {"cpu": 3000},
        ),
        (
            {
                "containers": [{"resources": {"requests": {"cpu": "2"}}}],
                "initContainers": [
                    {"resources": {"requests": {"cpu": "2"}}},
                    {"resources": {"requests": {"cpu": "1"}}, "restartPolicy": "Always"},
                ],
            },
            {"cpu": 3000},
        ),
        (
            {
                "containers": [{"resources": {"requests": {"cpu": "1", "example.com/gpu": "1"}}}],
                "resources": {"requests": {"cpu": "500m"}},
                "overhead": {"cpu": "10m"},
            },
            {"cpu": 510, "example.com/gpu": 1},
        ),
        (
            {
                "containers": [{"resources": {"requests": {"cpu": "1"}, "limits": {"hugepages-2Mi": "2Mi"}}}],
                "resources": {"limits": {"memory": "1Ki", "cpu": "8"}},
            },
            {"cpu": 1000, "memory": 1024, "hugepages-2Mi": 2 * 2**20},
        ),
        ({"containers": [{"resources": {"requests": {"memory": "0.5", "cpu": "100n"}}}] * 2}, {"cpu": 2, "memory": 1}),
    ],
)
def test_what_a_pod_takes(spec: dict[str, Any], requests: dict[str, int]) -> None:
    assert pod_requests(spec) == requests


def test_a_pod_takes_what_it_has_and_what_it_wants_while_it_is_resized() -> None:
    spec = {"containers": [{"name": "a", "resources": {"requests": {"cpu": "2"}}}]}
    present = {"containerStatuses": [{"name": "a", "resources": {"requests": {"cpu": "3"}}}]}
    pending = {"type": "PodResizePending", "reason": "Infeasible"}
    smaller = {"containerStatuses": [{"name": "a", "allocatedResources": {"cpu": "1"}}], "conditions": [pending]}
    assert pod_requests(spec, present) == {"cpu": 3000}
    assert pod_requests(spec, smaller | {"conditions": []}) == {"cpu": 2000}
    assert pod_requests(spec, smaller) == {"cpu": 1000}
    assert shape_of(PodSpec.model_validate(spec), present).requests == (("cpu", 3000),)


def test_equal_pods_have_one_shape() -> None:
    one, other = shape(nodeSelector={"a": "1", "b": "2"}), shape(nodeSelector={"b": "2", "a": "1"})
    assert one.key == other.key
    assert shape(nodeSelector={"a": "2"}).key != one.key
    assert shape(tolerations=[{"operator": "Exists"}]).key != shape().key
    assert shape(priority=5).key != shape().key


def test_plugins_are_found_in_the_order_of_kube_scheduler() -> None:
    assert [one.name for one in NodeScheduler(Fleet()).filters] == [
        "NodeUnschedulable",
        "TaintToleration",
        "NodeAffinity",
        "TolerationOver",
        "NodePorts",
        "NodeResourcesFit",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
    ]
    assert {one.name: one.weight for one in NodeScheduler(Fleet()).prioritizers} == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "NodeResourcesFit": 1,
    }


@given(NODES, shapes(), BOUND, st.booleans())
@settings(max_examples=100)
def test_scores_that_are_not_relative_rest_on_no_other_candidate(
    nodes: tuple[NodeFacts, ...],
    pod: PodShape,
    bound: list[Bound],
    replica: bool,  # noqa: FBT001 - generated by hypothesis
) -> None:
    fleet = filled(nodes, bound)
    request = ask(fleet, pod, bound, replica=replica)
    rows = np.flatnonzero(fleet.alive)
    for one in NodePrioritizer.discovered():
        together = one.scores(request, fleet, rows).tolist() if rows.size else []
        assert all(one.lowest <= score <= one.highest for score in together), one.name
        if not one.relative:
            assert together == [one.scores(request, fleet, rows[at : at + 1])[0] for at in range(rows.size)], one.name


def test_huge_amounts_do_not_overflow() -> None:
    fleet = Fleet()
    fleet.put(NodeFacts("a", allocatable={"memory": 2**62}))
    fleet.put(NodeFacts("b"))
    wanted = shape(containers=[{"resources": {"requests": {"memory": "7Ei"}}}])
    for _ in range(10):
        decision = NodeScheduler(fleet).decide(ask(fleet, wanted))
        assert decision.message == "0/2 nodes are available: 2 Insufficient memory."
        fleet.take("a", wanted.requests)
    assert (fleet.free("memory") < 0).tolist() == [True, False]
