"""eviction: requests to leave, beside the taints of the target."""

from __future__ import annotations

import pytest
from tests.component.workers.eviction_bench import K1, Bench
from tests.support.records import at
from tests.support.worlds.world import tolerate

from moorage_schemas.leave_request import Requester, RequesterKind

DRAIN = Requester(kind=RequesterKind.EVICTION_REQUEST, name="drain")
OTHER = Requester(kind=RequesterKind.EVICTION_REQUEST, name="other")
BY_REQUEST = "RequestedByEvictionRequest"
TOLERANT = tolerate("k1", 30)


def bound(**options: object) -> Bench:
    """A pod that tolerates k1 for 30 seconds."""
    bench = Bench(**options)  # type: ignore[arg-type]  # as given
    bench.bind(TOLERANT)
    return bench


def test_a_request_without_a_deadline_evicts_at_once() -> None:
    bench = bound()
    assert bench.leave() == [f"Requested#1 {BY_REQUEST}"]
    assert (bench.decided.requesters, bench.decided.taints) == ((DRAIN,), ())
    assert bench.decided.message == "requested by EvictionRequest/drain"
    assert bench.unbind() == ["Completed#2 BindingEnded"]
    assert bench.decided.requesters == (DRAIN,)


def test_a_request_with_a_deadline_is_scheduled_and_fires() -> None:
    bench = bound()
    assert bench.leave(at_time=10) == [f"Scheduled#1 {BY_REQUEST}", "timer 10"]
    assert bench.decided.deadline == at(10)
    bench.time = 10
    assert bench.fire(1, 10) == [f"Requested#2 {BY_REQUEST}", "timers tombstone"]


def test_a_request_is_withdrawn_before_its_deadline() -> None:
    bench = bound()
    bench.leave(at_time=10)
    assert bench.withdraw() == ["Cancelled#2 RequestWithdrawn", "timer off"]
    assert bench.wake(20) == []
    bench.time = 30
    assert bench.leave() == [f"Requested#3 {BY_REQUEST}", "timers tombstone"], "requested again"


def test_after_it_is_requested_a_withdrawal_changes_nothing() -> None:
    bench = bound()
    bench.leave()
    assert bench.withdraw() == []


def test_a_mirrored_pod_stays_after_a_withdrawal() -> None:
    bench = Bench()
    bench.bind(TOLERANT, deployer="bridge/home")
    bench.leave()
    assert bench.withdraw() == ["Cancelled#2 RequestWithdrawn"]


def test_of_two_requesters_one_withdraws() -> None:
    bench = bound()
    bench.leave("drain", 10)
    assert bench.leave("other", 20) == []
    assert bench.withdraw("drain") == [f"Scheduled#2 {BY_REQUEST}", "timer 20"]
    assert bench.decided.requesters == (OTHER,)
    assert bench.withdraw("other") == ["Cancelled#3 RequestWithdrawn", "timer off"]


def test_two_requesters_with_one_deadline_are_both_named() -> None:
    bench = bound()
    bench.leave("other", 10)
    assert bench.leave("drain", 10) == [f"Scheduled#2 {BY_REQUEST}"]
    assert bench.decided.requesters == (DRAIN, OTHER)
    assert bench.withdraw("drain") == [f"Scheduled#3 {BY_REQUEST}"]


def test_the_earlier_of_taint_and_request_counts() -> None:
    bench = bound()
    bench.taints(K1)
    assert bench.leave(at_time=40) == [], "the toleration ends first"
    assert bench.leave(at_time=20) == [f"Scheduled#2 {BY_REQUEST}", "timer 20"]
    assert bench.leave(at_time=30) == ["Scheduled#3 TolerationEnds", "timer 30"]
    assert (bench.decided.requesters, bench.decided.taints[0].key) == ((DRAIN,), "k1")
    assert bench.withdraw() == ["Scheduled#4 TolerationEnds"]
    assert bench.decided.requesters == ()


def test_a_request_is_not_tolerated() -> None:
    bench = Bench()
    bench.bind(tolerate("k1"))
    bench.taints(K1)
    assert bench.leave() == [f"Requested#1 {BY_REQUEST}"]


def test_a_removed_taint_leaves_the_request() -> None:
    bench = bound()
    bench.taints(K1)
    bench.leave(at_time=50)
    assert bench.taints() == [f"Scheduled#2 {BY_REQUEST}", "timer 50"]
    assert bench.withdraw() == ["Cancelled#3 RequestWithdrawn", "timer off"]


def test_taint_and_request_both_demand_it_at_once() -> None:
    bench = Bench(budget=True)
    bench.bind()
    bench.taints(K1)
    bench.leave()
    assert bench.answer(asked=1) == ["Requested#2 UntoleratedTaint", "ask#2 requested"]
    assert (bench.decided.requesters, bench.decided.taints[0].key) == ((DRAIN,), "k1")


@pytest.mark.parametrize(("uid", "generation"), [("other", 1), ("u", 2), ("", 1)])
def test_a_request_for_another_binding_has_no_effect(uid: str, generation: int) -> None:
    bench = bound()
    assert bench.leave(uid=uid, generation=generation) == []
    assert bench.reconcile(60) == []


def test_a_request_that_is_read_before_its_binding_counts_with_it() -> None:
    bench = Bench()
    assert bench.leave(generation=2) == []
    assert bench.bind(TOLERANT) == []
    assert bench.bind(TOLERANT, generation=2) == [f"Requested#1 {BY_REQUEST}"]


def test_guards_hold_what_is_requested() -> None:
    bench = bound(pause={})
    assert bench.leave() == ["Held#1 Held", "ask#1"]
    assert bench.decided.requesters == (DRAIN,)
    assert bench.answer("EvictionPause/all", asked=1) == ["Held#2 by EvictionPause/all Held"]
    assert bench.withdraw() == ["eviction-asks tombstone", "Cancelled#3 RequestWithdrawn"]


def test_a_lagging_service_holds_what_is_requested() -> None:
    bench = bound()
    bench.lagging = {"Pod/default/web": "placement"}
    assert bench.leave() == []
    assert bench.withdraw() == []
    bench.lagging = []
    assert bench.wake(5) == []


def test_a_restart_restores_the_requesters() -> None:
    bench = bound(budget=True)
    bench.leave(at_time=10)
    bench.restart()
    assert bench.state.targets["Node/n1"].tasks["Pod/default/web"].requesters == (DRAIN,)
    assert bench.reconcile(5) == []
    assert bench.withdraw() == ["Cancelled#2 RequestWithdrawn", "timer off"]


def test_without_requests_nothing_is_kept() -> None:
    bench = bound()
    bench.leave()
    bench.withdraw()
    assert bench.state.leaves == {}
