"""Ticks and storms: when a node may be granted, and that no more nodes are tainted than upstream taints."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tables import table
from tests.unit.disruption.test_zones import DEFAULT, START, World, fleet

from moorage.decide.disruption.zones import ZoneRules

SECOND = 1_000_000
PERIOD = 5 * SECOND


def at(micros: int) -> datetime:
    return START + timedelta(microseconds=micros)


@table(
    ("period", "since", "tick"),
    [
        (5, 0, 5),
        (5, 0.000001, 5),
        (5, 4.999999, 5),
        (5, 5, 10),
        (0.5, 12.3, 12.5),
        (0.1, 0.25, 0.3),
        (7, 1, 7 - 1767225600 % 7),  # the ticks count from the epoch
        (0, 3.3, 3.3),
    ],
)
def test_a_node_waits_for_the_first_tick_after_its_incident_has_begun(period: float, since: float, tick: float) -> None:
    rules = ZoneRules(math.inf, math.inf, 0.55, 0, timedelta(seconds=period))
    world = fleet({"a": 3}, rules)
    world.advance(since)
    world.fail("a0")
    world.decide()
    assert world.granted() == ([] if period else ["a0"])
    assert world.table.next_wake() == (START + timedelta(seconds=tick) if period else None)
    world.restart()
    world.advance(8)
    assert [when for when, *_ in world.said] == [START + timedelta(seconds=tick)]


def test_a_tick_judges_the_zone_as_a_whole() -> None:
    world = fleet({"a": 10, "well": 1})
    world.fail("a0")
    world.advance(4.8)
    world.fail(*(f"a{number}" for number in range(1, 6)))
    world.advance(100)
    assert world.granted() == [], "by its tick, the zone of the first node is in partial disruption"


def test_a_node_that_is_read_after_its_tick_is_granted_by_what_is_known_then() -> None:
    world = fleet({"a": 10, "b": 10})
    world.advance(6)
    for name in ("a0", *(f"b{number}" for number in range(6))):
        world.member(name, ready=False, incident=world.members[name].generation + 1, since=at(4 * SECOND))
    world.advance(0)
    assert world.granted() == ["a0"]


def test_the_mean_wait_is_half_a_period() -> None:
    waits = []
    for number in range(100):
        since = number * 50_000 + 25_000
        world = fleet({"a": 3})
        world.advance(since / SECOND)
        world.fail("a0")
        world.advance(6)
        waits.append((world.said[0][0] - at(since)).total_seconds())
    assert sum(waits) / len(waits) == pytest.approx(2.5)
    assert max(waits) < 5


@dataclass
class Upstream:
    """A zone as the node lifecycle controller sees it: its picture, its rate and its queue change at ticks alone.

    Its pass that taints is taken to run all the time; it runs every 0.1 s. A bucket of one token is the time from which
    it is whole. Source: pkg/controller/nodelifecycle (monitorNodeHealth, handleDisruption, RateLimitedTimedQueue).
    """

    nodes: int
    rules: ZoneRules
    tainted: list[int] = field(default_factory=list)
    """When nodes were tainted, in microseconds."""

    rate: float = field(init=False)
    whole_at: float = 0.0

    def __post_init__(self) -> None:
        self.rate = self.rules.rate

    def play(self, failures: list[int], until: int) -> list[int]:
        """Let nodes fail, and return when nodes are tainted."""
        for tick in range(0, until, PERIOD):
            known = [when for when in failures if when < tick]
            rate = self.rules.rate_of(self.rules.state(self.nodes, len(known)), self.nodes)
            if rate != self.rate:
                had = self.whole_at <= tick
                self.whole_at = math.inf if not rate else tick if had else tick + SECOND / rate
                self.rate = rate
            while len(self.tainted) < len(known) and max(tick, self.whole_at) < tick + PERIOD:
                when = round(max(tick, self.whole_at))
                self.tainted.append(when)
                self.whole_at = when + SECOND / self.rate
        return self.tainted


def stricken(failures: list[int], lags: list[int], nodes: int, rules: ZoneRules = DEFAULT) -> World:
    """A zone of which nodes fail, each of which is read some time later, beside a node that is well."""
    world = fleet({"a": nodes, "well": 1}, rules)
    reads = sorted(
        (when + lag, when, f"a{number}") for number, (when, lag) in enumerate(zip(failures, lags, strict=True))
    )
    for read, when, name in reads:
        world.advance(max(0.0, (at(read) - world.now).total_seconds()))
        world.member(name, ready=False, incident=world.members[name].generation + 1, since=at(when))
        world.decide()
    return world


def off_tick(micros: int) -> int:
    """The time, or a microsecond later: whether a tick sees what happens in the same microsecond is open in both."""
    return micros + (micros % PERIOD == 0)


sizes = st.sampled_from([4, 5, 10, 20, 50, 51, 80])
fractions = st.sampled_from([0.1, 0.4, 0.54, 0.6, 0.9])
moments = st.lists(st.integers(0, PERIOD - 1), min_size=80, max_size=80)


@settings(max_examples=60)
@given(sizes, st.tuples(fractions, st.sampled_from([0.1, 1.0, 10.0])), st.integers(0, PERIOD), moments)
def test_a_storm_within_one_period_taints_no_more_nodes_than_upstream(
    nodes: int, drawn: tuple[float, float], begin: int, spread: list[int]
) -> None:
    fraction, rate = drawn
    rules = replace(DEFAULT, rate=rate)
    failures = sorted(off_tick(begin + moment) for moment in spread[: math.ceil(nodes * fraction)])
    world = stricken(failures, [0] * len(failures), nodes, rules)
    world.advance(95 - (world.now - START).total_seconds())
    ours = [(when - START) // timedelta(microseconds=1) for when, *_ in world.said]
    theirs = Upstream(nodes, rules).play(failures, 100 * SECOND)
    for number, when in enumerate(ours):
        assert when >= (theirs[number] if number < len(theirs) else 100 * SECOND), "no node earlier"


@table(
    ("last", "granted"),
    [
        (4_999_999, 5_000_000),
        (5_000_001, 20_000_000),
    ],
)
def test_a_rate_that_rises_counts_from_the_next_tick(last: int, granted: int) -> None:
    failures = [1, 1, 1, last]  # the last node of a zone ends its partial disruption
    world = stricken(failures, [0] * 4, 4)
    world.advance(30)
    assert (world.said[0][0] - START) // timedelta(microseconds=1) == granted
    assert Upstream(4, DEFAULT).play(failures, 100 * SECOND)[0] == granted


def test_a_rate_that_rises_twice_before_a_tick_keeps_its_token() -> None:
    world = fleet({"a": 4, "well": 1})
    for step in (("a0", "a1", "a2"), ("a3",)):  # partial, then full
        world.fail(*step)
        world.decide()
    world.recover("a3")
    world.decide()
    world.fail("a3")
    world.advance(6)
    assert [(when - START).total_seconds() for when, *_ in world.said] == [5]


@settings(max_examples=40)
@given(sizes, st.integers(0, PERIOD), moments, st.lists(st.integers(0, 2 * SECOND), min_size=80, max_size=80))
def test_a_storm_whose_nodes_are_read_late_costs_a_zone_one_node_at_most(
    nodes: int, begin: int, spread: list[int], lags: list[int]
) -> None:
    count = math.ceil(nodes * 0.6)
    failures = sorted(off_tick(begin + moment) for moment in spread[:count])
    world = stricken(failures, lags[:count], nodes)
    world.advance(90 - (world.now - START).total_seconds())
    assert len(world.granted()) <= 1
