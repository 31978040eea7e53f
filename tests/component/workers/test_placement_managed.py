"""OCM placements alone: which are decided again, portions, what counts before it is in the log, restores."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from tests.support.worlds.flow import START

from moorage.decide.scheduling.ocm.columns.managed_fleet import ManagedFleet
from moorage.runtime.service import Emit, Input, NeedFresh
from moorage.runtime.settings.process_settings import Settings
from moorage.workers.placement import PlacementService, service
from moorage.workers.placement.engine.placement_controller import PORTION
from moorage.workers.placement.fleet_view import FleetView
from moorage.workers.placement.ocm.managed_view import Selections
from moorage.workers.placement.service import AT_ONCE
from moorage.workers.placement.state import PlacementPartition
from moorage_schemas.envelope import Meta
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.names import DISABLED_ANNOTATION
from moorage_schemas.taint import TaintOrigin, TaintRecord, TargetTainted
from moorage_schemas.topics import BINDINGS, CONDITIONS, PLACEMENTS, RESOURCES, TAINTS, Topic

GROUP = "cluster.open-cluster-management.io"


def meta(number: int) -> Meta:
    return Meta(id=f"e{number}", source="test", type="test", time=START)


def declared(kind: str, name: str, spec: dict[str, Any] | None = None, *, version: int = 1, **parts: Any) -> Any:
    namespace = "" if kind in {"ManagedCluster", "ManagedClusterSet"} else "default"
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", **parts.pop("metadata", {})}
    body = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata, "spec": spec or {}, **parts}
    return ResourceDeclared(object=body, version=version)


class Process:
    """One process of the service: a view and some partitions, with records from the test."""

    def __init__(self, *clusters: str, partitions: int = 1) -> None:
        self.service: PlacementService = service(Settings())
        self.offset = 0
        self.generation = 1
        self.view: FleetView = self.service.new_globals()
        self.states = [self.begin(partition) for partition in range(partitions)]
        self.fold(
            RESOURCES, "ManagedClusterSetBinding/default/default", declared("ManagedClusterSetBinding", "default")
        )
        for name in clusters:
            self.cluster(name)

    def begin(self, partition: int) -> PlacementPartition:
        state = self.service.new_state(partition)
        self.service.use_globals(state, self.view)
        self.service.wake(state, START)
        return state

    def fold(self, topic: Topic, key: str, event: Any) -> None:
        self.offset += 1
        assert self.view.wants(topic, key)
        self.view.apply(Input(topic, 0, self.offset, key, event, meta(self.offset)))

    def cluster(self, name: str, **labels: str) -> None:
        event = declared("ManagedCluster", name, metadata={"labels": labels})
        self.fold(RESOURCES, event.key, event)
        self.taint(name)

    def taint(self, name: str, *keys: str, effect: str = "NoSelect") -> None:
        self.generation += 1
        target = TargetRef(kind=TargetKind.MANAGED_CLUSTER, name=name)
        taints = tuple(
            TaintRecord(key=key, effect=effect, time_added=START, origins=(TaintOrigin.EXPLICIT,)) for key in keys
        )
        self.fold(TAINTS, target.key, TargetTainted(target=target, generation=self.generation, taints=taints))

    def place(self, name: str, partition: int = 0, *, version: int = 1, **spec: Any) -> list[Emit]:
        self.offset += 1
        event = declared("Placement", name, spec, version=version)
        record = Input(RESOURCES, partition, self.offset, event.key, event, meta(self.offset))
        return self.service.process(self.states[partition], [record], START, fresh=True)

    def waiting(self, partition: int = 0) -> list[str]:
        """The placements that wait for a decision."""
        return sorted(work.key.rpartition("/")[2] for work in self.states[partition].ocm.work)

    def wake(self, partition: int = 0, after: float = 0) -> list[Emit]:
        return self.service.wake(self.states[partition], START + timedelta(seconds=after))

    def all(self, partition: int = 0) -> list[Emit]:
        emits = []
        while self.states[partition].due():
            emits += self.wake(partition)
        return emits


def labelled(**labels: str) -> list[dict[str, Any]]:
    return [{"requiredClusterSelector": {"labelSelector": {"matchLabels": labels}}}]


TOLERANT = [{"key": "bad", "operator": "Exists"}]


@pytest.fixture
def process() -> Process:
    """Four clusters in two regions, and placements with different requests."""
    process = Process()
    for number in range(4):
        process.cluster(f"c{number}", region="eu" if number < 2 else "us")
    process.place("all")
    process.place("eu", predicates=labelled(region="eu"))
    process.place("us", predicates=labelled(region="us"))
    process.place("tolerant", tolerations=TOLERANT)
    process.place("one", numberOfClusters=1)
    process.place("none", numberOfClusters=0)
    assert process.waiting() == []
    return process


def has(process: Process, name: str) -> list[str]:
    parts = process.states[0].ocm.state.pages.get(f"Placement/default/{name}", {})
    return sorted(cluster for part in parts.values() for cluster in part.part.clusters)


def test_only_placements_that_a_taint_can_touch_are_decided_again(process: Process) -> None:
    (only,) = has(process, "one")
    process.taint("c0", "bad")
    assert process.waiting() == sorted({"all", "eu"} | ({"one"} if only == "c0" else set()))
    process.all()
    other = next(name for name in ("c1", "c2", "c3") if name not in has(process, "one"))
    process.taint(other, "bad")
    assert "one" not in process.waiting(), "it has another one"
    process.all()
    process.taint("c0", "bad", "worse")
    assert process.waiting() == ["tolerant"]
    process.all()
    process.taint("c0", "bad")
    assert process.waiting() == ["tolerant"]
    process.all()
    process.taint("c0")
    assert process.waiting() == ["all", "eu", "one"], "who might have it now"
    process.all()
    process.taint("c0", "bad", effect="PreferNoSelect")
    assert process.waiting() == [], "it rules nothing out"
    process.taint("c0", "bad", effect="NoSelectIfNew")
    process.all()
    assert "c0" in has(process, "all")


def test_labels_touch_those_that_select_by_them(process: Process) -> None:
    process.cluster("c0", region="eu", more="yes")
    assert process.waiting() == []
    process.cluster("c0", region="us")
    assert process.waiting() == ["eu", "us"]
    process.all()
    assert (has(process, "eu"), has(process, "us")) == (["c1"], ["c0", "c2", "c3"])


def test_the_same_again_touches_nobody(process: Process) -> None:
    process.cluster("c0", region="eu")
    process.taint("c0")
    process.fold(RESOURCES, "ManagedClusterSetBinding/default/default", declared("ManagedClusterSetBinding", "default"))
    assert process.waiting() == []
    assert process.place("all", version=2) == []


def test_a_new_cluster_and_one_that_goes(process: Process) -> None:
    process.cluster("c9", region="us")
    assert process.waiting() == ["all", "one", "tolerant", "us"]
    process.all()
    process.fold(RESOURCES, "ManagedCluster//c9", None)
    assert set(process.waiting()) - {"one"} == {"all", "tolerant", "us"}
    process.all()
    assert has(process, "us") == ["c2", "c3"]


def test_a_set_touches_the_namespaces_that_it_is_bound_to(process: Process) -> None:
    process.fold(RESOURCES, "ManagedClusterSet//prod", declared("ManagedClusterSet", "prod"))
    assert process.waiting() == []
    process.fold(RESOURCES, "ManagedClusterSetBinding/shop/prod", declared("ManagedClusterSetBinding", "prod"))
    assert process.waiting() == []
    process.fold(RESOURCES, "ManagedClusterSetBinding/default/prod", declared("ManagedClusterSetBinding", "prod"))
    assert len(process.waiting()) == 6
    assert process.all() == [], "it has no clusters"


def test_nobody_is_told_after_its_partition_went(process: Process) -> None:
    process.service.drop(process.states[0])
    process.taint("c0", "bad")
    assert process.waiting() == []
    assert process.view.ocm.usage.most == 0, "what it had assumed is taken back"


def test_what_is_written_is_counted_at_once_and_once() -> None:
    process = Process("c1", "c2", partitions=2)
    emits = process.place("a", 0, numberOfClusters=1) + process.place("b", 1, numberOfClusters=1)
    chosen = [emit.event.clusters for emit in emits if emit.event is not None and emit.event.clusters]  # type: ignore[attr-defined]  # a decision
    assert sorted(chosen) == [("c1",), ("c2",)], "the second sees what the first took"
    usage = process.view.ocm.usage
    for emit in emits:
        if emit.key.startswith("PlacementDecision/"):
            process.fold(PLACEMENTS, emit.key, emit.event)
    assert (int(usage.counts.sum()), usage.most) == (2, 1)
    process.service.drop(process.states[0])
    assert int(usage.counts.sum()) == 2, "now it is in the log"
    process.fold(PLACEMENTS, "PlacementDecision/default/a-decision-1", None)
    assert int(usage.counts.sum()) == 1


def test_decisions_come_in_portions_and_each_placement_whole() -> None:
    process = Process(*[f"c{number:03}" for number in range(150)])
    for number in range(400):
        process.place(f"p{number}")
    process.taint("c000", "bad")
    first = process.wake()
    assert PORTION <= len(first) < PORTION + 3
    assert process.service.next_wake(process.states[0]) == AT_ONCE
    assert len({emit.partition_key for emit in first}) * 3 == len(first)
    rest = process.all()
    assert len(first) + len(rest) == 1200
    assert process.service.next_wake(process.states[0]) is None


def test_a_new_placement_asks_for_fresh_bindings() -> None:
    process = Process("c1")
    event = declared("Placement", "p")
    record = Input(RESOURCES, 0, 99, event.key, event, meta(99))
    with pytest.raises(NeedFresh):
        process.service.process(process.states[0], [record], START)
    process.place("p")
    again = record.__class__(RESOURCES, 0, 100, event.key, declared("Placement", "p", version=2), meta(100))
    assert process.service.process(process.states[0], [again], START) == []


def test_a_restored_partition_waits_for_the_same_instant() -> None:
    process = Process("c1")
    process.taint("c1", "bad")
    emits = process.place("p", tolerations=[{"key": "bad", "operator": "Exists", "tolerationSeconds": 60}])
    assert [emit.key for emit in emits] == ["PlacementDecision/default/p-decision-1", "Placement/default/p"]
    assert {emit.partition_key for emit in emits} == {"Placement/default/p"}
    restored = process.service.new_state(0)
    process.service.drop(process.states[0])
    process.service.use_globals(restored, process.view)
    spec = {"tolerations": [{"key": "bad", "operator": "Exists", "tolerationSeconds": 60}]}
    process.service.apply(restored, RESOURCES, "Placement/default/p", declared("Placement", "p", spec))
    for emit in emits:
        process.service.apply(restored, PLACEMENTS, emit.key, emit.event)
    process.states[0] = restored
    assert process.wake(after=30) == []
    assert process.service.next_wake(restored) == START + timedelta(seconds=60)
    assert process.wake(after=59) == []
    left = process.wake(after=60)
    assert [emit.event.removed for emit in left if emit.event is not None] == [("c1",), ()]  # type: ignore[attr-defined]  # decisions


def test_the_view_takes_only_what_it_looks_at() -> None:
    view = FleetView()
    assert view.wants(RESOURCES, "ManagedClusterSet//x")
    assert view.wants(PLACEMENTS, "PlacementDecision/default/p-decision-1")
    assert not view.wants(PLACEMENTS, "Placement/default/p")
    assert not view.wants(PLACEMENTS, "Pod/default/p")
    assert not view.wants(RESOURCES, "ManagedClusterAddOn/c1/x")
    assert not view.wants(CONDITIONS, "ManagedCluster/c1|x")
    assert not view.wants(BINDINGS, "Pod/default/p|ManagedCluster/c1")


def test_what_cannot_be_read_changes_nothing(process: Process) -> None:
    process.fold(RESOURCES, "ManagedCluster//c0", declared("ManagedCluster", "c0", {"taints": 7}, version=2))
    assert process.waiting() == []
    process.taint("c0", "bad")
    process.taint("c0")
    process.all()
    assert process.place("all", version=2, numberOfClusters="many") == []
    assert has(process, "all") == ["c0", "c1", "c2", "c3"]


def test_a_cluster_that_is_about_to_go_is_left(process: Process) -> None:
    leaving = declared(
        "ManagedCluster", "c0", metadata={"labels": {"region": "eu"}, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    )
    process.fold(RESOURCES, "ManagedCluster//c0", leaving)
    assert set(process.waiting()) - {"one"} == {"all", "eu", "tolerant"}
    process.all()
    assert has(process, "all") == ["c1", "c2", "c3"]
    process.fold(RESOURCES, "ManagedCluster//c0", None)
    assert process.waiting() == []


def names(found: Iterator[str]) -> list[str]:
    return sorted(found)


def test_selections_grow_in_both_directions() -> None:
    fleet = ManagedFleet()
    selections: Selections[str] = Selections(fleet)
    rng = np.random.default_rng(7)
    places, model = {}, {}
    for number in range(150):
        for row in range(2 * number, 2 * number + 2):
            fleet.row(f"c{row}")
        places[number] = selections.enter(f"p{number}")
        model[number] = {f"c{row}" for row in rng.integers(0, 2 * number + 2, 5)}
        selections.put(places[number], model[number])
    for number in range(0, 150, 3):
        selections.leave(places[number])
        del model[number]
    places[200] = selections.enter("p200")
    model[200] = {"c7"}
    selections.put(places[200], model[200])
    for row in range(300):
        expected = sorted(f"p{number}" for number, has in model.items() if f"c{row}" in has)
        assert names(selections.having(fleet.row(f"c{row}"))) == expected


def test_a_stray_decision_of_nobody_ends() -> None:
    process = Process("c1")
    (part, _) = process.place("p")
    assert part.event is not None
    state = process.service.new_state(0)
    process.service.use_globals(state, process.view)
    process.service.apply(state, PLACEMENTS, part.key, part.event)
    ended = process.service.wake(state, START)
    assert [(emit.key, emit.event is None) for emit in ended] == [
        (part.key, False),
        (part.key, True),
        ("Placement/default/p", True),
    ]
    assert ended[0].event.removed == ("c1",)  # type: ignore[union-attr]  # a decision
    assert ended[0].event.generation == 2  # type: ignore[union-attr]  # a decision


def test_clusters_that_come_and_go_leave_nothing_behind() -> None:
    process = Process("stays")
    process.place("p")
    process.place("q", predicates=labelled(color="red"), numberOfClusters=2)
    state, fleet = process.states[0].ocm.state, process.view.ocm.fleet
    process.cluster("kept")
    process.all()
    paused = declared("Placement", "p", {}, version=2, metadata={"annotations": {DISABLED_ANNOTATION: "true"}})
    process.service.process(process.states[0], [Input(RESOURCES, 0, 0, paused.key, paused, meta(0))], START, fresh=True)
    process.fold(RESOURCES, "ManagedCluster//kept", None)
    for number in range(3000):
        process.cluster(f"c{number}", color="red" if number % 2 else "blue")
        process.all()
        assert has(process, "q") == ([f"c{number}"] if number % 2 else [])
        process.fold(RESOURCES, f"ManagedCluster//c{number}", None)
        process.all()
    assert fleet.capacity <= 512
    assert fleet.left_behind <= 257
    assert has(process, "p") == ["kept", "stays"], "it is disabled"
    assert process.view.ocm.usage.counts[fleet.row("kept")] == 1
    process.cluster("kept")
    process.place("p", version=3)
    process.all()
    assert has(process, "p") == ["kept", "stays"]
    assert state.before("Placement/default/p")["p-decision-1"].clusters == ("kept", "stays")
    assert fleet.names == ["kept", "stays"]


def test_scores_of_clusters_that_never_come_leave_nothing_behind() -> None:
    process = Process("c1")
    fleet = process.view.ocm.fleet
    for number in range(1000):
        key = f"AddOnPlacementScore/n{number}/load"
        metadata = {"name": "load", "namespace": f"n{number}", "uid": "u"}
        score = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "AddOnPlacementScore", "metadata": metadata}
        process.fold(RESOURCES, key, ResourceDeclared(object={**score, "status": {}}, version=1))
        process.fold(RESOURCES, key, None)
    assert fleet.capacity <= 512


def test_times_to_decide_again_are_kept_once() -> None:
    process = Process("c1")
    process.taint("c1", "bad")
    tolerations = [{"key": "bad", "operator": "Exists", "tolerationSeconds": 3600}]
    for number in range(1, 500):
        process.place("p", version=number, tolerations=tolerations, numberOfClusters=number)
    assert len(process.states[0].ocm.state.requeues._heap) < 100
    assert process.service.next_wake(process.states[0]) == START + timedelta(seconds=3600)


def test_a_placement_that_was_changed_while_nobody_was_there_keeps_its_clusters() -> None:
    process = Process("c1", "c2", "c3")
    emits = [*process.place("a", numberOfClusters=2), *process.place("b", numberOfClusters=1)]
    process.service.drop(process.states[0])
    state = process.states[0] = process.service.new_state(0)
    process.service.use_globals(state, process.view)
    for emit in emits:  # the records of both placements were compacted away, because there are newer ones
        process.view.apply(Input(PLACEMENTS, 0, 99, emit.key, emit.event, meta(99)))
        process.service.apply(state, PLACEMENTS, emit.key, emit.event)
    event = declared("Placement", "a", {"numberOfClusters": 3}, version=2)
    record = Input(RESOURCES, 0, 100, event.key, event, meta(100))
    assert process.service.catch_up(state, [record], START) == []
    written = process.wake()
    kept = [emit.event for emit in written if emit.partition_key == "Placement/default/a" and emit.event is not None]
    assert [event.added for event in kept] == [("c3",), ()]  # type: ignore[attr-defined]  # decisions
    gone = {emit.partition_key for emit in written if emit.event is None}
    assert gone == {"Placement/default/b"}, "of that one nothing is left"
