"""A summary of a fleet, from the objects that the gateway serves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from moorage.decide.conditions.heartbeats import HEARTBEAT_STOPPED
from moorage.decide.kubernetes.durations import human
from moorage.decide.kubernetes.object_texts import TARGET_STATES, condition_status, readiness, scope_text, zone_state
from moorage.decide.kubernetes.unstructured import at
from moorage.insight.survey.findings import Finding, Level
from moorage_schemas.eviction import EvictionState
from moorage_schemas.placement import PlacementState
from moorage_schemas.resources.names import MANAGED_CLUSTER_AVAILABLE
from moorage_schemas.times import format_time, parse_time

Object = Mapping[str, Any]

OPEN_STATES: Final = tuple(
    state.value for state in (EvictionState.SCHEDULED, EvictionState.HELD, EvictionState.REQUESTED)
)
"""The states of evictions that have not ended, in the order in which an eviction has them."""

_MAIN_CONDITION: Final = {"managedclusters": MANAGED_CLUSTER_AVAILABLE}
_STOPPED: Final = ("PartialDisruption", "FullDisruption")
_LONG_HELD: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class ZoneLine:
    """A zone of nodes."""

    name: str
    state: str
    nodes: int
    not_ready: int
    waiting: int
    """The nodes that wait for a NoExecute taint."""

    rate: float
    """The nodes per second that may get one."""


@dataclass(frozen=True, slots=True)
class SilentSource:
    """A source that has stopped reporting on some targets."""

    name: str
    targets: int
    since: datetime
    """When it last reported on any of them."""


@dataclass(slots=True)
class FleetSurvey:
    """The fleet in numbers. Each part is filled by the objects of one kind, in any order."""

    now: datetime
    targets: dict[str, Counter[str]] = field(default_factory=dict)
    """The number of targets by plural of the kind and state."""

    cordoned: Counter[str] = field(default_factory=Counter)
    """The number of cordoned targets by plural."""

    zones: list[ZoneLine] = field(default_factory=list)
    evictions: Counter[str] = field(default_factory=Counter)
    """The number of open evictions by state."""

    held_by: Counter[str] = field(default_factory=Counter)
    """The number of held evictions by what holds them."""

    held_since: datetime | None = None
    """When the eviction was held that has been held longest."""

    escalated: int = 0
    """The number of evictions that a deployer could not or would not carry out."""

    unscheduled: Counter[str] = field(default_factory=Counter)
    """The number of workloads without a target by reason."""

    sources: int = 0
    silent: list[SilentSource] = field(default_factory=list)
    pauses: list[str] = field(default_factory=list)
    """The scopes of the pauses in force, each with its reason."""

    failing_webhooks: list[str] = field(default_factory=list)
    """The webhooks whose receivers do not take events, each with the reason."""

    dead_letters: Counter[str] | None = None
    """The number of recent dead letters by reason; None if it is unknown."""

    more_dead_letters: bool = False
    """Whether there are more dead letters than were counted."""

    def add_targets(self, plural: str, found: Iterable[Object]) -> None:
        """Count the targets of a kind."""
        counts, main = Counter[str](), _MAIN_CONDITION.get(plural, "Ready")
        for one in found:
            counts[readiness(condition_status(one, main))] += 1
            self.cordoned[plural] += bool(at(one, "spec", "unschedulable"))
        self.targets[plural] = counts

    def add_zones(self, found: Iterable[tuple[str, Object]]) -> None:
        """Take zones with the names under which they are shown."""
        self.zones = [
            ZoneLine(
                name,
                zone_state(one),
                int(at(one, "status", "nodes") or 0),
                int(at(one, "status", "notReady") or 0),
                int(at(one, "status", "waiting") or 0),
                float(at(one, "status", "rate") or 0),
            )
            for name, one in found
        ]

    def add_evictions(self, found: Iterable[Object]) -> None:
        """Count open evictions. Others are ignored."""
        for one in found:
            status = at(one, "status") or {}
            if (state := status.get("state")) not in OPEN_STATES:
                continue
            self.evictions[state] += 1
            self.escalated += bool(status.get("escalated"))
            if state == EvictionState.HELD.value:
                self.held_by.update(map(str, status.get("heldBy") or (status.get("reason") or "unknown",)))
                since = parse_time(status["decidedTime"])
                self.held_since = min(self.held_since or since, since)

    def add_placements(self, found: Iterable[Object]) -> None:
        """Count the workloads that have no target."""
        for one in found:
            if at(one, "status", "state") == PlacementState.PENDING.value:
                self.unscheduled[str(at(one, "status", "reason") or "unknown")] += 1

    def add_conditions(self, found: Iterable[Object]) -> None:
        """Take the conditions of targets, for their sources."""
        every: set[str] = set()
        silent: dict[str, tuple[set[str], datetime]] = {}
        for one in found:
            status = at(one, "status") or {}
            source = str(status.get("source") or "")
            every.add(source)
            if status.get("reason") != HEARTBEAT_STOPPED:
                continue
            target = f"{at(status, 'target', 'kind')}/{at(status, 'target', 'name')}"
            heard = parse_time(status["lastHeartbeatTime"])
            targets, since = silent.get(source, (set(), heard))
            silent[source] = (targets | {target}, max(since, heard))
        self.sources = len(every - {""})
        self.silent = [SilentSource(name, len(some), since) for name, (some, since) in sorted(silent.items())]

    def add_pauses(self, found: Iterable[Object]) -> None:
        """Take the pauses in force."""
        for one in found:
            reason = str(at(one, "spec", "reason") or "")
            scope = scope_text(one) or "the whole fleet"
            self.pauses.append(f"{scope} ({reason})" if reason else scope)

    def add_webhooks(self, found: Iterable[Object]) -> None:
        """Take the webhooks whose condition `Delivering` is False."""
        for one in found:
            for condition in at(one, "status", "conditions") or ():
                if condition.get("type") == "Delivering" and condition.get("status") == "False":
                    why = condition.get("message") or condition.get("reason") or "unknown"
                    self.failing_webhooks.append(f"{at(one, 'metadata', 'name')}: {why}")

    def add_dead_letters(self, found: Iterable[Object], *, more: bool) -> None:
        """Count recent dead letters.

        Args:
            found: the dead letters.
            more: whether there are more of them.
        """
        self.dead_letters = Counter(str(at(one, "status", "reason") or "unknown") for one in found)
        self.more_dead_letters = more

    def findings(self) -> list[Finding]:
        """Return what needs attention in the fleet. None of it means that Moorage does not work."""
        found = [
            Finding(
                Level.WARNING,
                "zones",
                f"zone {zone.name} is in {zone.state}: {zone.not_ready} of {zone.nodes} nodes are not ready, "
                f"{zone.waiting} wait for NoExecute",
                f"moorage describe zone {zone.name}",
            )
            for zone in self.zones
            if zone.state.startswith(_STOPPED)
        ]
        if self.held_since is not None and self.now - self.held_since >= _LONG_HELD:
            found.append(
                Finding(
                    Level.WARNING,
                    "evictions",
                    f"an eviction has been held for {human((self.now - self.held_since).total_seconds())}",
                    "moorage get evictions -A shows what holds it",
                )
            )
        if self.escalated:
            found.append(
                Finding(
                    Level.WARNING,
                    "evictions",
                    f"{self.escalated} evictions were not carried out by their deployers",
                    "moorage get evictions -A shows the reason under ACKNOWLEDGED",
                )
            )
        found += [
            Finding(
                Level.WARNING,
                "sources",
                f"{one.name} has not reported on {one.targets} of its targets for "
                f"{human((self.now - one.since).total_seconds())}",
                "check that this probe runs; moorage get conditions lists what it reported",
            )
            for one in self.silent
        ]
        found += [
            Finding(Level.WARNING, "pauses", f"evictions are paused: {pause}", "moorage resume evictions")
            for pause in self.pauses
        ]
        found += [
            Finding(Level.WARNING, "webhooks", webhook, "check its receiver; moorage describe webhook shows its status")
            for webhook in self.failing_webhooks
        ]
        if self.dead_letters:
            count = f"{self.dead_letters.total()}{'+' * self.more_dead_letters}"
            reasons = ", ".join(f"{number} {reason}" for reason, number in self.dead_letters.most_common())
            found.append(
                Finding(
                    Level.WARNING,
                    "dead letters",
                    f"{count} records were refused in the last hour: {reasons}",
                    "moorage deadletters list --since 1h",
                )
            )
        return found

    def document(self) -> dict[str, Any]:
        """Return the summary as JSON."""
        return {
            "targets": {
                plural: {**{state: counts[state] for state in TARGET_STATES}, "Cordoned": self.cordoned[plural]}
                for plural, counts in self.targets.items()
            },
            "zones": [
                {
                    "name": zone.name,
                    "state": zone.state,
                    "nodes": zone.nodes,
                    "notReady": zone.not_ready,
                    "waiting": zone.waiting,
                    "rate": zone.rate,
                }
                for zone in self.zones
            ],
            "evictions": {state: self.evictions[state] for state in OPEN_STATES},
            "heldBy": dict(self.held_by.most_common()),
            "heldSince": format_time(self.held_since) if self.held_since else None,
            "escalated": self.escalated,
            "unscheduled": dict(self.unscheduled.most_common()),
            "sources": self.sources,
            "silent": [
                {"source": one.name, "targets": one.targets, "since": format_time(one.since)} for one in self.silent
            ],
            "pauses": self.pauses,
            "failingWebhooks": self.failing_webhooks,
            "deadLetters": None if self.dead_letters is None else dict(self.dead_letters.most_common()),
            "moreDeadLetters": self.more_dead_letters,
        }
