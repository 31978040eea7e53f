"""Outages of zones, through all services on a virtual clock: rates are respected, and pods of recovered nodes stay."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.support.worlds.flow import START, Crash, Flow
from tests.support.worlds.nodes import NodeWorld
from tests.support.worlds.world import PARTITIONS, World, node

from moorage.runtime.settings.process_settings import Settings
from moorage.workers import governor, taint_manager
from moorage_schemas.condition import ConditionChanged, ConditionStatus
from moorage_schemas.keys import condition_key
from moorage_schemas.taint import TaintEffect, TaintOrigin, TaintRecord, TargetTainted
from moorage_schemas.topics import CONDITIONS, EVICTIONS, TAINTS, ZONE_GRANTS, ZONE_MEMBERS, ZONES
from moorage_schemas.zone import ZoneState

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
PATIENCE = 300

Added = tuple[float, str]
"""Seconds from the start, and the node that got a taint that evicts."""


class Outage(NodeWorld):
    """Zones with nodes, and pods that tolerate an outage for five minutes."""

    def __init__(self, sizes: dict[str, int], *, replicas: int = 0, seed: int | None = None, **settings: Any) -> None:
        options = {"node_monitor_grace_period": 0, **settings}
        super().__init__(seed=seed, settings=Settings(partitions=PARTITIONS, **options))
        self.zone_of = {f"{zone}{number:02}": zone for zone, size in sizes.items() for number in range(size)}
        for name, zone in self.zone_of.items():
            self.node(name, zone=zone)
        if replicas:
            waits = [
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": PATIENCE}
                for key in (NOT_READY, UNREACHABLE)
            ]
            template = {"spec": {"containers": [{"name": "c"}], "tolerations": waits}}
            self.declare("Deployment", "web", {"replicas": replicas, "template": template})
        self.run()

    def ready(self, status: str, *names: str) -> None:
        for name in names:
            self.report(name, "Ready", status)
        self.flow.run()

    def of(self, zone: str) -> list[str]:
        return [name for name, place in self.zone_of.items() if place == zone]

    def added(self) -> list[Added]:
        """When which node got a taint that evicts, by the instant at which that was written."""
        had: set[str] = set()
        found: list[Added] = []
        for record in self.flow.records(TAINTS):
            taints = record.event.taints if record.value is not None else ()
            name, evicts = record.name.removeprefix("Node/"), any(taint.effect == "NoExecute" for taint in taints)
            if evicts and name not in had:
                (taint,) = (taint for taint in taints if taint.effect == "NoExecute")
                assert taint.time_added == record.meta.time, "a deadline counts from the grant"
                found.append((self.seconds(record.meta.time), name))
            (had.add if evicts else had.discard)(name)
        return sorted(found)

    def seconds(self, when: datetime | None) -> float:
        assert when is not None
        return (when - START).total_seconds()

    def words(self) -> list[tuple[float, str, bool]]:
        """The governor's grants and withdrawals, with their times."""
        said = self.flow.events(ZONE_GRANTS)
        return sorted((self.seconds(one.granted_time), one.target.name, one.granted) for one in said)

    def tainted(self) -> list[Added]:
        """When which node was first written with a taint that evicts, by the clock of the taint-manager."""
        found: dict[str, float] = {}
        for record in self.flow.records(TAINTS):
            if record.value is not None and any(taint.effect == "NoExecute" for taint in record.event.taints):
                found.setdefault(record.event.target.name, self.seconds(record.meta.time))
        return sorted((at, name) for name, at in found.items())

    def evicting(self) -> list[str]:
        """The nodes that carry a taint that evicts now."""
        table = self.flow.table(TAINTS).values()
        return [one.target.name for one in table if any(taint.effect == "NoExecute" for taint in one.taints)]

    def requested(self) -> list[str]:
        return [event.workload.name for event in self.flow.events(EVICTIONS) if event.state.value == "Requested"]


