"""eviction: the rules for the states of a task, and its timer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

import pytest
from tests.support.records import T0, at, decide, record, wake
from tests.support.tables import table
from tests.support.worlds.world import node, pod, tolerate

from moorage.conformance.deviations import Deviation
from moorage.decide.taints.eviction_verdict import Verdict, verdict
from moorage.runtime.service import Emit
from moorage.runtime.settings.process_settings import Settings
from moorage.workers import eviction
from moorage.workers.eviction.state import EvictionPartition
from moorage_schemas.base import Model
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import binding_key
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import WorkloadRef
from moorage_schemas.taint import Taint, TaintOrigin, TaintRecord, TargetTainted, Toleration
from moorage_schemas.timer import SetTimer, TimerFired
from moorage_schemas.topics import BINDINGS, EVICTIONS, TAINTS, TIMER_FIRED, TIMERS, Topic

SERVICE = eviction.service(Settings())
WEB = binding_key(pod("web"), node("n1"))
TIMER_ID = f"evict|{WEB}|1"


class Bench:
    """The service, which gets one record at a time."""

    def __init__(self) -> None:
        self.state: EvictionPartition = SERVICE.new_state(0)
        self.generation = 0
        self.count = 0
        self.time = 0.0

    def taints(self, *taints: tuple[str, str, float], generation: int = 0) -> list[str]:
        """Write taints as (key, effect, seconds at which it was added)."""
        self.generation = generation or self.generation + 1
        event = TargetTainted(
            target=node("n1"),
            target_uid="u1",
            generation=self.generation,
            taints=tuple(
                TaintRecord(key=k, effect=e, time_added=at(s), origins=(TaintOrigin.EXPLICIT,)) for k, e, s in taints
            ),
            report_time=at(-1),
        )
        return self.feed(TAINTS, "Node/n1", event)

    def bind(
        self, *tolerations: Toleration, generation: int = 1, revision: int = 1, name: str = "web", owner: str = ""
    ) -> list[str]:
        event = WorkloadBound(
            workload=pod(name),
            uid=f"uid-{name}",
            owner=WorkloadRef.parse(owner) if owner else pod(name),
            target=node("n1"),
            generation=generation,
            revision=revision,
            tolerations=tolerations,
            bound_time=T0,
        )
        return self.feed(BINDINGS, binding_key(pod(name), node("n1")), event)

    def unbind(self) -> list[str]:
        return self.feed(BINDINGS, WEB, None)

    def fire(
        self, generation: int, deadline: float, *, owner: str = "eviction", fired: float | None = None
    ) -> list[str]:
        """Let the timer fire, at a time of its own clock if that is another one."""
        event = TimerFired(
            id=TIMER_ID,
            target=node("n1"),
            owner=owner,
            generation=generation,
            deadline=at(deadline),
            fired_time=at(self.time if fired is None else fired),
            subject="Pod/default/web",
        )
        return self.feed(TIMER_FIRED, TIMER_ID, event)

    def feed(self, topic: Topic, key: str, event: Model | None) -> list[str]:
        self.count += 1
        one = record(topic, key, event, id=f"e{self.count}", time=at(self.time))
        self.emits = decide(SERVICE, self.state, [one], at(self.time))
        assert all(emit.partition_key == "Node/n1" for emit in self.emits)
        return told(self.emits)

    @property
    def decided(self) -> EvictionDecided:
        (event,) = (e.event for e in self.emits if isinstance(e.event, EvictionDecided))
        return event


def told(emits: Iterable[Emit]) -> list[str]:
    """The emitted records in short form."""
    words = []
    for emit in emits:
        match emit.event:
            case EvictionDecided() as event:
                until = f" until {(event.deadline - T0).total_seconds():g}" if event.deadline else ""
                words.append(f"{event.state}#{event.revision}{until} {event.reason}")
            case SetTimer() as event:
                words.append(
                    f"timer#{event.generation} "
                    + (f"{(event.deadline - T0).total_seconds():g}" if event.deadline else "off")
                )
            case None:
                words.append(f"{emit.topic.short} tombstone")
            case _:
                raise AssertionError(emit)
    return words


K1, K2 = ("k1", "NoExecute", 0.0), ("k2", "NoExecute", 0.0)


@table(
    ("taints", "tolerations", "expected"),
    [
        ([], [], []),
        ([("k1", "NoSchedule", 0)], [], []),
        ([("k1", "PreferNoSchedule", 0)], [], []),
        ([K1], [], ["Requested#1 UntoleratedTaint"]),
        ([K1], [tolerate("k1")], []),
        ([K1], [tolerate("k2")], ["Requested#1 UntoleratedTaint"]),
        ([K1], [tolerate("k1", 3)], ["Scheduled#1 until 3 TolerationEnds", "timer#1 3"]),
        ([K1], [tolerate("k1", 0)], ["Requested#1 TolerationExpired"]),
        ([K1], [tolerate("k1", -5)], ["Requested#1 TolerationExpired"]),
        ([("k1", "NoExecute", -9)], [tolerate("k1", 3)], ["Requested#1 TolerationExpired"]),
        ([("k1", "NoExecute", -3)], [tolerate("k1", 3)], ["Requested#1 TolerationExpired"]),
        ([K1, K2], [tolerate("k1", 9), tolerate("k2", 4)], ["Scheduled#1 until 4 TolerationEnds", "timer#1 4"]),
        ([K1, K2], [tolerate("k1", 9)], ["Requested#1 UntoleratedTaint"]),
        ([K1, K2], [tolerate("k1"), tolerate("k2", 4)], ["Scheduled#1 until 4 TolerationEnds", "timer#1 4"]),
    ],
)
def test_taints_on_what_is_bound_and_a_binding_on_what_is_tainted(
    taints: list[tuple[str, str, float]], tolerations: list[Toleration], expected: list[str]
) -> None:
    bound_first = Bench()
    assert bound_first.bind(*tolerations) == []
    assert bound_first.taints(*taints) == expected
    tainted_first = Bench()
    assert tainted_first.taints(*taints) == []
    assert tainted_first.bind(*tolerations) == expected


def test_a_decision_says_who_where_why_and_when() -> None:
    bench = Bench()
    bench.bind(generation=4, owner="ReplicaSet/default/rs")
    bench.time = 7
    bench.taints(K1)
    event = bench.decided
    assert (event.workload, event.workload_uid) == (pod("web"), "uid-web")
    assert event.owner.key == "ReplicaSet/default/rs"
    assert (event.target, event.generation, event.taint_generation) == (node("n1"), 4, 1)
    assert [taint.identity for taint in event.taints] == [("k1", "NoExecute")]
    assert (event.decided_time, event.report_time) == (at(7), at(-1))
    assert event.message == "untolerated taint k1:NoExecute"
    assert bench.emits[0].key == f"{binding_key(pod('web'), node('n1'))}|4"


def test_its_own_owner_is_itself() -> None:
    bench = Bench()
    bench.bind()
    bench.taints(K1)
    assert bench.decided.owner == pod("web")


def test_the_deadline_moves_with_the_taints_both_ways() -> None:
    bench = Bench()
    bench.bind(tolerate("k1", 10), tolerate("k2", 4))
    assert bench.taints(K1) == ["Scheduled#1 until 10 TolerationEnds", "timer#1 10"]
    assert bench.taints(K1, K2) == ["Scheduled#2 until 4 TolerationEnds", "timer#2 4"]
    assert bench.taints(K1) == ["Scheduled#3 until 10 TolerationEnds", "timer#3 10"]
    assert bench.taints(K1, ("k3", "NoSchedule", 0)) == []
    assert bench.taints(("k3", "NoSchedule", 0)) == ["Cancelled#4 TaintRemoved", "timer#4 off"]
    assert bench.taints(K1) == ["Scheduled#5 until 10 TolerationEnds", "timer#5 10"]


def test_another_cause_with_the_same_deadline_is_told_and_leaves_the_timer() -> None:
    bench = Bench()
    bench.bind(tolerate("k1", 4), tolerate("k2", 4))
    bench.taints(K1)
    assert bench.taints(K1, K2) == []
    assert bench.taints(K2) == ["Scheduled#2 until 4 TolerationEnds"]


def test_the_deadline_moves_with_the_tolerations() -> None:
    bench = Bench()
    bench.bind(tolerate("k1", 10))
    bench.taints(K1)
    assert bench.bind(tolerate("k1", 5), revision=2) == ["Scheduled#2 until 5 TolerationEnds", "timer#2 5"]
    assert bench.bind(tolerate("k1"), revision=3) == ["Cancelled#3 Tolerated", "timer#3 off"]
    assert bench.bind(revision=4) == ["Requested#4 UntoleratedTaint", "timers tombstone"]


@pytest.mark.parametrize("seconds", [30, 5])
def test_deviation_a_changed_time_moves_the_deadline_where_kubernetes_keeps_the_first(seconds: int) -> None:
    bench = Bench()
    bench.bind(tolerate("k1", 10))
    bench.taints(K1)
    bench.time = 2
    ours = bench.bind(tolerate("k1", seconds), revision=2)
    assert ours == [f"Scheduled#2 until {seconds} TolerationEnds", f"timer#2 {seconds}"]
    assert _as_upstream(scheduled=10, made=0, seconds=seconds, now=2) == 10
    assert Deviation.DEADLINE_FOLLOWS_TOLERATIONS.operations == ()


def _as_upstream(*, scheduled: float, made: float, seconds: float, now: float) -> float:
    """When upstream's taint eviction controller evicts a scheduled pod, given its present tolerated time."""
    return scheduled if made + seconds < now + seconds else now + seconds


