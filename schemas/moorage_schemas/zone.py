"""Zones: how fast nodes that are not ready may get taints that evict (docs/domain.md, "Zones").

The taint-manager reports each node to the governor (`zone-members`). The governor uses the tokens of each zone
(`zones`) and sends grants to the waiting nodes (`zone-grants`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import ConfigDict, Field

from moorage_schemas.base import Model, Timestamp
from moorage_schemas.refs import TargetRef

NO_ZONE: Final = "/"
"""The zone of nodes that have neither a region nor a zone."""


def zone_of(region: str, zone: str) -> str:
    """The name of a zone, `region/zone`. Either part may be empty."""
    return f"{region}/{zone}"


class ZoneState(StrEnum):
    """The state of a zone, by the fraction of its nodes that are not ready."""

    NORMAL = "Normal"
    PARTIAL_DISRUPTION = "PartialDisruption"
    FULL_DISRUPTION = "FullDisruption"


class ZoneMembered(Model):
    """A node as the governor sees it. Topic `zone-members`, keyed by the target. A tombstone when the node is deleted.

    All records are in one partition, because whether every zone is disrupted depends on the whole fleet.
    """

    event_type: ClassVar[str] = "io.moorage.zone.membered.v1"

    target: TargetRef
    target_uid: str = ""
    zone: str
    """`region/zone`."""

    generation: int = Field(ge=1)
    """The generation of the target's taints when this was written; a consumer ignores what is not newer."""

    ready: bool
    """Whether the node counts as ready. A node whose `Ready` condition was never reported counts as ready."""

    incident: int = Field(default=0, ge=0)
    """The generation of the target's taints at which the present incident began. 0 while the node is ready. A change
    from not-ready to unreachable continues the same incident."""

    since: Timestamp
    """When the incident began or, with flap damping, when its condition had lasted long enough. While the node is
    ready: when that was last written."""

    tainted: bool = False
    """Whether the target carries the `NoExecute` taint of this incident."""

    correlation_id: str = ""
    """The correlation id of the chain that began the incident. The grant continues the chain, possibly much later."""

    traceparent: Annotated[str, Field(exclude_if=lambda context: not context)] = ""
    """The trace context of the chain that began the incident. Empty in records of earlier versions."""


class ZoneWaiting(Model):
    """A node of a zone that has an incident."""

    target: str
    """The target's key."""

    target_uid: str = ""
    incident: int
    since: Timestamp
    """When the wait began: the start of the incident, or the end of the last stop if that was later."""


class ZoneTransition(Model):
    """A state that a zone has had, from its beginning on."""

    state: ZoneState
    stopped: bool = False
    since: Timestamp
    """When it began."""

    nodes: int
    not_ready: int
    """Nodes that were not ready when it began."""


KEPT_TRANSITIONS: Final = 16
"""How many of its latest states the record of a zone has."""


class ZoneChanged(Model):
    """The state of one zone and its tokens. Topic `zones`, keyed by the zone."""

    model_config = ConfigDict(ser_json_inf_nan="strings")  # JSON has no infinity, and a rate may be infinite

    event_type: ClassVar[str] = "io.moorage.zone.changed.v1"

    zone: str
    generation: int = Field(ge=1)
    """One counter for all zones. So the generation of a grant also increases when a target moves to another zone."""

    state: ZoneState
    stopped: bool = False
    """Whether every zone is fully disrupted. Then no node is tainted, and grants are withdrawn."""

    nodes: int
    not_ready: int
    rate: float
    """Nodes per second that may be tainted now. 0 means none; no limit is `Infinity` on the wire."""

    tokens: float
    """What was left of the one token (the burst) at `tokens_time`."""

    tokens_time: Timestamp
    resumed_time: Timestamp | None = None
    """When the last stop of the whole fleet ended. A node whose incident began before that waits from this time."""

    granted: tuple[ZoneWaiting, ...] = ()
    """Nodes with a grant that are not yet known to be tainted. They are stored so that a restart grants nothing
    twice."""

    waiting: int = 0
    """The number of nodes that wait for a token."""

    queue: tuple[ZoneWaiting, ...] = ()
    """The nodes that have waited longest, at most a hundred, longest first."""

    history: tuple[ZoneTransition, ...] = ()
    """The latest states, at most `KEPT_TRANSITIONS`, the present one last. It begins with the first change after an
    upgrade from a version that did not keep them."""


class NoExecuteGranted(Model):
    """Whether a node may have the `NoExecute` taint. Topic `zone-grants`, keyed and partitioned by the target.

    The grant is valid for one incident. A later incident needs a new one.
    """

    event_type: ClassVar[str] = "io.moorage.zone.granted.v1"

    target: TargetRef
    target_uid: str = ""
    zone: str
    incident: int = Field(ge=1)
    generation: int = Field(ge=1)
    """Increases with each decision of the governor about this target."""

    granted: bool
    """False withdraws the grant, because every zone is fully disrupted."""

    reason: str = ""
    granted_time: Timestamp
