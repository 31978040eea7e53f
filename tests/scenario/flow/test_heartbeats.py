"""Silent sources, through condition-ingest, timer and taint-manager on a virtual clock."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tables import table
from tests.support.worlds.flow import START, Crash, Flow
from tests.support.worlds.world import World, node

from moorage.decide.conditions.heartbeats import JUDGED
from moorage.runtime.settings.process_settings import Settings
from moorage.workers import condition_ingest, taint_manager, timer
from moorage_schemas.condition import ConditionChanged, ConditionReported, ConditionStatus
from moorage_schemas.refs import TargetKind
from moorage_schemas.topics import CONDITION_REPORTS, CONDITIONS, TAINTS, TIMER_FIRED, TIMERS

PARTITIONS = 3
UNREACHABLE = ("node.kubernetes.io/unreachable", "NoSchedule")
GRACE = timedelta(seconds=40)
COARSE = GRACE / 2
"""How much later silence may be found after a restart, but not later than counted from the restart."""


def make_flow(**options: Any) -> Flow:
    chosen = Settings(partitions=PARTITIONS, **options.pop("settings", {}))
    modules = (condition_ingest, timer, taint_manager)
    return Flow([module.service(chosen) for module in modules], partitions=PARTITIONS, **options)


def say(flow: Flow, name: str, source: str = "probe/kubelet", condition: str = "Ready", status: str = "True") -> None:
    event = ConditionReported(
        target=node(name),
        type=condition,
        status=ConditionStatus(status),
        observed_time=flow.now,
        source=source,
    )
    flow.produce(CONDITION_REPORTS, event.target.key, event, source=source)


def renew(fleet: World, name: str) -> None:
    """The kubelet of a node renews its Lease. Its clock is wrong."""
    spec = {"renewTime": (fleet.flow.now - timedelta(days=1)).isoformat()}
    fleet.declare("Lease", name, spec, namespace="kube-node-lease")


def report(fleet: World, name: str, *said: str) -> None:
    """A source reports a condition and its status; or the kubelet renews the Lease."""
    if said:
        say(fleet.flow, name, *said)
    else:
        renew(fleet, name)


def held(flow: Flow, name: str, condition: str = "Ready") -> ConditionChanged:
    found = flow.table(CONDITIONS)[f"Node/{name}|{condition}"]
    assert isinstance(found, ConditionChanged)
    return found


def scheduling(flow: Flow, name: str) -> set[tuple[str, str]]:
    """The NoSchedule taints of a node; NoExecute ones are a matter of the zone."""
    found = flow.table(TAINTS).get(f"Node/{name}")
    return {(t.key, t.effect) for t in found.taints if t.effect == "NoSchedule"} if found is not None else set()


def beat(flow: Flow, names: str, seconds: float, *, every: float = 10) -> datetime:
    """Every one of these nodes' probes reports again and again; gives the time of the last time."""
    end = flow.now + timedelta(seconds=seconds)
    last = flow.now
    while flow.now < end:
        last = flow.now
        for name in names.split():
            say(flow, name)
        flow.advance(every)
    return last


def nothing() -> None:
    pass


def lose_both(flow: Flow) -> None:
    flow.crash_process("condition-ingest")
    flow.crash_process("timer")
    flow.compact()


