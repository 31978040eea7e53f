"""Flaws of roles and their bindings."""

from __future__ import annotations

from typing import Any

from tests.conformance.flaws.common import LABELS, Flaws, Starts

_GROUP = "rbac.authorization.k8s.io"
_NAMES: tuple[Any, ...] = ("a/b", "a%b", "..", "system:x y", "", None)
_VERBS: tuple[Any, ...] = ([], None, ["get"], ["*"])
_PATHS: tuple[Any, ...] = (["/x"], ["x"], ["/x*y", "*"], None)
_RULES: Flaws = {
    "rules.0.verbs": _VERBS,
    "rules.0.apiGroups": ([], None, ["*"]),
    "rules.0.resources": ([], None, ["pods/log", "*/scale"]),
    "rules.0.resourceNames": (["a"], [""]),
    "rules.0.nonResourceURLs": _PATHS,
    "rules.1.verbs": _VERBS,
    "rules.1.nonResourceURLs": _PATHS,
    "rules": ([], [{}], [{}, {"verbs": ["get"]}]),
    "metadata.name": _NAMES,
}
_SELECTORS: tuple[Any, ...] = (
    {},
    {"clusterRoleSelectors": []},
    {"clusterRoleSelectors": [{}]},
    *({"clusterRoleSelectors": [{"matchLabels": labels}]} for labels in LABELS),
    {"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "Near"}]}, {"matchLabels": {"a": "b"}}]},
    {"clusterRoleSelectors": [{}, {"matchExpressions": [{"key": "a", "operator": "In"}]}]},
    {"clusterRoleSelectors": [{"matchExpressions": [{"key": "a b", "operator": "Exists", "values": ["c d"]}]}]},
)
_GROUPS: tuple[Any, ...] = ("x", "", None, _GROUP)
_BINDING: Flaws = {
    "roleRef.apiGroup": _GROUPS,
    "roleRef.kind": ("Role", "Rule", "", None),
    "roleRef.name": _NAMES,
    "roleRef": ({}, None, {"name": "view"}),
    "subjects.0.kind": ("Robot", "ServiceAccount", "Group", "", None),
    "subjects.0.name": ("A_b", "", None, "system:x y", "a.b"),
    "subjects.0.apiGroup": _GROUPS,
    "subjects.0.namespace": ("x", "", "A_b"),
    "subjects.1.name": ("A_b", "", None),
    "subjects.1.namespace": ("", None, "A_b"),
    "subjects.1.apiGroup": _GROUPS,
    "subjects": ([], [{}], [{"name": "a"}]),
    "metadata.name": _NAMES,
}


def _role(kind: str) -> dict[str, Any]:
    rules = [
        {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]},
        {"verbs": ["list"], "apiGroups": ["apps"], "resources": ["deployments"]},
    ]
    return {"apiVersion": f"{_GROUP}/v1", "kind": kind, "rules": rules}


def _binding(kind: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": kind,
        "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": "view"},
        "subjects": [
            {"kind": "User", "name": "ann", "apiGroup": _GROUP},
            {"kind": "ServiceAccount", "name": "robot", "namespace": "shop"},
        ],
    }


STARTS: Starts = {
    "clusterroles": (_role("ClusterRole"), {**_RULES, "aggregationRule": _SELECTORS}),
    "roles": (_role("Role"), _RULES),
    "clusterrolebindings": (_binding("ClusterRoleBinding"), _BINDING),
    "rolebindings": (_binding("RoleBinding"), _BINDING),
}
