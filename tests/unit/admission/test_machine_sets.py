"""Machine sets: which nodes are deleted, and the names and contents of new nodes."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.apiserver.rules import machine_sets
from moorage.apiserver.rules.machine_sets import Machine

Json = dict[str, Any]


def machine_set(**spec: Any) -> Json:
    return {
        "apiVersion": "machine.openshift.io/v1beta1",
        "kind": "MachineSet",
        "metadata": {"name": "workers", "namespace": "pool", "uid": "u1"},
        "spec": spec,
    }


def free(_: str) -> bool:
    return False


def machine(name: str, created: str = "2026-01-01T00:00:00Z", ready: str = "True", *, marked: bool = False) -> Machine:
    return Machine(name=name, uid=f"uid-{name}", created=created, ready=ready, marked=marked)


def test_what_is_missing_is_made_and_the_right_number_is_left_alone() -> None:
    assert machine_sets.plan(3, [machine("a")]) == machine_sets.Plan(make=2)
    assert machine_sets.plan(1, [machine("a")]) == machine_sets.Plan()
    assert machine_sets.plan(0, []) == machine_sets.Plan()


def test_marked_ones_go_first_then_those_not_ready_then_the_newest() -> None:
    present = [
        machine("old"),
        machine("new", "2026-01-02T00:00:00Z"),
        machine("new-too", "2026-01-02T00:00:00Z"),
        machine("lost", "2025-01-01T00:00:00Z", "Unknown"),
        machine("silent", "2026-01-01T12:00:00Z", ""),
        machine("marked", "2024-01-01T00:00:00Z", marked=True),
    ]
    order = [machine.name for machine in machine_sets.plan(0, present).remove]
    assert order == ["marked", "lost", "new-too", "new", "silent", "old"]
    assert [machine.name for machine in machine_sets.plan(4, present).remove] == ["marked", "lost"]


@given(
    st.integers(0, 8),
    st.lists(
        st.builds(
            Machine,
            name=st.text("abc", min_size=1, max_size=6),
            uid=st.just("u"),
            created=st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"]),
            ready=st.sampled_from(["", "True", "False", "Unknown"]),
            marked=st.booleans(),
        ),
        max_size=12,
        unique_by=lambda found: found.name,
    ),
)
def test_a_plan_leads_to_the_wanted_number_whatever_the_order(replicas: int, present: list[Machine]) -> None:
    plan = machine_sets.plan(replicas, present)
    assert len(present) + plan.make - len(plan.remove) == replicas
    assert not (plan.make and plan.remove)
    assert plan == machine_sets.plan(replicas, present[::-1])
    kept = [found for found in present if found not in plan.remove]
    assert not any(found.marked for found in kept) or all(found.marked for found in plan.remove)


def test_names_follow_from_what_led_to_them() -> None:
    names = machine_sets.machine_names(machine_set(), 3, ["workers-aaaaa"], free, 3)
    assert len(set(names)) == 3
    assert all(re.fullmatch("workers-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names)
    assert machine_sets.machine_names(machine_set(), 3, ["workers-aaaaa"], free, 3) == names
    assert machine_sets.machine_names(machine_set(), 4, ["workers-aaaaa"], free, 3) != names
    assert machine_sets.machine_names(machine_set(), 3, [], free, 3) != names


def test_a_name_that_is_taken_is_passed_over() -> None:
    first, second, third = machine_sets.machine_names(machine_set(), 1, [], free, 3)
    assert machine_sets.machine_names(machine_set(), 1, [], {first, second}.__contains__, 1) == [third]


def test_a_long_name_leaves_room() -> None:
    found = machine_set()
    found["metadata"]["name"] = "x" * 253
    (name,) = machine_sets.machine_names(found, 1, [], free, 1)
    assert len(name) == 253


def test_a_new_node_is_like_the_template_says() -> None:
    found = machine_set(
        template={
            "metadata": {"labels": {"machine": "label"}},
            "spec": {
                "metadata": {"labels": {"disk": "ssd"}, "annotations": {"made": "so"}},
                "taints": [
                    {"key": "key1", "value": "value1", "effect": "NoExecute", "timeAdded": "2020-01-01T00:00:00Z"}
                ],
            },
        }
    )
    found["metadata"]["annotations"] = {
        "machine.openshift.io/vCPU": "4",
        "machine.openshift.io/memoryMb": "16384",
        "machine.openshift.io/GPU": "1",
    }
    node = machine_sets.new_node(found, "workers-x")
    assert node == {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "workers-x",
            "labels": {"disk": "ssd"},
            "annotations": {"made": "so", "machine.openshift.io/machine": "pool/workers-x"},
            "ownerReferences": [
                {
                    "apiVersion": "machine.openshift.io/v1beta1",
                    "kind": "MachineSet",
                    "name": "workers",
                    "uid": "u1",
                    "controller": True,
                }
            ],
        },
        "spec": {"taints": [{"key": "key1", "value": "value1", "effect": "NoExecute"}]},
        "status": {"capacity": {"cpu": "4", "memory": "16384Mi", "nvidia.com/gpu": "1"}},
    }
    assert machine_sets.owner_uid(node) == "u1"
    assert not machine_sets.marked(node)


def test_a_bare_machine_set_makes_bare_nodes() -> None:
    node = machine_sets.new_node(machine_set(), "workers-x")
    assert (node["spec"], "status" in node) == ({}, False)
    assert machine_sets.wanted_replicas(machine_set()) == 1
    assert machine_sets.wanted_replicas(machine_set(replicas=0)) == 0


@pytest.mark.parametrize(
    "owner",
    [
        {"apiVersion": "apps/v1", "kind": "MachineSet", "uid": "u", "controller": True},
        {"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "uid": "u", "controller": True},
        {"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "uid": "u"},
    ],
)
def test_only_a_controlling_machine_set_owns_a_node(owner: Json) -> None:
    assert machine_sets.owner_uid({"metadata": {"ownerReferences": [owner]}}) == ""


@pytest.mark.parametrize("mark", machine_sets.DELETE_MARKS)
@pytest.mark.parametrize("part", ["annotations", "labels"])
def test_either_mark_counts(mark: str, part: str) -> None:
    assert machine_sets.marked({"metadata": {part: {mark: "true"}}})


def test_a_change_without_template_keeps_the_one_that_is_there() -> None:
    before = machine_set(replicas=2, template={"spec": {"taints": []}}, selector={"matchLabels": {"a": "b"}})
    after = machine_sets.with_template(machine_set(replicas=0), before)
    assert after["spec"] == {**before["spec"], "replicas": 0}
    other = machine_set(replicas=0, template={"spec": {}}, selector={})
    assert machine_sets.with_template(other, before) == other
    assert machine_sets.with_template({"metadata": {}}, before)["spec"] == {
        key: before["spec"][key] for key in ("template", "selector")
    }
