"""Which policy places a resource."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.tables import table

from moorage.decide.scheduling.karmada.policy_match import Claimable, Policy, claim, match_of, policy_of

WEB = Claimable("apps/v1", "Deployment", "shop", "web", {"app": "web"})
ALL = {"apiVersion": "apps/v1", "kind": "Deployment"}
BY_NAME = {**ALL, "name": "web"}
BY_LABELS = {**ALL, "labelSelector": {"matchLabels": {"app": "web"}}}


def policy(
    name: str, *selectors: dict[str, Any], namespace: str = "shop", priority: int = 0, preemption: str = "Never"
) -> Policy:
    spec = {"resourceSelectors": list(selectors) or [ALL], "priority": priority, "preemption": preemption}
    kind = "PropagationPolicy" if namespace else "ClusterPropagationPolicy"
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return policy_of({"apiVersion": "policy.karmada.io/v1alpha1", "kind": kind, "metadata": meta, "spec": spec})


def wide(name: str, *selectors: dict[str, Any], priority: int = 0, preemption: str = "Never") -> Policy:
    return policy(name, *selectors, namespace="", priority=priority, preemption=preemption)


def winner(*policies: Policy, held: str = "") -> str:
    found = claim(WEB, policies, held)
    assert found is claim(WEB, policies[::-1], held), "their order does not matter"
    return found.name if found is not None else ""


@table(
    ("selector", "closeness"),
    [
        (ALL, 1),
        (BY_LABELS, 2),
        (BY_NAME, 3),
        ({**BY_NAME, "labelSelector": {"matchLabels": {"app": "other"}}}, 3),
        ({**ALL, "name": "other"}, 0),
        ({**ALL, "labelSelector": {"matchLabels": {"app": "other"}}}, 0),
        ({**ALL, "labelSelector": {}}, 2),
        ({**ALL, "kind": "StatefulSet"}, 0),
        ({**ALL, "apiVersion": "v1"}, 0),
        ({**ALL, "namespace": "other"}, 0),
        ({**ALL, "namespace": "shop"}, 1),
    ],
)
def test_how_closely_a_selector_names_a_resource(selector: dict[str, Any], closeness: int) -> None:
    assert match_of(wide("p", selector), WEB) == closeness


@table(
    ("policies", "expected"),
    [
        ([], ""),
        ([policy("p", namespace="other")], ""),
        ([policy("p"), wide("c", BY_NAME, priority=9)], "p"),
        ([policy("a", BY_NAME), policy("b", priority=1)], "b"),
        ([policy("a"), policy("b", BY_LABELS)], "b"),
        ([policy("a", BY_LABELS), policy("b", BY_NAME)], "b"),
        ([policy("b"), policy("a")], "a"),
        ([wide("b"), wide("a"), wide("c", priority=-1)], "a"),
    ],
)
def test_the_policy_of_a_resource_that_none_has_claimed(policies: list[Policy], expected: str) -> None:
    assert winner(*policies) == expected


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        ([policy("held"), policy("p", BY_NAME, priority=9)], "held"),
        ([policy("held"), policy("p", priority=9, preemption="Always")], "p"),
        ([policy("held"), policy("p", BY_NAME, preemption="Always")], "held"),
        ([policy("held", priority=1), policy("p", priority=1, preemption="Always")], "held"),
        ([policy("held"), wide("c", priority=9, preemption="Always")], "held"),
        ([policy("held", {**ALL, "name": "other"}), policy("p", priority=-9)], "p"),
        (
            [
                policy("held"),
                policy("p", priority=1, preemption="Always"),
                policy("q", priority=2, preemption="Always"),
                policy("r", priority=3),
            ],
            "q",
        ),
    ],
)
def test_the_policy_of_a_resource_that_one_has_claimed(policies: list[Policy], expected: str) -> None:
    assert winner(*policies, held="PropagationPolicy/shop/held") == expected


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        ([wide("held"), policy("p", priority=9)], "held"),
        ([wide("held", priority=9), policy("p", preemption="Always")], "p"),
        ([wide("held"), wide("c", priority=1, preemption="Always")], "c"),
        ([wide("held"), wide("c", preemption="Always")], "held"),
    ],
)
def test_the_policy_of_a_resource_that_a_policy_for_all_has_claimed(policies: list[Policy], expected: str) -> None:
    assert winner(*policies, held="ClusterPropagationPolicy//held") == expected


def test_another_placement_has_another_key() -> None:
    def key(**placement: Any) -> str:
        spec = {"resourceSelectors": [ALL], "placement": placement}
        meta = {"name": "p", "namespace": "shop"}
        document = {"apiVersion": "v1", "kind": "PropagationPolicy", "metadata": meta, "spec": spec}
        return policy_of(document).placement_key

    assert key() == key()
    assert key() != key(clusterAffinity={"clusterNames": ["a"]})