@pytest.mark.parametrize("restart", [False, True])
def test_one_of_three_falls_silent_and_comes_back(*, restart: bool) -> None:
    flow = make_flow()
    disturb: Callable[[], None] = (lambda: lose_both(flow)) if restart else nothing
    fleet = World(flow)
    for name in ("n1", "n2", "n3"):
        fleet.node(name)
    flow.run()
    beat(flow, "n1 n2 n3", 100)
    disturb()
    last = beat(flow, "n1 n2 n3", 10)
    end = last + GRACE + (COARSE if restart else timedelta())
    others = len([event for event in flow.events(TAINTS) if event.target.name != "n1"])
    for _ in range(2):
        beat(flow, "n2 n3", 10)
        disturb()
    flow.advance_to(end - timedelta(microseconds=1))
    assert held(flow, "n1").status is ConditionStatus.TRUE
    assert scheduling(flow, "n1") == set()
    disturb()
    flow.advance(timedelta(microseconds=1))
    silent = held(flow, "n1")
    assert silent.status is ConditionStatus.UNKNOWN
    assert silent.last_transition_time == end
    assert (silent.last_heartbeat_time, silent.accepted_time, silent.status_since) == (last, last, end)
    assert (silent.reason, silent.report_id) == ("HeartbeatStopped", "")
    assert silent.message == "probe/kubelet has not reported on Node/n1 for its grace period of 40 s"
    assert scheduling(flow, "n1") == {UNREACHABLE}
    beat(flow, "n2 n3", 300)
    assert held(flow, "n1") == silent, "it is said once"
    assert len([event for event in flow.events(TAINTS) if event.target.name != "n1"]) == others
    assert {timer.target.name for timer in flow.table(TIMERS).values()} == {"n2", "n3"}
    disturb()
    say(flow, "n1")
    flow.run()
    assert held(flow, "n1").status is ConditionStatus.TRUE
    assert held(flow, "n1").status_since == flow.now
    assert scheduling(flow, "n1") == set()
    again = beat(flow, "n1 n2 n3", 50)
    disturb()
    end = again + GRACE + (COARSE if restart else timedelta())
    flow.advance_to(end)
    assert held(flow, "n1").status is ConditionStatus.UNKNOWN, "it can fall silent again"
    assert again + GRACE <= held(flow, "n1").last_transition_time <= end


def test_each_source_has_its_own_grace_period_and_its_own_conditions() -> None:
    flow = make_flow(settings={"source_grace_periods": "Node:probe/slow*=2m,Node:cli/night=30s"})
    World(flow).node("n1")
    say(flow, "n1", "probe/kubelet", "Ready")
    say(flow, "n1", "probe/kubelet", "DiskPressure", "False")
    say(flow, "n1", "probe/slow-raid", "RaidDegraded", "False")
    say(flow, "n1", "cli/alice", "MemoryPressure")
    say(flow, "n1", "cli/night", "Watched")
    flow.advance(3600)
    changed = {
        (event.type, event.last_transition_time - START) for event in flow.events(CONDITIONS) if not event.report_id
    }
    assert changed == {
        ("Watched", timedelta(seconds=30)),
        ("Ready", GRACE),
        ("DiskPressure", GRACE),
        ("RaidDegraded", timedelta(minutes=2)),
    }, "and what a person said stays"


def test_a_renewed_lease_is_a_heartbeat() -> None:
    """A kubelet writes its status every five minutes, and node-problem-detector its conditions."""
    flow = make_flow()
    fleet = World(flow)
    fleet.node("n1")
    flow.run()
    say(flow, "n1", "kubelet", "Ready")
    say(flow, "n1", "kubelet", "DiskPressure", "True")
    say(flow, "n1", "node-problem-detector", "KernelDeadlock", "True")
    for _ in range(30):
        renew(fleet, "n1")
        flow.advance(10)
    last = flow.now - timedelta(seconds=10)
    flow.advance_to(last + GRACE - timedelta(microseconds=1))
    assert {one.status.value for one in flow.table(CONDITIONS).values()} == {"True"}
    flow.advance(timedelta(microseconds=1))
    statuses = {key.rpartition("|")[2]: one.status.value for key, one in flow.table(CONDITIONS).items()}
    assert statuses == {"Ready": "Unknown", "DiskPressure": "Unknown", "KernelDeadlock": "True"}


def test_a_lease_that_was_renewed_unread_counts() -> None:
    """The check for silence reads the Leases to their present end."""
    flow = make_flow()
    fleet = World(flow)
    fleet.node("n1")
    say(flow, "n1", "kubelet", "Ready")
    renew(fleet, "n1")
    flow.run()
    flow.lagging.add("condition-ingest")
    flow.advance(30)
    renew(fleet, "n1")
    flow.advance(25)
    assert held(flow, "n1").status is ConditionStatus.TRUE
    flow.advance(60)
    assert held(flow, "n1").status is ConditionStatus.UNKNOWN


