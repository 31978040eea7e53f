"""`explain` with a filter and a prioritizer of one file each: services decide with them, and it shows them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.component.simulation.explained import copy, of, said
from tests.component.simulation.test_explain_managed import SET, SelectingWorld
from tests.support.plugins import EXAMPLES, added
from tests.support.worlds.karmada import ONE, KarmadaWorld
from tests.support.worlds.nodes import NodeWorld, pod_spec
from tests.support.worlds.world import lifted

from moorage.decide.scheduling.framework.plugins import Plugin
from moorage.decide.scheduling.karmada.plugin import ClusterFilter, ClusterPrioritizer
from moorage.decide.scheduling.nodes.plugin import NodeFilter, NodePrioritizer
from moorage.decide.scheduling.ocm.plugin import ManagedFilter, ManagedPrioritizer
from moorage.insight.explain.binding_reasons import explain_binding
from moorage.insight.explain.document import document_of
from moorage.insight.explain.explanation import Explanation, Wanted
from moorage.insight.explain.grounds import SnapshotGrounds
from moorage.insight.explain.pod_reasons import explain_pod

ALL = Wanted(every=True)
Json = dict[str, Any]
Add = Callable[[type[Plugin[Any, Any]], str], None]


@pytest.fixture
def add(tmp_path: Path) -> Iterator[Add]:
    """Adds one of the examples to the plugins until the test ends."""
    with ExitStack() as stack:
        yield lambda kind, file: stack.enter_context(added(kind, EXAMPLES / file, tmp_path))


def document(told: Explanation) -> Json:
    """The explanation as JSON."""
    found: Json = json.loads(json.dumps(document_of(told)))
    return found


def part(told: Explanation, target: str, list_of: str, key: str, name: str) -> Json:
    """The JSON of one filter or prioritizer for one target."""
    found = next(one for one in document(told)["targets"] if one["name"] == target)
    made: Json = next(one for one in found[list_of] if one[key] == name)
    return made


def lines(told: Explanation) -> list[str]:
    """The lines of the detailed explanation, with single spaces."""
    return [" ".join(line.split()) for line in said(told, closely=True).splitlines()]


def test_nodes(add: Add) -> None:
    add(NodeFilter, "nodes/quarantine.py")
    add(NodePrioritizer, "nodes/hardware_generation.py")
    world = NodeWorld()
    generation = "example.com/hardware-generation"
    world.node("old", allocatable={"cpu": "8"})
    world.node("new", allocatable={"cpu": "8"}, labels={generation: "3"})
    world.node("newest", allocatable={"cpu": "8"}, labels={generation: "4", "example.com/quarantine": "a test"})
    world.declare("Pod", "p", pod_spec())
    assert world.run().where("p") == ["new"]
    written = world.pods()["p"]
    assert [(one.filter, one.reason, one.targets) for one in written.filters] == [
        ("Quarantine", "node(s) were in quarantine", ("newest",))
    ]
    assert written.scores[0].scores["HardwareGeneration"] == 400
    told = explain_pod(SnapshotGrounds(copy(world.flow), lifted(partitions=3)), "default", "p", ALL)
    assert told.agrees
    assert of(told, "newest").outcome == "ruled out: Quarantine: node(s) were in quarantine"
    assert "Quarantine RULED OUT node(s) were in quarantine" in lines(told)
    assert "in quarantine for a test" in lines(told)
    assert "HardwareGeneration 100 x 4 400 hardware generation 3" in lines(told)
    assert "HardwareGeneration x4" in said(told)
    assert document(told)["ruledOut"] == [{"filter": "Quarantine", "reason": "node(s) were in quarantine", "count": 1}]
    assert part(told, "newest", "filters", "filter", "Quarantine") == {
        "filter": "Quarantine",
        "passed": False,
        "reasons": ["node(s) were in quarantine"],
        "details": ["in quarantine for a test"],
    }
    assert part(told, "new", "scores", "prioritizer", "HardwareGeneration") == {
        "prioritizer": "HardwareGeneration",
        "score": 100,
        "weight": 4,
        "points": 400,
        "details": ["hardware generation 3"],
    }


def test_clusters(add: Add) -> None:
    add(ClusterFilter, "karmada/audited.py")
    add(ClusterPrioritizer, "karmada/price.py")
    world = KarmadaWorld()
    world.cluster("cheap", labels={"example.com/price": "5"})
    world.cluster("fair", labels={"example.com/price": "20", "example.com/audited": "true"})
    world.cluster("dear", labels={"example.com/audited": "true"})
    world.deploy("web", 2)
    world.policy(placement=ONE)
    world.run()
    written = world.placed("web-deployment")
    assert [one.target.name for one in written.targets] == ["fair"]
    assert [(one.filter, one.targets) for one in written.filters] == [("Audited", ("cheap",))]
    assert [(one.target, one.scores["Price"]) for one in written.scores] == [("fair", 160), ("dear", 0)]
    told = explain_binding(
        SnapshotGrounds(copy(world.flow), world.settings), "ResourceBinding/default/web-deployment", ALL
    )
    assert told.agrees
    assert of(told, "cheap").outcome == "ruled out: Audited: cluster(s) were not audited"
    assert "Audited RULED OUT cluster(s) were not audited" in lines(told)
    assert "example.com/audited is not set" in lines(told)
    assert "Price 80 x 2 160 the price is 20" in lines(told)
    assert part(told, "cheap", "filters", "filter", "Audited")["details"] == ["example.com/audited is not set"]
    assert part(told, "fair", "scores", "prioritizer", "Price") == {
        "prioritizer": "Price",
        "score": 80,
        "weight": 2,
        "points": 160,
        "details": ["the price is 20"],
    }


def test_managed_clusters(add: Add) -> None:
    add(ManagedFilter, "ocm/frozen.py")
    add(ManagedPrioritizer, "ocm/green_power.py")
    world = SelectingWorld()

    def cluster(name: str, power: str, **labels: str) -> None:
        claims = [{"name": "power.example.com", "value": power}]
        world.declare("ManagedCluster", name, labels={SET: "blue", **labels}, status={"clusterClaims": claims})

    for name, power in (("a", "10"), ("b", "40"), ("c", "90")):
        cluster(name, power)
    world.flow.run()
    for name in ("a", "b", "c"):
        world.say(name)
    green = {"scoreCoordinate": {"builtIn": "GreenPower"}, "weight": 3}
    world.place(numberOfClusters=1, prioritizerPolicy={"configurations": [green]})
    assert world.clusters() == ["c"]
    cluster("c", "90", **{"example.com/frozen": "May"})
    world.flow.run()
    assert world.clusters() == ["b"], "its column says that the cluster has changed"
    told = world.explained(ALL)
    assert told.agrees
    assert told.record is not None
    assert [(one.filter, one.reason, one.targets) for one in told.record.filters] == [
        ("Frozen", "cluster(s) were frozen", ("c",))
    ]
    assert [(one.target, one.scores["GreenPower"]) for one in told.record.scores] == [("b", 120), ("a", 30)]
    assert of(told, "c").outcome == "ruled out: Frozen: cluster(s) were frozen"
    assert "Frozen RULED OUT cluster(s) were frozen" in lines(told)
    assert "frozen since May" in lines(told)
    assert "GreenPower 40 x 3 120 40 % of its power is green" in lines(told)
    assert "GreenPower x3" in said(told)
    assert part(told, "c", "filters", "filter", "Frozen")["details"] == ["frozen since May"]
    assert part(told, "b", "scores", "prioritizer", "GreenPower") == {
        "prioritizer": "GreenPower",
        "score": 40,
        "weight": 3,
        "points": 120,
        "details": ["40 % of its power is green"],
    }
