"""PersistentVolumes to which claims are bound: the nodes from which each can be reached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from moorage.decide.kubernetes.unstructured import part
from moorage_schemas.resources.pod import NodeSelector

ZONE_LABELS: Final = (
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
)
"""The labels of volumes and nodes with their zones and regions."""

_SEPARATOR: Final = "__"


class BoundVolume(NamedTuple):
    """A volume to which a claim of a pod is bound."""

    claim: str
    name: str
    exists: bool = True
    required: NodeSelector | None = None
    """The nodes from which it can be reached. None for all."""

    zones: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Its labels about zones and regions, each with the values that a node may have."""

    leaving: bool = False
    """Whether the claim is being deleted. Then no pod can begin to use it."""


def claimed(claim: str, name: str, known: BoundVolume | None, *, leaving: bool) -> BoundVolume | None:
    """Return the volume of a claim. None if the claim has no demands on nodes.

    Args:
        claim: the name of the claim.
        name: the name of the volume to which it is bound. Empty for none.
        known: the volume of this name, if it exists.
        leaving: whether the claim is being deleted.
    """
    if name and known is not None:
        return known._replace(claim=claim, leaving=leaving)
    return BoundVolume(claim, name, exists=not name, leaving=leaving) if name or leaving else None


def read_volume(found: Mapping[str, Any]) -> BoundVolume:
    """Return the facts of a PersistentVolume, without its claim. An unreadable node affinity selects no node."""
    metadata, affinity = part(found, "metadata"), part(part(found, "spec"), "nodeAffinity")
    required: NodeSelector | None = None
    if affinity.get("required") is not None:
        try:
            required = NodeSelector.model_validate(affinity["required"])
        except ValidationError:
            required = NodeSelector()
    labels = part(metadata, "labels")
    zones = tuple(
        (key, values) for key in ZONE_LABELS if isinstance(labels.get(key), str) and (values := _values(labels[key]))
    )
    return BoundVolume("", str(metadata.get("name") or ""), required=required, zones=zones)


def _values(text: str) -> tuple[str, ...]:
    """Return the values of a label that can have several. Empty if the text is not such a list."""
    values = tuple(one.strip() for one in text.split(_SEPARATOR))
    return () if "" in values else tuple(sorted(set(values)))
