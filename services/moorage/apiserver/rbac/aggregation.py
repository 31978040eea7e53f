"""ClusterRoles that consist of the rules of others.

Source: `k8s.io/kubernetes/pkg/controller/clusterroleaggregation`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from moorage.apiserver.rbac.rules import PolicyRule, rules_of
from moorage.decide.kubernetes.selectors import check_requirement, matches_labels
from moorage.decide.kubernetes.unstructured import part
from moorage_schemas.resources.meta import LabelSelector

Document = Mapping[str, Any]


def is_aggregated(role: Document) -> bool:
    """Whether the rules of a ClusterRole are those of others."""
    return isinstance(role.get("aggregationRule"), Mapping)


def aggregated_rules(role: Document, others: Iterable[Document]) -> list[PolicyRule]:
    """Return the rules that an aggregated ClusterRole should have.

    Args:
        role: the role.
        others: all ClusterRoles. The role may be among them, and does not count.

    Raises:
        ValueError: a selector is none.
    """
    name = role["metadata"]["name"]
    known = sorted((one for one in others if one["metadata"]["name"] != name), key=lambda one: one["metadata"]["name"])
    found: dict[PolicyRule, None] = {}
    for selector in map(_selector, part(role, "aggregationRule").get("clusterRoleSelectors") or ()):
        for one in known:
            if matches_labels(selector, one["metadata"].get("labels")):
                found |= dict.fromkeys(rules_of(one.get("rules")))
    return list(found)


def _selector(found: Any) -> LabelSelector:
    try:
        selector = LabelSelector.model_validate(found)
    except ValidationError as error:
        raise ValueError(f"aggregationRule.clusterRoleSelectors: {error.errors()[0]['msg']}") from None
    for requirement in selector.match_expressions or ():
        if problem := check_requirement(requirement, node=False):
            raise ValueError(f"aggregationRule.clusterRoleSelectors: {requirement.key}: {problem}")
    return selector
