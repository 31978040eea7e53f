"""The taints of a target: from conditions, from its spec, from wishes, and all of them together."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from moorage.core.tainting import newer_taints, next_taints
from moorage_schemas.condition import ConditionChanged, ConditionStatus
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared, TaintWish
from moorage_schemas.taint import TargetTainted

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


def listed(event: TargetTainted | None) -> Listed:
    assert event is not None
    return [(t.key, t.effect, t.value, (t.time_added - T0).total_seconds(), "+".join(t.origins)) for t in event.taints]


@pytest.mark.parametrize(
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
    event = next_taints(None, node(), conditions(**{condition: status}), at(7))
    if not expected:
        assert event is None
    else:
        assert listed(event) == [(key, effect, "", 7, "condition") for key, effect in expected]
        assert event is not None
        assert {t.reason for t in event.taints} == {f"condition {condition} is {status}"}


def test_the_opposite_goes_in_the_same_update() -> None:
    first = next_taints(None, node(), conditions(Ready="False"), at(1))
    second = next_taints(first, node(), conditions(Ready="Unknown"), at(2))
    assert listed(second) == [
        (UNREACHABLE, "NoSchedule", "", 2, "condition"),
        (UNREACHABLE, "NoExecute", "", 2, "condition"),
    ]
    third = next_taints(second, node(), conditions(Ready="True"), at(3))
    assert listed(third) == []
    assert third is not None
    assert third.generation == 3


def test_taints_stay_while_nothing_is_known_of_their_condition() -> None:
    first = next_taints(None, node(), conditions(Ready="False", DiskPressure="True"), at(1))
    assert next_taints(first, node(), {}, at(2)) is None, "a restored table may lack what was compacted away"
    assert next_taints(first, node(), conditions(DiskPressure="True"), at(2)) is None
    only_ready = next_taints(first, node(), conditions(DiskPressure="False"), at(2))
    assert {key for key, *_ in listed(only_ready)} == {NOT_READY}
    assert next_taints(first, node(uid="u2"), {}, at(2)) is not None, "another node of that name starts clean"


def test_a_node_of_an_external_cloud_until_it_is_initialised() -> None:
    def of_cloud(*wishes: TaintWish, provider: str = "external", **spec: Any) -> ResourceDeclared:
        metadata = {"name": "n1", "uid": "u1", "annotations": {"moorage.io/cloud-provider": provider}}
        return ResourceDeclared(object={"kind": "Node", "metadata": metadata, "spec": spec}, version=1, wishes=wishes)

    key = "node.cloudprovider.kubernetes.io/uninitialized"
    first = next_taints(None, of_cloud(), {}, at(1))
    assert listed(first) == [(key, "NoSchedule", "true", 1, "system")]
    removed = next_taints(first, of_cloud(wish(1, key, "NoSchedule", present=False)), {}, at(2))
    assert listed(removed) == listed(first), "it is not initialised, whoever takes the taint away"
    assert listed(next_taints(removed, of_cloud(providerID="aws:///i-1"), {}, at(3))) == []
    assert next_taints(None, of_cloud(provider="in-tree"), {}, at(1)) is None


def test_an_unschedulable_node_and_back() -> None:
    first = next_taints(None, node(unschedulable=True), {}, at(1))
    assert listed(first) == [(K8S + "unschedulable", "NoSchedule", "", 1, "system")]
    assert listed(next_taints(first, node(unschedulable=False), {}, at(2))) == []


@pytest.mark.parametrize("kind", ["Cluster", "ManagedCluster"])
def test_a_kind_without_rules_has_only_what_is_wished(kind: str) -> None:
    event = next_taints(None, node(wish(1), kind=kind, unschedulable=True), conditions(Ready="False"), T0)
    assert listed(event) == [("k", "NoExecute", "", 0, "explicit")]
    assert event is not None
    assert event.target.kind == kind


def test_nothing_wanted_and_nothing_there_is_no_event() -> None:
    assert next_taints(None, node(), conditions(Ready="True"), T0) is None


def test_an_unchanged_set_is_no_event() -> None:
    first = next_taints(None, node(wish(1)), conditions(Ready="False"), at(1))
    assert next_taints(first, node(wish(1)), conditions(Ready="False"), at(9)) is None


def test_a_wish_adds_at_its_own_time() -> None:
    event = next_taints(None, node(wish(1, value="v", time=5)), {}, at(9))
    assert listed(event) == [("k", "NoExecute", "v", 5, "explicit")]
    assert event is not None
    assert (event.wishes_applied, event.generation, event.target_uid) == (1, 1, "u1")
    assert event.taints[0].reason == "declared by ann"


def test_the_same_wish_again_changes_no_taint() -> None:
    first = next_taints(None, node(wish(1, value="v", time=5)), {}, T0)
    second = next_taints(first, node(wish(2, value="v", time=8)), {}, T0)
    assert listed(second) == listed(first), "adding what is there changes nothing"
    assert second is not None
    assert (second.wishes_applied, second.generation) == (2, 2), "but that it was worked in is written down"


def test_another_value_overwrites_in_place_with_the_wishes_time() -> None:
    both = next_taints(None, node(wish(1, "a", value="v", time=5), wish(2, "b", time=5)), {}, T0)
    event = next_taints(both, node(wish(3, "a", value="w", time=8), wish(2, "b", time=5)), {}, T0)
    assert listed(event) == [("a", "NoExecute", "w", 8, "explicit"), ("b", "NoExecute", "", 5, "explicit")]


def test_one_key_with_two_effects_is_two_taints() -> None:
    event = next_taints(None, node(wish(1), wish(2, effect="NoSchedule")), {}, T0)
    assert [t[:2] for t in listed(event)] == [("k", "NoExecute"), ("k", "NoSchedule")]


def test_a_wish_takes_away_and_only_its_own_identity() -> None:
    first = next_taints(None, node(wish(1), wish(2, effect="NoSchedule")), {}, T0)
    second = next_taints(first, node(wish(3, present=False), wish(2, effect="NoSchedule")), {}, T0)
    assert [t[:2] for t in listed(second)] == [("k", "NoSchedule")]


def test_wishes_are_worked_in_by_generation_not_by_place() -> None:
    event = next_taints(None, node(wish(2, "b"), wish(1, "a")), {}, T0)
    assert [t[0] for t in listed(event)] == ["a", "b"]


def test_taking_away_what_is_not_there_is_written_down_once() -> None:
    resource = node(wish(4, present=False))
    first = next_taints(None, resource, {}, T0)
    assert listed(first) == []
    assert first is not None
    assert first.wishes_applied == 4
    assert next_taints(first, resource, {}, T0) is None


def both() -> TargetTainted:
    """not-ready:NoExecute because of the condition since 1, and by a person's wish since 2."""
    first = next_taints(None, node(), conditions(Ready="False"), at(1))
    event = next_taints(first, node(wish(1, NOT_READY, time=2)), conditions(Ready="False"), at(2))
    assert event is not None
    return event