def test_any_report_is_a_heartbeat_but_no_stale_one_and_no_duplicate() -> None:
    flow = make_flow()
    fleet = World(flow)
    fleet.node("n1")
    fleet.report("n1", "Ready", "True", id="first")
    fleet.report("n1", "DiskPressure", "False", id="second")
    flow.advance(30)
    fleet.report("n1", "DiskPressure", "False", id="third")
    flow.advance(35)
    assert held(flow, "n1").status is ConditionStatus.TRUE, "it was heard 35 s ago"
    fleet.report("n1", "DiskPressure", "False", id="late", at=START + timedelta(seconds=29))
    fleet.report("n1", "DiskPressure", "False", id="third", at=START + timedelta(seconds=30))
    flow.advance(5)
    assert held(flow, "n1").status is ConditionStatus.UNKNOWN
    assert held(flow, "n1").last_transition_time == START + timedelta(seconds=70)
    fleet.report("n1", "DiskPressure", "False", id="third", at=START + timedelta(seconds=30))
    flow.run()
    assert held(flow, "n1", "DiskPressure").status is ConditionStatus.UNKNOWN, "no report that counted revives it"


@pytest.mark.parametrize("restart", [False, True])
def test_a_probe_whose_times_are_whole_seconds_is_heard_twice_in_one(*, restart: bool) -> None:
    flow = make_flow()
    disturb: Callable[[], None] = (lambda: lose_both(flow)) if restart else nothing
    fleet = World(flow)
    fleet.node("n1")
    said = [("True", "a"), ("False", "b"), ("True", "c"), ("False", "d")]
    for status, identity in said:
        fleet.report("n1", "Ready", status, id=identity)
        flow.run()
        assert held(flow, "n1").status == status
        disturb()
    records = len(flow.events(CONDITIONS))
    # The probe does not know whether its reports have arrived, and repeats them all, and then some of them.
    for status, identity in (*said, *said[:3]):
        fleet.report("n1", "Ready", status, id=identity, at=START)
        flow.run()
        disturb()
    assert held(flow, "n1").report_id == "d"
    assert len(flow.events(CONDITIONS)) == records
    fleet.report("n1", "Ready", "True", id="e", at=START)
    flow.run()
    assert held(flow, "n1").report_id == "e", "a new one counts, also when it comes late"


@table("seed", range(8))
def test_a_source_is_not_silent_while_its_reports_wait_to_be_read(seed: int) -> None:
    # With a seed the driver mixes the sources, so what the timer says is read before reports that wait for longer.
    flow = make_flow(rng=random.Random(seed))  # noqa: S311 - a seeded shuffle, not a secret
    World(flow).node("n1")
    say(flow, "n1")
    flow.advance(1)
    # condition-ingest is away for minutes. The timer fires, and the probe continues.
    away = flow.services.pop("condition-ingest")
    for _ in range(20):
        say(flow, "n1")
        flow.advance(10)
    assert len(flow.events(TIMER_FIRED)) == 1
    flow.services["condition-ingest"] = away
    flow.run()
    assert all(event.status is ConditionStatus.TRUE for event in flow.events(CONDITIONS))
    flow.advance(GRACE)
    assert held(flow, "n1").status is ConditionStatus.UNKNOWN


def test_a_condition_belongs_to_the_source_that_reported_it_last() -> None:
    flow = make_flow()
    World(flow).node("n1")
    say(flow, "n1", "probe/a", "Ready")
    say(flow, "n1", "probe/a", "DiskPressure", "False")
    flow.advance(10)
    say(flow, "n1", "probe/a", "Ready")
    flow.advance(10)
    say(flow, "n1", "probe/b", "Ready")
    flow.advance_to(START + timedelta(seconds=45))
    say(flow, "n1", "probe/b", "Ready")
    flow.advance(3600)
    gone = [
        (event.source, event.type, event.last_transition_time)
        for event in flow.events(CONDITIONS)
        if not event.report_id
    ]
    assert gone == [
        ("probe/a", "DiskPressure", START + timedelta(seconds=50)),
        ("probe/b", "Ready", START + timedelta(seconds=85)),
    ], "a was heard at 10 s, though with a condition that is no longer its own"