def test_what_is_requested_stays_until_the_binding_goes() -> None:
    bench = Bench()
    bench.bind()
    bench.taints(K1)
    assert bench.taints() == []
    assert bench.taints(K1, K2) == []
    assert bench.bind(tolerate("k1"), revision=2) == []
    assert bench.unbind() == ["Completed#2 BindingEnded"]
    assert bench.unbind() == []
    assert not bench.state.targets["Node/n1"].tasks


@pytest.mark.parametrize(
    ("untaint", "expected"),
    [(False, ["timers tombstone", "Cancelled#2 BindingEnded"]), (True, ["timers tombstone"])],
)
def test_a_binding_that_ends_first(*, untaint: bool, expected: list[str]) -> None:
    bench = Bench()
    bench.bind(tolerate("k1", 10))
    bench.taints(K1)
    if untaint:
        bench.taints()
    assert bench.unbind() == expected
    assert not bench.state.timers


def test_a_timer_makes_it_look_again() -> None:
    bench = Bench()
    bench.bind(tolerate("k1", 3))
    bench.taints(K1)
    bench.time = 3
    assert bench.fire(1, 3) == ["Requested#2 TolerationExpired", "timers tombstone"]
    assert (bench.decided.decided_time, bench.decided.report_time) == (at(3), None)
    assert bench.fire(1, 3) == []


