"""Objects of a hub as they are mirrored: what decisions and people need, without what only changes or is large."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from moorage.bridge.ownership import TAINTS_ANNOTATION, foreign_taints
from moorage.core.taints.desired.addons import LABEL_PREFIX

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
_DROPPED: Final = frozenset({"kubectl.kubernetes.io/last-applied-configuration", TAINTS_ANNOTATION})
_CLUSTER_STATUS: Final = ("capacity", "allocatable", "clusterClaims", "version")
_ADD_ON_STATUS: Final = ("conditions", "healthCheck")
_LEASE: Final = ("holderIdentity", "leaseDurationSeconds", "renewTime")


def reduced(found: Mapping[str, Any]) -> JsonObject:
    """Return an object as it is mirrored, with its `metadata.resourceVersion`."""
    kind = str(found["kind"])
    shrink = _KINDS.get(kind, _spec)
    return {
        "apiVersion": found["apiVersion"],
        "kind": kind,
        "metadata": _metadata(kind, found.get("metadata") or {}),
        **shrink(found),
    }


def _metadata(kind: str, metadata: Mapping[str, Any]) -> JsonObject:
    kept = _kept(metadata, _METADATA)
    if kind == "ManagedCluster" and "labels" in kept:
        # These labels say how add-ons are. Moorage decides that, also where it has written them there itself.
        labels = {name: value for name, value in kept.pop("labels").items() if not name.startswith(LABEL_PREFIX)}
        kept |= {"labels": labels} if labels else {}
    annotations = {
        name: value
        for name, value in (metadata.get("annotations") or {}).items()
        if name not in _DROPPED and len(value) <= _LONGEST_ANNOTATION
    }
    return {**kept, "annotations": annotations} if annotations else kept


def _cluster(found: Mapping[str, Any]) -> JsonObject:
    kept = _kept(found.get("spec") or {}, ("hubAcceptsClient", "leaseDurationSeconds"))
    if taints := foreign_taints(found):
        kept["taints"] = taints
    return {"spec": kept, "status": _kept(found.get("status") or {}, _CLUSTER_STATUS)}


def _score(found: Mapping[str, Any]) -> JsonObject:
    return {"status": _kept(found.get("status") or {}, ("scores", "validUntil"))}


def _add_on(found: Mapping[str, Any]) -> JsonObject:
    return {**_spec(found), "status": _kept(found.get("status") or {}, _ADD_ON_STATUS)}


def _decision(found: Mapping[str, Any]) -> JsonObject:
    return {"status": _kept(found.get("status") or {}, ("decisions",))}


def _lease(found: Mapping[str, Any]) -> JsonObject:
    return {"spec": _kept(found.get("spec") or {}, _LEASE)}


def _spec(found: Mapping[str, Any]) -> JsonObject:
    """A Placement, a set or a binding. Moorage computes its status itself."""
    return {"spec": dict(found.get("spec") or {})}


def _kept(found: Mapping[str, Any], names: tuple[str, ...]) -> JsonObject:
    return {name: found[name] for name in names if found.get(name) not in (None, "", [], {})}


_KINDS: Final[Mapping[str, Callable[[Mapping[str, Any]], JsonObject]]] = {
    "ManagedCluster": _cluster,
    "AddOnPlacementScore": _score,
    "ManagedClusterAddOn": _add_on,
    "Lease": _lease,
    "PlacementDecision": _decision,
}
