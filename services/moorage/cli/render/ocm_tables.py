"""Columns of Open Cluster Management's kinds, as its users know them, and of leases and roles."""

from __future__ import annotations

from typing import Any, Final

from moorage.cli.api.objects import at
from moorage.cli.render.cells import (
    AGE,
    NONE,
    Cell,
    Columns,
    Object,
    condition_status,
    labels_text,
    since,
    taints,
    text,
)
from moorage_schemas.resources.names import MANAGED_CLUSTER_AVAILABLE, SET_LABEL

PLACEMENT_LABEL = "cluster.open-cluster-management.io/placement"
GROUP_NAME_LABEL = "cluster.open-cluster-management.io/decision-group-name"
GROUP_INDEX_LABEL = "cluster.open-cluster-management.io/decision-group-index"
JOINED = "ManagedClusterJoined"
SATISFIED = "PlacementSatisfied"


def condition(found: Object, kind: str, field: str = "status") -> str:
    """A field of a condition of an object; `<none>` when it has no such condition."""
    for one in at(found, "status", "conditions") or []:
        if one.get("type") == kind:
            return str(one.get(field) or NONE)
    return NONE


def _condition(kind: str, field: str = "status") -> Cell:
    return lambda found: condition(found, kind, field)


def _urls(found: Object) -> str:
    configs = at(found, "spec", "managedClusterClientConfigs") or []
    return ",".join(str(one.get("url")) for one in configs if one.get("url")) or NONE


def _label(name: str) -> Cell:
    return lambda found: str(at(found, "metadata", "labels", name) or NONE)


def decided(found: Object) -> list[str]:
    """The clusters of a PlacementDecision."""
    return [str(one.get("clusterName")) for one in at(found, "status", "decisions") or []]


def selector_text(selector: Any) -> str:
    """A label selector in one line, as it is written on the command line; `<all>` when it is empty."""
    parts = [f"{key}={value}" for key, value in sorted((at(selector, "matchLabels") or {}).items())]
    for one in at(selector, "matchExpressions") or []:
        key, operator = one.get("key"), one.get("operator")
        values = ",".join(one.get("values") or [])
        words = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "DoesNotExist": f"!{key}"}
        parts.append(words.get(str(operator), str(key)))
    return ",".join(parts) or "<all>"


_BY_LABEL = "ExclusiveClusterSetLabel"
"""How the type is called by which a label of a cluster names its one set."""


def set_text(found: Object) -> str:
    """How a set finds its clusters."""
    selector = at(found, "spec", "clusterSelector") or {}
    return (
        selector_text(selector.get("labelSelector")) if selector.get("selectorType") == "LabelSelector" else _BY_LABEL
    )


def _wanted(found: Object) -> str:
    number = at(found, "spec", "numberOfClusters")
    return "<all>" if number is None else str(number)


def scores_text(found: Object) -> str:
    """The scores of an AddOnPlacementScore: `cpu=30,memory=-5`."""
    return ",".join(f"{one.get('name')}={one.get('value', 0)}" for one in at(found, "status", "scores") or []) or NONE


def group_text(found: Object) -> str:
    """The decision group of a PlacementDecision: its index, and its name if it has one."""
    name, index = (at(found, "metadata", "labels", label) for label in (GROUP_NAME_LABEL, GROUP_INDEX_LABEL))
    return " ".join(filter(None, (str(index or "0"), f"({name})" if name else "")))


_DECISION: Columns = (
    (
        ("PLACEMENT", _label(PLACEMENT_LABEL)),
        ("CLUSTERS", lambda found: str(len(decided(found)))),
        ("GROUP", group_text),
    ),
    (("SELECTED", lambda found: ",".join(decided(found)) or NONE),),
)


_RULES: Columns = (
    (AGE,),
    (("RULES", lambda found: str(len(found.get("rules") or []))),),
)
_ROLE_REF: Columns = (
    (("ROLE", lambda found: f"{at(found, 'roleRef', 'kind')}/{at(found, 'roleRef', 'name')}"), AGE),
    (("SUBJECTS", lambda found: ",".join(str(one.get("name")) for one in found.get("subjects") or []) or NONE),),
)

COLUMNS: Final[dict[str, Columns]] = {
    "PlacementDecision": _DECISION,
    "ManagedCluster": (
        (
            ("HUB ACCEPTED", lambda found: str(bool(at(found, "spec", "hubAcceptsClient"))).lower()),
            ("MANAGED CLUSTER URLS", _urls),
            ("JOINED", _condition(JOINED)),
            ("AVAILABLE", lambda found: condition_status(found, MANAGED_CLUSTER_AVAILABLE) or "Unknown"),
            AGE,
        ),
        (("CLUSTER SET", _label(SET_LABEL)), ("TAINTS", taints(None)), ("LABELS", labels_text)),
    ),
    "ManagedClusterSet": (
        (("EMPTY", _condition("ClusterSetEmpty")), AGE),
        (("SELECTOR", set_text), ("CLUSTERS", _condition("ClusterSetEmpty", "message"))),
    ),
    "ManagedClusterSetBinding": (
        (("CLUSTER SET", text("spec", "clusterSet")), ("BOUND", _condition("Bound")), AGE),
        (("REASON", _condition("Bound", "reason")),),
    ),
    "Placement": (
        (
            ("SUCCEEDED", _condition(SATISFIED)),
            ("REASON", _condition(SATISFIED, "reason")),
            ("SELECTEDCLUSTERS", text("status", "numberOfSelectedClusters")),
        ),
        (("WANTED", _wanted), ("MESSAGE", _condition(SATISFIED, "message")), AGE),
    ),
    "AddOnPlacementScore": (
        (("SCORES", scores_text), ("VALID UNTIL", text("status", "validUntil")), AGE),
        (),
    ),
    "ManagedClusterAddOn": (
        (
            ("AVAILABLE", _condition("Available")),
            ("DEGRADED", _condition("Degraded")),
            ("PROGRESSING", _condition("Progressing")),
        ),
        (("REASON", _condition("Available", "reason")), AGE),
    ),
    "Lease": (
        (("HOLDER", text("spec", "holderIdentity")), AGE),
        (
            ("RENEWED", since("spec", "renewTime")),
            ("SECONDS", text("spec", "leaseDurationSeconds")),
        ),
    ),
    "ClusterRole": _RULES,
    "Role": _RULES,
    "ClusterRoleBinding": _ROLE_REF,
    "RoleBinding": _ROLE_REF,
}