def test_a_lost_zone_that_comes_back_before_its_deadlines_evicts_nobody() -> None:
    outage = Outage({"a": 8, "b": 8}, replicas=32, node_monitor_grace_period=40)
    alive = set(outage.zone_of)

    def live(seconds: int) -> None:
        """Every node that is alive reports every ten seconds."""
        for _ in range(seconds // 10):
            outage.ready("True", *sorted(alive))
            outage.flow.advance(10)

    live(60)
    alive -= set(outage.of("a"))
    live(320)
    assert outage.added() == [(95.0 + 10 * number, f"a{number:02}") for number in range(8)], "silent from 50 s on"
    assert outage.flow.table(ZONES)["/a"].state is ZoneState.FULL_DISRUPTION
    alive |= set(outage.of("a"))
    live(60)
    assert outage.evicting() == []
    live(600)
    assert outage.requested() == []
    assert [zone.waiting for zone in outage.flow.table(ZONES).values()] == [0, 0]
    assert len(outage.where()) == 32


def test_a_zone_that_stays_lost_is_left_node_by_node() -> None:
    outage = Outage({"a": 4, "b": 4}, replicas=8)
    reports = {name: outage.report(name, "Ready", "Unknown").meta.id for name in outage.of("a")}
    outage.flow.advance(5 + 30)
    assert outage.added() == [(5.0, "a00"), (15.0, "a01"), (25.0, "a02"), (35.0, "a03")]
    outage.flow.advance(PATIENCE - 25)
    before = len(outage.requested())
    assert 0 < before < 4, "the first have come due"
    outage.flow.advance(25)
    assert len(outage.requested()) == 4
    assert set(outage.where()) <= set(outage.of("b"))
    for topic in (ZONE_GRANTS, EVICTIONS):
        for record in outage.flow.records(topic):
            if record.value is not None:
                assert record.meta.correlation == reports[record.event.target.name], "one chain, however long it waits"


def test_what_is_granted_while_the_taint_manager_is_away_does_not_come_all_at_once() -> None:
    outage = Outage({"a": 100}, replicas=20)
    outage.ready("False", *outage.of("a")[:40])
    outage.flow.stop("taint-manager")
    outage.flow.advance(600)
    assert outage.words() == [(5.0, "a00", True)], "of what nobody does, no more is granted"
    assert len(outage.flow.table(ZONES)["/a"].granted) == 1
    outage.flow.crash_process("governor")
    outage.flow.advance(60)
    outage.flow.start("taint-manager")
    outage.flow.advance(25)
    # The zone has kept one token. From then on the usual rate applies.
    assert outage.tainted() == [(660.0, "a00"), (660.0, "a01"), (670.0, "a02"), (680.0, "a03")]
    assert [at for at, _, _ in outage.words()] == [5.0, 660.0, 670.0, 680.0]


def test_every_node_down_and_nothing_is_added() -> None:
    outage = Outage({"a": 5, "b": 5, "c": 1}, replicas=11)
    for number in range(5):
        outage.ready("Unknown", f"a{number:02}", f"b{number:02}")
        outage.flow.advance(0.9)
    outage.ready("Unknown", "c00")
    outage.flow.advance(100_000)
    assert outage.added() == []
    assert outage.flow.events(ZONE_GRANTS) == []
    assert outage.requested() == []
    assert all(zone.stopped for zone in outage.flow.table(ZONES).values())


def test_what_was_granted_before_all_was_down_is_withdrawn_and_comes_again_later() -> None:
    outage = Outage({"a": 3, "b": 1})
    outage.ready("Unknown", *outage.of("a"))
    outage.flow.advance(20)
    assert outage.evicting() == ["a00", "a01"]
    outage.ready("False", "b00")
    assert outage.evicting() == [], "not even those that were there stay"
    outage.flow.advance(1000)
    assert outage.evicting() == []
    outage.ready("True", "b00")
    outage.flow.advance(40)
    assert outage.added()[2:] == [(1035.0, "a00"), (1045.0, "a01"), (1055.0, "a02")]


def test_partial_disruption_stops_a_small_zone_and_slows_a_large_one() -> None:
    outage = Outage({"small": 5, "large": 52, "well": 2})
    outage.ready("False", *outage.of("small")[:3], *outage.of("large")[:30])
    outage.flow.advance(450)
    assert outage.added() == [(5.0 + 100 * number, f"large{number:02}") for number in range(5)]
    zones = outage.flow.table(ZONES)
    assert (zones["/small"].rate, zones["/large"].rate, zones["/well"].rate) == (0.0, 0.01, 0.1)
    assert [entry.target for entry in zones["/small"].queue] == [f"Node/small0{number}" for number in range(3)]


def test_a_hold_comes_before_the_zones_rate_and_not_instead_of_it() -> None:
    outage = Outage({"a": 6, "b": 6}, taint_add_hold=30)
    outage.ready("Unknown", *outage.of("a")[:4])
    outage.flow.advance(20)
    outage.ready("True", "a01")
    outage.flow.advance(100)
    assert outage.added() == [(35.0, "a00"), (45.0, "a02"), (55.0, "a03")]
    assert outage.words() == [(35.0, "a00", True), (45.0, "a02", True), (55.0, "a03", True)]


def test_a_hold_that_is_taken_away_evicts_nobody_from_a_node_that_is_ready() -> None:
    outage = Outage({"a": 4}, replicas=8, taint_remove_hold=600)
    outage.ready("False", "a00")
    outage.flow.advance(5 + PATIENCE - 20)
    outage.ready("True", "a00")
    outage.flow.advance(10)
    assert outage.evicting() == ["a00"], "it is held"
    outage.flow.stop("taint-manager")
    outage.flow.advance(3)
    settings = Settings(partitions=PARTITIONS, node_monitor_grace_period=0)
    outage.flow.services["taint-manager"] = taint_manager.service(settings)
    outage.flow.start("taint-manager")
    outage.flow.advance(600)
    assert outage.evicting() == []
    assert outage.requested() == []


def test_from_not_ready_to_unreachable_needs_no_second_grant() -> None:
    outage = Outage({"a": 3})
    outage.ready("False", "a00")
    outage.flow.advance(60)
    outage.ready("Unknown", "a00")
    (tainted,) = (one for one in outage.flow.table(TAINTS).values() if one.target.name == "a00")
    assert {taint.key for taint in tainted.taints} == {UNREACHABLE}
    assert len(outage.flow.events(ZONE_GRANTS)) == 1


def test_a_node_that_is_deleted_leaves_nothing_behind() -> None:
    outage = Outage({"a": 3, "b": 1})
    outage.ready("False", "a00", "b00")
    outage.flow.advance(60)
    outage.delete("Node", "a00")
    outage.delete("Node", "b00")
    outage.flow.run()
    assert outage.flow.table(ZONE_GRANTS) == {}
    assert set(outage.flow.table(ZONE_MEMBERS)) == {"Node/a01", "Node/a02"}
    assert set(outage.flow.table(ZONES)) == {"/a"}
    outage.node("a00", zone="a")
    outage.ready("False", "a00")
    outage.flow.advance(60)
    assert outage.evicting() == ["a00"]


def play(seed: int | None, *, crashes: bool) -> Outage:
    """A fleet with a long history."""
    outage = Outage({"a": 6, "b": 6, "c": 3}, replicas=30, seed=seed)
    if crashes:
        draw = random.Random(seed)  # noqa: S311 - the random choices must be repeatable
        outage.flow.crash_when = lambda _service, _partition: draw.choice([None, None, None, *Crash])
    flow = outage.flow
    outage.ready("Unknown", *outage.of("a"))
    flow.advance(33)
    outage.ready("True", "a01", "a05")
    flow.advance(12)
    outage.node("a04", zone="b")  # moves while it waits
    flow.advance(100)
    outage.ready("False", *outage.of("b")[:4])
    flow.advance(50)
    outage.ready("False", *outage.of("b"), *outage.of("c"), "a01", "a05")
    flow.advance(400)
    outage.ready("True", *outage.of("c"))
    flow.advance(25)
    outage.ready("True", *outage.of("a"))
    outage.delete("Node", "b03")
    flow.advance(400)
    return outage


@pytest.mark.parametrize("seed", range(6))
def test_workers_that_crash_grant_the_same_nodes_at_the_same_instants(seed: int) -> None:
    expected = play(None, crashes=False)
    assert len(expected.added()) == 8
    assert any(not grant.granted for grant in expected.flow.events(ZONE_GRANTS))
    outage = play(seed, crashes=True)
    assert outage.added() == expected.added()
    assert outage.words() == expected.words(), "nothing is granted twice, and nothing is lost"
    assert outage.flow.reconcile("governor") == []
    assert len(outage.where()) == len(expected.where()) == 30
    last: dict[str, int] = {}
    for record in outage.flow.records(ZONE_GRANTS):
        if record.value is not None:
            assert record.event.generation > last.get(record.name, 0)
            last[record.name] = record.event.generation


def test_the_same_topics_are_compacted_and_read_back_to_the_same_decisions() -> None:
    outage = Outage({"a": 10, "b": 2})
    outage.ready("Unknown", *outage.of("a")[:4])
    outage.flow.advance(17)
    for _ in range(3):
        outage.flow.compact()
        outage.flow.crash_process("governor")
        outage.flow.crash_process("taint-manager")
        outage.flow.advance(timedelta(seconds=4))
    outage.flow.advance(30)
    assert outage.added() == [(5.0, "a00"), (15.0, "a01"), (25.0, "a02"), (35.0, "a03")]


class Upgraded(World):
    """A fleet from a version without zones: one node is lost and has the taint that evicts."""

    def __init__(self, lost: str, others: int) -> None:
        settings = Settings(partitions=PARTITIONS, node_monitor_grace_period=0)
        super().__init__(Flow([taint_manager.service(settings), governor.service(settings)], partitions=PARTITIONS))
        self.lost = node(lost).key
        self.home = self.flow.partition(self.lost)
        names = (f"n{number}" for number in range(1000))
        elsewhere = (name for name in names if self.flow.partition(node(name).key) != self.home)
        for name in (lost, *(next(elsewhere) for _ in range(others))):
            self.node(name)
            ready = ConditionChanged(
                target=node(name),
                target_uid=self.uid(name),
                type="Ready",
                status=ConditionStatus.FALSE if name == lost else ConditionStatus.TRUE,
                last_transition_time=START,
                last_heartbeat_time=START,
                generation=1,
            )
            self.flow.produce(CONDITIONS, condition_key(node(name).key, "Ready"), ready, partition_key=node(name).key)
        taints = tuple(
            TaintRecord(key=NOT_READY, effect=effect, time_added=START, origins=(TaintOrigin.CONDITION,))
            for effect in (TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE)
        )
        event = TargetTainted(target=node(lost), target_uid=self.uid(lost), generation=1, taints=taints)
        self.flow.produce(TAINTS, self.lost, event)

    def evicting(self) -> list[datetime]:
        taints = self.flow.table(TAINTS)[self.lost].taints
        return [taint.time_added for taint in taints if taint.effect == TaintEffect.NO_EXECUTE]

    def govern(self, seconds: float) -> None:
        """Let time pass while only the governor runs."""
        for _ in range(2):
            while any([self.flow.step("governor", p) for p in range(PARTITIONS)]):  # noqa: C419 - every one of them steps
                pass
            self.flow.now += timedelta(seconds=seconds / 2)


def test_an_upgrade_partition_by_partition_withdraws_nothing_and_moves_no_deadline() -> None:
    fleet = Upgraded("lost", 4)
    fleet.flow.now += timedelta(seconds=100)
    while fleet.flow.step("taint-manager", fleet.home):  # the others' worker is still the earlier version
        pass
    fleet.govern(60)
    assert [zone.state for zone in fleet.flow.table(ZONES).values()] == [ZoneState.FULL_DISRUPTION]
    assert fleet.flow.events(ZONE_GRANTS) == [], "of all that have spoken none is ready, but not all have spoken"
    fleet.flow.advance(1000)
    (zone,) = fleet.flow.table(ZONES).values()
    assert (zone.state, zone.nodes, zone.not_ready, zone.stopped) == (ZoneState.NORMAL, 5, 1, False)
    assert fleet.flow.events(ZONE_GRANTS) == []
    assert fleet.evicting() == [START]


def test_nobody_is_granted_while_some_have_not_spoken_and_all_others_are_lost() -> None:
    outage = Outage({"a": 1})
    other = next(f"n{n}" for n in range(99) if outage.flow.partition(f"Node/n{n}") != outage.flow.partition("Node/a00"))
    outage.node(other, zone="b")
    outage.report("a00", "Ready", "Unknown")
    home = outage.flow.partition("Node/a00")
    for service in ("condition-ingest", "taint-manager"):
        outage.flow.step(service, home)
    for _ in range(3):
        for p in range(PARTITIONS):
            outage.flow.step("governor", p)
        outage.flow.now += timedelta(seconds=100)
    assert outage.flow.events(ZONE_GRANTS) == []
    assert [zone.stopped for zone in outage.flow.table(ZONES).values()] == [False]
    outage.flow.advance(100)
    assert outage.evicting() == ["a00"], "the other one is well"
    outage.ready("Unknown", other)
    assert outage.evicting() == []
