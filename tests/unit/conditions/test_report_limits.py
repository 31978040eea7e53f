"""Token buckets, and the limits of sources."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.apiserver.rules.validation.moorage import validate_probe_grant
from moorage.decide.conditions.report_limits import Rate, SourceLimits, TokenBuckets, check_report_size
from moorage_schemas.resources.probe_grants import ProbeGrantSpec, ProbeLimits

SECOND = 1_000_000
KEY = ("grant", "probe/disk")


def taken(buckets: TokenBuckets, rate: Rate, *times: float) -> list[bool]:
    return [buckets.take(KEY, rate, int(time * SECOND)) for time in times]


def test_a_bucket_gives_its_burst_at_once_and_then_its_rate() -> None:
    buckets, rate = TokenBuckets(10), Rate(2, 3)
    assert taken(buckets, rate, 0, 0, 0, 0) == [True, True, True, False]
    assert buckets.wait(KEY, rate, 0) == 0.5
    assert taken(buckets, rate, 0.4, 0.5, 0.6, 1.0) == [False, True, False, True]
    # After a long time it has no more than its burst.
    assert taken(buckets, rate, 100, 100, 100, 100) == [True, True, True, False]


@given(
    rate=st.builds(Rate, st.integers(1, 20), st.integers(1, 30)),
    steps=st.lists(st.integers(0, SECOND), max_size=60),
)
def test_no_time_sees_more_than_burst_and_rate_and_what_is_within_both_is_let_through(
    rate: Rate, steps: list[int]
) -> None:
    buckets, now, let = TokenBuckets(10), 0, list[int]()
    for step in steps:
        now += step
        earlier = [when for when in let if when + rate.burst * SECOND // rate.qps > now]
        if buckets.take(KEY, rate, now):
            let.append(now)
        else:
            assert len(earlier) >= 1
            assert buckets.wait(KEY, rate, now) > 0
        for first, when in enumerate(let):
            assert len(let) - first <= rate.burst + (now - when) * rate.qps / SECOND + 1e-6 * rate.burst * rate.qps


def test_a_trial_can_be_taken_back() -> None:
    buckets, rate = TokenBuckets(10), Rate(1, 2)
    assert taken(buckets, rate, 0) == [True]
    for _ in range(3):
        buckets.begin(0)
        assert taken(buckets, rate, 0, 0) == [True, False]
        buckets.end(keep=False)
    buckets.begin(0)
    assert taken(buckets, rate, 0) == [True]
    buckets.end(keep=True)
    assert taken(buckets, rate, 0) == [False]


def test_a_clock_that_is_set_back_and_a_smaller_burst_delay_by_one_bucket_at_most() -> None:
    buckets = TokenBuckets(10)
    assert all(taken(buckets, Rate(1, 100), *[1000.0] * 100))
    assert buckets.wait(KEY, Rate(1, 100), 0) == 1
    assert buckets.wait(KEY, Rate(1, 5), 1000 * SECOND) == 1


def test_keys_without_end_share_a_bucket_and_full_buckets_are_not_kept() -> None:
    buckets, rate = TokenBuckets(3), Rate(1, 1)
    for now in (0, 5 * SECOND):
        buckets.begin(now)
        found = [buckets.take(("g", f"probe/{number}"), rate, now) for number in range(6)]
        buckets.end(keep=True)
        assert found == [True, True, True, True, False, False]
        assert len(buckets) == 4


def test_a_size_counts_by_the_largest_of_the_limits() -> None:
    small, large = SourceLimits("a", max_bytes=10), SourceLimits("b", max_bytes=20)
    assert check_report_size(20, [small, large]) is None
    assert check_report_size(99, [small, SourceLimits("c")]) is None
    assert check_report_size(99, []) is None
    refusal = check_report_size(21, [small, large])
    assert refusal is not None
    assert refusal.message == "value: invalid value '21 bytes': must have at most 20 bytes, by the ProbeGrant 'b'"


def test_the_burst_is_ten_times_the_rate_if_it_is_not_set() -> None:
    assert SourceLimits.of("g", ProbeLimits(qps=3)).rate == Rate(3, 30)
    assert SourceLimits.of("g", ProbeLimits(qps=3, burst=5)).rate == Rate(3, 5)
    assert SourceLimits.of("g", ProbeLimits(max_bytes=5)).rate is None
    assert SourceLimits.of("g", None) == SourceLimits("g")


@pytest.mark.parametrize(
    ("limits", "errors"),
    [
        ({"qps": 1}, []),
        ({"qps": 1_000_000, "burst": 1, "maxBytes": 1}, []),
        ({"maxBytes": 100}, []),
        ({"qps": 0}, ["spec.limits.qps: Invalid value: 0: must be between 1 and 1000000"]),
        ({"qps": 1, "burst": -1}, ["spec.limits.burst: Invalid value: -1: must be between 1 and 1000000"]),
        ({"burst": 5}, ["spec.limits.qps: Required value: must be set if burst is"]),
        ({"maxBytes": 0}, ["spec.limits.maxBytes: Invalid value: 0: must be greater than or equal to 1"]),
    ],
)
def test_validation(limits: dict[str, Any], errors: list[str]) -> None:
    spec = {"source": "probe/disk", "targets": [{"kind": "Node"}], "conditions": ["Disk"], "limits": limits}
    assert list(map(str, validate_probe_grant(ProbeGrantSpec.model_validate(spec)))) == errors