def test_a_source_that_lost_everything_to_another_is_watched_no_more() -> None:
    flow = make_flow()
    World(flow).node("n1")
    for source in ("probe/a", "probe/b", "probe/a", "cli/alice"):
        flow.advance(1)
        say(flow, "n1", source)
    flow.advance(3600)
    assert held(flow, "n1").status is ConditionStatus.TRUE
    assert flow.table(TIMERS) == {}


def test_a_timer_of_a_target_that_is_gone_comes_to_nothing() -> None:
    flow = make_flow()
    fleet = World(flow)
    fleet.node("n1")
    say(flow, "n1")
    flow.advance(20)
    fleet.delete("Node", "n1")
    flow.run()
    assert flow.table(TIMERS) == {}
    fleet.node("n1")
    flow.advance(5)
    say(flow, "n1")
    flow.advance_to(START + timedelta(seconds=64))
    assert held(flow, "n1").status is ConditionStatus.TRUE, "the former node's timer is none of its business"
    flow.advance(1)
    assert held(flow, "n1").status is ConditionStatus.UNKNOWN
    assert len({event.id for event in flow.events(TIMERS)}) == 2, "an id is not used again"


def test_no_timer_is_used_again_after_its_tombstone() -> None:
    flow = make_flow()
    World(flow).node("n1")
    forgotten: set[str] = set()
    for seconds in (100, 10, 100, 60, 5, 300):
        say(flow, "n1")
        flow.advance(seconds)
    for record in flow.records(TIMERS):
        assert record.name not in forgotten
        if record.value is None:
            forgotten.add(record.name)
    assert len(forgotten) == 4


def test_the_reconciler_watches_what_nothing_watches() -> None:
    flow = make_flow(settings={"node_monitor_grace_period": 0})
    World(flow).node("n1")
    say(flow, "n1")
    say(flow, "n1", "cli/alice", "MemoryPressure", "False")
    flow.advance(100)
    assert flow.events(TIMERS) == []
    # The setting is changed, as by an upgrade from a version without heartbeats.
    flow.services["condition-ingest"] = condition_ingest.service(Settings(partitions=PARTITIONS))
    flow.crash_process("condition-ingest")
    assert [emit.key for emit in flow.reconcile("condition-ingest")] == [
        "heartbeat|Node/n1|uid-n1-1|Ready|1|probe/kubelet"
    ]
    assert flow.reconcile("condition-ingest") == []
    flow.run()
    assert held(flow, "n1").status is ConditionStatus.TRUE, "it may have been heard until the restart"
    flow.advance_to(START + timedelta(seconds=100) + GRACE)
    assert held(flow, "n1").last_transition_time == START + timedelta(seconds=100) + GRACE
    assert held(flow, "n1", "MemoryPressure").status is ConditionStatus.FALSE
    assert flow.reconcile("condition-ingest") == []


def test_a_grace_period_that_is_taken_away_and_given_back() -> None:
    flow = make_flow()
    World(flow).node("n1")
    say(flow, "n1")
    flow.run()
    for seconds in (0, 40, 0, 40):
        chosen = Settings(partitions=PARTITIONS, node_monitor_grace_period=seconds)
        flow.services["condition-ingest"] = condition_ingest.service(chosen)
        lose_both(flow)
        flow.reconcile("condition-ingest")
        lose_both(flow)
        if seconds == 0:
            flow.advance(100)
            assert held(flow, "n1").status is ConditionStatus.TRUE
            (kept,) = flow.table(TIMERS).values()
            assert kept.deadline is None
        else:
            flow.advance(COARSE)
            assert held(flow, "n1").status is ConditionStatus.UNKNOWN
            say(flow, "n1")
            flow.run()


