"""Properties of rollouts. That they equal OCM's is tested on vectors in `tests/conformance`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tables import table

from moorage.decide.rollouts.evaluation import RolloutProgress, RolloutState, RolloutStep, evaluate_rollout
from moorage.decide.rollouts.strategy import Amount, GroupKey, RolloutTerms, RolloutType, StrategyError

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = tuple(f"c{number}" for number in range(8))

amounts = st.one_of(st.integers(0, 9), st.sampled_from(("0%", "10%", "34%", "50%", "100%")))
terms = st.builds(
    RolloutTerms.of,
    st.sampled_from(tuple(RolloutType)),
    min_success=st.sampled_from(("", "30s", "2m")),
    deadline=st.sampled_from(("", "None", "60s", "5m")),
    max_failures=amounts,
    max_concurrency=amounts,
    mandatory=st.lists(st.tuples(st.sampled_from(("", "canary")), st.integers(0, 2)), max_size=2),
)


@st.composite
def groups(draw: st.DrawFn) -> dict[GroupKey, frozenset[str]]:
    """Groups with indexes from 0, among which all clusters are divided."""
    names = draw(st.lists(st.sampled_from(("canary", "")), min_size=1, max_size=3))
    found: dict[GroupKey, set[str]] = {GroupKey(index, name): set() for index, name in enumerate(names)}
    for name in NAMES:
        found[draw(st.sampled_from(sorted(found)))].add(name)
    return {key: frozenset(clusters) for key, clusters in found.items()}


progress = st.lists(
    st.builds(
        RolloutProgress,
        st.sampled_from((*NAMES, "gone")),
        st.sampled_from(tuple(RolloutState)),
        since=st.integers(-400, 0).map(lambda seconds: NOW + timedelta(seconds=seconds)),
    ),
    unique_by=lambda one: one.name,
)


def names(step: RolloutStep) -> set[str]:
    return {one.name for one in step.roll_out}


@settings(deadline=None, max_examples=200)
@given(terms, groups(), progress)
def test_every_step_keeps_the_strategy(
    made: RolloutTerms, divided: dict[GroupKey, frozenset[str]], known: list[RolloutProgress]
) -> None:
    step = evaluate_rollout(made, divided, known, NOW)
    states = {one.name: one.state for one in known}
    released = {one.name for one in step.roll_out if one.state is RolloutState.TO_APPLY}
    # Only selected clusters take part, each of them once.
    assert [one.name for one in step.removed] == [one.name for one in known if one.name == "gone"]
    assert len(names(step)) == len(step.roll_out)
    assert names(step) | {one.name for one in step.timed_out} <= set(NAMES)
    assert not names(step) & {one.name for one in step.timed_out}
    # Finished clusters do not get the workload again.
    assert all(states.get(name, RolloutState.TO_APPLY) is RolloutState.TO_APPLY for name in released)
    # The next instant is ahead, and it is the first at which anything can change.
    rechecks = [one.recheck for one in step.roll_out if one.recheck is not None]
    assert step.next_time == min((one for one in rechecks if one > NOW), default=None)
    assert evaluate_rollout(made, divided, known, NOW) == step
    if step.next_time is not None:
        earlier = evaluate_rollout(made, divided, known, step.next_time - timedelta(microseconds=1))
        assert earlier == step
    if step.breached and made.type is RolloutType.PROGRESSIVE and not made.mandatory:
        assert not {name for name in released if name not in states}


@settings(deadline=None, max_examples=100)
@given(terms, groups())
def test_a_rollout_without_failures_reaches_every_cluster(
    made: RolloutTerms, divided: dict[GroupKey, frozenset[str]]
) -> None:
    now, done = NOW, dict[str, RolloutProgress]()
    for _ in range(2 * len(NAMES) + 2):
        step = evaluate_rollout(made, divided, done.values(), now)
        if not step.roll_out:
            break
        for one in step.roll_out:
            done.setdefault(one.name, RolloutProgress(one.name, RolloutState.SUCCEEDED, one.group, now))
        now = step.next_time or now
    assert set(done) == set(NAMES)
    assert evaluate_rollout(made, divided, done.values(), now) == RolloutStep()


@settings(deadline=None, max_examples=100)
@given(groups(), st.sampled_from(tuple(RolloutType)[1:]))
def test_a_bad_canary_stops_at_its_group(divided: dict[GroupKey, frozenset[str]], kind: RolloutType) -> None:
    canary = min(divided)
    if not divided[canary]:
        return
    made = RolloutTerms.of(kind, max_failures="50%", mandatory=[("", 0)], deadline="60s")
    bad = min(divided[canary])
    known = [RolloutProgress(name, RolloutState.SUCCEEDED, canary, NOW) for name in divided[canary] - {bad}]
    failed = RolloutProgress(bad, RolloutState.FAILED, canary, NOW)
    before = evaluate_rollout(made, divided, [*known, failed], NOW)
    assert names(before) == {bad}
    assert before.breached
    assert before.next_time == NOW + timedelta(seconds=60)
    after = evaluate_rollout(made, divided, [*known, failed], NOW + timedelta(seconds=60))
    assert [one.name for one in after.timed_out] == [bad]
    assert not after.roll_out


@table(
    ("value", "total", "default", "count"),
    [
        (50, 100, 100, 50),
        ("30%", 100, 100, 30),
        ("30%", 7, 7, 3),
        (0, 100, 100, 100),
        (101, 100, 100, 100),
        ("200%", 100, 100, 100),
        ("-5%", 100, 0, 0),
        ("inf%", 100, 100, 100),
        ("nan%", 100, 100, 100),
    ],
)
def test_amounts(value: int | str, total: int, default: int, count: int) -> None:
    assert Amount.of(value, "maxConcurrency").of_total(total, default) == count


@table(
    ("fields", "error"),
    [
        ({"type": "Most"}, 'type: Invalid value: "Most": must be one of All, Progressive, ProgressivePerGroup'),
        (
            {"type": "All", "deadline": "2d"},
            'all.progressDeadline: Invalid value: "2d": must be a duration such as 90s, 5m or 1h30m, or None',
        ),
        (
            {"type": "Progressive", "max_concurrency": "3"},
            'progressive.maxConcurrency: Invalid value: "3": must be a number of clusters or a percentage such as 25%',
        ),
        (
            {"type": "ProgressivePerGroup", "min_success": "9000000h"},
            (
                'progressivePerGroup.minSuccessTime: Invalid value: "9000000h": '
                "must be a duration such as 90s, 5m or 1h30m"
            ),
        ),
    ],
)
def test_invalid_strategies(fields: dict[str, Any], error: str) -> None:
    with pytest.raises(StrategyError) as raised:
        RolloutTerms.of(**fields)
    assert str(raised.value) == error
