"""Waits while the clock is set back: they last as long as intended, and nothing stands still until it has caught up."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.support.worlds.flow import START
from tests.support.worlds.nodes import NodeWorld, pod_spec
from tests.support.worlds.owners import Owners
from tests.support.worlds.world import PARTITIONS, WITNESS, World, every_service, lifted

from moorage_schemas.eviction import EvictionState
from moorage_schemas.topics import EVICTIONS


class SetBackWorld(NodeWorld):
    """Nodes and pods, with owners that begin anew when the clock was set back."""

    def __init__(self) -> None:
        self.settings = lifted(partitions=PARTITIONS)
        self.owners = Owners(every_service(self.settings), partitions=PARTITIONS, start=START)
        World.__init__(self, self.owners)


def state(world: SetBackWorld) -> EvictionState | None:
    return next((one.state for one in world.owners.table(EVICTIONS).values()), None)


@pytest.mark.parametrize("seconds", [10, 60, 3_600, 86_400])
def test_an_eviction_that_waits_for_another_service_goes_on(seconds: float) -> None:
    world = SetBackWorld()
    for name in ("n1", WITNESS):
        world.node(name)
        world.report(name, status="True")
    world.declare("Pod", "web", pod_spec(nodeName="n1"))
    world.run()
    world.advance(5)
    where = next(one.target.name for one in world.pods().values() if one.target)
    world.flow.stop("condition-ingest")
    world.report(where, "Other", "True")
    world.taint(where, "bad")
    world.flow.run()
    assert state(world) is not EvictionState.REQUESTED, "a report about the node is unread"
    world.flow.advance(1)
    world.flow.now -= timedelta(seconds=seconds)  # so the report is from the future
    world.flow.start("condition-ingest")
    world.flow.advance(8)
    assert state(world) in {EvictionState.REQUESTED, EvictionState.COMPLETED}
    assert all("the clock was set back by" in one for one in world.owners.failures)