@pytest.mark.parametrize(("after", "heard"), [(30, 30), (3600, 300)])
def test_a_grace_period_that_is_shortened_counts_from_the_last_possible_heartbeat(after: float, heard: float) -> None:
    flow = make_flow(settings={"node_monitor_grace_period": 86_400})
    World(flow).node("n1")
    say(flow, "n1")
    flow.advance(after)
    chosen = Settings(partitions=PARTITIONS, node_monitor_grace_period=40)
    flow.services["condition-ingest"] = condition_ingest.service(chosen)
    lose_both(flow)
    # For five minutes heartbeats did not have to be recorded. A former process has heard nothing since the restart.
    end = START + timedelta(seconds=heard) + GRACE
    if end > flow.now:
        flow.advance(5)
        (moved,) = flow.table(TIMERS).values()
        assert moved.deadline == end, "the timer was set for tomorrow"
        assert flow.reconcile("condition-ingest") == []
        flow.advance_to(end - timedelta(microseconds=1))
        assert held(flow, "n1").status is ConditionStatus.TRUE
        flow.advance_to(end)
    flow.run()
    assert held(flow, "n1").status is ConditionStatus.UNKNOWN
    assert held(flow, "n1").last_transition_time == end


def test_a_timer_whose_firing_was_lost_is_set_anew() -> None:
    flow = make_flow()
    World(flow).node("n1")
    say(flow, "n1")
    flow.run()
    del flow.services["timer"]
    flow.advance(GRACE + timedelta(minutes=10))
    assert flow.reconcile("condition-ingest") == [], "it is left to the timer for a while"
    flow.advance(1)
    assert len(flow.reconcile("condition-ingest")) == 1
    flow.services["timer"] = timer.service(Settings(partitions=PARTITIONS))
    flow.run()
    assert held(flow, "n1").last_transition_time == START + GRACE


# Heartbeats that change nothing are not all recorded.


def recorded(flow: Flow, condition: str = "Ready") -> list[float]:
    """When the records of a condition were written, in seconds since the start."""
    found = [event for event in flow.events(CONDITIONS) if event.type == condition]
    return [(event.accepted_time - START).total_seconds() for event in found if event.accepted_time is not None]


def test_a_constant_fleet_writes_one_record_of_a_node_in_half_a_grace_period() -> None:
    flow = make_flow()
    fleet = World(flow)
    names = [f"n{number}" for number in range(500)]
    kinds = {
        "Ready": "True",
        "DiskPressure": "False",
        "MemoryPressure": "False",
        "PIDPressure": "False",
        "Net": "False",
    }
    for name in names:
        fleet.node(name)
    for _ in range(7):
        for name in names:
            for condition, status in kinds.items():
                say(flow, name, condition=condition, status=status)
        flow.advance(10)
    # The first report of each condition, and after it one of each node every 20 s.
    assert len(flow.events(CONDITION_REPORTS)) == 500 * 5 * 7
    assert len(flow.events(CONDITIONS)) == 500 * (5 + 3)
    assert all(condition.status.value == kinds[condition.type] for condition in flow.table(CONDITIONS).values())


def test_every_condition_is_recorded_again_after_five_minutes() -> None:
    flow = make_flow()
    World(flow).node("n1")
    for _ in range(62):
        say(flow, "n1", condition="Ready")
        say(flow, "n1", condition="DiskPressure", status="False")
        flow.advance(10)
    assert recorded(flow) == [20.0 * number for number in range(31)]
    assert recorded(flow, "DiskPressure") == [0.0, 300.0, 600.0]


@pytest.mark.parametrize(("restart", "heard"), [(19, 19), (19.5, 19.5), (30, 20)])
def test_a_heartbeat_that_was_not_recorded_counts_after_a_restart(restart: float, heard: float) -> None:
    flow = make_flow()
    World(flow).node("n1")
    say(flow, "n1")
    flow.advance(19)
    say(flow, "n1")
    flow.run()
    assert recorded(flow) == [0]
    flow.advance_to(START + timedelta(seconds=restart))
    lose_both(flow)
    end = START + timedelta(seconds=heard) + GRACE
    flow.advance_to(end - timedelta(milliseconds=1))
    assert held(flow, "n1").status is ConditionStatus.TRUE, "it was heard at 19 s"
    flow.advance_to(end)
    silent = held(flow, "n1")
    assert silent.status is ConditionStatus.UNKNOWN
    assert silent.last_transition_time == end, "it may have been heard until the restart, or until just before 20 s"


