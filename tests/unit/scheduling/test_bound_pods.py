"""Pods beside pods: a fleet that has changed step by step decides as one that was made at once."""

from __future__ import annotations

import random
from typing import Any

from tests.conformance import generate_pod_fleets
from tests.support.tables import table

from moorage.decide.scheduling.nodes.bound_pods import BoundPods, MatchingPods, PodFacts, PodSelector, WithPort
from moorage.decide.scheduling.nodes.completed_constraints import constraints_of
from moorage.decide.scheduling.nodes.fleet import Fleet, NodeFacts
from moorage.decide.scheduling.nodes.plugin import PodRequest
from moorage.decide.scheduling.nodes.pod_shape import PodShape, shape_of
from moorage.decide.scheduling.nodes.scheduler import NodeScheduler
from moorage.decide.scheduling.nodes.verdicts import NodeVerdicts
from moorage_schemas.placement import HostPort, LabelRequirement
from moorage_schemas.resources.pod import PodSpec

APP = (LabelRequirement(key="app", operator="In", values=("web",)),)
WEB = MatchingPods((PodSelector(("red",), APP),))


def shape(pod: dict[str, Any]) -> PodShape:
    return shape_of(PodSpec.model_validate(pod["spec"]))


def facts(pod: dict[str, Any]) -> PodFacts:
    metadata, found = pod["metadata"], shape(pod)
    labels = tuple(sorted(metadata["labels"].items()))
    constraints = constraints_of(found, metadata["namespace"], labels) if found.ports or found.terms else None
    return PodFacts(metadata["namespace"], labels, constraints, "deletionTimestamp" in metadata)


def node(found: dict[str, Any]) -> NodeFacts:
    return NodeFacts(found["metadata"]["name"], labels=found["metadata"]["labels"])


class Changing:
    """A fleet, and the pods and namespaces that it should have."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeFacts] = {}
        self.pods: list[tuple[str, PodFacts]] = []
        self.namespaces: dict[str, dict[str, str]] = {}
        self.fleet = self.made()
        self.scheduler = NodeScheduler(self.fleet)

    def made(self) -> Fleet:
        fleet = Fleet()
        fleet.pods.every = lambda: self.pods
        fleet.pods.namespace_labels = self.namespaces.get
        for one in self.nodes.values():
            fleet.put(one)
        for name, pod in self.pods:
            fleet.pods.add(name, pod)
            fleet.take(name, ())
        return fleet

    def step(self, rng: random.Random, request: dict[str, Any]) -> None:
        """Add, change or remove something that a random request has."""
        kind = rng.choice(("node", "node", "pod", "pod", "pod", "pod", "gone", "removed", "namespace"))
        if kind == "node":
            one = node(rng.choice(request["nodes"]))
            self.nodes[one.name] = one
            self.fleet.put(one)
        elif kind == "removed" and self.nodes:
            name = rng.choice(sorted(self.nodes))
            del self.nodes[name]
            self.fleet.remove(name)
        elif kind == "pod" and request["pods"]:
            found = rng.choice(request["pods"])
            self.pods.append((found["spec"]["nodeName"], facts(found)))
            self.fleet.pods.add(*self.pods[-1])
            self.fleet.take(self.pods[-1][0], ())
        elif kind == "gone" and self.pods:
            name, pod = self.pods.pop(rng.randrange(len(self.pods)))
            self.fleet.pods.remove(name, pod)
            self.fleet.take(name, (), -1)
        elif kind == "namespace" and request["namespaces"]:
            found = rng.choice(request["namespaces"])["metadata"]
            self.namespaces[found["name"]] = found["labels"]
            self.fleet.pods.namespaces_changed()


def verdicts(scheduler: NodeScheduler, request: PodRequest) -> list[Any]:
    found = NodeVerdicts(scheduler, request)
    return [(name, found.verdict(name)) for name in sorted(found.targets())]


@table("seed", range(40))
def test_a_fleet_that_changes_decides_as_one_made_new(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - test data
    world = Changing()
    for _ in range(60):
        request = generate_pod_fleets.schedule(rng)
        world.step(rng, request)
        pod = request["pod"]
        about = facts(pod)
        asked = PodRequest(shape(pod), namespace=about.namespace, labels=about.labels)
        assert verdicts(world.scheduler, asked) == verdicts(NodeScheduler(world.made()), asked)
        made = NodeScheduler(world.made())
        assert world.scheduler.decide(asked) == made.decide(asked)


def web(*, port: int = 0) -> PodFacts:
    spec = {"containers": [{"name": "c", "ports": [{"containerPort": port, "hostPort": port}]}]} if port else {}
    return facts({"metadata": {"namespace": "red", "labels": {"app": "web"}}, "spec": spec})


def counts(pods: BoundPods, question: Any) -> list[int] | None:
    found = pods.counts(question)
    return None if found is None else found.tolist()


def test_pods_without_constraints_are_not_noted_before_they_are_asked_about() -> None:
    fleet = Fleet()
    fleet.put(NodeFacts("n"))
    there = [("n", web())]
    fleet.pods.every = lambda: there
    fleet.pods.add("n", web())
    NodeScheduler(fleet).decide(PodRequest(shape_of(PodSpec())))
    assert not fleet.pods._groups
    assert counts(fleet.pods, WithPort(HostPort(port=80))) is None
    assert not fleet.pods._groups, "ports concern few pods"
    assert counts(fleet.pods, WEB) == [1]
    fleet.pods.add("n", web())
    assert counts(fleet.pods, WEB) == [2]


def test_counts_that_were_dropped_are_made_again(monkeypatch: Any) -> None:
    monkeypatch.setattr("moorage.decide.scheduling.nodes.bound_pods._CELLS", 1)
    fleet = Fleet()
    fleet.put(NodeFacts("n"))
    fleet.pods.add("n", web(port=80))
    for _ in range(3):
        assert counts(fleet.pods, WEB) == [1]
        assert counts(fleet.pods, WithPort(HostPort(port=80))) == [1]
        assert len(fleet.pods._counted) == 1


def test_arrivals_are_counted_even_after_a_question_was_forgotten(monkeypatch: Any) -> None:
    monkeypatch.setattr("moorage.decide.scheduling.nodes.bound_pods._COLUMNS", 2)
    pods = Fleet().pods
    assert pods.counts(WEB, watched=True) is None
    before = pods.arrivals
    pods.add("n", web())
    assert pods.arrivals > before
    before = pods.arrivals
    for port in range(1, 5):
        pods.counts(WithPort(HostPort(port=port)))
    assert pods.arrivals > before, "the pod that waits asks again"


def test_what_no_pod_has_leaves_nothing_behind() -> None:
    fleet = Fleet()
    fleet.put(NodeFacts("n"))
    assert counts(fleet.pods, WEB) is None
    for number in range(100):
        one = web(port=number + 1)._replace(labels=(("app", "web"), ("pod", str(number))))
        fleet.pods.add("n", one)
        fleet.pods.remove("n", one)
    assert not fleet.pods._groups
    assert counts(fleet.pods, WEB) is None
