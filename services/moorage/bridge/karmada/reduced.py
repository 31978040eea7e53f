"""Objects of a control plane as they are mirrored: what decisions and people need, without what is large."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moorage.bridge.ownership import TAINTS_ANNOTATION, foreign_taints
from moorage.core.scheduling.karmada.mirrored import KARMADA_SCHEDULER, SCHEDULER
from moorage_schemas.resources.workload_kinds import BINDING_KINDS

JsonObject = dict[str, Any]

_METADATA: Final = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "labels",
    "ownerReferences",
    "finalizers",
)
_LONGEST_ANNOTATION: Final = 1024
_DROPPED: Final = frozenset(
    {"kubectl.kubernetes.io/last-applied-configuration", "policy.karmada.io/applied-placement", TAINTS_ANNOTATION}
)
_CLUSTER_SPEC: Final = ("syncMode", "id", "provider", "region", "zone", "zones", "resourceModels")
_CLUSTER_STATUS: Final = ("kubernetesVersion", "apiEnablements", "nodeSummary", "resourceSummary")
_HEALTH: Final = ("clusterName", "applied", "health")


def reduced(found: Mapping[str, Any], scheduler: str) -> JsonObject:
    """Return an object as it is mirrored, with its `metadata.resourceVersion`.

    Args:
        found: the object.
        scheduler: the `spec.schedulerName` of the bindings that Moorage places, beside those that name it.
    """
    kind = str(found["kind"])
    body = _cluster(found) if kind == "Cluster" else _binding(found, scheduler) if kind in BINDING_KINDS else None
    return {
        "apiVersion": found["apiVersion"],
        "kind": kind,
        "metadata": _metadata(found.get("metadata") or {}),
        **({"spec": found.get("spec") or {}} if body is None else body),
    }


def _metadata(metadata: Mapping[str, Any]) -> JsonObject:
    annotations = {
        name: value
        for name, value in (metadata.get("annotations") or {}).items()
        if name not in _DROPPED and len(value) <= _LONGEST_ANNOTATION
    }
    kept = _kept(metadata, _METADATA)
    return {**kept, "annotations": annotations} if annotations else kept


def _cluster(found: Mapping[str, Any]) -> JsonObject:
    kept = _kept(found.get("spec") or {}, _CLUSTER_SPEC)
    if taints := foreign_taints(found):
        kept["taints"] = taints
    return {"spec": kept, "status": _kept(found.get("status") or {}, _CLUSTER_STATUS)}


def _binding(found: Mapping[str, Any], scheduler: str) -> JsonObject:
    """A binding, which says by its scheduler's name whether Moorage places it."""
    spec, status = dict(found.get("spec") or {}), found.get("status") or {}
    named = str(spec.get("schedulerName") or KARMADA_SCHEDULER)
    spec["schedulerName"] = SCHEDULER if named == scheduler else named
    health = [_kept(one, _HEALTH) for one in status.get("aggregatedStatus") or ()]
    kept = _kept(status, ("schedulerObservingAffinityName", "lastScheduledTime", "conditions"))
    return {"spec": spec, "status": {**kept, "aggregatedStatus": health} if health else kept}


def _kept(found: Mapping[str, Any], names: tuple[str, ...]) -> JsonObject:
    return {name: found[name] for name in names if found.get(name) not in (None, "", [], {})}
