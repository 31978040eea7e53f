"""Roles and bindings that should be there, beside those that are: what is missing is added, and nothing is taken away.

Source: `k8s.io/component-helpers/auth/rbac/reconciliation`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from moorage.apiserver.rbac.bindings import RoleRef
from moorage.apiserver.rbac.rules import missing_rules, rules_of
from moorage.decide.kubernetes.unstructured import part

AUTOUPDATE: Final = "rbac.authorization.kubernetes.io/autoupdate"
"""The annotation of roles and bindings that are kept as they should be, unless it is `false`."""

Document = dict[str, Any]


def is_left_alone(present: Mapping[str, Any]) -> bool:
    """Return whether a role or a binding is marked to stay as it is."""
    return part(part(present, "metadata"), "annotations").get(AUTOUPDATE) == "false"


def reconciled_role(expected: Mapping[str, Any], present: Mapping[str, Any]) -> Document:
    """Return a role with what it lacks of what is expected."""
    found = {**present, "metadata": _metadata(expected, present)}
    selectors = part(expected, "aggregationRule").get("clusterRoleSelectors")
    if selectors:
        there = part(present, "aggregationRule").get("clusterRoleSelectors") or []
        if missing := [one for one in selectors if one not in there]:
            found["aggregationRule"] = {"clusterRoleSelectors": [*there, *missing]}
    elif lacking := missing_rules(rules_of(present.get("rules")), rules_of(expected.get("rules"))):
        found["rules"] = [*(present.get("rules") or ()), *(rule.document() for rule in lacking)]
    return found


def reconciled_binding(expected: Mapping[str, Any], present: Mapping[str, Any]) -> Document | None:
    """Return a binding with what it lacks of what is expected. None if it gives another role: it has to be replaced."""
    if RoleRef.of(expected.get("roleRef")) != RoleRef.of(present.get("roleRef")):
        return None
    there = present.get("subjects") or []
    missing = missing_subjects(there, expected.get("subjects") or ())
    found = {**present, "metadata": _metadata(expected, present)}
    return {**found, "subjects": [*there, *missing]} if missing else found


def missing_subjects(there: Iterable[Mapping[str, Any]], wanted: Iterable[Mapping[str, Any]]) -> list[Document]:
    """Return the subjects that are wanted and missing."""
    known = {_subject(one) for one in there}
    return [dict(one) for one in wanted if _subject(one) not in known]


def _metadata(expected: Mapping[str, Any], present: Mapping[str, Any]) -> Document:
    metadata = dict(part(present, "metadata"))
    for field in ("labels", "annotations"):
        wanted, there = part(part(expected, "metadata"), field), part(metadata, field)
        if wanted.keys() - there.keys():
            metadata[field] = {**wanted, **there}
    return metadata


def _subject(found: Mapping[str, Any]) -> tuple[str, str, str]:
    return str(found.get("kind") or ""), str(found.get("namespace") or ""), str(found.get("name") or "")
