"""The checker on requests to leave: requests and the evictions that follow from them, by hand."""

from __future__ import annotations

from typing import Any

import pytest
from tests.chaos.seeded.checker import check
from tests.chaos.seeded.checker.evictions import deadlines_are_what_taints_say, nobody_evicted_needlessly
from tests.chaos.seeded.checker.leaves import (
    named_requesters_had_asked,
    nobody_scheduled_late,
    who_demands_it_is_named,
)
from tests.chaos.seeded.edited_history import nothing, put, text
from tests.chaos.seeded.history import History

BEGAN = 1_000_000.0
NODE, PLACE = "Node/n", "Pod/default/p|Node/n"
EVICTION = "moorage/eviction"
PROMISES = (
    deadlines_are_what_taints_say,
    nobody_evicted_needlessly,
    named_requesters_had_asked,
    nobody_scheduled_late,
    who_demands_it_is_named,
)


def requester(name: str) -> dict[str, str]:
    """One that an eviction names."""
    return {"kind": "EvictionRequest", "name": name}


def asked(history: History, name: str, at: float, deadline: float | None, **data: Any) -> History:
    """A request to leave, at once or by some time."""
    event = {
        "workloadUid": "u",
        "generation": 1,
        "deadline": None if deadline is None else text(BEGAN + deadline),
        **data,
    }
    return put(history, "eviction-requests", f"{PLACE}|EvictionRequest/{name}", event, at=BEGAN + at)


def withdrawn(history: History, name: str, at: float) -> History:
    """It is withdrawn."""
    return put(history, "eviction-requests", f"{PLACE}|EvictionRequest/{name}", None, at=BEGAN + at)


def bound() -> History:
    """A pod on a node without taints."""
    binding = {"uid": "u", "generation": 1, "revision": 1, "tolerations": []}
    return put(nothing(quiet=False), "bindings", PLACE, binding, source="moorage/placement", at=BEGAN + 1)


def decided(history: History, state: str, at: float, deadline: float | None, *names: str) -> History:
    """What eviction has written."""
    event = {
        "state": state,
        "generation": 1,
        "revision": 1,
        "deadline": None if deadline is None else text(BEGAN + deadline),
        "decidedTime": text(BEGAN + at),
        "requesters": [requester(name) for name in names],
    }
    return put(history, "evictions", f"{PLACE}|1", event, source=EVICTION, at=BEGAN + at)


def broken(history: History) -> set[str]:
    """The promises about requests that a history breaks."""
    return {violation.invariant for violation in check(history, only=PROMISES)}


def test_what_is_requested_leaves() -> None:
    assert broken(decided(asked(bound(), "a", 10, None), "Requested", 20, None, "a")) == set()


def test_what_nobody_requests_stays() -> None:
    assert broken(decided(bound(), "Requested", 20, None)) == {"nobody_evicted_needlessly"}


@pytest.mark.parametrize("data", [{"workloadUid": "v"}, {"generation": 2}], ids=["uid", "generation"])
def test_a_request_counts_for_one_binding(data: dict[str, Any]) -> None:
    history = decided(asked(bound(), "a", 10, None, **data), "Requested", 20, None)
    assert broken(history) == {"nobody_evicted_needlessly"}


def test_a_request_counts_from_its_deadline() -> None:
    assert broken(decided(asked(bound(), "a", 10, 30), "Requested", 20, None, "a")) == {"nobody_evicted_early"}


def test_a_withdrawn_request_counts_for_nothing() -> None:
    history = withdrawn(asked(bound(), "a", 10, None), "a", 12)
    found = broken(decided(history, "Requested", 20, None, "a"))
    assert found == {"nobody_evicted_needlessly", "named_requesters_had_asked"}


def test_who_is_named_has_requested_it() -> None:
    history = decided(asked(bound(), "a", 10, None), "Requested", 20, None, "b")
    assert broken(history) == {"named_requesters_had_asked"}


def test_a_deadline_is_that_of_who_is_named() -> None:
    history = asked(asked(bound(), "a", 10, 40), "b", 11, 50)
    assert broken(decided(history, "Scheduled", 20, 40, "a")) == set()
    assert broken(decided(history, "Scheduled", 20, 40, "b")) == {"who_demands_it_is_named"}


def test_of_two_deadlines_the_earlier_counts() -> None:
    history = asked(asked(bound(), "a", 10, 40), "b", 11, 50)
    assert broken(decided(history, "Scheduled", 20, 50, "b")) == {"nobody_scheduled_late"}


def test_a_deadline_comes_from_a_request() -> None:
    history = decided(asked(bound(), "a", 10, 40), "Scheduled", 20, 35)
    assert broken(history) == {"deadlines_are_what_taints_say"}
