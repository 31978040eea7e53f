"""The comparison of a shadow run finds what differs, and gives a reason only where the records show it."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from tests.planes.shadow import evictions
from tests.planes.shadow.comparison import Comparer
from tests.planes.shadow.history import (
    DecidedEviction,
    DecidedPlacement,
    DecidedTaints,
    Histories,
    NodeHistory,
    NodeVersion,
    PodHistory,
    Span,
    apart,
    spans_of,
)
from tests.planes.shadow.reasons import Reason
from tests.planes.shadow.zones import ZoneClock

from moorage.conformance.deviations import Deviation
from moorage_schemas.placement import FilterResult
from moorage_schemas.taint import Taint, Toleration

BEGIN: Final = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
BOUND: Final = dt.timedelta(seconds=5)
KEY: Final = "example.com/maintenance"
NOT_READY: Final = "node.kubernetes.io/not-ready"


def at(seconds: float) -> dt.datetime:
    return BEGIN + dt.timedelta(seconds=seconds)


def taints(*found: tuple[str, str], since: float | None = None) -> dict[tuple[str, str], Taint]:
    time = at(since) if since is not None else None
    return {one: Taint(key=one[0], effect=one[1], time_added=time) for one in found}


class Both:
    """Two histories that agree on nodes until a test says otherwise."""

    def __init__(self) -> None:
        self.histories = Histories(at(0), at(300))

    def node(self, name: str, *steps: tuple[float, Mapping[tuple[str, str], Taint]], **given: Any) -> None:
        versions = [NodeVersion(at(time), found, zone="z", **given) for time, found in ((-10.0, {}), *steps)]
        self.histories.cluster.add(NodeHistory(name, name, versions))

    def decided(self, name: str, *steps: tuple[float, Mapping[tuple[str, str], Taint]]) -> None:
        self.histories.decided.taints[name] = [
            DecidedTaints(at(time), name, name, found) for time, found in ((-10.0, {}), *steps)
        ]

    def pod(self, name: str, node: str, *, bound: float = 1.0, **given: Any) -> PodHistory:
        pod = PodHistory("shop", name, at(bound), node=node, bound=at(bound), **given)
        self.histories.cluster.pods[name] = pod
        self.placed(name, node, bound)
        return pod

    def placed(self, name: str, node: str, time: float, *filters: str) -> None:
        results = tuple(FilterResult(filter=one, reason="no", count=1) for one in filters)
        self.histories.decided.placements[name] = [DecidedPlacement(at(time), node, "NodeNameSet", results)]

    def requested(self, name: str, time: float, *before: DecidedEviction) -> None:
        requested = DecidedEviction(at(time), "", "Requested")
        self.histories.decided.evictions[name] = [*before, requested]

    def reasons(self) -> list[Reason | None]:
        return [one.reason for one in Comparer(self.histories, BOUND).compare().differences]


@pytest.fixture
def both() -> Both:
    return Both()


def tolerates(seconds: int | None, key: str = KEY) -> tuple[Toleration, ...]:
    return (Toleration(key=key, operator="Exists", effect="NoExecute", toleration_seconds=seconds),)


EVICTS: Final = (KEY, "NoExecute")


def test_spans_of_one_taint() -> None:
    steps = [(at(1), frozenset({EVICTS})), (at(3), frozenset[tuple[str, str]]()), (at(5), frozenset({EVICTS}))]
    assert spans_of(steps, EVICTS, at(9)) == [Span(at(1), at(3)), Span(at(5), at(9))]
    assert apart([Span(at(1), at(5))], [Span(at(2), at(6))], Span(at(0), at(9))) == [
        (Span(at(1), at(2)), True),
        (Span(at(5), at(6)), False),
    ]


def test_a_taint_within_the_bound_agrees(both: Both) -> None:
    both.node("n1", (10, taints(EVICTS)), (60, {}))
    both.decided("n1", (14, taints(EVICTS)), (64, {}))
    comparison = Comparer(both.histories, BOUND).compare()
    assert comparison.differences == []
    assert comparison.compared["taint"] == 2
    assert comparison.lags["taint"] == [4, 4]


def test_a_late_a_missing_and_an_invented_taint_have_no_reason(both: Both) -> None:
    both.node("n1", (10, taints(EVICTS)), (60, {}))
    both.decided("n1", (16, taints(EVICTS)), (60, {}))
    both.node("n2", (10, taints(EVICTS)))
    both.decided("n2")
    both.node("n3")
    both.decided("n3", (20, taints((NOT_READY, "NoExecute"))))
    assert both.reasons() == [None, None, None]


def test_a_node_that_never_said_ready_has_no_taint_here(both: Both) -> None:
    both.node("n1", (10, taints((NOT_READY, "NoSchedule"))), ready=None)
    both.decided("n1")
    assert both.reasons() == [Reason.SILENT_NODE_IS_READY]


@pytest.mark.parametrize(("second", "reason"), [(10.0, Reason.ZONE_ORDER), (None, None)])
def test_the_token_of_a_zone_went_elsewhere(both: Both, second: float | None, reason: Reason | None) -> None:
    """`n1` has the taint there 10 s before, which is explained if the zone gave its token here to `n2`."""
    taint = taints((NOT_READY, "NoExecute"))
    both.node("n1", (10, taint), (100, {}), ready="False")
    both.decided("n1", (20, taint), (100, {}))
    both.node("n2", (20, taint), (100, {}), ready="False")
    both.decided("n2", *([(second, taint)] if second is not None else [(20.0, taint)]), (100, {}))
    for number in range(3, 9):
        both.node(f"n{number}")
        both.decided(f"n{number}")
    assert set(both.reasons()) == {reason}


def test_the_rate_of_a_zone(both: Both) -> None:
    for number in range(3):
        both.node(f"n{number}")
    clock = ZoneClock(both.histories.cluster)
    assert clock.tokens("z", at(0), at(20)) == pytest.approx(2)
    assert clock.tokens("elsewhere", at(0), at(20)) == 0


def test_a_disrupted_zone_gets_no_tokens(both: Both) -> None:
    both.node("n1")
    for number in range(2, 5):
        both.node(f"n{number}", ready="False")
    assert ZoneClock(both.histories.cluster).tokens("z", at(0), at(20)) == 0


def test_a_token_that_is_not_whole_is_lost_when_a_zone_is_disrupted(both: Both) -> None:
    both.node("n1")
    for number in range(2, 5):
        both.node(f"n{number}")
        both.histories.cluster.nodes[f"n{number}"].versions.append(NodeVersion(at(6), {}, ready="False", zone="z"))
    clock = ZoneClock(both.histories.cluster)
    assert clock.tokens("z", at(0), at(30)) == pytest.approx(0.6)


def test_an_eviction_within_the_bound_agrees(both: Both) -> None:
    both.node("n1", (10, taints(EVICTS)))
    both.decided("n1", (11, taints(EVICTS, since=10)))
    both.pod("p", "n1", evicted=at(10), gone=at(40))
    both.requested("p", 12)
    comparison = Comparer(both.histories, BOUND).compare()
    assert comparison.differences == []
    assert comparison.lags["eviction"] == [2]


def test_a_forgotten_and_an_invented_eviction_have_no_reason(both: Both) -> None:
    both.node("n1", (10, taints(EVICTS)))
    both.decided("n1", (11, taints(EVICTS, since=10)))
    both.pod("forgotten", "n1", evicted=at(10), gone=at(40))
    both.pod("tolerates", "n1", tolerations=tolerates(None))
    both.requested("tolerates", 12)
    assert both.reasons() == [None, None]


def test_an_eviction_that_upstream_should_have_done_has_no_reason(both: Both) -> None:
    both.node("n1", (10, taints(EVICTS)))
    both.decided("n1", (11, taints(EVICTS, since=10)))
    both.pod("p", "n1")
    both.requested("p", 12)
    assert both.reasons() == [None]


def test_a_pod_that_was_gone_at_once(both: Both) -> None:
    both.node("n1", (10, taints(EVICTS)))
    both.decided("n1", (11, taints(EVICTS, since=10)))
    both.pod("p", "n1", evicted=at(10), gone=at(11))
    assert both.reasons() == [Reason.GONE_MEANWHILE]


def test_a_taint_that_ended_at_once(both: Both) -> None:
    both.node("n1", (10, taints(EVICTS)), (12, {}))
    both.decided("n1", (11, taints(EVICTS, since=10)), (13, {}))
    both.pod("p", "n1", evicted=at(10), gone=at(40))
    assert both.reasons() == [Reason.TAINT_ENDED]


def test_a_pod_that_came_after_the_taint(both: Both) -> None:
    """Upstream counts its 20 s from when it came, and Moorage from the taint's time."""
    both.node("n1", (10, taints(EVICTS)))
    both.decided("n1", (10, taints(EVICTS, since=10)))
    both.pod("p", "n1", bound=25, tolerations=tolerates(20), evicted=at(45), gone=at(70))
    both.requested("p", 30)
    assert both.reasons() == [Reason.DEADLINE_FROM_TIME_ADDED]