@pytest.mark.parametrize(("generation", "deadline", "owner"), [(2, 3, "eviction"), (1, 2, "eviction"), (1, 3, "other")])
def test_a_timer_that_is_not_the_tasks_does_nothing(generation: int, deadline: float, owner: str) -> None:
    bench = Bench()
    bench.bind(tolerate("k1", 3))
    bench.taints(K1)
    bench.time = 3
    assert bench.fire(generation, deadline, owner=owner) == []


def test_a_timer_that_fires_after_the_taint_went_does_nothing() -> None:
    bench = Bench()
    bench.bind(tolerate("k1", 3))
    bench.taints(K1)
    bench.time = 2.9
    bench.taints()
    bench.time = 3
    assert bench.fire(1, 3) == []


def test_a_target_that_goes_takes_its_taints_along() -> None:
    bench = Bench()
    bench.bind(tolerate("k1", 3))
    bench.taints(K1)
    assert bench.feed(TAINTS, "Node/n1", None) == ["Cancelled#2 TaintRemoved", "timer#2 off"]
    assert bench.taints(K1, generation=1) == ["Scheduled#3 until 3 TolerationEnds", "timer#3 3"]


def test_a_higher_generation_ends_the_old_task_and_starts_a_new_one() -> None:
    bench = Bench()
    bench.bind()
    bench.taints(K1)
    assert bench.bind(tolerate("k1", 8), generation=2) == [
        "Completed#2 BindingEnded",
        "Scheduled#1 until 8 TolerationEnds",
        "timer#1 8",
    ]
    assert [emit.key.rpartition("|")[2] for emit in bench.emits] == ["1", "2", "2"]


