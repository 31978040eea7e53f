"""taint-manager on managed clusters: the cost of a lease, and the times of its records."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from tests.support.records import T0, at, record

from moorage.decide.taints.desired import taint_reconciliation
from moorage.runtime.service import Emit, Input
from moorage.runtime.settings.process_settings import Settings
from moorage.workers import taint_manager
from moorage.workers.taint_manager.state import TaintManagerPartition
from moorage_schemas.condition import ConditionChanged, ConditionStatus
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared, resource_key
from moorage_schemas.taint import TargetTainted
from moorage_schemas.times import format_time
from moorage_schemas.topics import CONDITIONS, RESOURCES, TAINTS

SERVICE = taint_manager.service(Settings())
CLUSTER = "ManagedCluster/c1"
LABEL = "feature.open-cluster-management.io/addon-"
UNREACHABLE = "cluster.open-cluster-management.io/unreachable"


def declared(kind: str, name: str, seconds: float, *, version: int = 1, uid: str = "u1", **spec: Any) -> Input:
    namespace = "" if kind == "ManagedCluster" else "c1"
    metadata = {"name": name, "namespace": namespace, "uid": uid}
    event = ResourceDeclared(object={"kind": kind, "metadata": metadata, "spec": spec}, version=version)
    identity = f"{kind}-{name}-{version}-{seconds}"
    return record(RESOURCES, resource_key(kind, namespace, name), event, id=identity, time=at(seconds))


def renewed(name: str, seconds: float, *, version: int, lasts: int = 60) -> Input:
    spec: dict[str, Any] = {"renewTime": format_time(at(seconds)), "leaseDurationSeconds": lasts}
    return declared("Lease", name, seconds, version=version, **spec)


def available(status: str, generation: int, seconds: float, *, uid: str = "u1") -> Input:
    event = ConditionChanged(
        target=TargetRef(kind=TargetKind.MANAGED_CLUSTER, name="c1"),
        target_uid=uid,
        type="ManagedClusterConditionAvailable",
        status=ConditionStatus(status),
        last_transition_time=at(seconds),
        last_heartbeat_time=at(seconds),
        generation=generation,
    )
    return record(CONDITIONS, f"{CLUSTER}|{event.type}", event, id=f"c{generation}", time=at(seconds))


BEGIN = [
    declared("ManagedCluster", "c1", 0),
    declared("ManagedClusterAddOn", "a", 0),
    declared("ManagedClusterAddOn", "b", 0),
    renewed("a", 0, version=1),
    renewed("b", 0, version=1, lasts=600),
    available("True", 1, 0),
]


def written(emits: list[Emit]) -> list[TargetTainted]:
    """The full sets of taints. There are no other records, because managed clusters have no zones."""
    found = []
    for emit in emits:
        assert (emit.topic, emit.key, emit.partition_key) == (TAINTS, CLUSTER, CLUSTER)
        assert isinstance(emit.event, TargetTainted)
        found.append(emit.event)
    return found


def test_each_step_is_one_record_with_its_own_time() -> None:
    *_, last = events = written(SERVICE.process(SERVICE.new_state(0), BEGIN, at(9)))
    assert [event.generation for event in events] == [1, 2]
    assert events[0].labels == {}, "nothing was reported of the cluster"
    assert {(t.key, t.time_added) for t in events[0].taints} == {(UNREACHABLE, T0)}
    assert (last.taints, last.labels) == ((), {f"{LABEL}a": "available", f"{LABEL}b": "available"})
    assert (last.zone, last.incident, last.held) == ("", 0, ())


def test_batches_do_not_matter() -> None:
    batch = [*BEGIN, *(renewed("a", 60 * n, version=n + 1) for n in range(1, 9)), available("Unknown", 2, 500)]
    whole = SERVICE.process(SERVICE.new_state(0), batch, at(500))
    state = SERVICE.new_state(0)
    assert [emit for one in batch for emit in SERVICE.process(state, [one], at(500))] == whole


def test_a_renewal_works_nothing_out_and_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    state = SERVICE.new_state(0)
    SERVICE.process(state, BEGIN, at(1))
    SERVICE.wake(state, at(1))
    assert SERVICE.next_wake(state) == at(300)
    worked: list[str] = []
    decide = taint_reconciliation.reconcile_taints

    def counted(*args: Any, **options: Any) -> taint_reconciliation.ReconciledTaints:
        worked.append("once")
        return decide(*args, **options)

    monkeypatch.setattr(sys.modules[taint_manager.TaintManager.__module__], "reconcile_taints", counted)
    quiet = [
        *(renewed("a", n, version=n + 1) for n in range(1, 240)),
        declared("Lease", "managed-cluster-lease", 240),
        record(RESOURCES, "Lease/kube-node-lease/n1", declared("Lease", "n1", 1).event, time=at(241)),
    ]
    assert SERVICE.process(state, quiet, at(241)) == []
    assert worked == []
    assert SERVICE.next_wake(state) == at(300), "it is put off when it comes, not at each renewal"
    assert SERVICE.wake(state, at(300)) == []
    assert worked == ["once"]
    assert SERVICE.next_wake(state) == at(539)
    (event,) = written(SERVICE.wake(state, at(600)))
    assert event.labels == {f"{LABEL}a": "unhealthy", f"{LABEL}b": "available"}
    late = record(RESOURCES, "Lease/c1/a", renewed("a", 250, version=500).event, time=at(601))
    assert SERVICE.process(state, [late], at(601)) == [], "it comes too late to change anything"
    assert SERVICE.next_wake(state) == at(3000)


def test_a_lease_that_has_become_shorter_is_looked_at_earlier() -> None:
    state = SERVICE.new_state(0)
    SERVICE.process(state, BEGIN, at(1))
    assert SERVICE.process(state, [renewed("a", 2, version=2, lasts=10)], at(2)) == []
    assert SERVICE.next_wake(state) == at(52)
    assert SERVICE.process(state, [renewed("b", 3, version=2, lasts=1)], at(3)) == []
    assert SERVICE.next_wake(state) == at(8)


def test_what_waits_in_the_log_does_not_make_up_for_a_lease_that_had_ended() -> None:
    """A service that comes back late writes what it would have written in time."""

    def come_back(moment: float) -> tuple[TaintManagerPartition, list[TargetTainted]]:
        state = SERVICE.new_state(0)
        for one in BEGIN:
            SERVICE.apply(state, one.topic, one.key, one.event)
        for emit in SERVICE.process(SERVICE.new_state(0), BEGIN, at(1)):
            SERVICE.apply(state, emit.topic, emit.key, emit.event)
        return state, written(SERVICE.process(state, [renewed("a", 400, version=2)], at(moment)))

    state, events = come_back(4000)
    assert [event.labels[f"{LABEL}a"] for event in events] == ["unhealthy", "available"]
    assert written(SERVICE.wake(state, at(4000)))[-1].labels == {f"{LABEL}a": "unhealthy", f"{LABEL}b": "unhealthy"}
    assert come_back(401)[1] == events


def test_a_lease_that_ended_while_the_cluster_s_condition_is_lost_waits_for_it() -> None:
    state = SERVICE.new_state(0)
    for one in BEGIN[:-1]:
        SERVICE.apply(state, one.topic, one.key, one.event)
    for emit in SERVICE.process(SERVICE.new_state(0), BEGIN, at(1)):
        SERVICE.apply(state, emit.topic, emit.key, emit.event)
    assert SERVICE.wake(state, at(400)) == []
    assert SERVICE.next_wake(state) is None
    (event,) = written(SERVICE.process(state, [available("True", 2, 401)], at(401)))
    assert event.labels == {f"{LABEL}a": "unhealthy", f"{LABEL}b": "available"}
    assert SERVICE.next_wake(state) == at(3000)


def test_signs_of_clusters_that_are_not_declared_are_kept_and_cost_no_record() -> None:
    state = SERVICE.new_state(0)
    signs = [one for one in BEGIN if one.topic is RESOURCES and not one.key.startswith("ManagedCluster/")]
    assert SERVICE.process(state, signs, at(1)) == []
    assert (SERVICE.next_wake(state), state.waits) == (None, {})
    (event,) = written(SERVICE.process(state, [declared("ManagedCluster", "c1", 5)], at(5)))
    assert event.labels == {}
    (event,) = written(SERVICE.process(state, [available("Unknown", 1, 5)], at(5)))
    assert event.labels == {f"{LABEL}a": "unreachable", f"{LABEL}b": "unreachable"}
    for key in ("ManagedClusterAddOn/c1/a", "ManagedClusterAddOn/c1/b", "Lease/c1/a", "Lease/c1/b"):
        SERVICE.process(state, [record(RESOURCES, key, None, time=at(6))], at(6))
    assert state.addons == {}, "nothing is left behind"
    SERVICE.process(state, [record(RESOURCES, "Lease/c1/a", None, time=at(7))], at(7))
    assert state.addons == {}
    assert state.taints[CLUSTER].labels == {}


def test_a_cluster_that_is_deleted_leaves_one_tombstone() -> None:
    state = SERVICE.new_state(0)
    SERVICE.process(state, BEGIN, at(1))
    (emit,) = SERVICE.process(state, [record(RESOURCES, "ManagedCluster//c1", None, id="gone", time=at(2))], at(2))
    assert (emit.topic, emit.key, emit.event, emit.cause.id) == (TAINTS, CLUSTER, None, "gone")
    assert SERVICE.next_wake(state) is None
    assert SERVICE.process(state, [renewed("a", 3, version=2), available("Unknown", 2, 4)], at(4)) == []


def test_a_cluster_made_again_is_not_what_the_earlier_one_was() -> None:
    state = SERVICE.new_state(0)
    SERVICE.process(state, BEGIN, at(1))
    batch = [
        declared("ManagedCluster", "c1", 2, uid="u2"),
        renewed("a", 3, version=2),
        available("Unknown", 2, 4),
        available("True", 1, 5, uid="u2"),
    ]
    first, second = written(SERVICE.process(state, batch, at(5)))
    assert (first.target_uid, first.labels) == ("u2", {})
    assert (second.taints, set(second.labels.values())) == ((), {"available"})


def test_a_heartbeat_of_the_cluster_works_nothing_out() -> None:
    state = SERVICE.new_state(0)
    SERVICE.process(state, BEGIN, at(1))
    assert SERVICE.process(state, [available("True", 2, 60)], at(60)) == []
    assert SERVICE.reconcile(state, at(61)) == []


def test_a_condition_ends_no_taints_of_a_cluster_whose_record_is_yet_to_be_read() -> None:
    before = written(SERVICE.process(SERVICE.new_state(0), BEGIN, at(9)))[-1]
    state = SERVICE.new_state(0)  # the cluster was declared again meanwhile, and compacted
    for sign in [*BEGIN[1:5], available("True", 1, 0)]:
        SERVICE.apply(state, sign.topic, sign.key, sign.event)
    SERVICE.apply(state, TAINTS, CLUSTER, before)
    assert SERVICE.process(state, [available("False", 2, 20)], at(30)) == []
    (after,) = written(SERVICE.process(state, [declared("ManagedCluster", "c1", 15, version=2)], at(30)))
    assert [taint.key for taint in after.taints] == ["cluster.open-cluster-management.io/unavailable"]
    assert after.generation == before.generation + 1
    gone = record(RESOURCES, "ManagedCluster//c1", None, id="gone", time=at(40))
    assert [(emit.key, emit.event) for emit in SERVICE.process(state, [gone], at(40))] == [(CLUSTER, None)]


ORDERS = [[declared("ManagedCluster", "c1", 0), available("True", 1, 1)], [available("True", 1, 1), BEGIN[0]]]


@pytest.mark.parametrize("order", ORDERS, ids=["declared first", "reported first"])
@pytest.mark.parametrize("together", [True, False])
def test_whichever_of_declaration_and_report_comes_first_the_last_word_is_written(
    order: list[Input],
    together: bool,  # noqa: FBT001 - both ways
) -> None:
    state = SERVICE.new_state(0)
    batches = [order] if together else [[one] for one in order]
    events = written([emit for batch in batches for emit in SERVICE.process(state, batch, at(2))])
    assert events[-1].taints == (), "an empty set, and not none, by which placement would take it for unreachable"
    assert events[-1].target_uid == "u1"
    assert SERVICE.reconcile(state, at(3)) == []


@pytest.mark.parametrize("by", ["wake", "reconcile"])
def test_what_an_earlier_version_has_not_written_is_made_up_for(by: str) -> None:
    state = SERVICE.new_state(0)
    for one in ORDERS[1]:
        SERVICE.apply(state, one.topic, one.key, one.event)
    if by == "wake":
        emits = SERVICE.wake(state, at(9))
    else:
        state.checked = True
        emits = SERVICE.reconcile(state, at(9))
    (event,) = written(emits)
    assert (event.taints, event.target_uid, event.generation) == ((), "u1", 1)
    assert SERVICE.wake(state, at(10)) == SERVICE.reconcile(state, at(10)) == []


def test_a_cluster_made_again_is_not_taken_for_what_was_known_of_the_earlier_one() -> None:
    state = SERVICE.new_state(0)
    SERVICE.process(state, ORDERS[0], at(2))
    again = declared("ManagedCluster", "c1", 5, uid="u2")
    (event,) = written(SERVICE.process(state, [again], at(5)))
    assert ([t.key for t in event.taints], event.target_uid) == ([UNREACHABLE], "u2")
    (event,) = written(SERVICE.process(state, [available("True", 2, 6, uid="u2")], at(6)))
    assert (event.taints, event.generation) == ((), 4)
