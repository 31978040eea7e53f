from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from moorage.decide.timers.deadline_index import DeadlineIndex

START = datetime(2026, 1, 1, tzinfo=UTC)
KEYS = st.sampled_from("abcdef")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), KEYS, st.integers(0, 20)),
        st.tuples(st.just("remove"), KEYS, st.just(0)),
        st.tuples(st.just("due"), st.just(""), st.integers(0, 20)),
    ),
    max_size=300,
)


def at(seconds: int) -> datetime:
    return START + timedelta(seconds=seconds)


@given(STEPS)
def test_it_is_a_table_of_deadlines(steps: list[tuple[str, str, int]]) -> None:
    index: DeadlineIndex[str] = DeadlineIndex()
    model: dict[str, datetime] = {}
    for what, key, seconds in steps:
        if what == "set":
            index.set(key, at(seconds))
            model[key] = at(seconds)
        elif what == "remove":
            index.remove(key)
            model.pop(key, None)
        else:
            due = sorted((end, key) for key, end in model.items() if end <= at(seconds))
            assert list(index.take_due(at(seconds))) == [(key, end) for end, key in due]
            for _, gone in due:
                del model[gone]
        assert index.next() == min(model.values(), default=None)
        assert len(index) == len(model)
        assert {one: index._at.get(one) for one in "abcdef"} == {one: model.get(one) for one in "abcdef"}


def test_deadlines_that_are_set_anew_all_the_time_take_no_room() -> None:
    index: DeadlineIndex[str] = DeadlineIndex()
    for number in range(10_000):
        index.set("a", at(number))
    assert len(index._heap) < 100
    assert list(index.take_due(at(9_999))) == [("a", at(9_999))]


def test_a_deadline_that_is_set_while_others_are_taken_is_seen() -> None:
    index: DeadlineIndex[str] = DeadlineIndex()
    index.set("a", at(1))
    seen = []
    for key, end in index.take_due(at(5)):
        seen.append((key, end))
        if key == "a":
            index.set("b", at(3))
    assert seen == [("a", at(1)), ("b", at(3))]


def test_the_first_is_the_earliest_that_is_left() -> None:
    index: DeadlineIndex[str] = DeadlineIndex()
    for key, second in (("late", 3), ("b", 1), ("a", 1)):
        index.set(key, at(second))
    assert index.first() == ("a", at(1))
    index.remove("a")
    assert index.first() == ("b", at(1))
    index.remove("b")
    index.remove("late")
    assert index.first() is None