def test_repeats_and_older_records_change_nothing() -> None:
    bench = Bench()
    bench.bind(tolerate("k1", 8), generation=3, revision=2)
    bench.taints(K1, generation=5)
    assert bench.bind(tolerate("k1", 8), generation=3, revision=2) == []
    assert bench.bind(generation=3, revision=1) == []
    assert bench.bind(generation=2, revision=9) == []
    assert bench.taints(generation=4) == []
    assert bench.taints(generation=5) == []


def test_a_binding_that_ends_is_ended_though_only_its_task_was_restored() -> None:
    bench = Bench()
    bench.bind(owner="ReplicaSet/default/rs")
    bench.taints(K1)
    restored = Bench()
    SERVICE.apply(restored.state, EVICTIONS, bench.emits[0].key, bench.decided)
    assert restored.unbind() == ["Completed#2 BindingEnded"]
    assert restored.decided.owner.key == "ReplicaSet/default/rs"
    assert restored.decided.workload_uid == "uid-web"


def test_a_task_whose_binding_left_no_trace_is_ended_at_the_first_look() -> None:
    """The binding ended while the service was away for longer than tombstones are kept."""
    bench = Bench()
    bench.bind(tolerate("k1", 8))
    bench.taints(K1)
    scheduled = [emit for emit in bench.emits if emit.topic in SERVICE.changelogs]
    restored = Bench()
    for emit in scheduled:
        SERVICE.apply(restored.state, emit.topic, emit.key, emit.event)
    assert told(wake(SERVICE, restored.state, at(20))) == ["timers tombstone", "Cancelled#2 BindingEnded"]
    assert told(wake(SERVICE, restored.state, at(21))) == []


def test_a_task_of_an_earlier_binding_is_ended_at_the_first_look() -> None:
    bench = Bench()
    bench.bind()
    bench.taints(K1)
    restored = Bench()
    SERVICE.apply(restored.state, EVICTIONS, bench.emits[0].key, bench.decided)
    again = Bench()
    again.bind(generation=2)
    restored.state.targets["Node/n1"].bindings = again.state.targets["Node/n1"].bindings
    assert told(wake(SERVICE, restored.state, at(20))) == ["Completed#2 BindingEnded"]


def test_tables_may_be_folded_in_again_in_any_order() -> None:
    bench = Bench()
    bench.bind(tolerate("k1", 8), tolerate("k2", 4))
    written = []
    for taints in ((K1,), (K1, K2), ()):
        bench.taints(*taints)
        written += bench.emits
    task, timers = bench.state.targets["Node/n1"].tasks["Pod/default/web"], dict(bench.state.timers)
    assert (task.revision, task.state, timers) == (3, EvictionState.CANCELLED, {TIMER_ID: (3, None)})
    for emit in (*reversed(written), *written):
        SERVICE.apply(bench.state, emit.topic, emit.key, emit.event)
    assert bench.state.targets["Node/n1"].tasks["Pod/default/web"] == task
    assert bench.state.timers == timers


def test_many_bindings_share_one_verdict_and_come_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    for number in range(50):
        bench.bind(tolerate("k1", 3 if number % 2 else 5), name=f"p{number:02}")
    calls = []

    def counted(taints: Sequence[Taint], tolerations: Sequence[Toleration], **options: Any) -> Verdict:
        calls.append(tolerations)
        return verdict(taints, tolerations, **options)

    monkeypatch.setattr(import_module("moorage.workers.eviction.bound_targets"), "verdict", counted)
    bench.taints(K1)
    assert len(calls) == 2
    names = [emit.event.workload.name for emit in bench.emits if isinstance(emit.event, EvictionDecided)]
    assert names == [f"p{number:02}" for number in range(50)]


def test_equal_tolerations_and_owners_are_kept_once() -> None:
    bench = Bench()
    for number in range(3):
        bench.bind(tolerate("k1", 3), name=f"p{number}", owner="ReplicaSet/default/rs")
    kept = list(bench.state.targets["Node/n1"].bindings.values())
    assert len({id(binding.tolerations) for binding in kept}) == 1
    assert len({id(binding.owner) for binding in kept}) == 1


