"""Zones: how fast nodes that are not ready may get taints that evict (docs/domain.md, "Zones").

The taint-manager tells the governor of each node (`zone-members`), the governor spends each zone's tokens (`zones`)
and answers each node that waits (`zone-grants`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, Final

from pydantic import ConfigDict, Field

from moorage_schemas.base import Model, Timestamp
from moorage_schemas.refs import TargetRef

NO_ZONE: Final = "/"
"""The zone of nodes without a region and a zone."""


def zone_of(region: str, zone: str) -> str:
    """The name of a zone: `region/zone`, either may be empty."""
    return f"{region}/{zone}"


class ZoneState(StrEnum):
    """How much of a zone is not ready."""

    NORMAL = "Normal"
    PARTIAL_DISRUPTION = "PartialDisruption"
    FULL_DISRUPTION = "FullDisruption"


class ZoneMembered(Model):
    """A node as its zone sees it. Topic `zone-members`, keyed by the target; a tombstone when it is gone.

    All of it is in one partition, for whether every zone is disrupted is a question about the whole.
    """

    event_type: ClassVar[str] = "io.moorage.zone.membered.v1"

    target: TargetRef
    target_uid: str = ""
    zone: str
    """`region/zone`."""

    generation: int = Field(ge=1)
    """Of the target's taints, with which this was written; a consumer ignores what is not newer."""

    ready: bool
    """Whether nothing speaks against its being ready: a node whose `Ready` was never reported counts as ready."""

    incident: int = Field(default=0, ge=0)
    """The generation of the target's taints with which its present disruption began; 0 while it is ready.
    A change from not-ready to unreachable goes on with the same incident."""

    since: Timestamp
    """When the incident began, or has lasted for as long as its condition must hold (flap damping); while the node is
    ready, when that was last written."""

    tainted: bool = False
    """Whether the target carries the taint that evicts for this incident."""

    correlation_id: str = ""
    """Of the chain that began the incident, for the grant, which may come long after."""


class ZoneWaiting(Model):
    """A node of a zone with an incident."""

    target: str
    """The target's key."""

    target_uid: str = ""
    incident: int
    since: Timestamp
    """Since when it waits: the incident's begin, or later the end of the last stop."""


class ZoneChanged(Model):
    """The state of one zone: what it is like, and its tokens. Topic `zones`, keyed by the zone."""

    model_config = ConfigDict(ser_json_inf_nan="strings")  # JSON has no infinite number, and a rate may be one

    event_type: ClassVar[str] = "io.moorage.zone.changed.v1"

    zone: str
    generation: int = Field(ge=1)
    """Grows over all zones together, so that what is granted with it grows for a target that changes its zone."""

    state: ZoneState
    stopped: bool = False
    """Whether every zone is fully disrupted, so that nothing is tainted at all and what was granted is withdrawn."""

    nodes: int
    not_ready: int
    rate: float
    """Nodes per second that may be tainted now; 0 stops, and no limit is `Infinity` on the wire."""

    tokens: float
    """What was left of the one token (the burst) at `tokens_time`."""

    tokens_time: Timestamp
    resumed_time: Timestamp | None = None
    """When the fleet was last stopped no more; whoever had an incident by then waits from then on."""

    granted: tuple[ZoneWaiting, ...] = ()
    """Granted, and not yet known to be tainted: so that nothing is granted twice after a restart."""

    waiting: int = 0
    """How many nodes wait for a token."""

    queue: tuple[ZoneWaiting, ...] = ()
    """The first of them, at most a hundred, longest first."""


class NoExecuteGranted(Model):
    """Whether a node may carry the taint that evicts. Topic `zone-grants`, keyed by the target and partitioned by it.

    It holds for one incident; a later one asks anew.
    """

    event_type: ClassVar[str] = "io.moorage.zone.granted.v1"

    target: TargetRef
    target_uid: str = ""
    zone: str
    incident: int = Field(ge=1)
    generation: int = Field(ge=1)
    """Grows with each word of the governor on this target."""

    granted: bool
    """False withdraws: every zone is disrupted."""

    reason: str = ""
    granted_time: Timestamp
