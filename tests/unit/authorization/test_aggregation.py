"""ClusterRoles that consist of the rules of others."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.apiserver.rbac.rules import aggregated_rules, is_aggregated, rules_of

Json = dict[str, Any]


def rule(resource: str) -> Json:
    return {"verbs": ["get"], "apiGroups": [""], "resources": [resource]}


def role(name: str, *resources: str, **labels: str) -> Json:
    return {"metadata": {"name": name, "labels": labels}, "rules": [rule(one) for one in resources]}


def selecting(*selectors: Json, name: str = "all") -> Json:
    return {"metadata": {"name": name}, "aggregationRule": {"clusterRoleSelectors": list(selectors)}}


def found(aggregated: Json, *others: Json) -> list[str]:
    return [one.resources[0] for one in aggregated_rules(aggregated, [*others, aggregated])]


A = {"matchLabels": {"a": "yes"}}
B = {"matchExpressions": [{"key": "b", "operator": "Exists"}]}


def test_rules_come_by_selector_then_by_name_and_each_once() -> None:
    others = (role("z", "pods", "nodes", a="yes"), role("c", "nodes", b=""), role("d", "jobs", "pods", a="yes"))
    assert found(selecting(B, A), *others) == ["nodes", "jobs", "pods"]
    assert found(selecting(A, B), *others) == ["jobs", "pods", "nodes"]
    assert found(selecting(A), role("z", "pods", a="no")) == []
    assert found(selecting()) == []


def test_an_empty_selector_selects_all_but_the_role_itself() -> None:
    aggregated = {**selecting({}), "rules": [rule("secrets")]}
    assert found(aggregated, role("z", "pods")) == ["pods"]


def test_whether_a_role_is_aggregated() -> None:
    assert is_aggregated(selecting())
    assert not is_aggregated(role("z", "pods"))
    assert not is_aggregated({"aggregationRule": None})


@pytest.mark.parametrize("selector", [{"matchExpressions": [{"key": "a", "operator": "Near"}]}, {"matchLabels": 7}])
def test_what_is_no_selector_is_an_error(selector: Json) -> None:
    with pytest.raises(ValueError, match=r"aggregationRule\.clusterRoleSelectors"):
        aggregated_rules(selecting(selector), [])


def test_rules_are_compared_as_they_are_written() -> None:
    others = [role("z", "pods", a="yes")]
    assert tuple(aggregated_rules(selecting(A), others)) == rules_of([rule("pods")])
