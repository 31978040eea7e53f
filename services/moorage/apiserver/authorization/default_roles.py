"""The roles and bindings that every fleet has: those of `default_roles.yaml`, and those of the default cluster sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from moorage.apiserver.rbac.bindings import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, GROUP
from moorage.apiserver.rbac.cluster_sets import set_roles
from moorage.apiserver.rbac.reconciliation import AUTOUPDATE
from moorage_schemas.resources.managed import DEFAULT_SET, GLOBAL_SET

Document = dict[str, Any]

_API_VERSION: Final = f"{GROUP}/v1"
_LABELS: Final = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_ANNOTATIONS: Final = {AUTOUPDATE: "true"}


@cache
def default_roles() -> tuple[Document, ...]:
    """Return the ClusterRoles that every fleet has. Do not change them; copy them."""
    own = (_role(name, said) for name, said in _data()["roles"].items())
    return (*own, *set_roles(DEFAULT_SET), *set_roles(GLOBAL_SET))


@cache
def default_bindings() -> tuple[Document, ...]:
    """Return the ClusterRoleBindings that every fleet has. Do not change them; copy them."""
    return tuple(_binding(role, groups) for role, groups in _data()["bindings"].items())


@cache
def _data() -> Document:
    found: Document = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    return found


def _role(name: str, said: Mapping[str, Any]) -> Document:
    """Return a ClusterRole: with rules, or with those of the roles that have one of some labels."""
    labels = {**_LABELS, **dict.fromkeys(said.get("labels", ()), "true")}
    document: Document = {
        "apiVersion": _API_VERSION,
        "kind": CLUSTER_ROLE,
        "metadata": {"name": name, "labels": labels, "annotations": dict(_ANNOTATIONS)},
        "rules": said.get("rules", []),
    }
    if aggregates := said.get("aggregates"):
        selectors = [{"matchLabels": {label: "true"}} for label in aggregates]
        document["aggregationRule"] = {"clusterRoleSelectors": selectors}
    return document


def _binding(role: str, groups: Sequence[str]) -> Document:
    """Return a ClusterRoleBinding with the name of its role."""
    return {
        "apiVersion": _API_VERSION,
        "kind": CLUSTER_ROLE_BINDING,
        "metadata": {"name": role, "labels": dict(_LABELS), "annotations": dict(_ANNOTATIONS)},
        "roleRef": {"apiGroup": GROUP, "kind": CLUSTER_ROLE, "name": role},
        "subjects": [{"apiGroup": GROUP, "kind": "Group", "name": group} for group in groups],
    }
