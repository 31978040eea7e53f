"""What a bridge knows of a managed cluster on the hub."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from moorage.bridge.events import Regarding
from moorage.bridge.ownership import Identity, follows_from_state, identity_of, own_taints, taints_of
from moorage.core.taints.desired.addons import LABEL_PREFIX
from moorage.core.taints.desired.leases import DEFAULT_GRACE, lease_grace
from moorage_schemas.resources.names import MANAGED_CLUSTER_AVAILABLE as AVAILABLE

_ACCEPTED: Final = "HubAcceptedManagedCluster"


class SeenCondition(NamedTuple):
    """A condition of a managed cluster as the hub has it."""

    status: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class SeenCluster:
    """A managed cluster as it was last seen.

    Attributes:
        name: its name.
        uid: its uid.
        version: its resource version.
        taints: all of its taints.
        own_taints: those that a bridge has noted as its own.
        managed_taints: those that it may remove: its own, and those that follow from whether the cluster is available.
            Whoever manages taints on a hub manages all of these.
        conditions: its conditions by type.
        add_on_labels: its labels that say how add-ons are.
        leaving: whether it is being deleted.
        grace: seconds without a renewal of its Lease after which it is silent. Infinity if the hub has never accepted
            it.
    """

    name: str
    uid: str
    version: str
    taints: Sequence[Mapping[str, Any]]
    own_taints: frozenset[Identity]
    managed_taints: frozenset[Identity]
    conditions: Mapping[str, SeenCondition]
    add_on_labels: Mapping[str, str]
    leaving: bool
    grace: float

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> SeenCluster:
        """Read a managed cluster."""
        metadata, spec = found["metadata"], found.get("spec") or {}
        conditions = {
            str(one.get("type")): SeenCondition(
                str(one.get("status") or "Unknown"), str(one.get("reason") or ""), str(one.get("message") or "")
            )
            for one in (found.get("status") or {}).get("conditions") or ()
        }
        own, labels = own_taints(found), metadata.get("labels") or {}
        grace = lease_grace(spec.get("leaseDurationSeconds")) or DEFAULT_GRACE
        return cls(
            name=str(metadata["name"]),
            uid=str(metadata.get("uid") or ""),
            version=str(metadata.get("resourceVersion") or ""),
            taints=taints_of(found),
            own_taints=own,
            managed_taints=own | {identity_of(one) for one in taints_of(found) if follows_from_state(found, one)},
            conditions=conditions,
            add_on_labels={name: value for name, value in labels.items() if name.startswith(LABEL_PREFIX)},
            leaving=bool(metadata.get("deletionTimestamp")),
            grace=grace.total_seconds() if _ACCEPTED in conditions else math.inf,
        )

    @property
    def about(self) -> Regarding:
        """What names it in events."""
        return Regarding("cluster.open-cluster-management.io/v1", "ManagedCluster", "", self.name, self.uid)

    @property
    def is_judged(self) -> bool:
        """Whether something is known of its being available. Before, nobody sets the labels of its add-ons."""
        return AVAILABLE in self.conditions
