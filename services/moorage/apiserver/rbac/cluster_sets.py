"""ManagedClusterSets and permissions: the two roles of each set, and what they permit with its clusters.

Who may get a set may get its clusters, and who may update it may change and delete them. Sets by label selectors do not
count: who may change the selector would choose what he may do. In `global` all users who may get it may get all.

Source: `stolostron/multicloud-operators-foundation`, which makes them beside Open Cluster Management.
"""

from __future__ import annotations

from typing import Any, Final

from moorage.apiserver.rbac.bindings import CLUSTER_ROLE, GROUP
from moorage.decide.scheduling.ocm.cluster_sets import CLUSTERS, OCM_GROUP, SETS
from moorage_schemas.resources.names import SET_LABEL

Document = dict[str, Any]

REGISTER_GROUP: Final = "register.open-cluster-management.io"

PREFIX: Final = "open-cluster-management:managedclusterset:"
"""How the names of these roles begin."""

VIEW_GROUP: Final = "clusterview.open-cluster-management.io"
"""The group in which users see their own clusters and sets."""

_VIEWED: Final = {
    "verbs": ["get", "list", "watch"],
    "apiGroups": [VIEW_GROUP],
    "resources": [CLUSTERS, SETS],
}


def set_roles(name: str) -> tuple[Document, Document]:
    """Return the ClusterRoles of a set: `…:admin:<set>` and `…:view:<set>`."""
    return (
        _role(
            "admin",
            name,
            _named(("get", "update"), SETS, name),
            _named(("create",), f"{SETS}/join", name),
            _named(("create",), f"{SETS}/bind", name),
            {"verbs": ["create"], "apiGroups": [OCM_GROUP], "resources": [CLUSTERS]},
            {"verbs": ["update"], "apiGroups": [REGISTER_GROUP], "resources": [f"{CLUSTERS}/accept"]},
            _VIEWED,
        ),
        _role("view", name, _named(("get",), SETS, name), _VIEWED),
    )


def set_of(role: str) -> str:
    """Return the name of the set whose role has a name. Empty if it is no such role."""
    kind, _, name = role.removeprefix(PREFIX).partition(":")
    return name if role.startswith(PREFIX) and kind in {"admin", "view"} else ""


def _role(kind: str, name: str, *rules: Document) -> Document:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": CLUSTER_ROLE,
        "metadata": {"name": f"{PREFIX}{kind}:{name}", "labels": {SET_LABEL: name}},
        "rules": list(rules),
    }


def _named(verbs: tuple[str, ...], resource: str, name: str) -> Document:
    return {"verbs": list(verbs), "apiGroups": [OCM_GROUP], "resources": [resource], "resourceNames": [name]}
