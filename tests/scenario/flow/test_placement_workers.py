"""Workers of placement that read the log late use the same room twice. The order of the log decides who is right.

So it is with ports of a node, and with pods that must be far from each other.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from tests.support.tables import table
from tests.support.worlds.flow import Flow

from moorage.runtime.service import GlobalView, Input
from moorage.runtime.settings.process_settings import Settings
from moorage.workers.placement import PlacementService
from moorage.workers.placement.fleet_view import FleetView
from moorage.workers.placement.service import AT_ONCE
from moorage.workers.placement.state import PlacementPartition
from moorage_schemas.placement import PlacementState
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import BINDINGS, PLACEMENTS, RESOURCES

PARTITIONS = 3
NODES = 6


class Fan(GlobalView):
    """Gives every record to each partition's own view, sooner or later."""

    def __init__(self) -> None:
        self.history: list[Input] = []
        self.waiting: dict[int, deque[Input]] = {}

    def apply(self, record: Input) -> None:
        self.history.append(record)
        for queue in self.waiting.values():
            queue.append(record)

    def changed(self) -> Iterable[int] | None:
        return None


class Apart(PlacementService):
    """Behaves as if every partition were in a separate process that reads the log at its own speed."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(Settings(partitions=PARTITIONS))
        self.rng = rng
        self.lag = True
        self.fan = Fan()

    def new_globals(self) -> GlobalView:  # type: ignore[override]  # views of views, for this test only
        return self.fan

    def use_globals(self, state: PlacementPartition, view: GlobalView) -> None:
        assert view is self.fan
        own = FleetView()
        for record in self.fan.history:
            own.apply(record)
        self.fan.waiting[state.partition] = deque()
        super().use_globals(state, own)

    def next_wake(self, state: PlacementPartition) -> datetime | None:
        queue = self.fan.waiting[state.partition]
        for _ in range(self.rng.randint(0, 3) if self.lag else len(queue)):
            if queue:
                state.view.apply(queue.popleft())
        return AT_ONCE if queue else super().next_wake(state)


def declared(kind: str, name: str, cpu: str) -> ResourceDeclared:
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}}
    metadata = {"name": name, "uid": f"uid-{name}"} | ({} if kind == "Node" else {"namespace": "default"})
    parts = (
        {"status": {"allocatable": {"cpu": cpu}}} if kind == "Node" else {"spec": {"replicas": 4, "template": template}}
    )
    api = "v1" if kind == "Node" else "apps/v1"
    return ResourceDeclared(object={"apiVersion": api, "kind": kind, "metadata": metadata, **parts}, version=1)


def total(flow: Flow) -> dict[str, int]:
    taken: dict[str, int] = {}
    for binding in flow.table(BINDINGS).values():
        taken[binding.target.name] = taken.get(binding.target.name, 0) + binding.requests["cpu"]
    return taken


def run_apart(seed: int) -> tuple[Flow, bool]:
    """The flow at rest, and whether any room was used twice on the way."""
    rng = random.Random(seed)  # noqa: S311 - drawn to be repeated
    service = Apart(rng)
    flow = Flow([service], partitions=PARTITIONS, rng=rng)
    for number in range(NODES):
        event = declared("Node", f"n{number}", "2")
        flow.produce(RESOURCES, event.key, event, partition_key=f"Node/n{number}")
    flow.run()
    for number in range(5):
        event = declared("Deployment", f"d{number}", "1")
        flow.produce(RESOURCES, event.key, event)
    doubled = False
    for number in range(20 * PARTITIONS):
        flow.step(service.name, number % PARTITIONS)
        doubled |= max(total(flow).values(), default=0) > 2000
    service.lag = False
    flow.run()
    return flow, doubled


@table("seed", range(10))
def test_no_node_is_over_full_in_the_end_and_all_room_is_used(seed: int) -> None:
    flow, _ = run_apart(seed)
    assert total(flow) == {f"n{number}": 2000 for number in range(NODES)}
    states = [event.state for event in flow.table(PLACEMENTS).values()]
    assert states.count(PlacementState.PLACED) == 2 * NODES
    assert states.count(PlacementState.PENDING) == 5 * 4 - 2 * NODES


def test_room_is_given_away_twice_on_the_way() -> None:
    assert any(run_apart(seed)[1] for seed in range(10)), "else the test above shows nothing"


PORT = {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]}


def far(key: str, *apps: str) -> dict[str, Any]:
    terms = [{"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}} for app in apps]
    return {
        "containers": [{"name": "c"}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
    }


def run_beside(seed: int, *specs: dict[str, Any]) -> tuple[Flow, bool]:
    """The flow at rest, and whether two pods were beside each other on the way. Two nodes of each of three zones."""
    rng = random.Random(seed)  # noqa: S311 - drawn to be repeated
    service = Apart(rng)
    flow = Flow([service], partitions=PARTITIONS, rng=rng)
    for number in range(NODES):
        labels = {"zone": f"z{number % 3}", "host": f"n{number}"}
        metadata = {"name": f"n{number}", "uid": f"uid-{number}", "labels": labels}
        event = ResourceDeclared(object={"apiVersion": "v1", "kind": "Node", "metadata": metadata}, version=1)
        flow.produce(RESOURCES, event.key, event, partition_key=f"Node/n{number}")
    flow.run()
    for number, spec in enumerate(specs):
        metadata = {"name": f"p{number}", "namespace": "default", "uid": f"uid-p{number}"}
        metadata |= {"labels": {"app": "web" if number % 2 else "db"}}
        event = ResourceDeclared(
            object={"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, version=1
        )
        flow.produce(RESOURCES, event.key, event)
    doubled = False
    for number in range(20 * PARTITIONS):
        flow.step(service.name, number % PARTITIONS)
        doubled |= bool(beside(flow, 1)) if specs[0] is PORT else bool(beside(flow, 3))
    service.lag = False
    flow.run()
    return flow, doubled


def beside(flow: Flow, domains: int) -> list[str]:
    """The domains with more than one pod: nodes, or zones of which there are three."""
    names = [binding.target.name for binding in flow.table(BINDINGS).values()]
    found = names if domains == 1 else [str(int(name[1:]) % domains) for name in names]
    return sorted({one for one in found if found.count(one) > 1})


@table("seed", range(10))
def test_no_port_of_a_node_is_taken_twice_in_the_end(seed: int) -> None:
    flow, _ = run_beside(seed, *[PORT] * (NODES + 2))
    assert beside(flow, 1) == []
    states = [event.state for event in flow.table(PLACEMENTS).values()]
    assert (states.count(PlacementState.PLACED), states.count(PlacementState.PENDING)) == (NODES, 2)


@table("seed", range(10))
def test_no_zone_has_two_pods_in_the_end_that_must_be_far_from_each_other(seed: int) -> None:
    flow, _ = run_beside(seed, *[far("zone", "web", "db")] * 5)
    assert beside(flow, 3) == []
    states = [event.state for event in flow.table(PLACEMENTS).values()]
    assert (states.count(PlacementState.PLACED), states.count(PlacementState.PENDING)) == (3, 2)


def test_pods_are_beside_each_other_on_the_way() -> None:
    assert any(run_beside(seed, *[PORT] * (NODES + 2))[1] for seed in range(10)), "else the tests above show nothing"
    assert any(run_beside(seed, *[far("zone", "web", "db")] * 5)[1] for seed in range(10)), "as before"


@table("seed", range(5))
def test_one_that_must_be_far_is_enough(seed: int) -> None:
    """Of each pair only the pods of web ask for it."""
    free = {"containers": [{"name": "c"}]}
    flow, _ = run_beside(seed, free, far("host", "db"), free, far("host", "db"))
    where: dict[str, set[str]] = {}
    for binding in flow.table(BINDINGS).values():
        where.setdefault(binding.target.name, set()).add(binding.labels["app"])
    assert all(len(apps) == 1 for apps in where.values())
