"""Controllers of pods that live in a real cluster, as the pods' `metadata.ownerReferences` name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from moorage.decide.kubernetes.unstructured import at
from moorage.decide.scheduling.nodes.workloads import text_labels
from moorage_schemas.refs import WorkloadRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.workload_kinds import SCALED

_DEPLOYMENT: Final = "Deployment"
_GROUPS: Final = frozenset({"", "apps", "batch"})
"""The API groups of the controllers that Moorage identifies by their kind alone."""


def controller_reference(event: ResourceDeclared) -> WorkloadRef | None:
    """Return the controller of a mirrored object. None if it has none.

    A kind of another group than Kubernetes' own is written with its group, `Kind.group`, because it may have the name
    of one of them.
    """
    metadata = event.object.get("metadata")
    references = metadata.get("ownerReferences") if isinstance(metadata, Mapping) else None
    for reference in references if isinstance(references, list) else ():
        if isinstance(reference, Mapping) and reference.get("controller") is True:
            return _ref(reference, event)
    return None


def controller_key(event: ResourceDeclared) -> str:
    """Return the key of the controller of an object in a real cluster. Empty if it has none, or lives here."""
    controller = controller_reference(event) if event.mirrored is not None else None
    return controller.key if controller is not None else ""


def scaled_template(event: ResourceDeclared) -> Mapping[str, str] | None:
    """Return the labels of the pods that a controller makes, if it states how many. Otherwise None.

    A ReplicaSet that a Deployment declared here keeps for its template makes none.
    """
    if event.kind not in SCALED:
        return None
    owner = controller_reference(event) if event.mirrored is None else None
    if owner is not None and owner.kind == _DEPLOYMENT:
        return None
    return text_labels(at(event.object, "spec", "template", "metadata", "labels"))


def _ref(reference: Mapping[str, Any], event: ResourceDeclared) -> WorkloadRef | None:
    group, slash, _ = str(reference.get("apiVersion") or "").partition("/")
    kind = str(reference.get("kind") or "")
    if slash and group not in _GROUPS:
        kind = f"{kind}.{group}"
    try:
        return WorkloadRef(
            kind=kind, namespace=event.namespace, name=str(reference.get("name") or ""), cluster=event.cluster
        )
    except ValidationError:  # a name that cannot be in a key; the pod then counts as its own owner
        return None
