"""Functions that Open Cluster Management's kinds share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moorage.apiserver.kinds.printing.columns import Object, condition_status
from moorage.decide.kubernetes.unstructured import at
from moorage_schemas.resources.names import MANAGED_CLUSTER_AVAILABLE, PLACEMENT_LABEL

if TYPE_CHECKING:
    from moorage.apiserver.kinds.printing.sections import Related
    from moorage.decide.scheduling.ocm.cluster_sets import ManagedSets


def available(found: Object) -> str:
    """Whether a managed cluster is available: `True`, `False` or `Unknown`."""
    return condition_status(found, MANAGED_CLUSTER_AVAILABLE) or "Unknown"


def decided(found: Object) -> list[str]:
    """The clusters of a PlacementDecision."""
    return [str(one.get("clusterName")) for one in at(found, "status", "decisions") or []]


def group_text(found: Object) -> str:
    """The decision group of a PlacementDecision: its index, and its name if it has one."""
    prefix = "cluster.open-cluster-management.io/decision-group"
    name, index = (at(found, "metadata", "labels", f"{prefix}-{field}") for field in ("name", "index"))
    return " ".join(filter(None, (str(index or "0"), f"({name})" if name else "")))


def placement_of(found: Object) -> str:
    """The placement of a PlacementDecision."""
    return str(at(found, "metadata", "labels", PLACEMENT_LABEL) or "")


def selector_text(selector: Any) -> str:
    """A label selector in one line, as it is written on the command line. `<all>` if it is empty."""
    parts = [f"{key}={value}" for key, value in sorted((at(selector, "matchLabels") or {}).items())]
    for one in at(selector, "matchExpressions") or []:
        key, operator = one.get("key"), one.get("operator")
        values = ",".join(one.get("values") or [])
        words = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "DoesNotExist": f"!{key}"}
        parts.append(words.get(str(operator), str(key)))
    return ",".join(parts) or "<all>"


def sets(related: Related) -> ManagedSets:
    """The sets of managed clusters."""
    from pydantic import ValidationError

    from moorage.decide.scheduling.ocm.cluster_sets import ManagedSets
    from moorage_schemas.resources.managed import ManagedClusterSet

    found = ManagedSets()
    for one in related.list("ManagedClusterSet"):
        head = {"apiVersion": "cluster.open-cluster-management.io/v1beta2", "kind": "ManagedClusterSet"}
        try:
            made = ManagedClusterSet.model_validate({**head, **one})
        except ValidationError:  # it is from a newer version of Moorage
            continue
        found.put(made.metadata.name, made.spec)
    return found
