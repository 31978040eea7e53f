"""Priority classes: what a new pod gets from one."""

from __future__ import annotations

from typing import Any

import pytest
from tests.component.gateway.double import Fixture, Json, pod

PODS = "/api/v1/namespaces/default/pods"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


async def with_class(gateway: Fixture, name: str, value: int, **more: Any) -> None:
    await gateway.ok("POST", CLASSES, {"metadata": {"name": name}, "value": value, **more})


def sent(**spec: Any) -> Json:
    body: Json = pod("p1")
    return {**body, "spec": {**body["spec"], **spec}}


def priority_of(shown: Json) -> tuple[Any, ...]:
    spec = shown["spec"]
    return spec.get("priorityClassName"), spec["priority"], spec["preemptionPolicy"]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, (None, 0, "PreemptLowerPriority")),
        ({"priority": 0}, (None, 0, "PreemptLowerPriority")),
        ({"priorityClassName": "high"}, ("high", 1000, "Never")),
        ({"priorityClassName": "high", "priority": 1000, "preemptionPolicy": "Never"}, ("high", 1000, "Never")),
        (
            {"priorityClassName": "system-node-critical"},
            ("system-node-critical", 2_000_001_000, "PreemptLowerPriority"),
        ),
    ],
)
async def test_a_pod_gets_its_priority_from_its_class(spec: Json, expected: tuple[Any, ...]) -> None:
    gateway = Fixture()
    await with_class(gateway, "high", 1000, preemptionPolicy="Never")
    assert priority_of(await gateway.ok("POST", PODS, sent(**spec))) == expected
    assert priority_of(await gateway.ok("PUT", f"{PODS}/p1", sent(**spec))) == expected, "what it has got stays"
    assert priority_of(await gateway.ok("GET", f"{PODS}/p1")) == expected


async def test_a_pod_without_a_class_gets_the_default_one() -> None:
    gateway = Fixture()
    await with_class(gateway, "usual", 10, globalDefault=True)
    assert priority_of(await gateway.ok("POST", PODS, sent())) == ("usual", 10, "PreemptLowerPriority")
    await gateway.ok("DELETE", f"{PODS}/p1")
    await gateway.ok("DELETE", f"{CLASSES}/usual")
    assert priority_of(await gateway.ok("POST", PODS, sent())) == (None, 0, "PreemptLowerPriority")


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"priorityClassName": "nosuch", "containers": []}, "no PriorityClass with name nosuch was found"),
        (
            {"priority": 5},
            (
                "the integer value of priority (5) must not be provided in pod spec; "
                "priority admission controller computed 0 from the given PriorityClass name"
            ),
        ),
        (
            {"priorityClassName": "high", "preemptionPolicy": "PreemptLowerPriority"},
            (
                "the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided in pod spec; "
                "priority admission controller computed Never from the given PriorityClass name"
            ),
        ),
    ],
)
async def test_a_pod_may_not_have_another_priority(spec: Json, why: str) -> None:
    gateway = Fixture()
    await with_class(gateway, "high", 1000, preemptionPolicy="Never")
    answer = await gateway.call("POST", PODS, sent(**spec))
    assert (answer.status_code, answer.json()["message"]) == (403, f'pods "p1" is forbidden: {why}')


async def test_there_is_one_default() -> None:
    gateway = Fixture()
    await with_class(gateway, "usual", 10, globalDefault=True)
    second = {"metadata": {"name": "second"}, "value": 11, "globalDefault": True}
    for method, path, body in (("POST", CLASSES, second), ("PATCH", f"{CLASSES}/second", {"globalDefault": True})):
        answer = await gateway.call(method, path, body)
        assert answer.status_code == 403
        assert answer.json()["message"] == (
            'priorityclasses.scheduling.k8s.io "second" is forbidden: '
            "PriorityClass usual is already marked as default. Only one default can exist"
        )
        if method == "POST":
            await with_class(gateway, "second", 11)
    await gateway.ok("PATCH", f"{CLASSES}/usual", {"description": "It may stay the default"})
