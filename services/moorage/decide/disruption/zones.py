"""Zones: how many nodes of a zone are not ready, and how fast its nodes may get the taint that evicts.

See docs/domain.md, "Zones".

The rules are those of Kubernetes' node lifecycle controller, with three differences. There a zone's rate is set when
its state changes. Here the rate also follows the size of the zone while its state stays the same, so that it depends
only on the present nodes. There a rate changes at ticks. Here this is so for a rate that rises, and one that falls
counts at once. There the ticks count from the start of the process. Here they count from the Unix epoch, so that they
are the same after a restart.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice

from moorage.decide.disruption.token_bucket import Bucket
from moorage_schemas.zone import (
    KEPT_TRANSITIONS,
    NoExecuteGranted,
    ZoneChanged,
    ZoneMembered,
    ZoneState,
    ZoneTransition,
    ZoneWaiting,
)

SHOWN = 100
"""The number of queued nodes that a zone's record lists."""

OPEN_GRANTS = 2000
"""The maximum number of unconfirmed grants of a zone. They are listed in its record, which must fit into a Kafka
record."""

CONFIRMED_WITHIN = 2.0
"""Seconds within which the taint-manager of a node is expected to confirm a grant. It usually takes tenths of a second.

The grants of that time may be unconfirmed, so that the round trip does not limit the rate. More are not allowed,
because a taint-manager that was down uses all open grants at once when it restarts.
"""

WITHDRAWN_AT_ONCE = 1000
"""The number of tainted nodes whose withdrawal is written by one call, when all nodes of the fleet are lost."""

_EPOCH = datetime.fromtimestamp(0, UTC)
_LATEST = datetime.max.replace(tzinfo=UTC)
_FEWEST_NOT_READY = 3  # fewer nodes never cause a partial disruption


@dataclass(frozen=True, slots=True)
class ZoneRules:
    """The settings of docs/domain.md, "Zones"."""

    rate: float
    """Nodes per second of a zone that is Normal, or that is in FullDisruption while other zones are not."""

    secondary_rate: float
    """Nodes per second of a large zone in PartialDisruption."""

    threshold: float
    """The fraction of not-ready nodes from which a zone is in PartialDisruption."""

    large: int
    """A zone with more nodes than this is large."""

    period: timedelta
    """The time between two ticks. At each of them, the nodes that have begun to wait since the one before may be
    granted."""

    def state(self, nodes: int, not_ready: int) -> ZoneState:
        """Return the state of a zone with these numbers of nodes."""
        if nodes and not_ready == nodes:
            return ZoneState.FULL_DISRUPTION
        if not_ready >= _FEWEST_NOT_READY and not_ready / nodes >= self.threshold:
            return ZoneState.PARTIAL_DISRUPTION
        return ZoneState.NORMAL

    def rate_of(self, state: ZoneState, nodes: int) -> float:
        """Return the nodes per second, unless every zone is fully disrupted."""
        if state is not ZoneState.PARTIAL_DISRUPTION:
            return self.rate
        return self.secondary_rate if nodes > self.large else 0.0

    def open_grants(self, rate: float) -> int:
        """Return the maximum number of unconfirmed grants of a zone with this rate."""
        if math.isinf(rate):
            return OPEN_GRANTS
        return min(OPEN_GRANTS, max(1, math.ceil(rate * CONFIRMED_WITHIN)))

    def tick_after(self, time: datetime) -> datetime:
        """Return the first tick after a time. Without a period it is that time."""
        if not self.period:
            return time
        try:
            return time + self.period - (time - _EPOCH) % self.period
        except OverflowError:  # after the end of the calendar
            return _LATEST


@dataclass(frozen=True, slots=True, order=True)
class _Turn:
    """The position of a node in its zone's queue."""

    since: datetime
    """When the wait began."""

    began: datetime
    """When the incident began. Among nodes that wait again after a stop, older incidents come first."""

    target: str


