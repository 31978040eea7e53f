"""What placing sees of one managed cluster, and of the scores that add-ons give to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Self

from moorage_schemas.resources.managed import AddOnPlacementScore, Amounts, ManagedCluster
from moorage_schemas.taint import Taint

_NONE: Final[Mapping[str, str]] = {}


@dataclass(slots=True)
class ManagedClusterFacts:
    """One managed cluster.

    Attributes:
        name: the cluster's name.
        labels: the labels of its object, the system's on top.
        claims: value by name of its `status.clusterClaims`; of several with one name the last counts.
        taints: all of them; `time_added` may be missing.
        allocatable: quantities by resource, as written.
        capacity: quantities by resource, as written.
        document: the whole object with those labels and taints, which is what a CEL expression sees.
        deleting: whether it is about to go (`metadata.deletionTimestamp`), so that no placement may have it.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    claims: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    allocatable: Amounts = field(default_factory=dict)
    capacity: Amounts = field(default_factory=dict)
    document: Mapping[str, Any] = field(default_factory=dict)
    deleting: bool = False

    @classmethod
    def of(
        cls,
        document: Mapping[str, Any],
        *,
        taints: Sequence[Taint] | None = None,
        labels: Mapping[str, str] = _NONE,
    ) -> Self:
        """What placing sees of a `ManagedCluster` object.

        Args:
            document: the object, as in `resources`.
            taints: the merged taints of the cluster, as in `taints`; the object's own `spec.taints` when None.
            labels: labels that the system keeps on the cluster (`TargetTainted.labels`), which win.

        Raises:
            pydantic.ValidationError: it is no ManagedCluster.
        """
        cluster = ManagedCluster.model_validate({"apiVersion": "", "kind": "", **document})
        own = tuple(Taint(**taint.model_dump(include=set(Taint.model_fields))) for taint in cluster.spec.taints or ())
        merged = own if taints is None else tuple(taints)
        together = {**(cluster.metadata.labels or {}), **labels}
        status = cluster.status
        return cls(
            name=cluster.metadata.name,
            labels=together,
            claims={claim.name: claim.value for claim in status.cluster_claims or ()},
            taints=merged,
            allocatable=status.allocatable or {},
            capacity=status.capacity or {},
            document=_shown(document, merged, together),
            deleting=cluster.metadata.deletion_timestamp is not None,
        )


def _shown(document: Mapping[str, Any], taints: tuple[Taint, ...], labels: Mapping[str, str]) -> Mapping[str, Any]:
    """The object as upstream shows it to CEL: what is empty is left out, and what always is there is there."""
    metadata = {**(document.get("metadata") or {}), "labels": dict(labels)}
    spec = {"hubAcceptsClient": False, **(document.get("spec") or {})}
    spec["taints"] = [taint.model_dump(mode="json", by_alias=True, exclude_defaults=True) for taint in taints]
    status = {"conditions": [], "version": {}, **(document.get("status") or {})}
    for part, name in ((metadata, "labels"), (spec, "taints")):
        if not part[name]:
            del part[name]
    return {**document, "metadata": metadata, "spec": spec, "status": status}


@dataclass(slots=True)
class ScoreFacts:
    """The scores that one `AddOnPlacementScore` gives to the cluster of its namespace.

    Attributes:
        cluster: the cluster's name.
        resource: the object's name.
        scores: score by name; of several with one name the last counts.
        valid_until: the last instant at which they count; None for ever.
    """

    cluster: str
    resource: str
    scores: Mapping[str, int]
    valid_until: datetime | None = None

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """The scores of an `AddOnPlacementScore` object.

        Raises:
            pydantic.ValidationError: it is none.
        """
        found = AddOnPlacementScore.model_validate({"apiVersion": "", "kind": "", **document})
        return cls(
            cluster=found.metadata.namespace,
            resource=found.metadata.name,
            scores={item.name: item.value for item in found.status.scores or ()},
            valid_until=found.status.valid_until,
        )