def test_a_source_that_is_heard_after_a_restart_is_timed_exactly_again() -> None:
    flow = make_flow()
    World(flow).node("n1")
    say(flow, "n1")
    flow.advance(5)
    lose_both(flow)
    say(flow, "n1")
    flow.advance_to(START + timedelta(seconds=45))
    assert recorded(flow) == [0, 5], "the second record says that it fell silent, and was last heard at 5 s"
    assert held(flow, "n1").last_transition_time == START + timedelta(seconds=45)


@pytest.mark.parametrize("restart", [False, True])
def test_a_source_keeps_its_deadline_when_another_takes_its_recorded_condition(*, restart: bool) -> None:
    flow = make_flow()
    World(flow).node("n1")
    for condition in ("Ready", "DiskPressure"):
        say(flow, "n1", "probe/a", condition)
    for seconds in (25, 40):
        flow.advance_to(START + timedelta(seconds=seconds))
        say(flow, "n1", "probe/a", "Ready")
    flow.advance(1)
    say(flow, "n1", "probe/b", "Ready")
    flow.run()
    assert recorded(flow) == [0, 25, 41]
    if restart:
        lose_both(flow)
    flow.advance_to(START + timedelta(seconds=79.999))
    assert held(flow, "n1", "DiskPressure").status is ConditionStatus.TRUE, "probe/a was heard at 40 s"
    flow.advance(0.001)
    assert held(flow, "n1", "DiskPressure").last_transition_time == START + timedelta(seconds=80)


def test_a_condition_that_is_taken_over_after_a_restart_leaves_its_former_source_the_deadline_that_it_had() -> None:
    flow = make_flow()
    World(flow).node("n1")
    for condition in ("Ready", "DiskPressure"):
        say(flow, "n1", "probe/a", condition)
        flow.advance(0.001)
    lose_both(flow)
    flow.run()
    say(flow, "n1", "cli/c", "Ready")
    flow.run()
    (timer,) = flow.table(TIMERS).values()
    assert timer.deadline is not None
    assert timer.deadline <= flow.now + GRACE, "it cannot have been heard after now"
    lose_both(flow)
    assert flow.reconcile("condition-ingest") == []


# In any order of events, a condition is Unknown exactly if its source has been silent for its grace period. After a
# restart it may become Unknown later, by at most half of that period.

NAMES = ("n1", "n2")
TYPES = ("Ready", "DiskPressure", "RaidDegraded")
PERIODS = {"probe/a": 40, "probe/b": 7, "cli/c": None}
RULED = {"probe/b"}
Owned = dict[tuple[str, str], tuple[str, str]]


@dataclass
class Model:
    """The expected result: the source of each condition, and the last report of each source."""

    heard: dict[tuple[str, str], datetime] = field(default_factory=dict)
    owned: Owned = field(default_factory=dict)
    """By node and type: the source, and the status that it reported, or Unknown after it has fallen silent."""

    reported: Owned = field(default_factory=dict)
    """The same without silence."""

    alive: dict[str, datetime] = field(default_factory=dict)
    """When the Lease of each node was renewed last."""

    def last(self, name: str, source: str) -> datetime:
        """The last sign of life. A renewed Lease is one of all sources without a grace period of their own."""
        heard = self.heard[name, source]
        return heard if source in RULED else max(heard, self.alive.get(name, heard))

    def say(self, now: datetime, name: str, source: str = "", condition: str = "", status: str = "") -> None:
        if not source:
            self.alive[name] = now
            return
        self.heard[name, source] = now
        self.owned[name, condition] = self.reported[name, condition] = (source, status)

    def late(self, now: datetime, began: datetime, found: Owned) -> Owned:
        """The silence that a process which began at `began` may not have found yet, where `found` does not have it."""
        return {
            (name, condition): reported
            for (name, condition), reported in self.reported.items()
            if found.get((name, condition)) == reported
            and (period := PERIODS[reported[0]]) is not None
            and (last := self.last(name, reported[0])) <= began
            and now < max(last + timedelta(seconds=period * 1.5), self._anew(name, reported[0], began, period))
        }

    def _anew(self, name: str, source: str, began: datetime, period: float) -> datetime:
        """After a restart, nodes with a Lease have a whole grace period, as with Kubernetes' controller."""
        return began + timedelta(seconds=period) if name in self.alive and source not in RULED else began

    def overlook(self, now: datetime, began: datetime, found: Owned) -> None:
        """Before somebody speaks: silence that a late process has not found yet is never found if its source speaks."""
        self.settle(now)
        self.owned |= self.late(now, began, found)

    def settle(self, now: datetime) -> None:
        """A source that is silent now stays silent until it reports."""
        for (name, condition), (source, _) in self.owned.items():
            period = PERIODS[source] if source in RULED or condition in JUDGED[TargetKind.NODE] else None
            if period is not None and self.last(name, source) + timedelta(seconds=period) <= now:
                self.owned[name, condition] = (source, "Unknown")


