"""ManagedClusterSets and permissions: the two roles of each set, and what they permit with its clusters.

Who may get a set may get its clusters, and who may update it may change and delete them. Sets by label selectors do not
count: who may change the selector would choose what he may do. In `global` everybody who may get it may get all.

Source: `stolostron/multicloud-operators-foundation`, which makes them beside Open Cluster Management.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from moorage.core.authorization.attributes import Attributes
from moorage.core.authorization.bindings import CLUSTER_ROLE, GROUP
from moorage_schemas.resources.names import GLOBAL_SET, SET_LABEL

Document = dict[str, Any]

OCM_GROUP: Final = "cluster.open-cluster-management.io"
REGISTER_GROUP: Final = "register.open-cluster-management.io"
SETS: Final = "managedclustersets"
CLUSTERS: Final = "managedclusters"

PREFIX: Final = "open-cluster-management:managedclusterset:"
"""How the names of these roles begin."""

VIEW_GROUP: Final = "clusterview.open-cluster-management.io"
"""The group in which everybody sees the clusters and sets that are his."""

_GET: Final = "get"
_VERBS: Final = {_GET: _GET, "list": _GET, "watch": _GET, "update": "update", "patch": "update", "delete": "update"}
"""The verb on a set that permits a verb on its clusters."""

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


def of_cluster(asked: Attributes) -> bool:
    """Whether a question is about one managed cluster, and may be permitted by its set."""
    return (
        asked.resource == CLUSTERS
        and asked.group == OCM_GROUP
        and bool(asked.name)
        and not asked.subresource
        and asked.verb in _VERBS
    )


def set_attributes(asked: Attributes, name: str) -> Iterator[Attributes]:
    """What permits something with a managed cluster of a set.

    Args:
        asked: what somebody asks to do with the cluster.
        name: of the exclusive set that the cluster is in.
    """
    yield Attributes(_VERBS[asked.verb], OCM_GROUP, "", SETS, "", "", name)
    if _VERBS[asked.verb] == _GET:
        yield Attributes(_GET, OCM_GROUP, "", SETS, "", "", GLOBAL_SET)


def set_of(role: str) -> str:
    """The name of the set whose role has a name. Empty if it is no such role."""
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
