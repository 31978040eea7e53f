"""Buckets of one token: exact to the microsecond, never above their rate, and unchanged by a restore."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.tables import table

from moorage.decide.disruption.token_bucket import NO_LIMIT, Bucket

START = datetime(2026, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

rates = st.sampled_from([0.0, 0.001, 0.01, 0.1, 0.3, 0.5, 1.0, 3.0, 7.3, 1000.0, 2_000_000.0, NO_LIMIT])


@pytest.mark.parametrize(
    ("rate", "seconds"),
    [(0.1, "10"), (0.01, "100"), (0.3, "3.333334"), (0.5, "2"), (3.0, "0.333334"), (1e9, "0.000001")],
)
def test_the_next_token_comes_at_an_exact_instant(rate: float, seconds: str) -> None:
    drained = Bucket.full(rate, START).take(START)
    due = START + timedelta(microseconds=int(Fraction(seconds) * 1_000_000))
    assert drained.next_token() == due
    assert drained.has_token(due)
    assert not drained.has_token(due - MICROSECOND)


def test_a_full_bucket_gives_one_at_once_and_never_saves_a_second() -> None:
    bucket = Bucket.full(0.1, START)
    late = START + timedelta(days=30)
    assert bucket.next_token() == START
    assert bucket.take(late).next_token() == late + timedelta(seconds=10)


def test_rate_zero_never_gives_and_no_limit_always_does() -> None:
    assert Bucket.full(0.0, START).next_token() is None
    assert not Bucket.full(0.0, START).has_token(START + timedelta(days=9999))
    free = Bucket.full(NO_LIMIT, START)
    assert free.take(START).take(START).has_token(START)
    assert free.take(START).next_token() == START


def test_a_rate_too_small_for_the_calendar_never_gives() -> None:
    assert Bucket.full(1e-300, START).take(START).next_token() is None
    assert Bucket.full(1e-9, START).take(START).next_token() == START + timedelta(seconds=1_000_000_000)


def test_a_part_of_a_token_counts() -> None:
    assert Bucket(0.1, 0.25, START).next_token() == START + timedelta(seconds=7.5)
    assert Bucket(0.1, 3.0, START).next_token() == START


@pytest.mark.parametrize(
    ("old", "drained", "new", "at_once"),
    [
        (0.1, False, 0.01, True),
        (0.1, True, 0.01, False),
        (0.01, True, 0.1, False),
        (0.0, False, 0.1, False),
        (NO_LIMIT, True, 0.1, True),
        (0.1, True, NO_LIMIT, True),
        (0.1, False, 0.0, False),
    ],
)
def test_another_rate_begins_empty_unless_a_whole_token_was_there(
    *, old: float, drained: bool, new: float, at_once: bool
) -> None:
    bucket = Bucket.full(old, START)
    if drained:
        bucket = bucket.take(START)
    now = START + timedelta(seconds=1)
    swapped = bucket.swap(new, now)
    assert swapped.has_token(now) is at_once
    if not at_once and new > 0:
        assert swapped.next_token() == now + timedelta(seconds=float(1 / Fraction(str(new))))


def test_a_token_that_nobody_asks_for_survives_a_rate_of_zero() -> None:
    stopped = Bucket.full(0.1, START).swap(0.0, START)
    later = START + timedelta(seconds=60)
    assert not stopped.has_token(later)
    assert stopped.swap(0.1, later, waited=False).has_token(later)
    assert not stopped.swap(0.1, later).has_token(later)
    drained = Bucket.full(0.1, START).take(START).swap(0.0, START)
    assert not drained.swap(0.1, later, waited=False).has_token(later)


@table(
    ("old", "new", "at"),
    [
        (0.1, 0.2, 5),
        (0.1, NO_LIMIT, 5),
        (0.1, 0.05, 0),
    ],
)
def test_a_higher_rate_begins_later(old: float, new: float, at: float) -> None:
    begins = START + timedelta(seconds=5)
    bucket = Bucket.full(old, START).swap(new, START, begins=begins)
    assert bucket.next_token() == START + timedelta(seconds=at)
    assert bucket.has_token(START) is (at == 0)
    assert bucket.has_token(begins)
    assert bucket.swap(0.01, START).has_token(START), "its token was not taken"


def test_the_same_rate_changes_nothing() -> None:
    bucket = Bucket.full(0.1, START).take(START)
    assert bucket.swap(0.1, START + timedelta(seconds=5)) is bucket


def test_a_clock_set_back_costs_no_more_than_one_token() -> None:
    ahead = Bucket.full(0.1, START).take(START + timedelta(days=365))
    assert ahead.not_after(START).next_token() == START + timedelta(seconds=10)
    assert ahead.not_after(ahead.time) is ahead


@given(st.lists(st.tuples(st.integers(0, 20_000_000), rates), min_size=2, max_size=60))
def test_no_interval_has_more_than_one_and_what_the_highest_rate_gives(steps: list[tuple[int, float]]) -> None:
    now, bucket = START, Bucket.full(steps[0][1], START)
    taken: list[datetime] = []
    valid: list[tuple[datetime, float]] = []
    for micros, rate in steps:
        now += timedelta(microseconds=micros)
        bucket = bucket.swap(rate, now, waited=micros % 2 == 0)
        bucket = Bucket(bucket.rate, bucket.tokens, bucket.time)  # as read back
        valid.append((now, rate))
        if bucket.has_token(now):
            due = bucket.next_token()
            assert due is not None
            assert due <= now
            bucket = bucket.take(now)
            taken.append(now)
    for first, begin in enumerate(taken):
        for count, end in enumerate(taken[first:], 1):
            highest = max(
                rate
                for (since, rate), until in zip(valid, [*(t for t, _ in valid[1:]), now], strict=True)
                if since <= end and until >= begin
            )
            if not math.isinf(highest):
                assert count <= 1 + Fraction(str(highest)) * Fraction((end - begin) // MICROSECOND, 1_000_000)
