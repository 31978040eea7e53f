"""Timers: due at or after their time, once for each generation, in any order of records."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from moorage.decide.timers.timer_table import Timer, TimerTable

T0 = datetime(2026, 1, 1, tzinfo=UTC)
TARGET = Raw(b'{"kind":"Node","name":"n1"}')
MANY = 1000
TICK = timedelta(microseconds=1)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def timer(name: str, generation: int, seconds: float | None) -> Timer:
    return Timer(
        id=name,
        target=TARGET,
        target_key="Node/n1",
        owner="test",
        generation=generation,
        deadline=None if seconds is None else at(seconds),
        subject="",
        correlation_id="",
    )


def due(table: TimerTable, seconds: float) -> list[tuple[str, int]]:
    return [(found.id, found.generation) for found in table.take_due(at(seconds), MANY)]


def test_it_is_due_at_its_deadline_and_not_a_microsecond_before() -> None:
    table = TimerTable()
    table.set(timer("a", 1, 5))
    assert table.take_due(at(5) - TICK, MANY) == []
    assert due(table, 5) == [("a", 1)]


def test_it_is_taken_once_and_is_over_when_it_has_fired() -> None:
    table = TimerTable()
    table.set(timer("a", 1, 5))
    assert due(table, 6) == [("a", 1)]
    assert due(table, 7) == []
    table.fired("a", 1)  # its own record, read again
    assert due(table, 8) == []
    assert table.next_deadline() is None


def test_those_that_are_not_taken_stay_due() -> None:
    table = TimerTable()
    for name in ("c", "a", "b"):
        table.set(timer(name, 1, 5))
    assert [found.id for found in table.take_due(at(6), 2)] == ["a", "b"]
    assert table.next_deadline() == at(5)
    assert due(table, 6) == [("c", 1)]


def test_the_earliest_comes_first_then_by_id() -> None:
    table = TimerTable()
    for name, seconds in (("c", 2), ("b", 1), ("a", 2)):
        table.set(timer(name, 1, seconds))
    assert table.next_deadline() == at(1)
    assert due(table, 9) == [("b", 1), ("a", 1), ("c", 1)]


def test_a_higher_generation_moves_it_and_a_lower_or_equal_one_is_ignored() -> None:
    table = TimerTable()
    assert table.set(timer("a", 2, 5))
    assert not table.set(timer("a", 2, 1))
    assert not table.set(timer("a", 1, 1))
    assert table.next_deadline() == at(5)
    assert table.set(timer("a", 3, 9))
    assert due(table, 8) == []
    assert due(table, 9) == [("a", 3)]


def test_a_cancelled_one_is_never_due_and_may_be_set_again() -> None:
    table = TimerTable()
    table.set(timer("a", 1, 5))
    table.set(timer("a", 2, None))
    assert due(table, 9) == []
    table.set(timer("a", 3, 6))
    assert due(table, 9) == [("a", 3)]


def test_a_removed_one_is_forgotten() -> None:
    table = TimerTable()
    table.set(timer("a", 1, 5))
    table.remove("a")
    assert due(table, 9) == []
    assert len(table) == 0


def test_what_has_fired_may_be_known_before_the_timer() -> None:
    table = TimerTable()
    table.fired("a", 2)
    table.set(timer("a", 2, 5))
    assert due(table, 9) == []
    table.set(timer("a", 3, 5))
    assert due(table, 9) == [("a", 3)]


def test_fired_generations_of_unknown_timers_are_dropped_and_those_of_known_ones_kept() -> None:
    table = TimerTable()
    table.set(timer("known", 1, 5))
    table.fired("known", 1)
    table.fired("gone", 4)
    table.forget_orphans()
    assert due(table, 9) == []
    table.set(timer("gone", 1, 5))
    assert due(table, 9) == [("gone", 1)]


def test_a_generation_that_has_fired_stays_fired_when_the_timer_moves() -> None:
    table = TimerTable()
    table.set(timer("a", 1, 5))
    table.fired("a", 3)
    table.set(timer("a", 2, 5))
    table.set(timer("a", 3, 5))
    assert due(table, 9) == []
    table.set(timer("a", 4, 5))
    assert due(table, 9) == [("a", 4)]


def test_superseded_entries_do_not_pile_up() -> None:
    table = TimerTable()
    for generation in range(1, 5001):
        table.set(timer("a", generation, generation))
    assert len(table._deadlines) < 200
    assert due(table, 5000) == [("a", 5000)]


moves = st.lists(
    st.tuples(
        st.sampled_from(["set", "set", "set", "cancel", "remove", "fired", "look", "look back"]),
        st.sampled_from("abcdefgh"),
        st.integers(1, 6),
        st.integers(0, 20),
        st.sampled_from([1, 2, MANY]),
    ),
    max_size=80,
)


@given(moves)
def test_against_a_list_that_is_searched(steps: list[tuple[str, str, int, int, int]]) -> None:
    table = TimerTable()
    known: dict[str, Timer] = {}
    done: dict[str, int] = {}
    now = 0
    for verb, name, generation, seconds, limit in steps:
        if verb in {"set", "cancel"}:
            event = timer(name, generation, seconds if verb == "set" else None)
            table.set(event)
            if name not in known or known[name].generation < generation:
                known[name] = event
        elif verb == "remove":
            table.remove(name)
            known.pop(name, None)
            done.pop(name, None)
        elif verb == "fired":
            table.fired(name, generation)
            done[name] = max(generation, done.get(name, 0))
        else:
            now += seconds if verb == "look" else -1
            live = [e for e in known.values() if e.deadline is not None and done.get(e.id, 0) < e.generation]
            waiting = sorted((e.deadline, e.id) for e in live if e.deadline is not None)
            expected = [entry for entry in waiting if entry[0] <= at(now)][:limit]
            found = table.take_due(at(now), limit)
            assert [(f.deadline, f.id) for f in found] == expected
            done |= {f.id: f.generation for f in found}
            left = waiting[len(expected) :]
            assert table.next_deadline() == (left[0][0] if left else None)


def test_a_storm_is_taken_in_order_while_timers_are_set() -> None:
    table = TimerTable()
    for number in range(1000):
        table.set(timer(f"{number * 7919 % 1000:04}", 1, number // 10))
    taken: list[tuple[str, int]] = []
    for call in range(120):
        if call == 50:
            table.set(timer("earlier", 1, -5))
            assert table.next_deadline() == at(-5)
        taken += [(found.id, found.generation) for found in table.take_due(at(100), 10)]
    assert len(taken) == 1001
    assert taken.pop(500) == ("earlier", 1)
    assert taken == sorted(taken, key=lambda one: (int(one[0]) * 679 % 1000 // 10, one[0]))
    assert table.next_deadline() is None
