"""What placement keeps is bounded by what there is, not by what there has ever been."""

from __future__ import annotations

import gc
from types import ModuleType
from typing import Any

import pytest
from tests.component.workers import test_placement as nodes
from tests.component.workers import test_placement_clusters as clusters
from tests.component.workers.test_placement_work import POD_SPEC, daemon, drain
from tests.support.worlds.flow import START

from moorage.decide.scheduling.karmada import scheduler as clusters_scheduler
from moorage.decide.scheduling.nodes import fleet as nodes_fleet
from moorage.decide.scheduling.nodes import scheduler as nodes_scheduler
from moorage.decide.scheduling.nodes.fleet import Fleet, NodeFacts
from moorage.decide.scheduling.ocm.columns.cluster_facts import ManagedClusterFacts
from moorage.decide.scheduling.ocm.columns.labels import CodeColumn, LabelColumn
from moorage.decide.scheduling.ocm.columns.managed_fleet import ManagedFleet
from moorage.decide.scheduling.ocm.selector import LabelTerms
from moorage.runtime.service import Emit, Input
from moorage.workers.placement.karmada import cluster_view
from moorage.workers.placement.pods import binder, pod_view
from moorage.workers.placement.pods import nodes as pods_nodes
from moorage_schemas.topics import BINDINGS, RESOURCES

CONTAINERS = (dict, list, set, tuple)

LIMITS: dict[ModuleType, tuple[str, ...]] = {
    nodes_fleet: ("_KEPT", "_TOUCHED", "_LABELS", "_RESOURCES"),
    nodes_scheduler: ("_REMEMBERED", "_RANKED"),
    clusters_scheduler: ("_REMEMBERED",),
    binder: ("_REMEMBERED",),
    pods_nodes: ("_SHAPES",),
    pod_view: ("_CHANGED",),
    cluster_view: ("_CHANGED",),
}
"""The limits of caches, which the test makes small so that they are reached."""


def size_of(root: object) -> int:
    """The number of entries in all containers that an object of Moorage's leads to."""
    seen: set[int] = set()
    waiting: list[object] = [root]
    total = 0
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, CONTAINERS) or type(one).__name__ == "deque":
            total += len(one)  # type: ignore[arg-type]  # all of these have a length
            waiting += one.values() if isinstance(one, dict) else one  # type: ignore[arg-type]  # and can be iterated
        elif type(one).__module__.startswith("moorage."):
            waiting += attributes(one)
    return total


def attributes(one: object) -> list[object]:
    found = dict(getattr(one, "__dict__", {}))
    for kind in type(one).__mro__:
        for name in getattr(kind, "__slots__", ()):
            if hasattr(one, name):
                found[name] = getattr(one, name)
    return list(found.values())


def delete(bench: Any, *keys: str) -> None:
    for key in keys:
        bench.offset += 1
        record = Input(RESOURCES, 0, bench.offset, key, None, nodes.meta(bench.offset))
        if bench.view.wants(RESOURCES, key):
            bench.view.apply(record)
        else:
            fold(bench, bench.service.process(bench.states[0], [record], START, fresh=True))
    drain(bench)


def fold(bench: Any, emits: list[Emit]) -> None:
    """Let bindings come back from the log."""
    for emit in emits:
        if emit.topic is BINDINGS:
            bench.fold(BINDINGS, emit.key, emit.event)


def churn_of_pods(bench: nodes.Bench, number: int) -> None:
    """Nodes, pods and controllers come and go. All have names, labels and resources that never come back."""
    name = f"n{number}"
    amounts: dict[str, Any] = {"cpu": "8", f"example.com/r{number}": "1"}
    bench.node(name, **amounts)
    pods = [nodes.bare(f"p{number}-{i}", f"{number + 1}m") for i in range(3)]
    web = nodes.declared("Deployment", f"web-{number}", {"replicas": 2, **POD_SPEC})
    agent = daemon(f"agent-{number}", nodeSelector={f"label-{number}": "x"})
    for event in (*pods, web, agent):
        fold(bench, bench.declare(event))
    drain(bench)
    delete(bench, *(event.key for event in (*pods, web, agent)), f"Node//{name}")


