"""The taints of a target: from conditions, from its spec, from taint edits, and from all of them together."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.tables import table

from moorage.decide.taints.desired.from_conditions import Holds, belongs_to_state
from moorage.decide.taints.desired.taint_policies import TaintingPolicy, in_order
from moorage.decide.taints.desired.taint_reconciliation import (
    ReconciledTaints,
    TaintRules,
    newer_taints,
    next_taints,
    reconcile_taints,
)
from moorage_schemas.condition import ConditionChanged, ConditionStatus
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared, TaintWish
from moorage_schemas.resources.policies import ClusterAffinity, MatchCondition
from moorage_schemas.taint import Taint, TaintOrigin, TargetTainted
from moorage_schemas.zone import NoExecuteGranted

T0 = datetime(2026, 1, 1, tzinfo=UTC)
K8S = "node.kubernetes.io/"
NOT_READY, UNREACHABLE = K8S + "not-ready", K8S + "unreachable"

Listed = list[tuple[str, str, str, float, str]]


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def node(*wishes: TaintWish, uid: str = "u1", kind: str = "Node", **spec: Any) -> ResourceDeclared:
    return ResourceDeclared(
        object={"kind": kind, "metadata": {"name": "n1", "uid": uid}, "spec": spec}, version=1, wishes=wishes
    )


def wish(
    generation: int,
    key: str = "k",
    effect: str = "NoExecute",
    value: str = "",
    *,
    present: bool = True,
    time: float = 0,
) -> TaintWish:
    return TaintWish(
        key=key, effect=effect, value=value, present=present, generation=generation, time=at(time), actor="ann"
    )


def conditions(uid: str = "u1", **statuses: str) -> dict[str, ConditionChanged]:
    return {
        name: ConditionChanged(
            target=TargetRef(kind=TargetKind.NODE, name="n1"),
            target_uid=uid,
            type=name,
            status=ConditionStatus(status),
            last_transition_time=T0,
            last_heartbeat_time=T0,
            generation=1,
        )
        for name, status in statuses.items()
    }


def word(incident: int, *, granted: bool = True, time: float = 0, uid: str = "u1") -> NoExecuteGranted:
    """The governor's answer for an incident."""
    return NoExecuteGranted(
        target=TargetRef(kind=TargetKind.NODE, name="n1"),
        target_uid=uid,
        zone="/",
        incident=incident,
        generation=1,
        granted=granted,
        reason="" if granted else "every zone is disrupted",
        granted_time=at(time),
    )


def follow(
    current: TargetTainted | None,
    resource: ResourceDeclared,
    conditions: dict[str, ConditionChanged],
    now: datetime,
    report_time: datetime | None = None,
) -> TargetTainted | None:
    """The resulting taints if the governor grants every incident at once."""
    incident = 1 if current is None else current.incident or current.generation + 1
    grant = word(incident, uid=resource.uid)
    return reconcile_taints(current, resource, conditions, now, report_time, grant=grant).event


def listed(event: TargetTainted | None) -> Listed:
    assert event is not None
    return [(t.key, t.effect, t.value, (t.time_added - T0).total_seconds(), "+".join(t.origins)) for t in event.taints]


