"""A declared resource of a kind that policies can claim."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Final

from moorage.decide.scheduling.karmada.policy_match import Claimable
from moorage.decide.scheduling.nodes.workloads import text_labels
from moorage.workers.placement.karmada.mirrored_binding import MirroredBinding, mirrored_binding
from moorage_schemas.refs import WorkloadRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.workload_kinds import BINDING_KINDS, PROPAGATED

CLAIMABLE: Final = tuple(f"{kind}/" for kind in PROPAGATED)
PLACED: Final = tuple(f"{kind}/" for kind in BINDING_KINDS)
"""How the keys of the workloads begin that claimed resources become."""


@dataclass(slots=True, eq=False)
class ClaimedResource:
    """A declared resource of a kind that policies can claim, or a mirrored binding, which was claimed elsewhere."""

    ref: WorkloadRef
    uid: str
    version: int
    claimable: Claimable
    mirrored: MirroredBinding | None = None


def is_part(event: ResourceDeclared) -> bool:
    """Return whether a resource is a replica set that keeps a template of a deployment. The deployment is placed."""
    if event.kind != "ReplicaSet":
        return False
    owners = (event.object.get("metadata") or {}).get("ownerReferences") or ()
    return any(one.get("controller") and one.get("kind") == "Deployment" for one in owners)


def resource_of(event: ResourceDeclared) -> ClaimedResource:
    """Return the fields of a resource that the state keeps.

    Raises:
        ValidationError: it is a mirrored binding that cannot be read. The gateway refuses those.
    """
    if event.kind in BINDING_KINDS and (found := mirrored_binding(event)) is not None:
        ref = WorkloadRef(kind=event.kind, namespace=event.namespace, name=event.name)
        return ClaimedResource(ref, event.uid, event.version, found.claimable, found)
    metadata = event.object.get("metadata") or {}
    api_version, kind = sys.intern(str(event.object.get("apiVersion", ""))), sys.intern(event.kind)
    namespace, name = sys.intern(event.namespace), event.name
    return ClaimedResource(
        ref=WorkloadRef(kind=kind, namespace=namespace, name=name),
        uid=event.uid,
        version=event.version,
        claimable=Claimable(api_version, kind, namespace, name, text_labels(metadata.get("labels"))),
    )
