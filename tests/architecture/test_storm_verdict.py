"""The checker of the storm benchmark finds planted violations."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from bench.storm_verdict import Rules, Seen, violations
from tests.support.tables import table

from moorage_schemas.base import Model
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.placement import PlacementState, WorkloadBound, WorkloadPlaced
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.taint import Taint, TaintOrigin, TaintRecord, TargetTainted, Toleration
from moorage_schemas.zone import NoExecuteGranted, ZoneChanged, ZoneMembered, ZoneState

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
UNREACHABLE = "node.kubernetes.io/unreachable"
ZONE = "r/z"
OWNER = WorkloadRef(kind="Deployment", namespace="shop", name="web")
TOLERATIONS = (Toleration(key=UNREACHABLE, operator="Exists", effect="NoExecute", toleration_seconds=20),)
RULES = Rules(end=START + timedelta(seconds=300), replicas={OWNER.key: 3})

Records = list[Seen]


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def node(number: int) -> TargetRef:
    return TargetRef(kind=TargetKind.NODE, name=f"n{number}")


def pod(name: str) -> WorkloadRef:
    return WorkloadRef(kind="Pod", namespace="shop", name=name)


def seen(topic: str, key: str, event: Model | None, seconds: float) -> Seen:
    return Seen(topic, key, event, written=at(seconds), decided=at(seconds))


def zone(
    seconds: float,
    *,
    not_ready: int = 3,
    state: ZoneState = ZoneState.FULL_DISRUPTION,
    rate: float = 0.1,
    stopped: bool = False,
    nodes: int = 3,
) -> Seen:
    event = ZoneChanged(
        zone=ZONE,
        generation=1 + int(seconds * 10),
        state=state,
        stopped=stopped,
        nodes=nodes,
        not_ready=not_ready,
        rate=rate,
        tokens=0,
        tokens_time=at(seconds),
    )
    return seen("zones", ZONE, event, seconds)


def member(number: int, seconds: float) -> Seen:
    event = ZoneMembered(
        target=node(number), zone=ZONE, generation=2, ready=False, incident=2, since=at(seconds), tainted=False
    )
    return seen("zone-members", node(number).key, event, seconds)


def grant(number: int, seconds: float, *, granted: bool = True) -> Seen:
    event = NoExecuteGranted(
        target=node(number),
        zone=ZONE,
        incident=2,
        generation=1 + int(seconds),
        granted=granted,
        granted_time=at(seconds),
    )
    return seen("zone-grants", node(number).key, event, seconds)


def taints(number: int, seconds: float, *, generation: int = 3, present: bool = True) -> Seen:
    carried = TaintRecord(key=UNREACHABLE, effect="NoExecute", time_added=at(seconds), origins=(TaintOrigin.CONDITION,))
    event = TargetTainted(
        target=node(number), generation=generation, incident=2, taints=(carried,) if present else (), zone=ZONE
    )
    return seen("taints", node(number).key, event, seconds)


def bound(name: str, number: int, seconds: float) -> Seen:
    event = WorkloadBound(
        workload=pod(name),
        uid=name,
        owner=OWNER,
        target=node(number),
        generation=1,
        tolerations=TOLERATIONS,
        bound_time=at(seconds),
    )
    return seen("bindings", f"{pod(name).key}|{node(number).key}", event, seconds)


def unbound(name: str, number: int, seconds: float) -> Seen:
    return seen("bindings", f"{pod(name).key}|{node(number).key}", None, seconds)


def placed(name: str, number: int | None, seconds: float, *, replaces: str = "", reason: str = "Scheduled") -> Seen:
    event = WorkloadPlaced(
        workload=pod(name),
        uid=name,
        owner=OWNER,
        owner_uid="web",
        generation=1,
        state=PlacementState.PENDING if number is None else PlacementState.PLACED,
        target=None if number is None else node(number),
        binding_generation=0 if number is None else 1,
        reason=reason,
        replaces=replaces,
        decided_time=at(seconds),
    )
    return seen("placements", pod(name).key, event, seconds)


def ended(name: str, seconds: float) -> Seen:
    return seen("placements", pod(name).key, None, seconds)


def requested(name: str, number: int, seconds: float, *, added: float) -> Seen:
    event = EvictionDecided(
        workload=pod(name),
        owner=OWNER,
        target=node(number),
        generation=1,
        revision=2,
        state=EvictionState.REQUESTED,
        taints=(Taint(key=UNREACHABLE, effect="NoExecute", time_added=at(added)),),
        taint_generation=3,
        decided_time=at(seconds),
    )
    return seen("evictions", f"{pod(name).key}|{node(number).key}|1", event, seconds)


def storm() -> Records:
    """Two of three nodes of a lost zone are tainted at the zone's rate. Each has a pod, and one pod is elsewhere."""
    records = [bound("a", 1, 0), bound("b", 2, 0), bound("c", 9, 0)]
    records += [placed("a", 1, 0), placed("b", 2, 0), placed("c", 9, 0)]
    records += [member(1, 10), member(2, 10), member(3, 10), zone(10)]
    for name, number, granted in (("a", 1, 15.0), ("b", 2, 25.0)):
        records += [grant(number, granted), taints(number, granted)]
        records += [requested(name, number, granted + 20, added=granted)]
        records += [unbound(name, number, granted + 21), ended(name, granted + 21)]
        replacement = f"{name}2"
        records += [
            placed(replacement, 9, granted + 21, replaces=pod(name).key),
            bound(replacement, 9, granted + 21),
        ]
    return records