def test_the_reconciler_is_quiet_and_follows_a_deadline_whose_timer_was_lost() -> None:
    bench = Bench()
    bench.bind(tolerate("k1", 3))
    bench.taints(K1)
    assert reconciled(bench, 2) == []
    assert reconciled(bench, 12.9) == [], "the timer has the first word"
    assert reconciled(bench, 13) == ["Requested#2 TolerationExpired", "timers tombstone"]
    assert reconciled(bench, 14) == []


def test_a_timer_id_is_never_used_again() -> None:
    bench = Bench()
    bench.taints(K1)
    bench.bind(tolerate("k1", 3), generation=1)
    first = [emit.key for emit in bench.emits if emit.topic is TIMERS]
    bench.unbind()
    bench.bind(tolerate("k1", 3), generation=2)
    second = [emit.key for emit in bench.emits if emit.topic is TIMERS]
    assert (first, second) == ([TIMER_ID], [f"evict|{WEB}|2"])


def test_whoever_takes_a_partition_over_evicts_what_has_just_come_due() -> None:
    """The previous owner may have read the timer's record without deciding on it."""
    bench = Bench()
    bench.bind(tolerate("k1", 3))
    bench.taints(K1)
    bench.state.begun = False
    assert told(wake(SERVICE, bench.state, at(2.9))) == []
    bench.state.begun = False
    assert told(wake(SERVICE, bench.state, at(3.1))) == ["Requested#2 TolerationExpired", "timers tombstone"]


def reconciled(bench: Bench, time: float) -> list[str]:
    """The records of a round of the reconciler, and of the wake that follows at once."""
    return told(SERVICE.reconcile(bench.state, at(time)) + wake(SERVICE, bench.state, at(time)))


def early() -> Bench:
    """A timer whose clock is ten minutes ahead has fired: the eviction is due at 600 s, and it is 1 s."""
    bench = Bench()
    bench.bind(tolerate("k1", 600))
    assert bench.taints(K1) == ["Scheduled#1 until 600 TolerationEnds", "timer#1 600"]
    bench.time = 1
    assert bench.fire(1, 600, fired=601) == []
    assert SERVICE.next_wake(bench.state) == at(600), "the timer does not fire again"
    return bench


def test_an_early_timer_requests_nothing_before_the_deadline_by_this_clock() -> None:
    bench = early()
    assert told(wake(SERVICE, bench.state, at(599.9))) == []
    bench.emits = wake(SERVICE, bench.state, at(600.1))
    assert told(bench.emits) == ["Requested#2 TolerationExpired", "timers tombstone"]
    assert bench.decided.decided_time == bench.decided.requested_time == at(600), "the time of the deadline"
    assert not bench.state.early


def test_an_early_timer_of_a_deadline_that_moves_counts_no_more() -> None:
    lifted, moved, ended = early(), early(), early()
    assert lifted.taints() == ["Cancelled#2 TaintRemoved", "timer#2 off"]
    assert moved.bind(tolerate("k1", 900), revision=2) == ["Scheduled#2 until 900 TolerationEnds", "timer#2 900"]
    assert ended.unbind() == ["timers tombstone", "Cancelled#2 BindingEnded"]
    for bench in (lifted, moved, ended):
        assert told(wake(SERVICE, bench.state, at(700))) == []


def test_what_cannot_wait_does_not_wait_for_the_deadline_of_an_early_timer() -> None:
    bench = early()
    assert bench.taints(K1, K2) == ["Requested#2 UntoleratedTaint", "timers tombstone"]
    assert told(wake(SERVICE, bench.state, at(700))) == []


def test_taints_of_a_clock_that_is_ahead_make_nothing_due() -> None:
    """Their record's time is after the deadline, which has not come. The timer is set, and decides."""
    bench = Bench()
    bench.bind(tolerate("k1", 600))
    bench.count += 1
    event = TargetTainted(
        target=node("n1"),
        target_uid="u1",
        generation=1,
        taints=(TaintRecord(key="k1", effect="NoExecute", time_added=T0, origins=(TaintOrigin.EXPLICIT,)),),
    )
    ahead = record(TAINTS, "Node/n1", event, id="e9", time=at(601))
    assert told(decide(SERVICE, bench.state, [ahead], at(1))) == ["Scheduled#1 until 600 TolerationEnds", "timer#1 600"]
    bench.time = 600
    assert bench.fire(1, 600) == ["Requested#2 TolerationExpired", "timers tombstone"]
