"""The checker's own rules, one by one, and what it allows for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from tests.chaos.seeded.checker import Allowances, check
from tests.chaos.seeded.checker.matching import AT_ONCE, must_leave, selects
from tests.chaos.seeded.edited_history import changed, find, nothing, put, text, where
from tests.chaos.seeded.history import History
from tests.support.tables import table
from tests.support.taint_strategies import TAINT_LISTS, TOLERATION_LISTS

from moorage.decide.taints.eviction_verdict import EvictAt, EvictNow, verdict
from moorage_schemas.taint import Taint, Toleration


@given(taints=TAINT_LISTS, tolerations=TOLERATION_LISTS)
def test_two_ways_of_matching_agree(taints: list[Taint], tolerations: list[Toleration]) -> None:
    """The checker's own matcher, and the core's, which it does not use, on what goes over the wire."""

    def wire(models: list[Any]) -> list[dict[str, Any]]:
        return [one.model_dump(mode="json") for one in models]

    expected: float | None = None  # it keeps
    match verdict(taints, tolerations):
        case EvictNow():
            expected = AT_ONCE
        case EvictAt(deadline=deadline):
            expected = deadline.timestamp()
    assert must_leave(wire(taints), wire(tolerations)) == expected


@table(
    ("selector", "selected"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "db"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["web"]}]}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, True),
        ({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "app", "operator": "In", "values": []}]}, False),
    ],
)
def test_selectors(selector: dict[str, Any] | None, selected: bool) -> None:  # noqa: FBT001 - a table's column
    assert selects(selector, {"app": "web"}) is selected


# An eviction by hand: tainted at 10 s, tolerated for 20 s, requested at 30 s.

WHO, TARGET = "Pod/default/p", "Node/n"
POD = {"kind": "Pod", "namespace": "default", "name": "p"}
BOUND = {"workload": POD, "owner": POD, "uid": "u", "generation": 1, "revision": 1}
TOLERATED = {"tolerations": [{"key": "bad", "operator": "Exists", "tolerationSeconds": 20}]}
BEGAN = 1_000_000.0


def taint(at: float, generation: int, *keys: str) -> dict[str, Any]:
    """A set of taints that was written at a time."""
    added = [
        {"key": key, "value": "", "effect": "NoExecute", "timeAdded": text(BEGAN + at), "origins": ["explicit"]}
        for key in keys
    ]
    return {"targetUid": "", "generation": generation, "taints": added}


def evicted(
    *, at: float = 30.0, skew: float = 0.0, sources: str = "", lifted: float | None = None, exact: bool = True
) -> History:
    """Somebody who is requested at a time; perhaps the taint was lifted at some other time."""
    history = nothing(quiet=False, skew=skew, exact=exact)
    history = put(history, "bindings", f"{WHO}|{TARGET}", BOUND | TOLERATED, at=BEGAN)
    history = put(history, "taints", TARGET, taint(10, 1, "bad"), at=BEGAN + 10)
    request = {"state": "Requested", "revision": 1, "generation": 1, "workloadUid": "u", "reason": "TolerationExpired"}
    history = put(history, "evictions", f"{WHO}|{TARGET}|1", request, at=BEGAN + at)
    if lifted is not None:
        before = find(history, where("evictions")) if lifted < at else None
        history = put(history, "taints", TARGET, taint(10, 2), before=before, at=BEGAN + lifted)
    return changed(history, find(history, where("evictions")), sources=sources) if sources else history


def broken(history: History, **allowed: float) -> set[str]:
    """The promises that a history breaks."""
    return {violation.invariant for violation in check(history, Allowances(**allowed))}


NEEDLESSLY = {"nobody_evicted_needlessly"}


def test_at_its_time_it_may_go() -> None:
    assert broken(evicted()) == set()
    assert broken(evicted(at=31)) == set()


def test_a_millisecond_before_it_may_not() -> None:
    assert broken(evicted(at=29.999)) == {"nobody_evicted_early"}


def test_the_skew_of_clocks_is_allowed_and_no_more() -> None:
    assert broken(evicted(at=29.5, skew=0.5)) == set()
    assert broken(evicted(at=29.4, skew=0.5)) == {"nobody_evicted_early"}


@pytest.mark.parametrize(("lifted", "found"), [(29.94, NEEDLESSLY), (29.96, set()), (31.0, set())])
def test_what_became_readable_within_the_slack_need_not_be_known(lifted: float, found: set[str]) -> None:
    assert broken(evicted(lifted=lifted)) == found
    assert broken(evicted(lifted=lifted), slack=0.1) == set()


def test_a_clock_that_is_ahead_need_not_know_what_comes_later() -> None:
    assert broken(evicted(lifted=29.5, skew=1.0)) == set()
    assert broken(evicted(lifted=28.5, skew=1.0)) == NEEDLESSLY


def test_timestamps_alone_are_taken_less_strictly() -> None:
    assert broken(evicted(lifted=28.5, exact=False)) == set()
    assert broken(evicted(lifted=27.5, exact=False)) == NEEDLESSLY


def test_whoever_names_his_positions_is_held_to_them() -> None:
    read, unread = "bindings=1,taints=2", "bindings=1,taints=1"
    assert broken(evicted(lifted=29.96, sources=unread)) == set()
    assert broken(evicted(lifted=29.96, sources=read)) == NEEDLESSLY, "he had read that it was lifted"
    assert broken(evicted(lifted=20, sources=unread)) == NEEDLESSLY | {"nobody_evicted_on_stale_positions"}
    assert broken(evicted(sources='{"bindings": 1, "taints": 0}')) == {"nobody_evicted_on_stale_positions"}


def relabelled(at: float, *, sources: str = "") -> History:
    """Somebody who is requested at 30 s and did not ask; he came under a disruption budget some time before."""
    history = evicted(sources=sources)
    spec = {"minAvailable": 0, "selector": {"matchLabels": {"app": "web"}}}
    budget = {"kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "default"}, "spec": spec}
    request = find(history, where("evictions"))
    history = put(history, "resources", "PodDisruptionBudget/default/web", {"object": budget}, before=request, at=BEGAN)
    request = find(history, where("evictions"))
    now = BOUND | TOLERATED | {"revision": 2, "labels": {"app": "web"}}
    return put(history, "bindings", f"{WHO}|{TARGET}", now, before=request, at=BEGAN + at)


UNASKED = {"nobody_evicted_without_leave"}


def test_labels_count_that_whoever_decided_must_have_known() -> None:
    assert broken(relabelled(29.9)) == UNASKED
    assert broken(relabelled(29.99, sources="bindings=1,taints=1")) == set(), "he had not read of them"
    assert broken(relabelled(29.99, sources="bindings=2,taints=1")) == UNASKED, "he had"
    assert broken(relabelled(20, sources="bindings=1,taints=1")) >= UNASKED, "he must have"


def test_what_nobody_bound_cannot_go() -> None:
    history = evicted()
    sound = [entry for entry in history.entries if entry.topic != "bindings"]
    assert broken(replace(history, entries=sound)) == NEEDLESSLY


def test_clusters_are_left_only_with_the_gates() -> None:
    def moved(text: str) -> str:
        return text.replace("Node/n", "Cluster/c")

    history = evicted()
    entries = [replace(entry, key=moved(entry.key)) for entry in history.entries]
    gates = {"feature_gates": "Failover=true", "enable_no_execute_taint_eviction": True}
    there = replace(history, entries=entries, settings={**gates, "resource_eviction_rate": "inf"})
    assert broken(there) == set()
    assert broken(replace(there, settings={})) >= NEEDLESSLY
    assert broken(replace(there, settings=gates)) == {"nobody_evicted_without_leave"}, "there is a rate"


def test_a_workload_made_again_may_go_through_the_same_key() -> None:
    history = evicted()
    key = f"{WHO}|{TARGET}|1"
    history = put(history, "bindings", f"{WHO}|{TARGET}", None, at=BEGAN + 31)
    last = {"workloadUid": "u", "generation": 1, "revision": 2}
    history = put(history, "evictions", key, last | {"state": "Completed", "reason": "BindingEnded"}, at=BEGAN + 31)
    assert broken(history) == set()
    again = {"state": "Scheduled", "generation": 1, "revision": 1}
    assert broken(put(history, "evictions", key, again | {"workloadUid": "other"})) == set()
    assert broken(put(history, "evictions", key, again | {"workloadUid": "u"})) == {"evictions_have_one_outcome"}


def test_what_is_no_event_of_ours_is_refused_or_found() -> None:
    history = nothing()
    history = put(history, "condition-reports", TARGET, {"nothing": "of ours"}, source="probe", acknowledged=True)
    assert broken(history) == {"no_report_is_lost"}
    letter = {"topic": "condition-reports", "partition": 0, "offset": 0}
    assert broken(put(history, "dead-letters", TARGET, letter)) == set()


def test_a_service_that_fails_on_a_record_is_found() -> None:
    letter = {"topic": "resources", "partition": 0, "offset": 0, "message": "the service failed on it: KeyError: 'x'"}
    history = put(nothing(), "dead-letters", TARGET, letter | {"rule": "must not make the service fail"})
    assert broken(history) == {"no_service_fails"}
    assert broken(put(nothing(), "dead-letters", TARGET, letter | {"rule": "must be a name"})) == set()


def test_structured_mode_is_read() -> None:
    report = {"target": {"kind": "Node", "name": "n"}, "type": "Ready", "observedTime": text(BEGAN)}
    event = {"specversion": "1.0", "id": "1", "source": "probe", "time": text(BEGAN), "data": report}
    history = put(nothing(), "condition-reports", TARGET, event, acknowledged=True)
    assert broken(history) == {"no_report_is_lost"}
    condition = {"lastHeartbeatTime": text(BEGAN), "generation": 1, "status": "True"}
    assert broken(put(history, "conditions", f"{TARGET}|Ready", condition)) == set()