def test_a_late_eviction_is_not_explained_by_its_toleration(both: Both) -> None:
    both.node("n1", (10, taints(EVICTS)))
    both.decided("n1", (10, taints(EVICTS, since=10)))
    both.pod("p", "n1", tolerations=tolerates(20), evicted=at(30), gone=at(70))
    both.requested("p", 50)
    assert both.reasons() == [None]


def test_a_budget_held_it(both: Both) -> None:
    both.node("n1", (10, taints(EVICTS)))
    both.decided("n1", (11, taints(EVICTS, since=10)))
    both.pod("p", "n1", evicted=at(10), gone=at(70))
    both.requested("p", 60, DecidedEviction(at(11), "n1", "Held", held_by=("PodDisruptionBudget/shop/web",)))
    assert both.reasons() == [Reason.BUDGETS_HOLD_TAINT_EVICTIONS]


def test_what_holds_an_eviction_has_to_be_a_budget(both: Both) -> None:
    both.node("n1", (10, taints(EVICTS)))
    both.decided("n1", (11, taints(EVICTS, since=10)))
    both.pod("p", "n1", evicted=at(10), gone=at(70))
    both.requested("p", 60, DecidedEviction(at(11), "n1", "Held", held_by=("UpstreamLag",)))
    assert both.reasons() == [None]