def without(records: Records, topic: str, key: str) -> Records:
    return [record for record in records if not (record.topic == topic and record.key.startswith(key))]


def replaced(records: Records, topic: str, key: str, by: Seen) -> Records:
    assert any(record.topic == topic and record.key.startswith(key) for record in records)
    return [by if record.topic == topic and record.key.startswith(key) else record for record in records]


def changed(record: Seen, **values: Any) -> Seen:
    assert record.event is not None
    return dataclasses.replace(record, event=record.event.model_copy(update=values))


def test_a_storm_by_the_rules_has_no_violations() -> None:
    assert violations(storm(), RULES) == []


def test_nothing_is_judged_that_is_too_fresh() -> None:
    records = [record for record in storm() if record.written < at(36)]  # the first has just been requested
    rules = dataclasses.replace(RULES, end=at(36), replicas={})
    assert violations(records, rules) == []
    late = dataclasses.replace(rules, end=at(60))
    assert [text.split(":")[0] for text in violations(records, late)] == [
        f"{pod('b').key}|{node(2).key}|1",
        f"{pod('a').key}|{node(1).key}|1",
    ]


PLANTED: dict[str, tuple[Callable[[Records], Records], str]] = {
    "granted too fast": (
        lambda r: replaced(replaced(r, "zone-grants", "Node/n2", grant(2, 24)), "taints", "Node/n2", taints(2, 25)),
        "outside the rate 0.1: the bucket held 0.900 tokens",
    ),
    "a third one at the same time": (
        lambda r: [*r, grant(3, 25), taints(3, 25)],
        "zone r/z: Node/n3 was granted",
    ),
    "granted while everything is stopped": (
        lambda r: [*r, zone(100, rate=0.0, stopped=True), grant(3, 200)],
        "outside the rate 0.0",
    ),
    "granted in a small zone in partial disruption": (
        lambda r: [*r, zone(100, not_ready=2, nodes=3, state=ZoneState.NORMAL), grant(3, 200), grant(3, 205)],
        "outside the rate 0.1: the bucket held 0.500",
    ),
    "granted too early": (
        lambda r: replaced(r, "zone-grants", "Node/n1", grant(1, 14)),
        "Node/n1: granted after 4.000 s, before a tick of 5.0 s",
    ),
    "granted for no incident": (
        lambda r: without(r, "zone-members", "Node/n1"),
        "Node/n1: granted for incident 2, which it never had",
    ),
    "the wrong rate": (lambda r: [*r, zone(90, rate=1.0)], "its rate is 1.0"),
    "the wrong state": (
        lambda r: [*r, zone(90, state=ZoneState.NORMAL)],
        "3 of 3 nodes are not ready, and it is Normal, not FullDisruption",
    ),
    "tainted without a grant": (
        lambda r: without(r, "zone-grants", "Node/n1"),
        f"Node/n1: carries {UNREACHABLE}:NoExecute without a grant for incident 2",
    ),
    "tainted on a grant that was withdrawn": (
        lambda r: replaced(r, "zone-grants", "Node/n1", grant(1, 15, granted=False)),
        f"Node/n1: carries {UNREACHABLE}:NoExecute without a grant",
    ),
    "tainted before its grant": (
        lambda r: replaced(r, "zone-grants", "Node/n1", changed(grant(1, 15), granted_time=at(16))),
        "granted only at 2026-01-01 12:00:16",
    ),
    "decided early": (
        lambda r: replaced(r, "evictions", pod("a").key, requested("a", 1, 34.9, added=15)),
        "Pod/shop/a|Node/n1|1: requested at 2026-01-01 12:00:34.9",
    ),
    "written early, dated right": (
        lambda r: [
            dataclasses.replace(one, written=at(30)) if one.topic == "evictions" and one.decided == at(35) else one
            for one in r
        ],
        "Pod/shop/a|Node/n1|1: requested at",
    ),
    "for a taint that is not there": (
        lambda r: replaced(r, "evictions", pod("a").key, requested("a", 1, 35, added=10)),
        "evicted for taints ['node.kubernetes.io/unreachable'] that Node/n1 did not carry",
    ),
    "without a binding": (
        lambda r: [*r, requested("ghost", 1, 35, added=15)],
        "Pod/shop/ghost|Node/n1|1: evicted, but there was no such binding",
    ),
    "tolerated for ever": (
        lambda r: replaced(
            r,
            "bindings",
            f"{pod('a').key}|Node/n1",
            changed(bound("a", 1, 0), tolerations=(Toleration(operator="Exists"),)),
        ),
        "evicted, but it tolerates the taints for ever",
    ),
    "requested twice": (
        lambda r: [*r, requested("a", 1, 36, added=15)],
        "Pod/shop/a|Node/n1|1: requested 2 times",
    ),
    "an eviction is lost": (
        lambda r: (
            [*without(without(r, "evictions", pod("b").key), "bindings", f"{pod('b').key}|Node/n2"), bound("b", 2, 0)]
        ),
        "Pod/shop/b|Node/n2|1: its time was over at 2026-01-01 12:00:45+00:00, and it has no eviction",
    ),
    "bound to a node whose time was over": (
        lambda r: [*r, bound("d", 1, 100)],
        "Pod/shop/d|Node/n1|1: its time was over at 2026-01-01 12:01:40",
    ),
    "a replica is lost": (
        lambda r: without(without(r, "placements", pod("a2").key), "bindings", pod("a2").key),
        "Pod/shop/a|Node/n1|1: evicted, and never placed again nor pending",
    ),
    "too few replicas": (
        lambda r: without(r, "placements", pod("c").key),
        "Deployment/shop/web: 2 replicas are placed or pending, 3 are wanted",
    ),
    "too many replicas": (
        lambda r: [*r, placed("x", 9, 50), bound("x", 9, 50)],
        "Deployment/shop/web: 4 replicas are placed or pending, 3 are wanted",
    ),
    "pending without a reason": (
        lambda r: replaced(r, "placements", pod("a2").key, placed("a2", None, 36, replaces=pod("a").key, reason="")),
        "pending without a reason",
    ),
    "placed and not bound": (
        lambda r: without(r, "bindings", pod("a2").key),
        "Pod/shop/a2: placed on Node/n9, but not bound to it",
    ),
}


