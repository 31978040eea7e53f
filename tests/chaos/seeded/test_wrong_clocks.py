"""One process has a clock that is ten minutes ahead or behind: nothing leaves early, late, or without a reason."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

from tests.chaos.seeded.checker import check
from tests.chaos.seeded.history import History
from tests.chaos.seeded.kafka.inputs import tolerate
from tests.chaos.seeded.kafka.loop import START_SECONDS
from tests.chaos.seeded.kafka.world import SERVICES, World
from tests.support.tables import table

TOLERATED = 8.0
CASES = [(service, seconds, later) for service in SERVICES for seconds in (600.0, -600.0) for later in (False, True)]


def story(service: str, seconds: float, *, later: bool) -> Callable[[World], Coroutine[Any, Any, None]]:
    """A pod tolerates a taint for a while, and nodes are reported all the time; a clock becomes wrong."""

    async def told(world: World) -> None:
        def skew() -> None:
            for replica in world.of(service):
                replica.skew(seconds)

        people = world.people
        if not later:
            skew()
        for name in ("n1", "n2"):
            people.node(name)
            people.report("Node", name, status="True")
            people.pod(f"pod-{name}", [tolerate("maint", TOLERATED)], nodeName=name)
        await asyncio.sleep(3.0)
        people.taint("Node", "n1", "maint")
        for second in range(30):
            if later and second == 4:
                skew()
            await asyncio.sleep(1.0)
            for name in ("n1", "n2"):
                people.report("Node", name, status="True")
        await world.settle(quiet=2.0)

    return told


def requested(history: History) -> dict[str, float]:
    """When each eviction was first requested, in true seconds since the taint was added."""
    found: dict[str, float] = {}
    for entry in history.entries:
        data = json.loads(entry.value or b"{}")
        if entry.topic == "evictions" and data.get("state") == "Requested":
            found.setdefault(entry.key, entry.appended - START_SECONDS)
    return found


@table(("service", "seconds", "later"), CASES)
def test_nothing_leaves_wrongly(service: str, seconds: float, later: bool) -> None:  # noqa: FBT001 - a table's column
    settings = {"partitions": 1, "node_monitor_grace_period": 6, "reconcile_interval": 4.0}
    world = World(f"{service}/{seconds:g}/{later}", workers=1, settings=settings, one_clock=True)
    history = world.play(story(service, seconds, later=later))
    assert check(history) == []
    left = requested(history)
    assert list(left) == ["Pod/default/pod-n1|Node/n1|1"]
    (tainted,) = {
        entry.appended - START_SECONDS
        for entry in history.entries
        if entry.topic == "taints" and b'"maint"' in (entry.value or b"")
    }
    assert TOLERATED - 0.5 < left["Pod/default/pod-n1|Node/n1|1"] - tainted < TOLERATED + 2.0