@table(
    ("condition", "status", "expected"),
    [
        ("Ready", "True", []),
        ("Ready", "False", [(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]),
        ("Ready", "Unknown", [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]),
        *(
            (condition, status, [(K8S + key, "NoSchedule")] if status == "True" else [])
            for condition, key in (
                ("MemoryPressure", "memory-pressure"),
                ("DiskPressure", "disk-pressure"),
                ("PIDPressure", "pid-pressure"),
                ("NetworkUnavailable", "network-unavailable"),
            )
            for status in ("True", "False", "Unknown")
        ),
        ("SchedulerDown", "True", []),
    ],
)
def test_each_condition_of_a_node(condition: str, status: str, expected: list[tuple[str, str]]) -> None:
    event = follow(None, node(), conditions(**{condition: status}), at(7))
    assert listed(event) == [(key, effect, "", 7, "condition") for key, effect in expected]
    assert event is not None
    assert {t.reason for t in event.taints} == ({f"condition {condition} is {status}"} if expected else set())


def test_the_opposite_goes_in_the_same_update() -> None:
    first = follow(None, node(), conditions(Ready="False"), at(1))
    second = follow(first, node(), conditions(Ready="Unknown"), at(2))
    assert listed(second) == [
        (UNREACHABLE, "NoSchedule", "", 2, "condition"),
        (UNREACHABLE, "NoExecute", "", 2, "condition"),
    ]
    third = follow(second, node(), conditions(Ready="True"), at(3))
    assert listed(third) == []
    assert third is not None
    assert third.generation == 3


def test_taints_stay_while_nothing_is_known_of_their_condition() -> None:
    first = follow(None, node(), conditions(Ready="False", DiskPressure="True"), at(1))
    assert follow(first, node(), {}, at(2)) is None, "a restored table may lack what was compacted away"
    assert follow(first, node(), conditions(DiskPressure="True"), at(2)) is None
    only_ready = follow(first, node(), conditions(DiskPressure="False"), at(2))
    assert {key for key, *_ in listed(only_ready)} == {NOT_READY}
    assert follow(first, node(uid="u2"), {}, at(2)) is not None, "another node of that name starts clean"


def test_a_node_of_an_external_cloud_until_it_is_initialised() -> None:
    def of_cloud(*wishes: TaintWish, provider: str = "external", **spec: Any) -> ResourceDeclared:
        metadata = {"name": "n1", "uid": "u1", "annotations": {"moorage.io/cloud-provider": provider}}
        return ResourceDeclared(object={"kind": "Node", "metadata": metadata, "spec": spec}, version=1, wishes=wishes)

    key = "node.cloudprovider.kubernetes.io/uninitialized"
    first = follow(None, of_cloud(), {}, at(1))
    assert listed(first) == [(key, "NoSchedule", "true", 1, "system")]
    removed = follow(first, of_cloud(wish(1, key, "NoSchedule", present=False)), {}, at(2))
    assert listed(removed) == listed(first), "it is not initialised, whoever takes the taint away"
    assert listed(follow(removed, of_cloud(providerID="aws:///i-1"), {}, at(3))) == []
    assert listed(follow(None, of_cloud(provider="in-tree"), {}, at(1))) == []


def test_an_unschedulable_node_and_back() -> None:
    first = follow(None, node(unschedulable=True), {}, at(1))
    assert listed(first) == [(K8S + "unschedulable", "NoSchedule", "", 1, "system")]
    assert listed(follow(first, node(unschedulable=False), {}, at(2))) == []


def test_a_managed_cluster_has_none_of_the_taints_of_other_kinds() -> None:
    kind = "ManagedCluster"
    known = conditions(Ready="False", ManagedClusterConditionAvailable="True")
    event = follow(None, node(wish(1, effect="NoSelect"), kind=kind, unschedulable=True), known, T0)
    assert listed(event) == [("k", "NoSelect", "", 0, "explicit")]
    assert event is not None
    assert (event.target.kind, event.zone, event.incident, event.held) == (kind, "", 0, ())


def test_a_node_is_told_of_once_that_its_zone_knows_it() -> None:
    event = follow(None, node(), conditions(Ready="True"), T0)
    assert event is not None
    assert (event.taints, event.zone, event.incident, event.held) == ((), "/", 0, ())
    assert follow(event, node(), conditions(Ready="True"), at(5)) is None


def test_an_unchanged_set_is_no_event() -> None:
    first = follow(None, node(wish(1)), conditions(Ready="False"), at(1))
    assert follow(first, node(wish(1)), conditions(Ready="False"), at(9)) is None


def test_a_wish_adds_at_its_own_time() -> None:
    event = follow(None, node(wish(1, value="v", time=5)), {}, at(9))
    assert listed(event) == [("k", "NoExecute", "v", 5, "explicit")]
    assert event is not None
    assert (event.wishes_applied, event.generation, event.target_uid) == (1, 1, "u1")
    assert event.taints[0].reason == "declared by ann"


def test_the_same_wish_again_changes_no_taint() -> None:
    first = follow(None, node(wish(1, value="v", time=5)), {}, T0)
    second = follow(first, node(wish(2, value="v", time=8)), {}, T0)
    assert listed(second) == listed(first), "adding what is there changes nothing"
    assert second is not None
    assert (second.wishes_applied, second.generation) == (2, 2), "but that it was worked in is written down"


def test_another_value_overwrites_in_place_with_the_wishes_time() -> None:
    both = follow(None, node(wish(1, "a", value="v", time=5), wish(2, "b", time=5)), {}, T0)
    event = follow(both, node(wish(3, "a", value="w", time=8), wish(2, "b", time=5)), {}, T0)
    assert listed(event) == [("a", "NoExecute", "w", 8, "explicit"), ("b", "NoExecute", "", 5, "explicit")]


def test_one_key_with_two_effects_is_two_taints() -> None:
    event = follow(None, node(wish(1), wish(2, effect="NoSchedule")), {}, T0)
    assert [t[:2] for t in listed(event)] == [("k", "NoExecute"), ("k", "NoSchedule")]


def test_a_wish_takes_away_and_only_its_own_identity() -> None:
    first = follow(None, node(wish(1), wish(2, effect="NoSchedule")), {}, T0)
    second = follow(first, node(wish(3, present=False), wish(2, effect="NoSchedule")), {}, T0)
    assert [t[:2] for t in listed(second)] == [("k", "NoSchedule")]


def test_wishes_are_worked_in_by_generation_not_by_place() -> None:
    event = follow(None, node(wish(2, "b"), wish(1, "a")), {}, T0)
    assert [t[0] for t in listed(event)] == ["a", "b"]


def test_taking_away_what_is_not_there_is_written_down_once() -> None:
    resource = node(wish(4, present=False))
    first = follow(None, resource, {}, T0)
    assert listed(first) == []
    assert first is not None
    assert first.wishes_applied == 4
    assert follow(first, resource, {}, T0) is None


def earlier(value: str = "", effect: str = "NoExecute", *, of_condition: bool = True) -> TargetTainted:
    """A record of an earlier version, in which a person's edit of not-ready counted from generation 2."""
    first = follow(None, node(), conditions(Ready="False"), at(1))
    assert first is not None
    origins = (*((TaintOrigin.CONDITION,) if of_condition else ()), TaintOrigin.EXPLICIT)
    taints = tuple(
        one.model_copy(update={"origins": origins, "value": value, "time_added": at(2)})
        if one.effect == effect
        else one
        for one in first.taints
        if of_condition or one.effect == effect
    )
    return first.model_copy(update={"taints": taints, "wishes_applied": 1})


def test_a_person_adds_nothing_to_what_a_condition_has_added() -> None:
    first = follow(None, node(), conditions(Ready="False"), at(1))
    for asked in (wish(1, NOT_READY, time=2), wish(1, NOT_READY, value="mine", time=2)):
        event = follow(first, node(asked), conditions(Ready="False"), at(2))
        assert listed(event) == listed(first), "neither its value nor its time, by which deadlines are reckoned"
        assert event is not None
        assert event.wishes_applied == 1
        assert listed(follow(event, node(asked), conditions(Ready="True"), at(5))) == []


def test_what_an_earlier_version_has_taken_down_of_people_is_left_to_the_state() -> None:
    wished = node(wish(1, NOT_READY, time=2))
    rest = [(NOT_READY, "NoSchedule", "", 1, "condition"), (NOT_READY, "NoExecute", "", 2, "condition")]
    assert listed(follow(earlier(), wished, conditions(Ready="False"), at(5))) == rest, "no deadline is put off"
    assert listed(follow(earlier("mine"), wished, conditions(Ready="False"), at(5))) == rest
    assert listed(follow(earlier(), wished, conditions(Ready="True"), at(5))) == []
    alone = earlier(of_condition=False)
    assert listed(follow(alone, wished, conditions(Ready="True"), at(5))) == []
    assert listed(follow(alone, wished, {}, at(5))) == []
    taken = follow(earlier("mine"), node(wish(2, NOT_READY, present=False)), conditions(Ready="False"), at(5))
    assert listed(taken) == rest


OWNED = [
    ("Node", NOT_READY, "NoSchedule"),
    ("Node", NOT_READY, "NoExecute"),
    ("Node", UNREACHABLE, "NoSchedule"),
    ("Node", UNREACHABLE, "NoExecute"),
    *(("Node", K8S + key, "NoSchedule") for key in ("memory-pressure", "disk-pressure", "pid-pressure")),
    ("Node", K8S + "network-unavailable", "NoSchedule"),
    ("Node", K8S + "unschedulable", "NoSchedule"),
    ("Cluster", "cluster.karmada.io/not-ready", "NoSchedule"),
    ("Cluster", "cluster.karmada.io/unreachable", "NoSchedule"),
]
PEOPLES = [
    ("Node", NOT_READY, "PreferNoSchedule"),
    ("Node", K8S + "memory-pressure", "NoExecute"),
    ("Node", K8S + "unschedulable", "NoExecute"),
    ("Node", "node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule"),
    ("Node", "node-role.kubernetes.io/control-plane", "NoSchedule"),
    ("Node", "cluster.karmada.io/not-ready", "NoSchedule"),
    ("Cluster", "cluster.karmada.io/not-ready", "NoExecute"),
    ("Cluster", "cluster.karmada.io/unschedulable", "NoSchedule"),
    ("Cluster", NOT_READY, "NoSchedule"),
]


@table("known", [{"Ready": "True"}, {}], ids=["ready", "silent"])
@table("value", ["", "mine"])
@table(("kind", "key", "effect"), [*OWNED, *PEOPLES])
def test_what_is_built_in_comes_by_no_person(
    kind: str, key: str, effect: str, value: str, known: dict[str, str]
) -> None:
    """Upstream's controllers would remove it again. The other edits made at the same time stay."""
    resource = node(wish(1, key, effect, value, time=3), wish(2, "own", effect, time=3), kind=kind)
    assert belongs_to_state(resource.object, key, effect, value) is ((kind, key, effect) in OWNED)
    event = follow(None, resource, conditions(**known), at(9))
    mine = [] if (kind, key, effect) in OWNED else [(key, effect, value, 3, "explicit")]
    assert listed(event) == [*mine, ("own", effect, "", 3, "explicit")]
    assert event is not None
    assert event.wishes_applied == 2
    assert follow(event, resource, conditions(**known), at(10)) is None


def test_an_old_file_brings_nothing_back_to_a_node_that_is_ready_again() -> None:
    down = follow(None, node(), conditions(Ready="False"), at(1))
    up = follow(down, node(), conditions(Ready="True"), at(2))
    assert down is not None
    again = [
        wish(number, taint.key, taint.effect, taint.value, time=1) for number, taint in enumerate(down.taints, start=1)
    ]
    assert [one.effect for one in again] == ["NoSchedule", "NoExecute"]
    applied = follow(up, node(*again, wish(3, "own", time=1)), conditions(Ready="True"), at(3))
    assert listed(applied) == [("own", "NoExecute", "", 1, "explicit")]


def test_the_taint_that_evicts_does_not_come_by_hand_before_the_governor_lets_it() -> None:
    asked = node(wish(1, NOT_READY, time=0), wish(2, UNREACHABLE, time=0))
    first = reconcile_taints(None, asked, conditions(Ready="False"), at(1)).event
    assert listed(first) == [(NOT_READY, "NoSchedule", "", 1, "condition")]
    granted = reconcile_taints(first, asked, conditions(Ready="False"), at(9), grant=word(1, time=8)).event
    assert listed(granted)[1:] == [(NOT_READY, "NoExecute", "", 8, "condition")]


def test_uninitialized_is_a_persons_but_where_a_cloud_initialises_the_node() -> None:
    key = "node.cloudprovider.kubernetes.io/uninitialized"

    def of_cloud(**spec: Any) -> ResourceDeclared:
        metadata = {"name": "n1", "uid": "u1", "annotations": {"moorage.io/cloud-provider": "external"}}
        asked = (wish(1, key, "NoSchedule", "mine"), wish(2, key, "NoExecute"))
        return ResourceDeclared(object={"kind": "Node", "metadata": metadata, "spec": spec}, version=1, wishes=asked)

    first = follow(None, of_cloud(), {}, at(1))
    assert listed(first) == [(key, "NoExecute", "", 0, "explicit"), (key, "NoSchedule", "true", 1, "system")]
    assert listed(follow(first, of_cloud(providerID="aws:///i-1"), {}, at(2))) == []


def test_a_policy_adds_nothing_that_is_built_in() -> None:
    key = "cluster.karmada.io/not-ready"
    rule = policy(
        add=(when("Net", "False"),), taints=(Taint(key=key, effect="NoSchedule"), Taint(key=key, effect="NoExecute"))
    )
    rules, known = replace(ON, no_execute_policies=True), conditions(Net="False", Ready="True")
    decided = evaluated(None, known, 1, rule, rules=rules)
    assert [taint[:2] for taint in listed(decided.event)] == [(key, "NoExecute")]
    again = evaluated(decided.event, known, 2, rule, rules=rules)
    assert (again.event, again.due) == (None, None)


STATE = st.fixed_dictionaries(
    {},
    optional={
        "Ready": st.sampled_from(("True", "False", "Unknown")),
        "MemoryPressure": st.sampled_from(("True", "False")),
    },
)
EDITS = st.lists(
    st.tuples(
        st.sampled_from([*OWNED[:7], OWNED[8], ("Node", "own", "NoExecute"), ("Node", "own", "NoSchedule")]),
        st.sampled_from(("", "v")),
        st.booleans(),
    ),
    max_size=5,
)


@given(st.lists(st.tuples(STATE, EDITS, st.sampled_from((None, True, False)), st.booleans()), max_size=12))
def test_after_every_decision_the_built_in_taints_are_what_the_state_says(
    steps: list[tuple[dict[str, str], list[tuple[tuple[str, str, str], str, bool]], bool | None, bool]],
) -> None:
    current: TargetTainted | None = None
    known: dict[str, str] = {}
    wishes: dict[tuple[str, str], TaintWish] = {}
    number, granted = 0, False
    for second, (statuses, edits, word_now, unschedulable) in enumerate(steps, start=1):
        known |= statuses
        for (_, key, effect), value, present in edits:
            number += 1
            wishes[key, effect] = wish(number, key, effect, value, present=present, time=second)
        incident = 0 if current is None else current.incident
        grant = None if word_now is None or not incident else word(incident, granted=word_now, time=second)
        resource = node(*wishes.values(), unschedulable=unschedulable)
        decided = reconcile_taints(current, resource, conditions(**known), at(second), grant=grant)
        before, current = current, decided.event or current
        assert current is not None
        ready = known.get("Ready")
        if not current.incident or before is None or before.incident != current.incident:
            granted = False
        if grant is not None and current.incident == incident:
            granted = grant.granted
        expected = {
            *({(NOT_READY, "NoSchedule")} if ready == "False" else set()),
            *({(UNREACHABLE, "NoSchedule")} if ready == "Unknown" else set()),
            *({(NOT_READY, "NoExecute")} if ready == "False" and granted else set()),
            *({(UNREACHABLE, "NoExecute")} if ready == "Unknown" and granted else set()),
            *({(K8S + "memory-pressure", "NoSchedule")} if known.get("MemoryPressure") == "True" else set()),
            *({(K8S + "unschedulable", "NoSchedule")} if unschedulable else set()),
        }
        found = {taint.identity: taint for taint in current.taints}
        own = {name for name, one in wishes.items() if name[0] == "own" and one.present}
        assert found.keys() == expected | own
        assert all(found[name].value == "" for name in expected)
        assert {name: found[name].value for name in own} == {name: wishes[name].value for name in own}


def test_a_person_cannot_take_away_what_a_condition_asks_for() -> None:
    first = follow(None, node(), conditions(Ready="False"), at(1))
    event = follow(first, node(wish(1, NOT_READY, present=False)), conditions(Ready="False"), at(5))
    assert listed(event) == listed(first)


def test_a_person_takes_away_just_when_the_condition_goes() -> None:
    event = follow(earlier(), node(wish(2, NOT_READY, present=False)), conditions(Ready="True"), at(5))
    assert listed(event) == []


def test_a_target_made_again_starts_clean_and_its_generation_goes_on() -> None:
    first = follow(None, node(wish(7)), conditions(Ready="False"), at(1))
    second = follow(first, node(uid="u2"), conditions(Ready="False"), at(2))
    assert listed(second) == [], "conditions of the earlier target do not count either"
    assert second is not None
    assert (second.generation, second.wishes_applied, second.target_uid) == (2, 0, "u2")
    third = follow(second, node(wish(1, time=3), uid="u2"), conditions("u2", Ready="False"), at(3))
    assert [t[0] for t in listed(third)] == ["k", NOT_READY, NOT_READY]


def test_the_reports_time_goes_on() -> None:
    event = follow(None, node(), conditions(Ready="False"), at(5), at(2))
    assert event is not None
    assert event.report_time == at(2)


def test_newer_is_a_higher_generation_or_another_target() -> None:
    first = follow(None, node(wish(1)), {}, T0)
    assert first is not None
    second = follow(first, node(wish(2, present=False)), {}, T0)
    assert second is not None
    assert newer_taints(first, None)
    assert newer_taints(second, first)
    assert not newer_taints(first, second)
    assert newer_taints(first.model_copy(update={"target_uid": "u2"}), second)


# Zones.


def test_the_taint_that_evicts_waits_for_the_governor() -> None:
    first = reconcile_taints(None, node(), conditions(Ready="False"), at(1)).event
    assert listed(first) == [(NOT_READY, "NoSchedule", "", 1, "condition")]
    assert first is not None
    assert (first.incident, first.incident_time) == (1, at(1))
    assert [(h.key, h.effect, h.since, h.reason) for h in first.held] == [
        (NOT_READY, "NoExecute", at(1), "condition Ready is False; waits for a grant in zone /")
    ]
    other = reconcile_taints(first, node(), conditions(Ready="False"), at(5), grant=word(7)).event
    assert other is None, "a grant of another incident"
    second = reconcile_taints(first, node(), conditions(Ready="False"), at(9), grant=word(1, time=8)).event
    assert listed(second)[1] == (NOT_READY, "NoExecute", "", 8, "condition")
    assert second is not None
    assert (second.held, second.incident) == ((), 1)


def test_not_ready_and_unreachable_are_one_incident_and_swap_without_a_new_grant() -> None:
    first = reconcile_taints(None, node(), conditions(Ready="False"), at(1)).event
    waiting = reconcile_taints(first, node(), conditions(Ready="Unknown"), at(2)).event
    assert waiting is not None
    assert (waiting.incident, waiting.incident_time) == (1, at(1))
    assert [(h.key, h.since) for h in waiting.held] == [(UNREACHABLE, at(1))]
    carried = reconcile_taints(waiting, node(), conditions(Ready="Unknown"), at(9), grant=word(1, time=8)).event
    swapped = reconcile_taints(carried, node(), conditions(Ready="False"), at(12), grant=word(1, time=8)).event
    assert listed(swapped) == [
        (NOT_READY, "NoSchedule", "", 12, "condition"),
        (NOT_READY, "NoExecute", "", 12, "condition"),
    ]
    ready = reconcile_taints(swapped, node(), conditions(Ready="True"), at(13), grant=word(1, time=8)).event
    assert ready is not None
    assert (ready.taints, ready.held, ready.incident, ready.incident_time) == ((), (), 0, None)
    again = reconcile_taints(ready, node(), conditions(Ready="False"), at(14), grant=word(1, time=8)).event
    assert again is not None
    assert again.incident == again.generation == 6
    assert [h.effect for h in again.held] == ["NoExecute"]


def test_what_was_granted_is_withdrawn() -> None:
    first = follow(None, node(), conditions(Ready="False"), at(1))
    event = reconcile_taints(first, node(), conditions(Ready="False"), at(5), grant=word(1, granted=False)).event
    assert listed(event) == [(NOT_READY, "NoSchedule", "", 1, "condition")]
    assert event is not None
    assert [h.reason for h in event.held] == ["condition Ready is False; every zone is disrupted"]
    same = reconcile_taints(event, node(), conditions(Ready="Unknown"), at(6), grant=word(1, granted=False)).event
    assert [t[:2] for t in listed(same)] == [(UNREACHABLE, "NoSchedule")]
    back = reconcile_taints(same, node(), conditions(Ready="Unknown"), at(9), grant=word(1, time=9)).event
    assert listed(back)[1] == (UNREACHABLE, "NoExecute", "", 9, "condition")


def test_a_grant_of_an_earlier_node_of_that_name_does_not_count() -> None:
    event = reconcile_taints(
        None, node(uid="u2"), conditions("u2", Ready="False"), at(1), grant=word(1, uid="u1")
    ).event
    assert [t[1] for t in listed(event)] == ["NoSchedule"]


def test_without_any_word_what_evicts_and_is_there_stays() -> None:
    first = follow(None, node(), conditions(Ready="False"), at(1))
    assert next_taints(first, node(), conditions(Ready="False"), at(2)) is None


def labelled(kind: str, labels: dict[str, str] | None = None, **spec: Any) -> ResourceDeclared:
    metadata = {"name": "n1", "uid": "u1", **({"labels": labels} if labels else {})}
    return ResourceDeclared(object={"kind": kind, "metadata": metadata, "spec": spec}, version=1)


@table(
    ("resource", "zone"),
    [
        (labelled("Node"), "/"),
        (labelled("Node", {"topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": "z"}), "r/z"),
        (labelled("Node", {"failure-domain.beta.kubernetes.io/region": "r"}), "r/"),
        (
            labelled("Node", {"failure-domain.beta.kubernetes.io/zone": "old", "topology.kubernetes.io/zone": "new"}),
            "/old",
        ),
        (labelled("Cluster", region="r", zone="z"), "r/z"),
        (labelled("Cluster", region="r", zones=["z1", "z2"]), "r/z1"),
        (labelled("Cluster"), "/"),
        (labelled("ManagedCluster"), ""),
    ],
)
def test_zones(resource: ResourceDeclared, zone: str) -> None:
    event = next_taints(None, resource, {}, T0)
    assert (event.zone if event is not None else "") == zone


def test_a_node_that_changes_its_zone_is_written() -> None:
    first = next_taints(None, labelled("Node"), {}, T0)
    event = next_taints(first, labelled("Node", {"topology.kubernetes.io/zone": "z"}), {}, at(1))
    assert event is not None
    assert (event.zone, event.generation) == ("/z", 2)


# Clusters and policies.

C = "cluster.karmada.io/"
ON = TaintRules(policies=True, no_execute_policies=True)


@pytest.mark.parametrize(("status", "key"), [("False", "not-ready"), ("Unknown", "unreachable"), ("True", "")])
def test_the_system_taints_of_a_cluster_never_evict(status: str, key: str) -> None:
    event = next_taints(None, node(kind="Cluster"), conditions(Ready=status), at(1))
    assert listed(event) == ([(C + key, "NoSchedule", "", 1, "condition")] if key else [])
    assert event is not None
    assert (event.incident, event.held) == (0, ())


def when(condition: str, *values: str, operator: str = "In") -> MatchCondition:
    return MatchCondition(condition_type=condition, operator=operator, status_values=list(values))


def policy(name: str = "p", **parts: Any) -> TaintingPolicy:
    filled = {"add": (when("Ready", "False"),), "taints": (Taint(key="net", effect="NoExecute", value="v"),), **parts}
    return TaintingPolicy(name=name, **filled)


def cluster(*wishes: TaintWish) -> ResourceDeclared:
    return node(*wishes, kind="Cluster")


def held_since(**since: tuple[str, float]) -> dict[str, ConditionChanged]:
    return {
        name: conditions(**{name: status})[name].model_copy(update={"status_since": at(begin)})
        for name, (status, begin) in since.items()
    }


def evaluated(
    current: TargetTainted | None,
    known: dict[str, ConditionChanged],
    now: float,
    *policies: TaintingPolicy,
    resource: ResourceDeclared | None = None,
    rules: TaintRules = ON,
    evaluate: bool = True,
) -> ReconciledTaints:
    return reconcile_taints(
        current,
        resource or cluster(),
        known,
        at(now),
        rules=rules,
        policies=in_order(policies),
        evaluate=evaluate,
    )


def test_a_policy_adds_and_nothing_but_a_policy_or_a_person_removes() -> None:
    first = evaluated(None, conditions(Ready="False"), 1, policy()).event
    assert listed(first) == [
        (C + "not-ready", "NoSchedule", "", 1, "condition"),
        ("net", "NoExecute", "v", 1, "policy"),
    ]
    assert first is not None
    assert first.taints[1].reason == "ClusterTaintPolicy p"
    gone = evaluated(first, conditions(Ready="True"), 2).event
    assert listed(gone) == [("net", "NoExecute", "v", 1, "policy")], "the policy is deleted and the cluster is ready"
    removing = policy(add=(), remove=(when("Ready", "True"),))
    assert listed(evaluated(gone, conditions(Ready="True"), 3, removing).event) == []


def test_what_a_policy_adds_and_removes_in_one_evaluation_is_removed_in_one_update() -> None:
    torn = policy(remove=(when("Ready", "True", operator="NotIn"),))
    first = evaluated(None, conditions(Ready="False"), 1, policy()).event
    second = evaluated(first, conditions(Ready="False"), 2, torn).event
    assert [t[0] for t in listed(second)] == [C + "not-ready"]
    assert second is not None
    assert second.generation == 2
    assert evaluated(second, conditions(Ready="False"), 3, torn).event is None


def test_the_later_policy_wins_by_creation_and_then_by_name() -> None:
    known = conditions(A="True")
    adds, removes = (when("A", "True"),), (when("A", "True"),)

    def made(name: str, day: int | None, **parts: Any) -> TaintingPolicy:
        created = None if day is None else T0 + timedelta(days=day)
        return policy(name, created=created, **parts)

    def keys(*policies: TaintingPolicy) -> list[str]:
        return [t[0] for t in listed(evaluated(None, known, 1, *policies).event)]

    assert keys(made("a", 2, add=adds), made("b", 1, add=(), remove=removes)) == ["net"]
    assert keys(made("a", 1, add=adds), made("b", 1, add=(), remove=removes)) == []
    assert keys(made("b", 1, add=adds), made("a", 1, add=(), remove=removes)) == ["net"]
    assert keys(made("b", None, add=adds), made("a", 1, add=(), remove=removes)) == []


def test_a_policy_keeps_the_value_that_is_there_and_stands_beside_other_origins() -> None:
    mine = cluster(wish(1, "net", value="mine", time=1))
    first = evaluated(None, conditions(Ready="False"), 2, policy(), resource=mine).event
    assert listed(first)[0] == ("net", "NoExecute", "mine", 1, "explicit+policy")
    assert first is not None
    assert first.taints[0].reason == "declared by ann; ClusterTaintPolicy p"
    removing = policy(add=(), remove=(when("Ready", "False"),))
    second = evaluated(first, conditions(Ready="False"), 3, removing, resource=mine).event
    assert [t[0] for t in listed(second)] == [C + "not-ready"], "the person's word goes too"


def test_a_policy_cannot_take_away_what_the_state_asks_for() -> None:
    key = C + "not-ready"
    own = policy(add=(), remove=(when("Ready", "False"),), taints=(Taint(key=key, effect="NoSchedule"),))
    wished = cluster(wish(1, key, "NoSchedule", value="mine", time=1))
    event = evaluated(None, conditions(Ready="False"), 2, own, resource=wished).event
    assert listed(event) == [(key, "NoSchedule", "", 2, "condition")]


def test_what_a_person_takes_away_stays_away_until_policies_are_evaluated() -> None:
    known = conditions(Ready="False")
    first = evaluated(None, known, 1, policy()).event
    away = cluster(wish(1, "net", present=False))
    second = evaluated(first, known, 2, policy(), resource=away, evaluate=False).event
    assert [t[0] for t in listed(second)] == [C + "not-ready"]
    assert evaluated(second, known, 3, policy(), resource=away, evaluate=False).event is None
    third = evaluated(second, known, 4, policy(), resource=away).event
    assert listed(third)[1] == ("net", "NoExecute", "v", 4, "policy")


def test_only_selected_clusters_and_only_with_the_gate() -> None:
    known = conditions(Ready="False")
    elsewhere = policy(affinity=ClusterAffinity(cluster_names=["n2"]))
    assert [t[0] for t in listed(evaluated(None, known, 1, elsewhere).event)] == [C + "not-ready"]
    off = evaluated(None, known, 1, policy(), rules=TaintRules()).event
    assert [t[0] for t in listed(off)] == [C + "not-ready"]
    on_a_node = evaluated(None, known, 1, policy(), resource=node()).event
    assert [t[0] for t in listed(on_a_node)] == [NOT_READY]


def test_policies_may_remove_what_evicts_where_they_may_not_add_it() -> None:
    guarded = TaintRules(policies=True)
    known = conditions(Ready="False")
    mild = Taint(key="net", effect="NoSchedule")
    both_effects = policy(taints=(Taint(key="net", effect="NoExecute"), mild))
    event = evaluated(None, known, 1, both_effects, rules=guarded).event
    assert [t[:2] for t in listed(event)] == [(C + "not-ready", "NoSchedule"), ("net", "NoSchedule")]
    first = evaluated(None, known, 1, policy()).event
    removing = policy(add=(), remove=(when("Ready", "False"),))
    assert len(listed(evaluated(first, known, 2, removing, rules=guarded).event)) == 1


# Flap damping.

SLOW = TaintRules(Holds(timedelta(seconds=10), timedelta(seconds=20)), policies=True, no_execute_policies=True)


def damped(
    current: TargetTainted | None,
    now: float,
    grant: NoExecuteGranted | None = None,
    **since: tuple[str, float],
) -> ReconciledTaints:
    return reconcile_taints(current, node(), held_since(**since), at(now), rules=SLOW, grant=grant)


def test_a_condition_adds_only_when_it_has_held() -> None:
    first = damped(None, 1, DiskPressure=("True", 1))
    assert first.event is not None
    assert first.event.taints == ()
    assert [(h.key, h.since, h.reason) for h in first.event.held] == [
        (
            K8S + "disk-pressure",
            at(1),
            "condition DiskPressure is True; it must hold until 2026-01-01T00:00:11Z",
        )
    ]
    assert first.due == at(11)
    assert damped(first.event, 10.9, DiskPressure=("True", 1)) == ReconciledTaints(None, at(11))
    second = damped(first.event, 11, DiskPressure=("True", 1))
    assert listed(second.event) == [(K8S + "disk-pressure", "NoSchedule", "", 11, "condition")]
    assert second.due is None
    gone = damped(first.event, 5, DiskPressure=("False", 5))
    assert gone.event is not None
    assert (gone.event.held, gone.due) == ((), None)


def test_what_a_condition_brings_did_not_begin_before_it() -> None:
    """The declaration of a node can be read after later records of its conditions."""
    first = damped(None, 1, Ready=("False", 4)).event
    assert first is not None
    assert (first.incident_time, {held.since for held in first.held}) == (at(4), {at(4)})
    at_once = reconcile_taints(None, node(), held_since(DiskPressure=("True", 4)), at(1)).event
    assert listed(at_once) == [(K8S + "disk-pressure", "NoSchedule", "", 4, "condition")]


def test_a_condition_removes_only_when_it_has_held() -> None:
    first = damped(None, 20, DiskPressure=("True", 1)).event
    assert len(listed(first)) == 1
    waits = damped(first, 30, DiskPressure=("False", 30))
    assert listed(waits.event) == listed(first)
    assert waits.event is not None
    assert waits.event.settles_at == waits.due == at(50), "who rests on it later knows that it is out of date"
    assert damped(waits.event, 35, DiskPressure=("False", 30)) == ReconciledTaints(None, at(50))
    back = damped(waits.event, 40, DiskPressure=("True", 40))
    assert listed(back.event) == listed(first), "it is there, so it need not hold again"
    assert back.event is not None
    assert back.event.settles_at is back.due is None
    second = damped(waits.event, 50, DiskPressure=("False", 30))
    assert second.event is not None
    assert (second.event.taints, second.event.settles_at, second.due) == ((), None, None)


@pytest.mark.parametrize(("ended", "left", "due"), [(10.9, 0, None), (11, 1, 31)])
def test_a_taint_goes_at_once_when_its_condition_had_ended_before_its_hold(
    ended: float, left: int, due: float | None
) -> None:
    """The record that ended it was read after the hold was over, from another topic."""
    first = damped(None, 1, DiskPressure=("True", 1)).event
    second = damped(first, 11, DiskPressure=("True", 1)).event
    assert len(listed(second)) == 1
    late = damped(second, ended, DiskPressure=("False", ended))
    assert late.event is not None
    assert (len(late.event.taints), late.due) == (left, due if due is None else at(due))


def test_what_evicts_goes_at_once_when_the_node_was_ready_before_the_leave() -> None:
    first = damped(None, 1, Ready=("False", 1)).event
    second = damped(first, 12, word(1, time=12), Ready=("False", 1)).event
    assert [t[:4] for t in listed(second)] == [(NOT_READY, "NoSchedule", "", 12), (NOT_READY, "NoExecute", "", 12)]
    late = damped(second, 10.5, word(1, time=12), Ready=("True", 10.5))
    assert late.event is not None
    assert (late.event.taints, late.due) == ((), None)


def test_not_ready_and_unreachable_hold_as_one_and_swap_at_once() -> None:
    first = damped(None, 1, Ready=("False", 1)).event
    second = damped(first, 6, Ready=("Unknown", 6))
    assert second.event is not None
    assert [(h.key, h.effect) for h in second.event.held] == [(UNREACHABLE, "NoExecute"), (UNREACHABLE, "NoSchedule")]
    assert second.due == at(11), "not being ready holds since 1"
    grant = word(1, time=7)
    assert damped(second.event, 7, grant, Ready=("Unknown", 6)) == ReconciledTaints(None, at(11))
    third = damped(second.event, 11, grant, Ready=("Unknown", 6)).event
    assert [t[:4] for t in listed(third)] == [(UNREACHABLE, "NoSchedule", "", 11), (UNREACHABLE, "NoExecute", "", 11)]
    fourth = damped(third, 13, grant, Ready=("False", 13)).event
    assert [t[:4] for t in listed(fourth)] == [(NOT_READY, "NoSchedule", "", 13), (NOT_READY, "NoExecute", "", 13)]


def test_a_flap_of_ready_is_a_new_incident_but_what_is_there_stays() -> None:
    first = damped(None, 20, word(1), Ready=("False", 20)).event
    carried = damped(first, 30, word(1, time=5), Ready=("False", 20)).event
    assert len(listed(carried)) == 2
    ready = damped(carried, 40, word(1, time=5), Ready=("True", 40))
    assert ready.event is not None
    assert (ready.event.incident, len(ready.event.taints), ready.due) == (0, 2, at(60))
    again = damped(ready.event, 50, word(1, time=5), Ready=("False", 50)).event
    assert again is not None
    assert (again.incident, len(again.taints), again.held) == (again.generation, 2, ())
    refused = damped(again, 51, word(again.incident, granted=False), Ready=("False", 50)).event
    assert [t[1] for t in listed(refused)] == ["NoSchedule"]


def test_every_condition_of_a_policy_must_have_held() -> None:
    rule = policy(add=(when("A", "True"), when("B", "False")), add_hold=timedelta(seconds=30))
    known = held_since(A=("True", 0), B=("False", 15))
    first = evaluated(None, known, 15, rule)
    assert first.event is not None
    assert (first.event.taints, first.due, first.evaluate) == ((), at(45), True)
    assert [(h.key, h.since) for h in first.event.held] == [("net", at(15))]
    assert first.event.held[0].reason == "ClusterTaintPolicy p; its conditions must hold until 2026-01-01T00:00:45Z"
    assert evaluated(first.event, known, 20, rule, evaluate=False) == ReconciledTaints(None, at(45), evaluate=True)
    second = evaluated(first.event, known, 45, rule)
    assert listed(second.event) == [("net", "NoExecute", "v", 45, "policy")]
    assert second.due is None


def test_a_policys_removal_waits_and_its_own_annotation_counts_before_the_setting() -> None:
    rule = policy(add=(), remove=(when("A", "True"),), remove_hold=timedelta(seconds=30))
    there = evaluated(None, conditions(B="True"), 0, policy(add=(when("B", "True"),))).event
    known = held_since(A=("True", 10))
    waiting = evaluated(there, known, 10, rule, rules=SLOW)
    assert waiting.event is not None
    assert waiting == ReconciledTaints(waiting.event, at(40), evaluate=True)
    assert (listed(waiting.event), waiting.event.settles_at) == (listed(there), at(40))
    assert listed(evaluated(there, known, 40, rule, rules=SLOW).event) == []
    at_once = policy(add=(), remove=(when("A", "True"),), remove_hold=timedelta())
    assert listed(evaluated(there, known, 10, at_once, rules=SLOW).event) == []
    assert evaluated(None, known, 10, rule, rules=SLOW).due is None, "nothing is there that could go"


def test_what_is_withdrawn_goes_though_removals_are_held() -> None:
    first = damped(None, 20, word(1), Ready=("False", 20)).event
    carried = damped(first, 30, word(1, time=5), Ready=("False", 20)).event
    event = damped(carried, 31, word(1, granted=False), Ready=("Unknown", 31)).event
    assert [t[:2] for t in listed(event)] == [(UNREACHABLE, "NoSchedule")]


def test_what_is_withdrawn_goes_from_a_node_that_is_well_again_too() -> None:
    """The hold keeps a taint against flapping. It does not keep a taint whose grant was withdrawn."""
    first = damped(None, 20, word(1), Ready=("False", 20)).event
    carried = damped(first, 30, word(1, time=5), Ready=("False", 20)).event
    ready = damped(carried, 40, word(1, time=5), Ready=("True", 40)).event
    assert [t[1] for t in listed(ready)] == ["NoSchedule", "NoExecute"]
    after = damped(ready, 41, word(1, granted=False), Ready=("True", 40))
    assert [t[:2] for t in listed(after.event)] == [(NOT_READY, "NoSchedule")]
    assert after.due == at(60)


def test_what_a_later_policy_takes_away_does_not_wait() -> None:
    slow = policy("a", add=(when("A", "True"),), add_hold=timedelta(seconds=30))
    removing = policy("b", add=(), remove=(when("A", "True"),))
    known = held_since(A=("True", 0))
    event = evaluated(None, known, 0, slow).event
    assert event is not None
    assert len(event.held) == 1
    after = evaluated(event, known, 1, slow, removing).event
    assert after is not None
    assert after.held == ()
    earlier = evaluated(None, known, 1, slow, policy("A", add=(), remove=(when("A", "True"),))).event
    assert earlier is not None
    assert len(earlier.held) == 1, "a removal that comes first takes nothing of it away"


def test_what_waits_is_looked_at_when_the_wait_of_its_removal_ends() -> None:
    both = policy("a", add=(when("A", "True"),), add_hold=timedelta(seconds=4))
    both = replace(both, remove=both.add, remove_hold=timedelta(seconds=3))
    known = held_since(A=("True", 0))
    first = evaluated(None, known, 0, both)
    assert first.event is not None
    assert len(first.event.held) == 1
    assert (first.due, first.evaluate) == (at(3), False), "nothing is there that policies could take away"
    second = evaluated(first.event, known, 3, both, evaluate=False)
    assert second.event is not None
    assert second.event.held == (), "were it added, it would go again at once"
    assert (second.due, second.evaluate) == (at(4), True)
    assert second.event.settles_at == at(4)
    third = evaluated(second.event, known, 4, both)
    assert third.event is not None
    assert third == ReconciledTaints(third.event)
    assert (third.event.taints, third.event.settles_at) == ((), None)
