"""The acts of the demo in which something is held: taints by the zone's rate in an outage, and evictions by a pause."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime

from moorage.cli.api.topics import Seen
from moorage.cli.demo.claims import Claim
from moorage.decide.kubernetes.taint_keys import NOT_READY
from moorage.decide.taints.eviction_verdict import EvictNow, verdict
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.taint import Taint, TargetTainted
from moorage_schemas.zone import NoExecuteGranted, ZoneChanged, ZoneState


@dataclass(slots=True)
class Outage:
    """So many nodes of one zone are not ready that nothing is evicted. Then they are ready again."""

    zone: str
    nodes: frozenset[str]
    """The keys of the nodes that fail."""

    cause: datetime
    states: list[tuple[ZoneState, int]] = field(default_factory=list)
    """The zone's states in their order, each with the number of nodes that waited."""

    held: set[str] = field(default_factory=set)
    """The nodes whose NoExecute taint is held."""

    waited: set[str] = field(default_factory=set)
    """The nodes whose NoExecute taint has ever been held."""

    struck: list[str] = field(default_factory=list)
    """Unexpected events: nodes that got a grant or the taint, workloads that had to leave."""

    @property
    def stopped(self) -> bool:
        """Whether all of these taints are held."""
        return self.states[-1:] == [(ZoneState.PARTIAL_DISRUPTION, len(self.nodes))] and self.held == self.nodes

    @property
    def over(self) -> bool:
        """Whether nothing is held."""
        return bool(self.waited) and not self.held and self.states[-1:] == [(ZoneState.NORMAL, 0)]

    def take(self, seen: Seen) -> bool:
        """Apply an event, and return whether to show it."""
        event = seen.event
        if isinstance(event, ZoneChanged) and event.zone == self.zone:
            now = (event.state, event.waiting)
            new = self.states[-1:] != [now]
            self.states.append(now)
            # Which states come in between depends on how many reports are read together.
            return new and now in {(ZoneState.PARTIAL_DISRUPTION, len(self.nodes)), (ZoneState.NORMAL, 0)}
        if isinstance(event, TargetTainted) and event.target.key in self.nodes:
            return self._tainted(event)
        if isinstance(event, NoExecuteGranted) and event.target.key in self.nodes and event.granted:
            self.struck.append(f"{event.target} got a grant")
            return True
        if isinstance(event, EvictionDecided) and event.target.key in self.nodes:
            self.struck.append(f"{event.workload} was to leave {event.target}")
            return True
        return False

    def _tainted(self, event: TargetTainted) -> bool:
        key = event.target.key
        if any((one.key, one.effect) == (NOT_READY, "NoExecute") for one in event.taints):
            self.struck.append(f"{event.target} was tainted")
        waits = any(one.effect == "NoExecute" for one in event.held)
        # One line is enough, because the others would look the same.
        new = waits and not self.waited
        (self.held.add if waits else self.held.discard)(key)
        if waits:
            self.waited.add(key)
        return new

    def claims(self) -> list[Claim]:
        """Return what should have happened, each with whether it has."""
        states = [state for state, _ in self.states]
        return [
            Claim(
                f"zone {self.zone} was in PartialDisruption, and all {len(self.nodes)} nodes waited",
                ZoneState.PARTIAL_DISRUPTION in states and self.waited == self.nodes,
                f"states {', '.join(dict.fromkeys(states)) or 'none'}; {len(self.waited)} waited",
            ),
            Claim(
                "none of them got a NoExecute taint, and nothing had to leave", not self.struck, "; ".join(self.struck)
            ),
            Claim("they are ready again, and nothing is waiting", self.over, "the zone did not become Normal"),
        ]


@dataclass(slots=True)
class Hold:
    """Evictions from one node are paused, the node is tainted, and the evictions are resumed."""

    node: TargetRef
    pause: str
    """The name of the pause that must hold the evictions: `EvictionPause/…`."""

    taint: Taint
    cause: datetime
    bound: frozenset[str]
    """The keys of the workloads on the node that have to leave at once."""

    resumed: datetime | None = None
    held: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The holder of each of them."""

    went: dict[str, datetime] = field(default_factory=dict)

    @classmethod
    def of(cls, node: TargetRef, pause: str, taint: Taint, now: datetime, bindings: dict[str, WorkloadBound]) -> Hold:
        """Return the act on a node, with the workloads that are on it now."""
        added = taint.model_copy(update={"time_added": now})
        going = {
            bound.workload.key
            for bound in bindings.values()
            if bound.target == node and isinstance(verdict([added], bound.tolerations), EvictNow)
        }
        return cls(node, pause, taint, now, frozenset(going))

    @classmethod
    def busiest(
        cls, names: Collection[str], taint: Taint, now: datetime, bindings: dict[str, WorkloadBound]
    ) -> TargetRef:
        """Return the node that the most workloads would have to leave at once."""
        nodes = [TargetRef(kind=TargetKind.NODE, name=name) for name in sorted(names)]
        return max(nodes, key=lambda node: len(cls.of(node, "", taint, now, bindings).bound))

    @property
    def holding(self) -> bool:
        """Whether everything that is due is held."""
        return set(self.held) >= self.bound

    @property
    def over(self) -> bool:
        """Whether everything has left."""
        return set(self.went) >= self.bound

    def take(self, seen: Seen) -> bool:
        """Apply an event, and return whether to show it."""
        event = seen.event
        if not isinstance(event, EvictionDecided) or event.target != self.node:
            return False
        if event.state is EvictionState.HELD:
            if not event.held_by:
                return False  # it has asked the governor, and has no answer yet
            self.held[event.workload.key] = event.held_by
        elif event.state is EvictionState.REQUESTED:
            self.went[event.workload.key] = event.decided_time
        return event.state in {EvictionState.HELD, EvictionState.REQUESTED}

    def claims(self) -> list[Claim]:
        """Return what should have happened, each with whether it has."""
        named = [key for key in self.bound if self.pause in self.held.get(key, ())]
        early = [key for key, when in self.went.items() if self.resumed is None or when < self.resumed]
        return [
            Claim(
                f"{len(self.bound)} evictions were due, and were held by {self.pause}",
                bool(self.bound) and len(named) == len(self.bound),
                f"{len(named)} of {len(self.bound)}",
            ),
            Claim("none happened during the pause", not early, ", ".join(early)),
            Claim("all happened after it", self.over, f"{len(self.went)} of {len(self.bound)}"),
        ]
