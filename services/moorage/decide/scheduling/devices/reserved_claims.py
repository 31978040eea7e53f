"""Which claims a pod uses: those that it names, that are allocated, and that are reserved for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moorage.decide.kubernetes.unstructured import at, parts_at
from moorage_schemas.resources.devices import ResourceClaim

_POD: Final = ("", "pods")


def claims_of(pod: Mapping[str, Any], claims: Mapping[tuple[str, str], ResourceClaim]) -> list[ResourceClaim]:
    """Return the allocated claims that a bound pod uses. A pod without a node uses none.

    A claim that was made from a template is named in the pod's status, and belongs to the pod (its controller). Source:
    `Name`, `IsForPod` and `IsReservedForPod` in k8s.io/dynamic-resource-allocation/resourceclaim.

    Args:
        pod: the pod's object.
        claims: the claims by namespace and name.
    """
    if not at(pod, "spec", "nodeName"):
        return []
    namespace, uid = str(at(pod, "metadata", "namespace") or ""), str(at(pod, "metadata", "uid") or "")
    generated = {
        str(one.get("name")): one.get("resourceClaimName") for one in parts_at(pod, "status", "resourceClaimStatuses")
    }
    found = []
    for reference in parts_at(pod, "spec", "resourceClaims"):
        name = reference.get("resourceClaimName")
        own = not name
        if own:
            name = generated.get(str(reference.get("name"))) if reference.get("resourceClaimTemplateName") else None
        claim = claims.get((namespace, str(name))) if name else None
        if claim is None or claim.status.allocation is None or (own and not _belongs(claim, uid)):
            continue
        if any((one.api_group, one.resource, one.uid) == (*_POD, uid) for one in claim.status.reserved_for or ()):
            found.append(claim)
    return found


def _belongs(claim: ResourceClaim, uid: str) -> bool:
    return any(one.controller and one.uid == uid for one in claim.metadata.owner_references or ())
