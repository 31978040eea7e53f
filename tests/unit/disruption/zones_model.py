"""A simple model of zones: everything is computed again each time, and tokens are fractions."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction

from moorage.decide.disruption.zones import ZoneRules

MICRO = timedelta(microseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Said = tuple[datetime, str, int, bool]
"""Time, node, incident, and whether granted (otherwise withdrawn)."""


@dataclass
class ModelNode:
    """A node."""

    zone: str
    incident: int = 0
    since: datetime | None = None
    tainted: bool = False
    granted: bool = False


@dataclass
class ModelZone:
    """The tokens of a zone."""

    rate: float
    tokens: Fraction
    time: datetime

    def whole(self, now: datetime) -> bool:
        """Refill the bucket. Returns whether there is a token."""
        if now < self.time:
            return False
        if math.isinf(self.rate):
            return True
        seconds = Fraction((now - self.time) // MICRO, 1_000_000)
        self.tokens = min(Fraction(1), self.tokens + Fraction(str(self.rate)) * seconds)
        self.time = now
        return self.rate > 0 and self.tokens == 1

    def swap(self, rate: float, now: datetime, tick: datetime, *, waited: bool) -> None:
        """Set another rate. A higher one counts from the next tick.

        The bucket is then empty, unless it had a token or kept one that no node waited for.
        """
        if rate != self.rate:
            whole = self.whole(max(now, self.time)) or (self.rate == 0 and self.tokens == 1 and not waited)
            self.time = tick if rate > self.rate else now
            self.rate, self.tokens = rate, Fraction(int(whole))


@dataclass
class ZonesModel:
    """All nodes and zones."""

    rules: ZoneRules
    nodes: dict[str, ModelNode] = field(default_factory=dict)
    zones: dict[str, ModelZone] = field(default_factory=dict)
    stopped: bool = False
    resumed: datetime | None = None

    def state(self, zone: str) -> str:
        """The state of a zone."""
        ready = [not node.incident for node in self.nodes.values() if node.zone == zone]
        lost = ready.count(False)
        if not any(ready):
            return "Full"
        part = Fraction(lost, len(ready))
        return "Partial" if lost > 2 and part >= Fraction(str(self.rules.threshold)) else "Normal"

    def rate(self, zone: str) -> float:
        """The rate of a zone."""
        if self.stopped:
            return 0.0
        if self.state(zone) != "Partial":
            return self.rules.rate
        size = sum(node.zone == zone for node in self.nodes.values())
        return self.rules.secondary_rate if size > self.rules.large else 0.0

    def waits(self, zone: str) -> list[tuple[datetime, datetime, str]]:
        """The nodes that wait, in order."""
        found = []
        for name, node in self.nodes.items():
            if node.zone == zone and node.since is not None and not node.tainted and not node.granted:
                found.append((max(node.since, self.resumed or node.since), node.since, name))
        return sorted(found)

    def tick(self, since: datetime) -> datetime:
        """The first tick after a time: they are the multiples of the period since the epoch."""
        if self.rules.period == timedelta(0):
            return since
        period, passed = self.rules.period // MICRO, (since - EPOCH) // MICRO
        return EPOCH + (passed // period + 1) * period * MICRO

    def settle(self, now: datetime) -> list[Said]:
        """Decide. Returns the grants and withdrawals."""
        names = {node.zone for node in self.nodes.values()}
        stopped = bool(names) and all(self.state(name) == "Full" for name in names)
        said: list[Said] = []
        if stopped and not self.stopped:
            for name, node in self.nodes.items():
                if node.tainted or node.granted:
                    node.granted = False
                    said.append((now, name, node.incident, False))
        if self.stopped and not stopped:
            self.resumed = now
            for zone in self.zones.values():
                zone.tokens = Fraction(0)
        self.stopped = stopped
        self.zones = {name: zone for name, zone in self.zones.items() if name in names}
        for name in sorted(names):
            zone = self.zones.setdefault(name, ModelZone(self.rules.rate, Fraction(1), now))
            waits = self.waits(name)
            zone.swap(self.rate(name), now, self.tick(now), waited=bool(waits) and self.tick(waits[0][0]) <= now)
            for since, _, target in waits:
                if self.tick(since) > now or not zone.whole(now) or not self.room(name, zone.rate):
                    break
                zone.tokens = Fraction(0)
                self.nodes[target].granted = True
                said.append((now, target, self.nodes[target].incident, True))
        return said

    def room(self, zone: str, rate: float) -> bool:
        """Whether one more grant may be open: at most as many as the rate gives in two seconds, and at least one."""
        unheeded = sum(node.zone == zone and node.granted and not node.tainted for node in self.nodes.values())
        return unheeded < max(1, Fraction(2) * Fraction(str(rate)) if not math.isinf(rate) else 2000)

    def next_due(self, now: datetime) -> datetime | None:
        """When the next node is granted if nothing else happens."""
        dues = []
        for name, zone in self.zones.items():
            waits = self.waits(name)
            if not waits or zone.rate <= 0 or not self.room(name, zone.rate):
                continue
            due = self.tick(waits[0][0])
            if not zone.whole(now):
                missing = 0 if math.isinf(zone.rate) else (1 - zone.tokens) / Fraction(str(zone.rate)) * 1_000_000
                due = max(due, max(now, zone.time) + timedelta(microseconds=math.ceil(missing)))
            dues.append(max(due, now))
        return min(dues, default=None)