@dataclass(slots=True)
class _Zone:
    """A zone that has nodes."""

    nodes: int = 0
    not_ready: int = 0
    queue: list[_Turn] = field(default_factory=list)
    granted: set[str] = field(default_factory=set)
    """Targets with a grant whose taint has not been read yet."""


@dataclass(frozen=True, slots=True)
class _Grant:
    """A grant that a zone's record lists."""

    zone: str
    entry: ZoneWaiting

    def holds(self, member: ZoneMembered) -> bool:
        """Return whether the grant is for the node's present incident."""
        return (self.entry.target_uid, self.entry.incident) == (member.target_uid, member.incident)


@dataclass(slots=True)
class ZoneDecisions:
    """The records to write."""

    zones: list[tuple[str, ZoneChanged | None]] = field(default_factory=list)
    """By zone name. None if the zone has no nodes left."""

    grants: list[NoExecuteGranted] = field(default_factory=list)


class ZoneTable:
    """Every node as its zone sees it, and the record of every zone.

    The records store the granted nodes, the rest of each zone's token, and when the last stop ended. Everything else is
    derived from the records and the nodes. So a restored table makes the same decisions as the one before it.

    The generation of the records is one counter for all zones, and a grant has the generation of its zone's record. So
    the generation of grants increases for each target, across restarts and changes of its zone. When the record with
    the highest generation is deleted, another record takes over the counter. Without zones, no nodes exist, and all
    stored grants have been deleted.
    """

    def __init__(self, rules: ZoneRules) -> None:
        self._rules = rules
        self._members: dict[str, ZoneMembered] = {}
        self._records: dict[str, ZoneChanged] = {}
        self._zones: dict[str, _Zone] = {}
        self._grants: dict[str, _Grant] = {}
        self._turns: dict[str, tuple[str, _Turn]] = {}
        self._tokens: dict[str, datetime | None] = {}
        self._dirty: set[str] = set()
        self._sequence = 0
        self._resumed: datetime | None = None
        self._requeue = False
        self._lost = False
        """Whether every zone was fully disrupted at the last evaluation."""

        self._owed: dict[str, None] = {}
        """Tainted nodes whose withdrawal is still to be written."""

        self._begun = False
        """Whether anything was evaluated since the restore."""

    def use(self, rules: ZoneRules) -> None:
        """Use other rules. If they differ, the next `decide` evaluates every zone.

        The record of a zone has the rate by which it has gained its token, so a changed rate takes effect from then on.
        """
        if rules != self._rules:
            self._rules = rules
            self.check_again()

    # Present facts.

    def member(self, target: str) -> ZoneMembered | None:
        """Return the record of a node. None if there is no such node."""
        return self._members.get(target)

    def not_ready(self) -> list[str]:
        """Return the nodes that are not ready."""
        return [target for target, member in self._members.items() if not member.ready]

    @property
    def records(self) -> Iterable[ZoneChanged]:
        """The records of the zones."""
        return self._records.values()

    def set_member(self, target: str, member: ZoneMembered | None) -> None:
        """Apply the record of a node. None removes the node. A record that is not newer is ignored."""
        known = self._members.get(target)
        if known is not None:
            if member is not None and known.target_uid == member.target_uid and known.generation >= member.generation:
                return
            zone = self._zones[known.zone]
            zone.nodes -= 1
            zone.not_ready -= not known.ready
            self._dirty.add(known.zone)
        if member is None or not member.tainted:
            self._owed.pop(target, None)
        if member is None:
            self._members.pop(target, None)
        else:
            self._members[target] = member
            zone = self._zones.setdefault(member.zone, _Zone())
            zone.nodes += 1
            zone.not_ready += not member.ready
            self._dirty.add(member.zone)
        self._place(target, known)
        if known is not None and not self._zones[known.zone].nodes:
            del self._zones[known.zone]

    def record(self, name: str) -> ZoneChanged | None:
        """Return the record of a zone; None when it has none."""
        return self._records.get(name)

    def set_record(self, name: str, record: ZoneChanged | None) -> None:
        """Apply the record of a zone. None means that the zone has no nodes left."""
        before = self._records.pop(name, None)
        self._tokens.pop(name, None)
        moved: dict[str, _Grant | None] = {}
        for entry in before.granted if before is not None else ():
            grant = self._grants.get(entry.target)
            if grant is not None and grant.zone == name:  # otherwise another zone has taken the grant over
                moved[entry.target] = None
        if record is not None:
            self._records[name] = record
            self._tokens[name] = _bucket(record).next_token()
            self._sequence = max(self._sequence, record.generation)
            if record.resumed_time is not None and (self._resumed is None or record.resumed_time > self._resumed):
                self._resumed, self._requeue = record.resumed_time, True
            moved |= {entry.target: _Grant(name, entry) for entry in record.granted}
        for target, grant in moved.items():
            if grant is None:
                del self._grants[target]
            elif grant == self._grants.get(target):
                continue
            else:
                self._grants[target] = grant
            self._place(target, self._members.get(target))
        self._dirty.add(name)

    def check_again(self) -> None:
        """Make the next `decide` evaluate every zone."""
        self._dirty |= self._zones.keys() | self._records.keys()

    # Decisions.

    def decide(
        self, now: datetime, turned: Collection[str] = (), declared: Callable[[], Iterable[str]] = tuple
    ) -> ZoneDecisions:
        """Evaluate the zones in which something has changed or is due. The caller must apply the returned records.

        Args:
            now: the present time.
            turned: targets that have got the taint since the last call. During a stop, their grants are withdrawn.
            declared: returns the declared nodes. While one of them has no record, for example after an upgrade from a
        version without zones, the loss of all nodes is uncertain. If all nodes with a record are lost, then no grant is
        given, and no grant is withdrawn.
        """
        decided = ZoneDecisions()
        if self._requeue:
            self._queue_again()
        states = {name: self._rules.state(zone.nodes, zone.not_ready) for name, zone in self._zones.items()}
        was_stopped = any(record.stopped for record in self._records.values())
        lost = bool(states) and all(state is ZoneState.FULL_DISRUPTION for state in states.values())
        stopped = lost and (was_stopped or all(target in self._members for target in declared()))
        withdrawn = self._withdrawn(turned, stopped=stopped, was_stopped=was_stopped)
        if stopped is not was_stopped or lost is not self._lost:
            self._lost = lost
            self.check_again()
        if was_stopped and not stopped:
            self._resumed = now
            self._queue_again()
        withdrawing = {self._members[target].zone for target in withdrawn}
        due = {name for name in self._zones if (when := self._due(name)) is not None and when <= now}
        for name in sorted(self._dirty | due | withdrawing):
            self._decide_zone(
                name, states.get(name), now, decided, lost=lost, stopped=stopped, must_write=name in withdrawing
            )
        self._carry_on(decided)
        written = dict(decided.zones)
        for target in withdrawn:
            record = written[self._members[target].zone]
            if record is not None:
                decided.grants.append(self._grant(self._members[target], record, now, granted=False))
        return decided

    def done(self) -> None:
        """Record that the result of `decide` has been applied."""
        self._dirty.clear()

    @property
    def owes(self) -> bool:
        """Whether withdrawals are still to be written by further calls of `decide`."""
        return bool(self._owed)

    def next_wake(self) -> datetime | None:
        """Return when the next node may get a grant if nothing changes until then."""
        return min((due for name in self._zones if (due := self._due(name)) is not None), default=None)

    def may_grant(self, now: datetime) -> bool:
        """Return whether `decide` could grant anything: a tick has come for a node, and its zone allows it.

        The present tokens and rates are not considered, because a zone may get a token or another rate in that same
        call.
        """
        room = self._rules.open_grants(max(self._rules.rate, self._rules.secondary_rate))
        return any(
            len(zone.granted) < room and self._rules.tick_after(zone.queue[0].since) <= now
            for zone in self._zones.values()
            if zone.queue
        )

    def _due(self, name: str) -> datetime | None:
        zone, token = self._zones[name], self._tokens.get(name)
        if token is None or not zone.queue:
            return None
        if len(zone.granted) >= self._rules.open_grants(self._records[name].rate):
            return None  # there is room again when a member confirms a grant, recovers, moves or is deleted
        return max(token, self._rules.tick_after(zone.queue[0].since))

    def _decide_zone(
        self,
        name: str,
        state: ZoneState | None,
        now: datetime,
        decided: ZoneDecisions,
        *,
        lost: bool,
        stopped: bool,
        must_write: bool,
    ) -> None:
        before = self._records.get(name)
        if state is None:
            if before is not None:
                decided.zones.append((name, None))
            return
        zone, rules = self._zones[name], self._rules
        rate = 0.0 if lost else rules.rate_of(state, zone.nodes)
        head = rules.tick_after(zone.queue[0].since) if zone.queue else None
        tick = rules.tick_after(now)
        bucket = _bucket(before).not_after(tick) if before is not None else Bucket.full(rules.rate, now)
        if before is not None and before.stopped and not stopped:
            bucket = Bucket(rate, 0.0, tick)
        bucket = bucket.swap(rate, now, begins=tick, waited=head is not None and head <= now)
        fresh = 0
        room = rules.open_grants(rate) - len(zone.granted)
        while (
            fresh < min(room, len(zone.queue))
            and rules.tick_after(zone.queue[fresh].since) <= now
            and bucket.has_token(now)
        ):
            bucket = bucket.take(now)
            fresh += 1
        granted = [self._entry(turn) for turn in zone.queue[:fresh]]
        entries = [self._grants[target].entry for target in zone.granted] + granted
        waits = zone.queue[fresh : fresh + SHOWN]
        record = ZoneChanged(
            zone=name,
            generation=before.generation if before is not None else 1,
            state=state,
            stopped=stopped,
            nodes=zone.nodes,
            not_ready=zone.not_ready,
            rate=rate,
            tokens=bucket.tokens,
            tokens_time=bucket.time,
            resumed_time=self._resumed,
            granted=tuple(sorted(entries, key=lambda entry: (entry.since, entry.target))),
            waiting=len(zone.queue) - fresh,
            queue=tuple(self._entry(turn) for turn in waits),
            history=_history(before, state, now, zone, stopped=stopped),
        )
        if record != before or must_write:
            record = self._next(record, decided)
            decided.grants += [self._grant(self._members[entry.target], record, now, granted=True) for entry in granted]

    def _carry_on(self, decided: ZoneDecisions) -> None:
        """Pass the highest generation to a remaining zone when the zone that has it is deleted."""
        removed = {name for name, record in decided.zones if record is None}
        stays = sorted(self._records.keys() - removed)
        highest = max((self._records[name].generation for name in stays), default=self._sequence)
        if removed and len(removed) == len(decided.zones) and highest < self._sequence:
            self._next(self._records[stays[0]], decided)

    def _next(self, record: ZoneChanged, decided: ZoneDecisions) -> ZoneChanged:
        self._sequence += 1
        record = record.model_copy(update={"generation": self._sequence})
        decided.zones.append((record.zone, record))
        return record

    def _withdrawn(self, turned: Collection[str], *, stopped: bool, was_stopped: bool) -> list[str]:
        """Return the nodes whose withdrawals this call writes. The rest stays to be written.

        If the process ends before all is written, the next task cannot find the rest. So when a fleet with more tainted
        nodes than one call writes is still stopped, the next task writes it for all of them again.
        """
        found: set[str] = set()
        if stopped and not was_stopped:
            found.update(self._withdraw_all())
            self._owed = dict.fromkeys(filter(self._is_tainted, self._members))
        elif stopped:
            found.update(target for target in turned if self._is_tainted(target))
            if not self._begun:
                tainted = [target for target in self._members if self._is_tainted(target)]
                if len(tainted) > WITHDRAWN_AT_ONCE:
                    self._owed = dict.fromkeys(tainted)
        self._begun = True
        for target in list(islice(self._owed, WITHDRAWN_AT_ONCE)):
            del self._owed[target]
            found.add(target)
        return sorted(found)

    def _withdraw_all(self) -> list[str]:
        """Withdraw all grants. Return the nodes that had one and whose taint has not been read."""
        granted = [target for zone in self._zones.values() for target in zone.granted]
        for target in granted:
            del self._grants[target]
            self._place(target, self._members[target])
        return granted

    def _is_tainted(self, target: str) -> bool:
        member = self._members.get(target)
        return member is not None and member.incident > 0 and member.tainted

    def _grant(self, member: ZoneMembered, record: ZoneChanged, now: datetime, *, granted: bool) -> NoExecuteGranted:
        if granted:
            reason = f"{record.zone} is in {record.state}, {record.not_ready} of {record.nodes} nodes are not ready"
        else:
            reason = "no node of any zone is ready"
        return NoExecuteGranted(
            target=member.target,
            target_uid=member.target_uid,
            zone=record.zone,
            incident=member.incident,
            generation=record.generation,
            granted=granted,
            reason=reason,
            granted_time=now,
        )

    # Queues and grants.

    def _entry(self, turn: _Turn) -> ZoneWaiting:
        member = self._members[turn.target]
        return ZoneWaiting(target=turn.target, target_uid=member.target_uid, incident=member.incident, since=turn.since)

    def _turn(self, target: str, member: ZoneMembered) -> _Turn:
        since = member.since if self._resumed is None else max(member.since, self._resumed)
        return _Turn(since, member.since, target)

    def _place(self, target: str, known: ZoneMembered | None) -> None:
        """Add a node to its zone's queue or to the set of granted nodes, or remove it from both."""
        placed = self._turns.pop(target, None)
        if placed is not None:
            name, turn = placed
            queue = self._zones[name].queue
            del queue[bisect_left(queue, turn)]
        if known is not None and (zone := self._zones.get(known.zone)) is not None:
            zone.granted.discard(target)
        member = self._members.get(target)
        if member is None or not member.incident or member.tainted:
            return
        zone, grant = self._zones[member.zone], self._grants.get(target)
        if grant is not None and grant.holds(member):
            zone.granted.add(target)
        else:
            turn = self._turn(target, member)
            insort(zone.queue, turn)
            self._turns[target] = (member.zone, turn)

    def _queue_again(self) -> None:
        """Rebuild the queues with the present start of each wait."""
        self._requeue = False
        for zone in self._zones.values():
            zone.queue.clear()
        for target, (name, _) in self._turns.items():
            turn = self._turn(target, self._members[target])
            self._turns[target] = (name, turn)
            self._zones[name].queue.append(turn)
        for zone in self._zones.values():
            zone.queue.sort()


def _history(
    before: ZoneChanged | None, state: ZoneState, now: datetime, zone: _Zone, *, stopped: bool
) -> tuple[ZoneTransition, ...]:
    """Return the latest states of a zone, the present one last."""
    kept = before.history if before is not None else ()
    if before is not None and (before.state, before.stopped) == (state, stopped):
        return kept
    fresh = ZoneTransition(state=state, stopped=stopped, since=now, nodes=zone.nodes, not_ready=zone.not_ready)
    return (*kept, fresh)[-KEPT_TRANSITIONS:]


def _bucket(record: ZoneChanged) -> Bucket:
    return Bucket(record.rate, record.tokens, record.tokens_time)
