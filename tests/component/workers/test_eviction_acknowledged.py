"""eviction: what deployers report counts for the binding that they name, in whatever order the topics are read."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.records import T0, at, decide, record, wake
from tests.support.tables import table
from tests.support.worlds.world import node, pod

from moorage.runtime.service import Emit
from moorage.runtime.settings.process_settings import Settings
from moorage.workers import eviction
from moorage.workers.eviction.state import EvictionPartition
from moorage_schemas.base import Model
from moorage_schemas.condition import EVICTED, HEALTHY, ConditionStatus, WorkloadConditionChanged
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import binding_key, workload_condition_key
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.taint import TaintOrigin, TaintRecord, TargetTainted
from moorage_schemas.topics import BINDINGS, EVICTIONS, TAINTS, WORKLOAD_CONDITIONS, Topic

SERVICE = eviction.service(Settings())
Written = tuple[Topic, str, Model | None]


def bound(generation: int = 2, uid: str = "u", revision: int = 1) -> Written:
    event = WorkloadBound(
        workload=pod("web"),
        uid=uid,
        owner=pod("web"),
        target=node("n1"),
        generation=generation,
        revision=revision,
        bound_time=T0,
    )
    return BINDINGS, binding_key(pod("web"), node("n1")), event


def ended() -> Written:
    return BINDINGS, binding_key(pod("web"), node("n1")), None


def said(condition: str, generation: int = 2, uid: str = "u", status: str = "True", reason: str = "") -> Written:
    event = WorkloadConditionChanged(
        target=node("n1"),
        workload=pod("web"),
        type=condition,
        status=ConditionStatus(status),
        reason=reason,
        source="deployer/mine",
        last_transition_time=T0,
        last_heartbeat_time=T0,
        generation=1,
        workload_uid=uid if generation else "",
        binding_generation=generation,
    )
    return WORKLOAD_CONDITIONS, workload_condition_key(pod("web"), node("n1"), condition), event


def forgotten(condition: str) -> Written:
    return WORKLOAD_CONDITIONS, workload_condition_key(pod("web"), node("n1"), condition), None


def tainted(generation: int = 1, *, bad: bool = True) -> Written:
    taint = TaintRecord(key="bad", effect="NoExecute", time_added=T0, origins=(TaintOrigin.EXPLICIT,))
    event = TargetTainted(target=node("n1"), generation=generation, taints=(taint,) if bad else ())
    return TAINTS, "Node/n1", event


class Bench:
    """The service, which gets one record after the other."""

    def __init__(self, *written: Written) -> None:
        self.state: EvictionPartition = SERVICE.new_state(0)
        self.emits: list[Emit] = []
        wake(SERVICE, self.state, T0)
        self.read(*written)

    def read(self, *written: Written) -> None:
        for topic, key, event in written:
            number = len(self.emits)
            one = record(topic, key, event, id=f"e{number}-{topic.short}", time=at(number))
            self.emits += decide(SERVICE, self.state, [one], at(number))

    @property
    def last(self) -> EvictionDecided | None:
        """The last record of the eviction."""
        found = [emit.event for emit in self.emits if emit.topic is EVICTIONS]
        return found[-1] if found and isinstance(found[-1], EvictionDecided) else None

    @property
    def outcome(self) -> tuple[str, str, str, bool]:
        """Its state, its deployer, why it is escalated, and whether it is acknowledged."""
        assert self.last is not None
        escalated = self.last.escalated.reason if self.last.escalated is not None else ""
        return self.last.state.value, self.last.deployer, escalated, self.last.acknowledged is not None


MINE = "deployer/mine"


@table(
    ("written", "outcome"),
    [
        ([], ("Requested", "", "", False)),
        ([said(HEALTHY)], ("Requested", MINE, "", False)),
        ([said(HEALTHY, status="False")], ("Requested", MINE, "", False)),
        ([said(HEALTHY, 1)], ("Requested", "", "", False)),
        ([said(HEALTHY, 3)], ("Requested", "", "", False)),
        ([said(HEALTHY, uid="another")], ("Requested", "", "", False)),
        ([said(HEALTHY, 0)], ("Requested", "", "", False)),
        ([said(HEALTHY), said(HEALTHY, 0)], ("Requested", "", "", False)),
        ([said(HEALTHY), forgotten(HEALTHY)], ("Requested", "", "", False)),
        ([said("Ready")], ("Requested", "", "", False)),
        ([said(HEALTHY), bound(revision=2)], ("Requested", MINE, "", False)),
        ([said(HEALTHY), bound(3)], ("Requested", "", "", False)),
        ([said(HEALTHY), bound(uid="another")], ("Requested", "", "", False)),
        ([said(HEALTHY), ended(), bound()], ("Requested", MINE, "", False)),
        ([said(HEALTHY), said(EVICTED)], ("Requested", MINE, "", True)),
        ([said(HEALTHY), said(EVICTED), forgotten(EVICTED)], ("Requested", MINE, "", False)),
        ([said(HEALTHY), said(EVICTED, 1)], ("Requested", MINE, "", False)),
        ([said(HEALTHY), said(EVICTED, uid="another")], ("Requested", MINE, "", False)),
        ([said(HEALTHY), said(EVICTED, status="Unknown")], ("Requested", MINE, "", False)),
        ([said(HEALTHY), said(EVICTED, status="False", reason="Refused")], ("Requested", MINE, "Refused", False)),
        ([said(HEALTHY), said(EVICTED, status="False")], ("Requested", MINE, "Failed", False)),
    ],
)
def test_who_has_to_acknowledge_and_who_has(written: Sequence[Written], outcome: tuple[str, str, str, bool]) -> None:
    assert Bench(bound(), *written, tainted()).outcome == outcome


def test_what_is_reported_after_the_request_counts_as_what_is_reported_before() -> None:
    bench = Bench(bound(), said(HEALTHY), tainted(), said(EVICTED, status="False", reason="Failed"))
    assert bench.outcome == ("Requested", MINE, "Failed", False)
    bench.read(said(EVICTED, status="False", reason="Failed"), said(EVICTED, uid="another"), said(HEALTHY, 0))
    assert bench.outcome == ("Requested", MINE, "Failed", False)
    bench.read(said(EVICTED))
    assert bench.outcome == ("Requested", MINE, "Failed", True)
    count = len(bench.emits)
    bench.read(said(EVICTED), said(EVICTED, status="False"), tainted(2, bad=False))
    assert len(bench.emits) == count, "it is said once"
    bench.read(ended())
    assert bench.outcome == ("Completed", MINE, "Failed", True)


@pytest.mark.parametrize("state", [EvictionState.SCHEDULED, EvictionState.HELD, EvictionState.CANCELLED])
def test_an_eviction_that_is_not_requested_is_not_acknowledged(state: EvictionState) -> None:
    decided = EvictionDecided(
        workload=pod("web"),
        workload_uid="u",
        owner=pod("web"),
        target=node("n1"),
        generation=2,
        revision=1,
        state=state,
        decided_time=T0,
    )
    bench = Bench()
    SERVICE.apply(bench.state, EVICTIONS, f"{binding_key(pod('web'), node('n1'))}|2", decided)
    bench.emits += SERVICE.process(bench.state, [record(*said(EVICTED), time=T0)], T0)
    assert bench.emits == []


STEPS = [bound(), said(HEALTHY), said(EVICTED)]
NOISE = [bound(1), said(EVICTED, 1), said(EVICTED, uid="another"), said(HEALTHY, 1), tainted(1)]


@given(order=st.permutations(STEPS), again=st.permutations(STEPS), restored=st.booleans())
def test_any_order_of_reading_ends_the_same(order: list[Written], again: list[Written], *, restored: bool) -> None:
    """The records of two topics, and perhaps a restore that reads them in another order."""
    bench = Bench(*order)
    if restored:
        bench = Bench()
        for topic, key, event in again:
            SERVICE.apply(bench.state, topic, key, event)
    bench.read(tainted())
    assert bench.outcome == ("Requested", MINE, "", True)


@given(st.lists(st.sampled_from(NOISE), max_size=6), st.permutations(STEPS))
def test_reports_about_other_bindings_never_acknowledge_this_one(noise: list[Written], order: list[Written]) -> None:
    without = [one for one in order if one != said(EVICTED)]
    bench = Bench(*[one for one in noise if one[0] is not TAINTS], *without, tainted(5), *noise)
    assert bench.last is not None
    assert (bench.last.generation, bench.last.acknowledged) == (2, None)
