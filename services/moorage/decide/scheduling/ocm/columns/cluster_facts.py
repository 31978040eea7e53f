"""The facts about a managed cluster, and about the scores of its add-ons, that placement uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, Self

from moorage.decide.kubernetes.quantities import QuantityError, canonical_text
from moorage_schemas.resources.managed import AddOnPlacementScore, Amounts, ManagedCluster
from moorage_schemas.taint import Taint

_NONE: Final[Mapping[str, str]] = {}


@dataclass(slots=True)
class ManagedClusterFacts:
    """One managed cluster.

    Attributes:
        labels: the labels of its object. The system's labels take precedence.
        claims: the value of each of its `status.clusterClaims`, by name. If a name occurs twice, the last value counts.
        taints: all taints. `time_added` may be missing.
        allocatable: quantities by resource, as written.
        capacity: quantities by resource, as written.
        document: the whole object with those labels and taints. CEL expressions see this.
        deleting: whether it is being deleted (`metadata.deletionTimestamp`). No placement may choose it then.
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
        """Return the facts of a `ManagedCluster` object.

        Args:
            document: the object, as in `resources`.
            taints: the merged taints of the cluster, as in `taints`. If None, the object's own `spec.taints`.
            labels: labels that the system maintains on the cluster (`TargetTainted.labels`). They take precedence.

        Raises:
            pydantic.ValidationError: the object is not a ManagedCluster.
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
    """Return the object as upstream passes it to CEL, without empty fields, and with fields that always exist."""
    metadata = {**(document.get("metadata") or {}), "labels": dict(labels)}
    spec = {"hubAcceptsClient": False, **(document.get("spec") or {})}
    spec["taints"] = [taint.model_dump(mode="json", by_alias=True, exclude_defaults=True) for taint in taints]
    status = {"conditions": [], "version": {}, **(document.get("status") or {})}
    for part, name in ((metadata, "labels"), (spec, "taints")):
        if not part[name]:
            del part[name]
    for name in ("capacity", "allocatable"):
        if amounts := status.get(name):
            status[name] = {resource: _canonical(amount) for resource, amount in amounts.items()}
    return {**document, "metadata": metadata, "spec": spec, "status": status}


@lru_cache(maxsize=16_384)
def _canonical(amount: str | float) -> str | float:
    """Return a quantity as upstream shows it. An invalid one stays."""
    try:
        return canonical_text(amount)
    except QuantityError:
        return amount


@dataclass(slots=True)
class ScoreFacts:
    """The scores that one `AddOnPlacementScore` gives to the cluster of its namespace.

    Attributes:
        scores: the scores by name. If a name occurs twice, the last score counts.
        valid_until: the last instant at which the scores count. None means forever.
    """

    cluster: str
    resource: str
    scores: Mapping[str, int]
    valid_until: datetime | None = None

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Return the scores of an `AddOnPlacementScore` object.

        Raises:
            pydantic.ValidationError: the object is not an AddOnPlacementScore.
        """
        found = AddOnPlacementScore.model_validate({"apiVersion": "", "kind": "", **document})
        return cls(
            cluster=found.metadata.namespace,
            resource=found.metadata.name,
            scores={item.name: item.value for item in found.status.scores or ()},
            valid_until=found.status.valid_until,
        )