def churn_of_clusters(bench: clusters.Bench, number: int) -> None:
    """Clusters, policies of namespaces and resources come and go."""
    bench.cluster(f"c{number}")
    policy = clusters.declared(
        "PropagationPolicy",
        "policy",
        {"resourceSelectors": [{"apiVersion": clusters.DEPLOYMENT, "kind": f"Kind{number}"}]},
        api=clusters.POLICY,
    )
    bench.fold(RESOURCES, policy.key, policy)
    web = clusters.declared("Deployment", f"web-{number}", POD_SPEC)
    fold(bench, bench.declare(web))
    drain(bench)
    delete(bench, web.key, policy.key, f"Cluster//c{number}")


@pytest.mark.parametrize(
    ("made", "churn"), [(nodes.Bench, churn_of_pods), (clusters.Bench, churn_of_clusters)], ids=["pods", "clusters"]
)
def test_what_has_gone_leaves_nothing_behind(made: Any, churn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, limits in LIMITS.items():
        for limit in limits:
            monkeypatch.setattr(module, limit, 4)
    bench = made()
    sizes = []
    for part in range(3):
        for number in range(40):
            churn(bench, 40 * part + number)
        gc.collect()
        sizes.append(size_of(bench.view) + size_of(bench.states[0]))
    # Caches vary within their limits, but nothing has an entry for each thing that has ever been.
    assert sizes[2] - sizes[1] < 40, sizes


def test_resources_that_nobody_offers_or_takes_are_forgotten() -> None:
    fleet = Fleet()
    for number in range(500):
        fleet.put(NodeFacts("n", allocatable={"cpu": 1000, f"a{number}": number, f"b{number}": 2}))
        assert fleet.offered(f"a{number}")[0] == number
        assert fleet.free(f"asked{number}")[0] == 0
        fleet.take("n", [(f"b{number}", 1)])
        assert (fleet.free(f"b{number}")[0], fleet.free(f"a{number}")[0]) == (1, number)
        fleet.take("n", [(f"b{number}", 1)], -1)
    assert len(list(fleet.resources)) <= 64 + 3


def test_resources_of_a_node_that_comes_back_are_there_again() -> None:
    fleet = Fleet()
    fleet.put(NodeFacts("n", allocatable={"gpu": 4}))
    fleet.take("n", [("gpu", 3)])
    fleet.remove("n")
    for number in range(100):
        fleet.put(NodeFacts(f"other{number}", allocatable={f"r{number}": 1}))
        fleet.remove(f"other{number}")
    fleet.put(NodeFacts("n", allocatable={"gpu": 4}))
    assert fleet.free("gpu")[fleet.row_of("n")] == 1


def test_labels_that_are_asked_for_no_more_and_values_that_are_gone_are_forgotten() -> None:
    fleet = Fleet()
    fleet.put(NodeFacts("stays", {"host": "stays"}))
    for number in range(3000):
        fleet.label("host")
        fleet.label(f"key{number}")
        fleet.put(NodeFacts("changes", {"host": f"h{number}"}))
        column = fleet.label("host")
        held = column.holding(lambda value, number=number: value == f"h{number}", fleet.rows)  # type: ignore[misc]  # mypy does not infer a lambda's default
        assert held.tolist() == [False, True]
        assert len(column.values) <= 2 * (2 + 256)
    assert len(fleet._columns) <= 256


def test_texts_of_earlier_managed_clusters_lose_their_codes() -> None:
    fleet = ManagedFleet()
    fleet.put(ManagedClusterFacts("stays", {"r": "eu"}))
    fleet.hold([LabelColumn(LabelTerms((("r", "In", frozenset({"eu"})),)))])
    for number in range(6000):
        codes = fleet.column(CodeColumn("r"))
        assert codes[fleet.row("stays")] == fleet.code("eu")
        fleet.put(ManagedClusterFacts("changes", {"r": f"r{number}"}))
        assert len(fleet._codes) <= 4096 + 2
    some = LabelColumn(LabelTerms((("r", "In", frozenset({"r5999"})),)))
    assert fleet.column(some)[fleet.row("changes")]
