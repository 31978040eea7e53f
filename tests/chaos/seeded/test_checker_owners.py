"""Promises about owners and what they leave: read before deciding, once each, and each decision carried out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.chaos.seeded.checker import check
from tests.chaos.seeded.edited_history import changed, find, nothing, put, text, where
from tests.chaos.seeded.history import History

BEGAN = 1_000_000.0
POD = {"kind": "Pod", "namespace": "default", "name": "p"}
NODE = {"kind": "Node", "name": "n"}
PLACE = "Pod/default/p|Node/n"
BOUND = {"workload": POD, "owner": POD, "uid": "u", "generation": 2, "revision": 1, "bypassed": True}
PLACED = {"state": "Placed", "target": NODE, "uid": "u", "generation": 2, "bindingGeneration": 2}


def broken(history: History) -> set[str]:
    return {violation.invariant for violation in check(history)}


def member(generation: int) -> dict[str, Any]:
    return {"targetUid": "u", "zone": "/a", "generation": generation, "ready": True, "incident": 0}


@pytest.mark.parametrize(("started", "positions", "found"), [(5.0, 2, set()), (5.0, 1, {"owners"}), (1.5, 1, set())])
def test_an_owner_reads_what_was_there_when_it_began(started: float, positions: int, found: set[str]) -> None:
    """Two nodes have spoken, at 1 s and at 2 s; the governor begins, and writes of a zone at 6 s."""
    history = nothing(quiet=False)
    history = put(history, "zone-members", "Node/n1", member(1), at=BEGAN + 1)
    history = put(history, "zone-members", "Node/n2", member(1), at=BEGAN + 2)
    history = put(history, "zones", "/a", {"generation": 1}, at=BEGAN + 6, source="moorage/governor")
    zone = find(history, where("zones"))
    history = changed(history, zone, sources=f"zone-members={positions}")
    entries = [replace(one, started=BEGAN + started) if one.topic == "zones" else one for one in history.entries]
    assert broken(replace(history, entries=entries)) == {f"{name}_know_what_was_there" for name in found}


def test_an_owner_need_not_have_read_what_was_written_anew_since() -> None:
    """The record that was there when it began may be compacted away."""
    history = nothing(quiet=False)
    history = put(history, "zone-members", "Node/n1", member(1), at=BEGAN + 1)
    history = put(history, "zone-members", "Node/n1", member(2), at=BEGAN + 5.5)
    history = put(history, "zones", "/a", {"generation": 1}, at=BEGAN + 6, source="moorage/governor")
    history = changed(history, find(history, where("zones")), sources="zone-members=0")
    entries = [replace(one, started=BEGAN + 5) if one.topic == "zones" else one for one in history.entries]
    assert broken(replace(history, entries=entries)) == set()


def test_no_event_comes_twice() -> None:
    history = nothing(quiet=False)
    for generation in (1, 2):
        history = put(history, "zones", "/a", {"generation": generation}, source="moorage/governor")
    assert broken(history) == set()
    same = [replace(one, headers={**one.headers, "ce_id": "same"}) for one in history.entries]
    assert broken(replace(history, entries=same)) == {"nothing_is_done_twice"}


def bound_and_placed() -> History:
    history = put(nothing(), "bindings", PLACE, BOUND, source="moorage/placement")
    return put(history, "placements", "Pod/default/p", PLACED, source="moorage/placement")


def test_a_binding_and_its_decision_belong_together() -> None:
    assert broken(bound_and_placed()) == set()
    without = [one for one in bound_and_placed().entries if one.topic != "placements"]
    assert broken(replace(bound_and_placed(), entries=without)) == {"bindings_are_what_was_decided"}
    without = [one for one in bound_and_placed().entries if one.topic != "bindings"]
    assert broken(replace(bound_and_placed(), entries=without)) == {"bindings_are_what_was_decided"}


def test_another_generation_is_another_binding() -> None:
    history = bound_and_placed()
    other = changed(history, find(history, where("placements")), {"bindingGeneration": 3})
    assert broken(other) == {"bindings_are_what_was_decided"}


@pytest.mark.parametrize(("generation", "found"), [(2, {"requested_work_has_left"}), (1, set())])
def test_what_was_requested_is_done(generation: int, found: set[str]) -> None:
    """An eviction of an earlier binding means nothing to this one."""
    task = {"state": "Requested", "revision": 1, "generation": generation, "workloadUid": "u"}
    history = put(bound_and_placed(), "evictions", f"{PLACE}|{generation}", task)
    assert broken(history) & {"requested_work_has_left"} == found


@pytest.mark.parametrize(("seconds", "found"), [(20, set()), (25, {"deadlines_are_what_taints_say"})])
def test_a_deadline_follows_from_taints_and_tolerations(seconds: int, found: set[str]) -> None:
    tolerations = [{"key": "bad", "operator": "Exists", "tolerationSeconds": 20}]
    taints = [{"key": "bad", "value": "", "effect": "NoExecute", "timeAdded": text(BEGAN + 10), "origins": []}]
    history = put(nothing(quiet=False), "bindings", PLACE, BOUND | {"tolerations": tolerations}, at=BEGAN)
    history = put(history, "taints", "Node/n", {"generation": 1, "taints": taints}, at=BEGAN + 10)
    task = {"state": "Scheduled", "revision": 1, "generation": 2, "deadline": text(BEGAN + 10 + seconds)}
    history = put(history, "timers", f"evict|{PLACE}|2", task, source="moorage/eviction", at=BEGAN + 11)
    assert broken(put(history, "evictions", f"{PLACE}|2", task, at=BEGAN + 11)) == found


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"maxConcurrent": 1}, {"evictions_are_what_is_due"}),
        ({"maxConcurrent": 0}, set()),
        ({"maxInWindow": 1}, set()),
    ],
)
def test_a_budget_with_room_holds_nobody(spec: dict[str, int], found: set[str]) -> None:
    guard = {"object": {"kind": "EvictionBudget", "metadata": {"name": "slow"}, "spec": spec}}
    taints = [{"key": "bad", "value": "", "effect": "NoExecute", "timeAdded": text(BEGAN), "origins": []}]
    history = put(bound_and_placed(), "resources", "EvictionBudget//slow", guard)
    history = put(history, "taints", "Node/n", {"generation": 1, "taints": taints})
    task = {"state": "Held", "revision": 1, "generation": 2, "workloadUid": "u", "heldBy": ["EvictionBudget/slow"]}
    assert broken(put(history, "evictions", f"{PLACE}|2", task)) == found


@pytest.mark.parametrize(("state", "found"), [("Requested", {"timers_are_forgotten"}), ("Cancelled", set())])
def test_a_timer_goes_with_its_eviction(state: str, found: set[str]) -> None:
    task = {"state": state, "revision": 1, "generation": 2, "workloadUid": "u"}
    history = put(bound_and_placed(), "evictions", f"{PLACE}|2", task)
    timer = {"generation": 1, "deadline": None, "owner": "eviction"}
    history = put(history, "timers", f"evict|{PLACE}|2", timer, source="moorage/eviction")
    assert broken(history) & {"timers_are_forgotten"} == found
