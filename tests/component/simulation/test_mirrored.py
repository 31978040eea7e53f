"""Simulations of what a bridge mirrors: the copy does what the clusters would."""

from __future__ import annotations

from tests.component.simulation.copying import ask, copy_of
from tests.support.worlds.mirrored import BRIDGE, MirroredWorld
from tests.support.worlds.world import WITNESS, lifted

from moorage.insight.copy.gateway import Edge
from moorage.insight.copy.stack import MemoryStack
from moorage_schemas.condition import ConditionReported, ConditionStatus
from moorage_schemas.envelope import Meta
from moorage_schemas.topics import BINDINGS, CONDITION_REPORTS, EVICTIONS, PLACEMENTS, RESOURCES


def test_pods_of_a_cluster_leave_a_node_that_fails_and_are_gone() -> None:
    settings = lifted(partitions=3)
    home = MirroredWorld("n1", WITNESS, settings=settings)
    east = MirroredWorld("n1", WITNESS, settings=settings, cluster="east", beside=home)
    for world in (home, east):
        world.pod("web", on="n1")
    home.run()

    def failure(_edge: Edge, stack: MemoryStack) -> list[str]:
        node = east.ref("n1")
        status = ConditionStatus.FALSE
        report = ConditionReported(target=node, type="Ready", status=status, observed_time=stack.now, source=BRIDGE)
        stack.write(CONDITION_REPORTS, node.key, node.key, report, Meta("r1", BRIDGE, ConditionReported.event_type))
        return [f"{node} fails"]

    _, found = ask(copy_of(home.flow), settings, failure)
    assert {record.name for record in found.changed.written(EVICTIONS)} == {"east:Pod/default/web|east:Node/n1|1"}
    for topic, key in ((BINDINGS, "east:Pod/default/web|east:Node/n1"), (RESOURCES, "east:Pod/default/web")):
        last = found.changed.written(topic)[-1]
        assert (last.name, last.value) == (key, None), topic.short
    assert found.changed.written(PLACEMENTS)[-1].name == "east:Pod/default/web"
