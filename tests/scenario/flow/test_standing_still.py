"""A process stops and continues. Evictions that came due meanwhile depend on what is committed now, even if unread.

A step with `limit=0` is a process that has read nothing yet when its alarm rings.
"""

from __future__ import annotations

from datetime import timedelta

from tests.support.worlds.flow import Flow
from tests.support.worlds.world import WITNESS, World, lifted, tolerate

from moorage.runtime.settings.process_settings import Settings
from moorage.workers import condition_ingest, eviction, governor, taint_manager, timer
from moorage_schemas.eviction import EvictionState
from moorage_schemas.topics import EVICTIONS, TAINTS, ZONE_GRANTS


def fleet(settings: Settings) -> World:
    modules = (condition_ingest, taint_manager, governor, eviction, timer)
    made = World(Flow([module.service(settings) for module in modules], partitions=1))
    for name in (WITNESS, "n1"):
        made.node(name)
        made.report(name, "Ready", "True")
    made.flow.run()
    return made


def without(flow: Flow, service: str) -> None:
    """Let all other services run until they are at rest."""
    others = [name for name in flow.services if name != service]
    while any([flow.step(name, 0) for name in others]):  # noqa: C419 - each gets its turn
        pass


def test_a_hold_whose_condition_is_over_adds_nothing() -> None:
    world = fleet(lifted(partitions=1, taint_add_hold=10))
    flow = world.flow
    world.report("n1", "Ready", "False")
    flow.run()
    flow.now += timedelta(seconds=2)
    world.report("n1", "Ready", "True")
    without(flow, "taint-manager")
    flow.now += timedelta(seconds=28)
    before = len(flow.records(TAINTS))
    flow.step("taint-manager", 0, limit=0)
    flow.run()
    assert [record.event.taints for record in flow.records(TAINTS)[before:]] in ([], [()])


def test_a_hold_whose_condition_goes_on_adds_its_taint() -> None:
    world = fleet(lifted(partitions=1, taint_add_hold=10))
    flow = world.flow
    world.report("n1", "Ready", "False")
    flow.run()
    flow.now += timedelta(seconds=30)
    flow.step("taint-manager", 0, limit=0)
    assert flow.table(TAINTS)["Node/n1"].taints


def test_a_node_is_not_granted_when_the_news_of_the_others_is_unread() -> None:
    world = fleet(Settings(partitions=1, node_monitor_grace_period=0))
    flow = world.flow
    world.report("n1", "Ready", "False")
    flow.run()
    assert not flow.records(ZONE_GRANTS), "it waits for the outage to be seen whole"
    flow.now += timedelta(seconds=2)
    world.report(WITNESS, "Ready", "False")
    without(flow, "governor")
    flow.now += timedelta(seconds=28)
    flow.step("governor", 0, limit=0)
    assert not [record for record in flow.records(ZONE_GRANTS) if record.event.granted], "every node is down"
    flow.run()
    world.report(WITNESS, "Ready", "True")
    flow.advance(60)
    assert [record.name for record in flow.records(ZONE_GRANTS) if record.event.granted] == ["Node/n1"]


def test_a_node_that_moves_to_a_new_zone_is_not_granted_when_the_news_of_the_others_is_unread() -> None:
    """A new zone has a token at once, so the record of the move itself would lead to a grant."""
    world = fleet(Settings(partitions=1, node_monitor_grace_period=0, node_eviction_rate=0.001))
    flow = world.flow
    for name in ("n2", "n3", "n4"):
        world.node(name)
        world.report(name, "Ready", "True")
    flow.run()
    for name in ("n1", "n2", "n3"):
        world.report(name, "Ready", "False")
    flow.run()
    flow.advance(30)
    granted = {record.name for record in flow.records(ZONE_GRANTS)}
    waiting = min({"Node/n1", "Node/n2", "Node/n3"} - granted)
    world.node(waiting.removeprefix("Node/"), zone="b")
    without(flow, "governor")
    for name in (WITNESS, "n4"):
        world.report(name, "Ready", "False")
    without(flow, "governor")
    flow.step("governor", 0, limit=1)
    assert {record.name for record in flow.records(ZONE_GRANTS) if record.event.granted} == granted, "all are down"
    world.report(WITNESS, "Ready", "True")
    flow.run()
    flow.advance(1200)
    assert waiting in {record.name for record in flow.records(ZONE_GRANTS) if record.event.granted}


def test_a_deadline_whose_taint_was_lifted_evicts_nobody() -> None:
    world = fleet(lifted(partitions=1))
    flow = world.flow
    world.bind("web", "n1", [tolerate("maint", 5)])
    world.taint("n1", "maint")
    flow.run()
    flow.now += timedelta(seconds=3)
    world.untaint("n1", "maint")
    without(flow, "eviction")
    flow.now += timedelta(seconds=27)
    without(flow, "eviction")
    flow.step("eviction", 0, limit=0)
    flow.run()
    assert {event.state for event in flow.events(EVICTIONS)} == {EvictionState.SCHEDULED, EvictionState.CANCELLED}
