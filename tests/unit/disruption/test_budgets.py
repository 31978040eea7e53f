"""Scopes, shares, and the arithmetic of disruption budgets."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.tables import table

from moorage.decide.disruption.budgets import BudgetShare, Disruptions, Subject, budget_of, disruption_of, disruptions
from moorage.decide.disruption.guard_index import Guards
from moorage_schemas.resource import resource_key

WEB = Subject("Pod/shop/web-1", "Deployment/shop/web", "Node/n1", "eu/eu-1", {"app": "web", "tier": "front"})


def pdb(namespace: str = "shop", name: str = "web", **spec: Any) -> dict[str, Any]:
    spec.setdefault("selector", {"matchLabels": {"app": "web"}})
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}


def moorage_object(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "moorage.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


@table(
    ("scope", "inside"),
    [
        ({}, True),
        ({"namespaces": ["shop", "other"]}, True),
        ({"namespaces": ["other"]}, False),
        ({"namespaces": []}, False),
        ({"zones": ["eu/eu-1"]}, True),
        ({"zones": ["eu/eu-2"]}, False),
        ({"targets": ["Node/n1"]}, True),
        ({"targets": ["Cluster/n1"]}, False),
        ({"workloads": ["Deployment/shop/web"]}, True),
        ({"workloads": ["Pod/shop/web-1"]}, True),
        ({"workloads": ["Deployment/shop/we"]}, False),
        ({"selector": {}}, True),
        ({"selector": {"matchLabels": {"app": "web"}}}, True),
        ({"selector": {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["front"]}]}}, False),
        ({"namespaces": ["shop"], "zones": ["eu/eu-2"]}, False),
        ({"namespaces": ["shop"], "zones": ["eu/eu-1"], "selector": {"matchLabels": {"app": "web"}}}, True),
    ],
)
def test_a_scope_holds_when_all_its_parts_do(scope: dict[str, Any], *, inside: bool) -> None:
    guards = Guards()
    guards.put("EvictionPause//all", moorage_object("EvictionPause", "all", scope=scope, reason="r"))
    guards.put("EvictionBudget//slow", moorage_object("EvictionBudget", "slow", scope=scope, maxConcurrent=1))
    assert bool(guards.pauses_of(WEB)) is bool(guards.budgets_of(WEB)) is guards.concern(WEB) is inside


def test_guards_come_by_name_and_go() -> None:
    guards = Guards()
    for name in ("b", "a", "c"):
        scope = {"workloads": ["Deployment/shop/web", "Pod/shop/web-1"]} if name == "a" else {}
        guards.put(resource_key("EvictionPause", "", name), moorage_object("EvictionPause", name, scope=scope))
        guards.put(resource_key("PodDisruptionBudget", "shop", name), pdb(name=name, minAvailable=1))
    assert [pause.name for pause in guards.pauses_of(WEB)] == [f"EvictionPause/{n}" for n in "abc"]
    found = guards.disruptions_of(WEB.workload, WEB.labels)
    assert [guard.name for guard in found] == [f"PodDisruptionBudget/shop/{n}" for n in "abc"]
    assert not guards.disruptions_of("ResourceBinding/shop/web", WEB.labels)
    assert not guards.disruptions_of("Pod/other/web-1", WEB.labels)
    guards.put("EvictionPause//a", moorage_object("EvictionPause", "a", scope={"namespaces": ["none"]}))
    for name in ("b", "c"):
        guards.put(resource_key("EvictionPause", "", name), None)
    assert guards
    assert not guards.pauses_of(WEB)
    guards.put("EvictionPause//a", None)
    for name in ("a", "b", "c"):
        guards.put(resource_key("PodDisruptionBudget", "shop", name), None)
    assert not guards


@pytest.mark.parametrize(("selector", "selects"), [(None, False), ({}, True), ({"matchLabels": {"app": "db"}}, False)])
def test_an_absent_selector_selects_nothing(selector: dict[str, Any] | None, *, selects: bool) -> None:
    assert disruption_of(pdb(selector=selector, minAvailable=1)).selects(WEB.labels) is selects


@table(
    ("amount", "base", "limit"),
    [(0, 5, 0), (3, 5, 3), ("0%", 5, 0), ("10%", 5, 1), ("50%", 5, 3), ("100%", 5, 5), ("10%", 0, 0), ("1%", 100, 1)],
)
def test_a_percentage_is_rounded_up(amount: int | str, base: int, limit: int) -> None:
    assert BudgetShare.of(amount, "spec.maxConcurrent").limit(base) == limit


@pytest.mark.parametrize("amount", [-1, "5", "x%", "%", "-5%"])
def test_what_is_no_amount_is_named(amount: int | str) -> None:
    with pytest.raises(ValueError, match=r"spec.maxConcurrent: Invalid value: "):
        budget_of(moorage_object("EvictionBudget", "slow", maxConcurrent=amount))


@pytest.mark.parametrize(
    ("per", "part"), [("Fleet", ""), ("Zone", "eu/eu-1"), ("Namespace", "shop"), ("Workload", "Deployment/shop/web")]
)
def test_what_has_a_count_of_its_own(per: str, part: str) -> None:
    assert budget_of(moorage_object("EvictionBudget", "slow", per=per, maxConcurrent=1)).part(WEB) == part


@table(
    ("spec", "pods", "healthy", "scale", "expected"),
    [
        ({"minAvailable": 2}, 3, 3, None, (3, 2, 1)),
        ({"minAvailable": 2}, 3, 2, 3, (3, 2, 0)),
        ({"minAvailable": 2}, 3, 1, 3, (3, 2, 0)),
        ({"minAvailable": 0}, 3, 1, 3, (3, 0, 1)),
        ({"minAvailable": 0}, 0, 0, 3, (0, 0, 0)),
        ({"minAvailable": "50%"}, 2, 5, 5, (5, 3, 2)),
        ({"minAvailable": "100%"}, 5, 5, 5, (5, 5, 0)),
        ({"minAvailable": "50%"}, 2, 2, 0, (0, 0, 0)),
        ({"maxUnavailable": 1}, 3, 3, 3, (3, 2, 1)),
        ({"maxUnavailable": 1}, 2, 2, 3, (3, 2, 0)),
        ({"maxUnavailable": 9}, 3, 3, 3, (3, 0, 3)),
        ({"maxUnavailable": "30%"}, 5, 5, 5, (5, 3, 2)),
        ({"maxUnavailable": 1}, 3, 3, None, (0, 0, 0)),
        ({"minAvailable": "10%"}, 3, 3, None, (0, 0, 0)),
        ({}, 3, 3, 3, (0, 0, 0)),
    ],
)
def test_disruptions_as_policy_v1_counts_them(
    spec: dict[str, Any], pods: int, healthy: int, scale: int | None, expected: tuple[int, int, int]
) -> None:
    count = disruptions(disruption_of(pdb(**spec)), pods=pods, healthy=healthy, scale=scale)
    assert (count.expected, count.desired, count.allowed) == expected


@pytest.mark.parametrize(
    ("count", "always", "goes"),
    [
        (Disruptions(3, 2, 2), False, True),
        (Disruptions(3, 2, 1), False, False),
        (Disruptions(3, 2, 1), True, True),
        (Disruptions(3, 0, 0), False, False),
        (Disruptions(3, 0, 1), False, True),
        (Disruptions(0, 0, 1, scaled=False), False, False),
        (Disruptions(0, 0, 1, scaled=False), True, True),
    ],
)
def test_an_unhealthy_pod_goes_when_the_rest_is_whole(count: Disruptions, *, always: bool, goes: bool) -> None:
    assert count.lets_go_unhealthy(always=always) is goes


@given(
    st.integers(0, 30),
    st.integers(0, 30),
    st.integers(0, 30),
    st.sampled_from(["minAvailable", "maxUnavailable"]),
    st.one_of(st.integers(0, 30), st.integers(0, 100).map(lambda n: f"{n}%")),
)
def test_never_fewer_than_desired_stay(pods: int, healthy: int, scale: int, field: str, amount: int | str) -> None:
    spec: dict[str, Any] = {field: amount}
    count = disruptions(disruption_of(pdb(**spec)), pods=pods, healthy=healthy, scale=scale)
    assert count.allowed == 0 or healthy - count.allowed >= count.desired
    assert 0 <= count.allowed <= healthy
