"""Counts that are kept as things change, and the values that a process shows."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from moorage.runtime.measures import OTHER, Contribution, FleetGauge, LabelLimits, Measure, SeriesTally, merged

COUNT = FleetGauge("things", "Things", ("color",), limits={"color": 2})
OLDEST = FleetGauge("oldest", "The oldest thing", ("color",), min)
NOW = datetime(2026, 1, 1, tzinfo=UTC)

THING = st.tuples(st.sampled_from("rgb"), st.integers(0, 3))
"""A colour and an age."""


def counted(things: dict[str, tuple[str, int]], key: str) -> list[Contribution]:
    if key not in things:
        return []
    color, age = things[key]
    return [Contribution(COUNT, (color,)), Contribution(OLDEST, (color,), NOW - timedelta(seconds=age))]


def values(measures: list[Measure]) -> dict[tuple[str, str], float]:
    return {(measure.gauge.name, measure.labels[0]): measure.value for measure in measures}


def settled(
    tally: SeriesTally[str], things: dict[str, tuple[str, int]], limit: int = 1_000
) -> dict[tuple[str, str], float]:
    while not tally.settle(partial(counted, things), limit):
        pass
    return values(list(tally.measures()))


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.none() | THING, st.booleans())), st.integers(1, 3))
def test_a_tally_equals_a_walk_over_the_state_whenever_it_is_read(
    changes: list[tuple[str, tuple[str, int] | None, bool]], limit: int
) -> None:
    things: dict[str, tuple[str, int]] = {}
    tally: SeriesTally[str] = SeriesTally()
    for key, thing, read in changes:
        if thing is None:
            things.pop(key, None)
            tally.end(key)
        else:
            things[key] = thing
            tally.touch(key)
        if read:
            settled(tally, things, limit)
    walk: dict[tuple[str, str], float] = {}
    for color, number in Counter(color for color, _ in things.values()).items():
        walk["things", color] = number
        oldest = max(age for other, age in things.values() if other == color)
        walk["oldest", color] = (NOW - timedelta(seconds=oldest)).timestamp()
    assert settled(tally, things, limit) == walk


def test_nothing_is_kept_of_what_ends_before_it_is_counted() -> None:
    tally: SeriesTally[str] = SeriesTally()
    tally.touch("a")
    tally.end("a")
    assert tally.settle(partial(counted, {}), 0), "nothing is left to count"


def test_a_portion_counts_no_more_than_its_limit() -> None:
    things = {str(number): ("r", 0) for number in range(5)}
    tally: SeriesTally[str] = SeriesTally()
    for key in things:
        tally.touch(key)
    assert not tally.settle(partial(counted, things), 3)
    assert values(list(tally.measures()))["things", "r"] == 3
    assert tally.settle(partial(counted, things), 3)
    assert values(list(tally.measures()))["things", "r"] == 5


def test_values_of_partitions_are_merged_by_their_metric() -> None:
    found = merged(
        [Measure(COUNT, ("r",), 2), Measure(OLDEST, ("r",), 7), Measure(COUNT, ("r",), 3), Measure(OLDEST, ("r",), 4)],
        LabelLimits(),
    )
    assert found == {COUNT: {("r",): 5}, OLDEST: {("r",): 4}}


def test_values_of_a_label_beyond_its_limit_are_other_and_a_shown_one_stays_while_it_exists() -> None:
    limits = LabelLimits()

    def shown(**counts: int) -> dict[tuple[str, ...], float]:
        return merged([Measure(COUNT, (name,), count) for name, count in counts.items()], limits)[COUNT]

    assert shown(r=1, g=2) == {("r",): 1, ("g",): 2}
    assert shown(a=1, b=4, r=1, g=2) == {("r",): 1, ("g",): 2, (OTHER,): 5}
    assert shown(a=1, b=4, g=2) == {("g",): 2, ("a",): 1, (OTHER,): 4}
