"""What a bridge knows of a node in the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from moorage.bridge.ownership import (
    Identity,
    managed_taints,
    own_conditions,
    own_taints,
    state_taints,
    taints_of,
)

READY: Final = "Ready"


class Condition(NamedTuple):
    """A condition of a node as the cluster has it."""

    status: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class SeenNode:
    """A node as it was last seen.

    Attributes:
        name: its name.
        uid: its uid.
        version: its resource version.
        taints: all of its taints.
        own_taints: those that a bridge has noted as its own.
        managed_taints: those that it may remove.
        state_taints: those that follow from the state of the node, whoever has set them.
        conditions: its conditions by type.
        own_conditions: the types of those that a bridge has set last.
        heartbeat: the time of the last heartbeat of Ready, unless a bridge has written it.
    """

    name: str
    uid: str
    version: str
    taints: Sequence[Mapping[str, Any]]
    own_taints: frozenset[Identity]
    managed_taints: frozenset[Identity]
    state_taints: frozenset[Identity]
    conditions: Mapping[str, Condition]
    own_conditions: frozenset[str]
    heartbeat: str

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> SeenNode:
        """Read a node."""
        metadata = found["metadata"]
        listed = (found.get("status") or {}).get("conditions") or ()
        own = own_conditions(found)
        beats = (str(one.get("lastHeartbeatTime") or "") for one in listed if one.get("type") == READY)
        conditions = {
            str(one.get("type")): Condition(
                str(one.get("status") or "Unknown"), str(one.get("reason") or ""), str(one.get("message") or "")
            )
            for one in listed
        }
        return cls(
            name=str(metadata["name"]),
            uid=str(metadata.get("uid") or ""),
            version=str(metadata.get("resourceVersion") or ""),
            taints=taints_of(found),
            own_taints=own_taints(found),
            managed_taints=managed_taints(found),
            state_taints=state_taints(found),
            conditions=conditions,
            own_conditions=own,
            heartbeat="" if READY in own else next(beats, ""),
        )