def test_a_node_that_changed_after_it_was_chosen(both: Both) -> None:
    both.node("n1", (10, taints((KEY, "NoSchedule"))), (40, {}))
    both.decided("n1", (10, taints((KEY, "NoSchedule"))), (40, {}))
    both.pod("just-before", "n1", bound=9.9)
    both.placed("just-before", "n1", 10.2, "TaintToleration")
    both.pod("in-between", "n1", bound=25)
    both.placed("in-between", "n1", 25.1, "TaintToleration")
    assert both.reasons() == [Reason.DECIDED_LATER, None]


def test_a_filter_is_not_explained_by_the_end_of_a_node(both: Both) -> None:
    both.node("n1")
    both.decided("n1")
    both.histories.cluster.nodes["n1"].gone = at(13)
    both.pod("p", "n1", bound=10)
    both.placed("p", "n1", 10.2, "NodeAffinity")
    assert both.reasons() == [None]


def test_room_that_was_not_free(both: Both) -> None:
    both.node("n1", room={"cpu": 1000, "pods": 10})
    both.decided("n1")
    both.pod("old", "n1", requests={"cpu": 800}, gone=at(20))
    both.pod("new", "n1", bound=20.1, requests={"cpu": 800})
    both.placed("new", "n1", 20.3, "NodeResourcesFit")
    assert both.reasons() == [Reason.DECIDED_LATER]
    both.pod("small", "n1", bound=40, requests={"cpu": 100})
    both.placed("small", "n1", 40.2, "NodeResourcesFit")
    assert both.reasons() == [Reason.DECIDED_LATER, None]


def test_a_toleration_that_is_over(both: Both) -> None:
    both.node("n1", (10, taints(EVICTS)), (60, {}))
    both.decided("n1", (10, taints(EVICTS, since=10)), (60, {}))
    both.pod("over", "n1", bound=35, tolerations=tolerates(20), evicted=at(55), gone=at(80))
    both.requested("over", 35.2)
    both.placed("over", "n1", 35.1, "TolerationOver")
    both.pod("not-yet", "n1", bound=15, tolerations=tolerates(100))
    both.placed("not-yet", "n1", 15.1, "TolerationOver")
    assert both.reasons() == [Reason.DEADLINE_FROM_TIME_ADDED, Reason.EXPIRED_TOLERATION_KEEPS_AWAY, None]


def test_a_pod_that_is_told_late_or_not_at_all(both: Both) -> None:
    both.node("n1")
    both.decided("n1")
    both.pod("late", "n1", bound=10)
    both.placed("late", "n1", 16)
    both.histories.cluster.add(NodeHistory("earlier", "n1", [NodeVersion(at(-90), {})], gone=at(-20)))
    both.pod("never", "n1", bound=10)
    del both.histories.decided.placements["never"]
    both.pod("short", "n1", bound=10, gone=at(12))
    del both.histories.decided.placements["short"]
    assert both.reasons() == [None, None, Reason.GONE_MEANWHILE]


def test_the_rules_of_both_sides() -> None:
    pod = PodHistory("shop", "p", at(0), tolerations=tolerates(20), node="n1", bound=at(30))
    steps = [(at(10), list(taints(EVICTS, since=10).values())), (at(100), [])]
    assert evictions.dues(evictions.upstream, pod, steps) == [Span(at(50), at(100))]
    assert evictions.dues(evictions.moorage, pod, steps) == [Span(at(30), at(100))]
    steps = [(at(10), list(taints(EVICTS, since=10).values())), (at(45), [])]
    assert evictions.dues(evictions.upstream, pod, steps) == []


def test_each_reason_is_explained_to_users() -> None:
    page = (Path(__file__).parents[3] / "docs" / "bridge.md").read_text("utf-8")
    section = page.partition("### Reasons")[2].partition("\n## ")[0]
    named = re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE)
    assert sorted(named) == sorted(Reason)
    assert {one for one in named if f"[`{one}`]" in section} <= set(Deviation)
