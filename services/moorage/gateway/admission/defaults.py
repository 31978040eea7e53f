"""What the gateway makes of an object before it is written: system fields, defaults, what is not kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from moorage.core.admission.defaults import admit_cluster, admit_pod, admit_propagation
from moorage.core.admission.ocm_defaults import admit_managed_cluster
from moorage_schemas.refs import TargetKind
from moorage_schemas.resources.dedicated import DedicatedNodes
from moorage_schemas.times import format_time

Document = dict[str, Any]

_TARGETS = frozenset(kind.value for kind in TargetKind)
_NOT_KEPT = frozenset({"resourceVersion", "managedFields", "selfLink", "deletionTimestamp"})
_DECIDED = frozenset({"conditions", "heldTaints"})
"""Parts of a target's status that the services decide."""

_SYSTEM = ("uid", "creationTimestamp", "generation")


def prepared(document: Mapping[str, Any], rules: Iterable[DedicatedNodes]) -> Document:
    """An object with the defaults of admission, and without what the services decide.

    A pod's status, a controller's status and a target's conditions are written by nobody but Moorage; what a target
    says it offers (`status.capacity`, `status.allocatable`) is kept.

    Raises:
        QuantityError: a pod's request or limit is no quantity.
    """
    kind = document["kind"]
    found = {**document, "metadata": {k: v for k, v in document["metadata"].items() if k not in _NOT_KEPT}}
    if kind in _TARGETS:
        status = {k: v for k, v in (found.get("status") or {}).items() if k not in _DECIDED}
        found = {k: v for k, v in found.items() if k != "status"} | ({"status": status} if status else {})
        spec = found.get("spec") or {}
        found = {**found, "spec": {key: value for key, value in spec.items() if key != "taints"}}
        if kind == TargetKind.MANAGED_CLUSTER:
            return admit_managed_cluster(found)
        return admit_cluster(found) if kind == TargetKind.CLUSTER else found
    if kind != "AddOnPlacementScore":  # all that it says is in its status
        found.pop("status", None)
    if kind == "Pod":
        return admit_pod(found, list(rules))
    if kind in {"PropagationPolicy", "ClusterPropagationPolicy"}:
        return admit_propagation(found)
    if kind == "Namespace":
        labels = found["metadata"].get("labels") or {}
        name = found["metadata"]["name"]
        found["metadata"]["labels"] = {**labels, "kubernetes.io/metadata.name": name}
    return found


def created(document: Document, *, uid: str, now: datetime) -> Document:
    """A new object with its system fields."""
    metadata = {
        **document["metadata"],
        "uid": uid,
        "creationTimestamp": format_time(now.replace(microsecond=0)),
        "generation": 1,
    }
    return {**document, "metadata": metadata}


def updated(document: Document, stored: Mapping[str, Any], *, wished: bool) -> Document:
    """A changed object with the system fields of the one that is stored.

    Args:
        document: what is wanted.
        stored: what is stored.
        wished: the edit also changes the target's taints, which are part of its spec though not stored there.
    """
    before = stored["metadata"]
    metadata = {**document["metadata"], **{key: before[key] for key in _SYSTEM if key in before}}
    if wished or _desired(document) != _desired(stored):
        metadata["generation"] = int(before.get("generation", 1)) + 1
    return {**document, "metadata": metadata}


def with_declared_node(document: Document, stored: Mapping[str, Any]) -> Document:
    """A pod without the node that placement chose for it: only what the person named is kept."""
    spec = {key: value for key, value in (document.get("spec") or {}).items() if key != "nodeName"}
    named = (stored.get("spec") or {}).get("nodeName")
    return {**document, "spec": {**spec, **({"nodeName": named} if named else {})}}


def _desired(document: Mapping[str, Any]) -> Document:
    return {key: value for key, value in document.items() if key not in {"metadata", "status", "apiVersion", "kind"}}