def table_of(flow: Flow) -> Owned:
    """The source and the status of each condition."""
    return {(e.target.name, e.type): (e.source, e.status.value) for e in flow.table(CONDITIONS).values()}


@st.composite
def stories(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    # Odd fractions of a second, so that no report comes at the instant at which silence begins.
    ticks = itertools.count(1)
    report = st.tuples(
        st.sampled_from(NAMES),
        st.sampled_from(sorted(PERIODS)),
        st.sampled_from(TYPES),
        st.sampled_from(["True", "False", "Unknown"]),
    )
    wait = st.sampled_from([0.5, 3, 6.5, 8, 13, 30, 41, 100]).map(lambda s: s + next(ticks) / 1000)
    # The same report again, which is not always recorded.
    again = st.tuples(report, st.lists(st.sampled_from([0.5, 1.5, 3]), min_size=1, max_size=4)).map(repeated)
    step = st.one_of(
        report,
        report,
        again,
        wait.map(lambda s: ("wait", s)),
        st.sampled_from(NAMES).map(lambda name: (name,)),
        st.just(("restart",)),
        st.just(("reconcile",)),
    )
    steps = draw(st.lists(step, min_size=1, max_size=25))
    return [one for found in steps for one in (found if isinstance(found, list) else [found])]


def repeated(drawn: tuple[tuple[str, ...], list[float]]) -> list[tuple[Any, ...]]:
    report, waits = drawn
    return [report, *(step for seconds in waits for step in (("wait", seconds), report))]


@settings(max_examples=120)
@given(stories(), st.integers(0, 2**32), st.sampled_from([None, *Crash]))
def test_a_condition_is_unknown_exactly_when_its_source_is_silent(
    story: list[tuple[Any, ...]], seed: int, crash: Crash | None
) -> None:
    rng, dice = random.Random(seed), random.Random(seed + 1)  # noqa: S311 - a seeded shuffle, not a secret
    flow = make_flow(settings={"source_grace_periods": "Node:probe/b=7s"}, rng=rng)
    fleet, model, began = World(flow), Model(), datetime.min.replace(tzinfo=UTC)
    for name in NAMES:
        fleet.node(name)
    flow.run()
    if crash is not None:
        flow.crash_when = lambda _service, _partition: crash if dice.random() < 0.2 else None
    for step in story:
        match step:
            case ("wait", seconds):
                flow.advance(seconds)
            case ("restart",):
                lose_both(flow)
                began = flow.now
            case ("reconcile",):
                assert flow.reconcile("condition-ingest") == []
            case (name, *said):
                flow.advance(0.001)
                latest = began if crash is None else flow.now
                model.overlook(flow.now, latest, table_of(flow))
                report(fleet, name, *said)
                flow.run()
                model.say(flow.now, name, *said)
        model.settle(flow.now)
        found = table_of(flow)
        latest = began if crash is None else flow.now  # with crashes it may have restarted at any time
        assert found == model.owned | model.late(flow.now, latest, found)
    for event in flow.events(CONDITIONS):
        if not event.report_id:
            period = PERIODS[event.source]
            assert period is not None
            assert event.last_transition_time >= event.accepted_time + timedelta(seconds=period)
            assert event.status_since >= event.last_transition_time
    assert {t.subject for t in flow.table(TIMERS).values()} <= {s for s, p in PERIODS.items() if p is not None}
