"""The earlier of the demand of taints and the demands of requests to leave."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.records import T0, at

from moorage.decide.disruption.leave_verdict import (
    Demand,
    LeaveAt,
    LeaveNow,
    LeaveRequest,
    counting,
    deadline_of_demand,
    demanded,
    is_at_once,
    requested_by,
    requesters_of,
    taints_of,
)
from moorage.decide.taints.eviction_verdict import EvictAt, EvictNow, Keep, Tolerated, Verdict
from moorage_schemas.leave_request import Requester, RequesterKind
from moorage_schemas.taint import Taint, Toleration

TAINT = Taint(key="k", effect="NoExecute", time_added=T0)
TOLERATION = Toleration(key="k", operator="Exists", toleration_seconds=10)
KEEP = Keep((), "no taint evicts")
NOW = EvictNow((TAINT,), (), "untolerated taint k:NoExecute")
LATER = EvictAt(at(10), TAINT, TOLERATION, "taint k:NoExecute is tolerated for 10 s")


def request(name: str, seconds: float | None = None, *, uid: str = "u", generation: int = 1) -> LeaveRequest:
    requester = Requester(kind=RequesterKind.DRIFT, name=name)
    return LeaveRequest(uid, generation, requester, "", None if seconds is None else at(seconds))


def test_without_requests_the_taints_decide() -> None:
    assert demanded(LATER, []) is LATER


@pytest.mark.parametrize(
    ("taints", "seconds", "kind", "due", "key"),
    [
        (KEEP, None, LeaveNow, None, ""),
        (KEEP, 5, LeaveAt, 5, ""),
        (LATER, None, LeaveNow, None, ""),
        (LATER, 5, LeaveAt, 5, ""),
        (LATER, 10, LeaveAt, 10, "k"),
        (LATER, 15, EvictAt, 10, "k"),
        (NOW, None, LeaveNow, None, "k"),
        (NOW, 5, EvictNow, None, "k"),
    ],
)
def test_the_earlier_counts(
    taints: Verdict, seconds: float | None, kind: type[Demand], due: float | None, key: str
) -> None:
    found = demanded(taints, [request("a", seconds)])
    assert isinstance(found, kind)
    assert deadline_of_demand(found) == (None if due is None else at(due))
    assert is_at_once(found) is (due is None)
    assert taints_of(found) == ((TAINT,) if key else ())
    assert [one.name for one in requesters_of(found)] == (["a"] if isinstance(found, LeaveNow | LeaveAt) else [])


def test_a_taint_that_is_tolerated_for_0_seconds_is_named_as_such() -> None:
    found = demanded(EvictNow((TAINT,), (Tolerated(TAINT, TOLERATION),), "now"), [request("a")])
    assert isinstance(found, LeaveNow)
    assert found.tolerated


def test_only_requests_about_the_binding_count_in_the_order_of_their_keys() -> None:
    mine = [request("b"), request("a", 3), request("c", uid="v"), request("d", generation=2)]
    assert [one.requester.key for one in counting(mine, "u", 1)] == ["Drift/a", "Drift/b"]


def test_the_reason_names_the_kind_and_the_message_the_program() -> None:
    requester = Requester(kind=RequesterKind.EVICTION_REQUEST, name="drain", program="acme.io/drain")
    found = demanded(KEEP, [LeaveRequest("u", 1, requester, "kernel update", None)])
    assert found.reason == "requested by EvictionRequest/drain of acme.io/drain (kernel update)"
    assert requested_by(requesters_of(found)) == "RequestedByEvictionRequest"


@given(
    taints=st.sampled_from([KEEP, NOW, LATER]),
    times=st.lists(st.one_of(st.none(), st.integers(0, 20)), max_size=4),
)
def test_the_result_is_the_earliest_whatever_the_order(taints: Verdict, times: list[int | None]) -> None:
    def due(found: Demand) -> float:
        deadline = deadline_of_demand(found)
        return -1.0 if is_at_once(found) else (deadline - T0).total_seconds() if deadline else 100.0

    requests = [request(f"r{number}", time) for number, time in enumerate(times)]
    found = demanded(taints, requests)
    assert due(found) == min([due(taints), *(-1.0 if time is None else float(time) for time in times)])
    again = demanded(taints, counting(reversed(requests), "u", 1))
    assert (due(again), requesters_of(again)) == (due(found), requesters_of(found))