@table("planted", PLANTED)
def test_what_is_planted_is_found(planted: str) -> None:
    plant, words = PLANTED[planted]
    found = violations(plant(storm()), RULES)
    assert any(words in text for text in found), found


def test_a_pending_replica_with_a_reason_is_no_loss() -> None:
    records = without(storm(), "bindings", pod("a2").key)
    waiting = placed("a2", None, 36, replaces=pod("a").key, reason="Unschedulable")
    assert violations(replaced(records, "placements", pod("a2").key, waiting), RULES) == []


def test_a_taint_that_goes_in_time_evicts_nobody() -> None:
    records = [bound("a", 1, 0), placed("a", 1, 0), member(1, 10), zone(10), grant(1, 15), taints(1, 15)]
    records.append(taints(1, 34, generation=4, present=False))
    assert violations(records, dataclasses.replace(RULES, replicas={OWNER.key: 1})) == []


def test_a_bucket_is_full_again_after_a_stop_of_everything() -> None:
    records = [zone(0), member(1, 0), member(2, 0), grant(1, 10)]
    stopped = [*records, zone(11, rate=0.0, stopped=True), zone(12), grant(2, 13)]
    rules = dataclasses.replace(RULES, replicas={})
    assert violations(stopped, rules) == []
    assert len(violations([*records, grant(2, 13)], rules)) == 1


def test_lifted_rates_grant_all_at_once() -> None:
    records = [zone(0, rate=float("inf")), member(1, 0), member(2, 0), grant(1, 10), grant(2, 10)]
    rules = dataclasses.replace(RULES, rate=float("inf"), secondary_rate=float("inf"), replicas={})
    assert violations(records, rules) == []
