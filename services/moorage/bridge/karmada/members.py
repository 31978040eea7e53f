"""What a bridge knows of a Cluster on the control plane."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from moorage.bridge.events import Regarding
from moorage.bridge.ownership import Identity, managed_taints, own_taints, taints_of

READY: Final = "Ready"
_PULL: Final = "Pull"


class MemberCondition(NamedTuple):
    """A condition of a cluster as the control plane has it."""

    status: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class SeenMember:
    """A Cluster as it was last seen.

    Attributes:
        name: its name.
        uid: its uid.
        version: its resource version.
        taints: all of its taints.
        own_taints: those that a bridge has noted as its own.
        managed_taints: those that it may remove.
        conditions: its conditions by type.
        leaving: whether it is being deleted.
        heartbeat: what changes when its agent, or the control plane for it, says something new of its being ready.
        is_pulling: whether an agent in it renews a Lease, and falls silent with it. For others the control plane looks.
    """

    name: str
    uid: str
    version: str
    taints: Sequence[Mapping[str, Any]]
    own_taints: frozenset[Identity]
    managed_taints: frozenset[Identity]
    conditions: Mapping[str, MemberCondition]
    leaving: bool
    heartbeat: str
    is_pulling: bool

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> SeenMember:
        """Read a Cluster."""
        metadata, listed = found["metadata"], (found.get("status") or {}).get("conditions") or ()
        conditions = {
            str(one.get("type")): MemberCondition(
                str(one.get("status") or "Unknown"), str(one.get("reason") or ""), str(one.get("message") or "")
            )
            for one in listed
        }
        ready: Mapping[str, Any] = next((one for one in listed if one.get("type") == READY), {})
        return cls(
            name=str(metadata["name"]),
            uid=str(metadata.get("uid") or ""),
            version=str(metadata.get("resourceVersion") or ""),
            taints=taints_of(found),
            own_taints=own_taints(found),
            managed_taints=managed_taints(found),
            conditions=conditions,
            leaving=bool(metadata.get("deletionTimestamp")),
            heartbeat="|".join(str(ready.get(part) or "") for part in ("status", "reason", "lastTransitionTime")),
            is_pulling=(found.get("spec") or {}).get("syncMode") == _PULL,
        )

    @property
    def about(self) -> Regarding:
        """What names it in events."""
        return Regarding("cluster.karmada.io/v1alpha1", "Cluster", "", self.name, self.uid)

    def grace(self, seconds: float) -> float:
        """Return the seconds without a sign of life after which it is silent, as Karmada's cluster controller has it.

        Only an agent in the cluster can fall silent.

        Args:
            seconds: for those that can.
        """
        return seconds if self.is_pulling and READY in self.conditions else math.inf
