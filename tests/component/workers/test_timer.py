"""timer: what it fires, when, and which cause it names."""

from __future__ import annotations

from datetime import datetime, timedelta

from tests.support.worlds.flow import START, Crash, Flow

from moorage.runtime.settings.process_settings import Settings
from moorage.workers import timer
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.timer import SetTimer
from moorage_schemas.topics import TIMER_FIRED, TIMERS

NODE = TargetRef(kind=TargetKind.NODE, name="n1")


def make_flow() -> Flow:
    return Flow([timer.service(Settings())], partitions=2)


def put(flow: Flow, generation: int, deadline: datetime | None, *, name: str = "t") -> None:
    event = SetTimer(
        id=name,
        target=NODE,
        owner="somebody",
        generation=generation,
        deadline=deadline,
        subject="what it is about",
        correlation_id="chain",
    )
    flow.produce(TIMERS, name, event, partition_key=NODE.key)


def fired(flow: Flow) -> list[tuple[str, int, datetime]]:
    return [(event.id, event.generation, event.fired_time) for event in flow.events(TIMER_FIRED)]


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def test_it_fires_at_its_time_with_all_that_its_owner_needs() -> None:
    flow = make_flow()
    put(flow, 1, at(5))
    flow.advance_to(at(5) - timedelta(microseconds=1))
    assert fired(flow) == []
    flow.advance_to(at(5))
    (record,) = flow.records(TIMER_FIRED)
    event = record.event
    assert (event.id, event.owner, event.generation, event.subject) == ("t", "somebody", 1, "what it is about")
    assert (event.deadline, event.fired_time) == (at(5), at(5))
    assert (record.name, record.partition) == ("t", flow.partition(NODE.key))
    assert record.meta.correlation == "chain"
    flow.advance(100)
    assert len(fired(flow)) == 1


def test_a_deadline_in_the_past_fires_at_once() -> None:
    flow = make_flow()
    put(flow, 1, at(-100))
    flow.run()
    assert fired(flow) == [("t", 1, START)]


def test_moved_later_and_earlier() -> None:
    flow = make_flow()
    put(flow, 1, at(5))
    put(flow, 2, at(9))
    flow.advance_to(at(8))
    assert fired(flow) == []
    put(flow, 3, at(8.5))
    flow.advance_to(at(60))
    assert fired(flow) == [("t", 3, at(8.5))]


def test_cancelled_and_tombstoned_ones_do_not_fire() -> None:
    flow = make_flow()
    put(flow, 1, at(5), name="cancelled")
    put(flow, 2, None, name="cancelled")
    put(flow, 1, at(5), name="gone")
    flow.run()
    flow.produce(TIMERS, "gone", None, partition_key=NODE.key)
    flow.advance(60)
    assert fired(flow) == []


def test_a_lower_generation_that_comes_late_is_ignored() -> None:
    flow = make_flow()
    put(flow, 2, at(9))
    put(flow, 1, at(5))
    flow.advance(60)
    assert fired(flow) == [("t", 2, at(9))]


def test_a_timer_may_be_set_again_after_it_has_fired() -> None:
    flow = make_flow()
    put(flow, 1, at(5))
    flow.advance_to(at(6))
    put(flow, 1, at(7))
    put(flow, 2, at(8))
    flow.advance_to(at(60))
    assert fired(flow) == [("t", 1, at(5)), ("t", 2, at(8))]


def test_crashes_neither_lose_nor_double_it_and_its_id_stays() -> None:
    ids = set()
    for when in (None, *Crash):
        flow = make_flow()
        put(flow, 1, at(5))
        flow.run()
        flow.crash_process("timer")
        flow.compact()
        flow.now = at(5)
        flow.step("timer", flow.partition(NODE.key), crash=when)
        flow.advance(60)
        assert len(fired(flow)) == 1
        ids.add(flow.records(TIMER_FIRED)[0].meta.id)
    assert len(ids) == 1


def test_one_that_came_due_while_nobody_was_there_fires_late_not_never() -> None:
    flow = make_flow()
    put(flow, 1, at(5))
    flow.run()
    flow.crash_process("timer")
    flow.now = at(500)
    flow.run()
    assert fired(flow) == [("t", 1, at(500))]


def test_what_has_fired_is_known_after_a_restart() -> None:
    flow = make_flow()
    put(flow, 1, at(5))
    flow.advance_to(at(6))
    flow.crash_process("timer")
    flow.redeliver("timer", TIMERS, flow.partition(NODE.key))
    flow.advance(60)
    assert fired(flow) == [("t", 1, at(5))]