def test_a_person_adds_what_a_condition_has_added() -> None:
    assert listed(both()) == [
        (NOT_READY, "NoSchedule", "", 1, "condition"),
        (NOT_READY, "NoExecute", "", 1, "condition+explicit"),
    ]
    assert both().taints[1].reason == "condition Ready is False; declared by ann"


def test_a_condition_adds_what_a_person_has_added() -> None:
    wished = node(wish(1, NOT_READY, value="mine", time=2))
    first = next_taints(None, wished, {}, at(3))
    event = next_taints(first, wished, conditions(Ready="False"), at(4))
    assert listed(event) == [
        (NOT_READY, "NoExecute", "mine", 2, "condition+explicit"),
        (NOT_READY, "NoSchedule", "", 4, "condition"),
    ]


def test_the_condition_goes_and_the_persons_stays() -> None:
    event = next_taints(both(), node(wish(1, NOT_READY, time=2)), conditions(Ready="True"), at(5))
    assert listed(event) == [(NOT_READY, "NoExecute", "", 1, "explicit")]
    assert event is not None
    assert event.taints[0].reason == "declared by ann"


def test_the_person_takes_it_away_and_the_conditions_stays_since_when_it_was() -> None:
    event = next_taints(both(), node(wish(2, NOT_READY, present=False)), conditions(Ready="False"), at(5))
    assert listed(event) == [
        (NOT_READY, "NoSchedule", "", 1, "condition"),
        (NOT_READY, "NoExecute", "", 1, "condition"),
    ]


def test_a_persons_value_goes_with_the_persons_wish() -> None:
    over = next_taints(both(), node(wish(2, NOT_READY, value="mine", time=6)), conditions(Ready="False"), at(6))
    assert listed(over)[1] == (NOT_READY, "NoExecute", "mine", 6, "condition+explicit")
    event = next_taints(over, node(wish(3, NOT_READY, present=False)), conditions(Ready="False"), at(7))
    assert listed(event)[1] == (NOT_READY, "NoExecute", "", 6, "condition")


def test_a_person_cannot_take_away_what_a_condition_asks_for() -> None:
    first = next_taints(None, node(), conditions(Ready="False"), at(1))
    event = next_taints(first, node(wish(1, NOT_READY, present=False)), conditions(Ready="False"), at(5))
    assert listed(event) == listed(first)


def test_a_person_takes_away_just_when_the_condition_goes() -> None:
    event = next_taints(both(), node(wish(2, NOT_READY, present=False)), conditions(Ready="True"), at(5))
    assert listed(event) == []


def test_a_target_made_again_starts_clean_and_its_generation_goes_on() -> None:
    first = next_taints(None, node(wish(7)), conditions(Ready="False"), at(1))
    second = next_taints(first, node(uid="u2"), conditions(Ready="False"), at(2))
    assert listed(second) == [], "conditions of the earlier target do not count either"
    assert second is not None
    assert (second.generation, second.wishes_applied, second.target_uid) == (2, 0, "u2")
    third = next_taints(second, node(wish(1, time=3), uid="u2"), conditions("u2", Ready="False"), at(3))
    assert [t[0] for t in listed(third)] == ["k", NOT_READY, NOT_READY]


def test_the_reports_time_goes_on() -> None:
    event = next_taints(None, node(), conditions(Ready="False"), at(5), at(2))
    assert event is not None
    assert event.report_time == at(2)


def test_newer_is_a_higher_generation_or_another_target() -> None:
    first = next_taints(None, node(wish(1)), {}, T0)
    assert first is not None
    second = next_taints(first, node(wish(2, present=False)), {}, T0)
    assert second is not None
    assert newer_taints(first, None)
    assert newer_taints(second, first)
    assert not newer_taints(first, second)
    assert newer_taints(first.model_copy(update={"target_uid": "u2"}), second)
