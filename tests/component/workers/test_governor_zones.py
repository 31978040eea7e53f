"""The governor's zones: what it reads, where it writes, the causes, and that it writes nothing twice."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
from tests.support.worlds.flow import START, Crash, Flow, Record

from moorage.runtime.settings.process_settings import Settings
from moorage.workers import governor
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.topics import FLEET, ZONE_GRANTS, ZONE_MEMBERS, ZONES
from moorage_schemas.zone import ZoneMembered

PARTITIONS = 3


class Zones:
    """A governor, and nodes that report."""

    def __init__(self, *names: str, **settings: Any) -> None:
        self.flow = Flow([governor.service(Settings(partitions=PARTITIONS, **settings))], partitions=PARTITIONS)
        self.members: dict[str, ZoneMembered] = {}
        for name in names:
            self.say(name)
        self.flow.run()

    def say(self, name: str, **changes: Any) -> Record:
        known = self.members.get(name)
        if known is None:
            known = ZoneMembered(
                target=TargetRef(kind=TargetKind.NODE, name=name),
                target_uid=f"uid-{name}",
                zone=f"/{name[0]}",
                generation=1,
                ready=True,
                since=self.flow.now,
            )
        else:
            changes["generation"] = known.generation + 1
        self.members[name] = member = known.model_copy(update=changes)
        return self.flow.produce(ZONE_MEMBERS, member.target.key, member, partition_key=FLEET)

    def fail(self, name: str) -> Record:
        return self.say(
            name,
            ready=False,
            incident=self.members[name].generation + 1,
            since=self.flow.now,
            correlation_id=f"why-{name}",
        )

    def gone(self, name: str) -> Record:
        return self.flow.produce(ZONE_MEMBERS, f"Node/{name}", None, partition_key=FLEET)

    def granted(self) -> list[str]:
        return [event.target.name for event in self.flow.events(ZONE_GRANTS) if event.granted]


def test_all_its_state_is_in_one_partition_and_each_grant_in_its_targets() -> None:
    zones = Zones("a1", "a2", "a3", "b1")
    zones.fail("a1")
    zones.flow.advance(30)
    own = zones.flow.partition(FLEET)
    assert {record.partition for record in zones.flow.records(ZONES)} == {own}
    (grant,) = zones.flow.records(ZONE_GRANTS)
    assert (grant.partition, grant.name) == (zones.flow.partition("Node/a1"), "Node/a1")
    event = grant.event
    assert (event.target_uid, event.zone, event.incident, event.granted) == ("uid-a1", "/a", 2, True)
    assert event.granted_time == START + timedelta(seconds=5)
    for partition in range(PARTITIONS):
        assert zones.flow.next_wake("governor", partition) is None


def test_a_grant_that_comes_at_once_is_caused_by_what_the_node_said() -> None:
    zones = Zones("a1", "a2", node_monitor_period=0)
    said = zones.fail("a1")
    zones.flow.run()
    (grant,) = zones.flow.records(ZONE_GRANTS)
    assert (grant.meta.causation_id, grant.meta.correlation_id) == (said.meta.id, said.meta.correlation)


def test_the_grant_of_a_node_that_was_deleted_goes_though_nothing_else_is_left_of_the_node() -> None:
    """Compaction removes the records before the tombstone while the governor is away."""
    zones = Zones("a2")
    zones.gone("a1")
    zones.flow.run()
    (record,) = zones.flow.records(ZONE_GRANTS)
    assert (record.name, record.value) == ("Node/a1", None)


def test_one_that_comes_with_time_is_of_the_chain_that_began_the_incident_whoever_restarts() -> None:
    found = []
    for restarts in (False, True):
        zones = Zones("a1", "a2", "a3")
        zones.fail("a1")
        zones.fail("a2")
        zones.flow.run()
        if restarts:
            zones.flow.crash_process("governor")
        zones.flow.advance(10)
        zones.say("a1", tainted=True)
        zones.flow.advance(20)
        records = zones.flow.records(ZONE_GRANTS)
        assert [record.meta.correlation_id for record in records] == ["why-a1", "why-a2"]
        assert len({record.meta.id for record in zones.flow.records(ZONES)}) == len(zones.flow.records(ZONES))
        found.append([record.content for record in (*records, *zones.flow.records(ZONES))])
    assert found[0] == found[1], "the same topics give the same bytes"


@pytest.mark.parametrize("when", list(Crash))
def test_a_crash_at_every_step_changes_nothing(when: Crash) -> None:
    def play(crash_at: int | None) -> Flow:
        zones = Zones("a1", "a2", "a3", "b1", "b2")
        flow = zones.flow
        if crash_at is not None:
            flow.crash_when = lambda _service, _partition: when if flow.steps == crash_at else None
        zones.fail("a1")
        zones.fail("a3")
        flow.advance(20)
        zones.say("a1", tainted=True)
        for name in ("a2", "b1", "b2"):
            zones.fail(name)
            flow.advance(1)
        zones.say("b2", ready=True, incident=0)
        zones.gone("a2")
        flow.advance(40)
        return flow

    expected = play(None)
    assert len(expected.events(ZONE_GRANTS)) > 4
    for crash_at in range(1, expected.steps + 2):
        flow = play(crash_at)
        for topic in (ZONES, ZONE_GRANTS):
            assert [r.content for r in flow.records(topic)] == [r.content for r in expected.records(topic)]


def test_nothing_is_written_when_nothing_changes() -> None:
    zones = Zones("a1", "a2", "a3")
    zones.fail("a1")
    zones.flow.advance(30)
    written = len(zones.flow.records(ZONES))
    zones.flow.advance(100_000)
    for partition in range(PARTITIONS):
        zones.flow.redeliver("governor", ZONE_MEMBERS, partition, 2)
    zones.flow.crash_process("governor")
    zones.flow.run()
    assert zones.flow.reconcile() == []
    zones.say("a2")  # once more, with nothing new
    zones.flow.run()
    assert len(zones.flow.records(ZONES)) == written
    assert zones.granted() == ["a1"]


def test_what_every_zone_down_withdraws_is_caused_by_the_node_that_was_the_last() -> None:
    zones = Zones("a1", "b1")
    zones.fail("a1")
    zones.flow.advance(10)
    zones.say("a1", tainted=True)
    zones.flow.run()
    last = zones.fail("b1")
    zones.flow.run()
    withdrawn = zones.flow.records(ZONE_GRANTS)[-1]
    assert (withdrawn.event.granted, withdrawn.event.target.name) == (False, "a1")
    assert withdrawn.meta.causation_id == last.meta.id
    assert "no node" in withdrawn.event.reason
    zones.say("a1", zone="/c")  # it has no answer yet and moves to another zone: one answer is enough
    zones.flow.run()
    assert zones.flow.records(ZONE_GRANTS)[-1] is withdrawn


def test_a_node_that_turns_up_tainted_while_all_is_down_is_told() -> None:
    zones = Zones("a1", "b1")
    zones.fail("a1")
    zones.fail("b1")
    zones.flow.run()
    zones.say("a1", tainted=True)
    zones.flow.advance(100)
    (word,) = zones.flow.events(ZONE_GRANTS)
    assert (word.target.name, word.granted) == ("a1", False)


def test_a_node_that_is_gone_takes_its_grant_and_its_zone_with_it() -> None:
    zones = Zones("a1", "b1", "b2")
    zones.fail("a1")
    zones.flow.advance(10)
    zones.gone("a1")
    zones.flow.run()
    assert zones.flow.table(ZONE_GRANTS) == {}
    assert list(zones.flow.table(ZONES)) == ["/b"]
    assert [record.name for record in zones.flow.records(ZONE_GRANTS) if record.value is None] == ["Node/a1"]


def test_without_limits_a_record_says_so_and_is_read_back() -> None:
    zones = Zones("a1", "a2", "a3", node_eviction_rate="inf", node_monitor_period=0)
    zones.fail("a1")
    zones.fail("a2")
    zones.flow.run()
    zones.flow.crash_process("governor")
    zones.say("a1", tainted=True)
    zones.flow.run()
    assert zones.flow.table(ZONES)["/a"].rate == math.inf
    assert zones.granted() == ["a1", "a2"]


def test_a_change_of_settings_takes_effect_at_the_next_start() -> None:
    zones = Zones("a1", "a2", "a3", node_eviction_rate=0)
    zones.fail("a1")
    zones.flow.advance(1000)
    assert zones.granted() == []
    faster = governor.service(Settings(partitions=PARTITIONS, node_eviction_rate=0.5))
    zones.flow.services["governor"] = faster
    zones.flow.crash_process("governor")
    zones.flow.advance(2)
    assert zones.flow.table(ZONES)["/a"].rate == 0.5
    assert zones.granted() == [], "a rate that rises counts from the next tick"
    zones.flow.advance(5)
    assert zones.granted() == ["a1"]
