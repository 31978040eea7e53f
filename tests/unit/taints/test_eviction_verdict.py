from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from tests.support.taint_strategies import START, TAINT_LISTS, TOLERATION_LISTS

from moorage.decide.taints.eviction_verdict import EvictAt, EvictNow, Keep, Tolerated, taint_text, verdict
from moorage.decide.taints.matching import first_match
from moorage_schemas.taint import Taint, Toleration

LATER = START + timedelta(seconds=60)
A = Taint(key="a", value="x", effect="NoExecute", time_added=START)
B = Taint(key="b", effect="NoExecute", time_added=LATER)


def exists(key: str = "", seconds: int | None = None) -> Toleration:
    return Toleration(key=key, operator="Exists", toleration_seconds=seconds)


def test_no_taint_that_evicts_keeps() -> None:
    other = Taint(key="a", effect="NoSchedule", time_added=START)
    assert verdict([other], []) == Keep((), "no taint evicts")


def test_an_untolerated_taint_evicts_now_and_all_are_named() -> None:
    found = verdict([A, B], [exists("c")])
    assert found == EvictNow((A, B), (), "untolerated taint a=x:NoExecute, b:NoExecute")


def test_untolerated_comes_before_any_deadline() -> None:
    found = verdict([A, B], [exists("a", 300)])
    assert isinstance(found, EvictNow)
    assert found.taints == (B,)


def test_the_deadline_runs_from_time_added() -> None:
    found = verdict([A], [exists("a", 300)])
    assert found == EvictAt(
        START + timedelta(seconds=300),
        A,
        exists("a", 300),
        "taint a=x:NoExecute is tolerated for 300 s, until 2026-01-01T00:05:00Z",
    )


def test_the_earliest_end_counts_and_not_the_shortest_time() -> None:
    found = verdict([A, B], [exists("a", 100), exists("b", 50)])
    assert isinstance(found, EvictAt)
    assert (found.deadline, found.taint) == (START + timedelta(seconds=100), A)


def test_only_the_first_matching_toleration_counts() -> None:
    assert isinstance(verdict([A], [exists("a"), exists("a", 5)]), Keep)
    assert isinstance(verdict([A], [exists("a", 5), exists("a")]), EvictAt)


@pytest.mark.parametrize("seconds", [0, -1, -(2**63)])
def test_zero_and_negative_seconds_mean_now(seconds: int) -> None:
    found = verdict([A, B], [exists("a", seconds), exists("b")])
    assert found == EvictNow((A,), (Tolerated(A, exists("a", seconds)),), "taint a=x:NoExecute is tolerated for 0 s")


def test_a_limit_beyond_the_calendar_is_no_limit() -> None:
    assert isinstance(verdict([A], [exists("a", 2**63 - 1)]), Keep)


def test_without_time_added_the_events_time_stands_in() -> None:
    bare = Taint(key="a", effect="NoExecute")
    found = verdict([bare], [exists("a", 30)], seen_at=START)
    assert isinstance(found, EvictAt)
    assert found.deadline == START + timedelta(seconds=30)
    with pytest.raises(ValueError, match="timeAdded: Required value: taint a:NoExecute"):
        verdict([bare], [exists("a", 30)])
    assert isinstance(verdict([bare], [exists("a")]), Keep)


def test_a_comparison_can_be_what_keeps() -> None:
    taint = Taint(key="sla", value="950", effect="NoExecute", time_added=START)
    toleration = Toleration(key="sla", operator="Gt", value="900")
    assert isinstance(verdict([taint], [toleration]), Keep)
    assert isinstance(verdict([taint], [toleration], comparison=False), EvictNow)


@given(TAINT_LISTS, TOLERATION_LISTS)
def test_what_a_verdict_rests_on(taints: list[Taint], tolerations: list[Toleration]) -> None:
    evicting = [taint for taint in taints if taint.effect == "NoExecute"]
    firsts = {taint.identity: first_match(taint, tolerations) for taint in evicting}
    found = verdict(taints, tolerations)
    seconds = {i: t.toleration_seconds for i, t in firsts.items() if t is not None}
    if isinstance(found, Keep):
        assert [pair.taint for pair in found.tolerated] == evicting
        assert all(value is None for value in seconds.values())
    elif isinstance(found, EvictAt):
        ends = [t.time_added + timedelta(seconds=s) for t in evicting if t.time_added and (s := seconds[t.identity])]
        assert found.deadline == min(ends)
        assert None not in firsts.values()
        assert all(value is None or value > 0 for value in seconds.values())
    elif found.tolerated:
        assert None not in firsts.values()
        assert all((pair.toleration.toleration_seconds or 0) <= 0 for pair in found.tolerated)
    else:
        assert set(found.taints) == {taint for taint in evicting if firsts[taint.identity] is None}
        assert found.taints


@given(TAINT_LISTS, TOLERATION_LISTS)
def test_taking_a_taint_away_never_brings_an_eviction_nearer(
    taints: list[Taint], tolerations: list[Toleration]
) -> None:
    def due(found: EvictNow | EvictAt | Keep) -> datetime:
        if isinstance(found, EvictNow):
            return datetime.min.replace(tzinfo=UTC)
        return found.deadline if isinstance(found, EvictAt) else datetime.max.replace(tzinfo=UTC)

    before = due(verdict(taints, tolerations))
    for i in range(len(taints)):
        assert due(verdict(taints[:i] + taints[i + 1 :], tolerations)) >= before


@pytest.mark.parametrize(
    ("taint", "text"),
    [
        (A, "a=x:NoExecute"),
        (B, "b:NoExecute"),
        (Taint(key="c", effect=""), "c"),
        (Taint(key="c", value="v", effect=""), "c=v:"),
    ],
)
def test_taints_read_as_kubectl_writes_them(taint: Taint, text: str) -> None:
    assert taint_text(taint) == text
