"""Checks from the records in the topics alone whether a storm followed the rules.

The functions are pure: they turn records into violations. The rules are implemented here again, independent of the
services' code.

- Nothing is outside the rates: the grants of each zone fit into a bucket of one token that fills at the zone's rate.
  The rate of a zone is that of its state. A node waits for a tick of the monitor period. No node has a NoExecute taint
  from a condition without a grant for that incident.
- Nothing is early: an eviction is requested for a taint in `taints`, at or after its `timeAdded` plus the tolerated
  time.
- Nothing is lost: a workload on a node whose taint it does not tolerate, or no longer tolerates, has exactly one
  eviction. An evicted workload is placed again, or is pending with a reason. No owner has more or fewer replicas than
  it requests.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from moorage_schemas.base import Model
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.placement import PlacementState, WorkloadBound, WorkloadPlaced
from moorage_schemas.taint import Taint, TaintOrigin, TaintRecord, TargetTainted, Toleration
from moorage_schemas.zone import NoExecuteGranted, ZoneChanged, ZoneMembered, ZoneState

_E = TypeVar("_E", bound=Model)

_BY_CONDITION = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)
_SPARE = 0.01
"""The tolerance for a grant in tokens, because times are rounded to microseconds."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One record of a topic."""

    topic: str
    """The topic's short name."""

    key: str
    event: Model | None
    """None for a tombstone."""

    written: datetime
    """When its writer added it to a batch (Kafka's timestamp)."""

    decided: datetime
    """The time of the decision (CloudEvents' time)."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules for the check. Rates are nodes per second in each zone, and times are seconds."""

    end: datetime
    """The time up to which the records were read."""

    rate: float = 0.1
    secondary_rate: float = 0.01
    threshold: float = 0.55
    large: int = 50
    monitor_period: float = 5.0
    slack: float = 5.0
    """What came due less than this time before the end need not have happened."""

    replicas: Mapping[str, int] = field(default_factory=dict)
    """The number of replicas that each owner requests, by its key."""


def violations(records: Sequence[Seen], rules: Rules) -> list[str]:
    """The violations as texts. Empty if there are none. Records of one topic and key must be in order."""
    return [
        *_zone_rates(records, rules),
        *_grants(records, rules),
        *_tainted_without_grant(records),
        *_early(records),
        *_not_evicted(records, rules),
        *_not_placed(records, rules),
        *_not_whole(records, rules),
    ]


def _of(records: Iterable[Seen], topic: str, kind: type[_E]) -> Iterator[tuple[Seen, _E]]:
    for seen in records:
        if seen.topic == topic and isinstance(seen.event, kind):
            yield seen, seen.event


# The rates.


def _rate(zone: ZoneChanged, rules: Rules) -> float:
    if zone.stopped:
        return 0.0
    if zone.state is not ZoneState.PARTIAL_DISRUPTION:
        return rules.rate
    return rules.secondary_rate if zone.nodes > rules.large else 0.0


def _state(zone: ZoneChanged, rules: Rules) -> ZoneState:
    if zone.nodes and zone.not_ready == zone.nodes:
        return ZoneState.FULL_DISRUPTION
    lost = zone.not_ready >= 3 and zone.not_ready / zone.nodes >= rules.threshold
    return ZoneState.PARTIAL_DISRUPTION if lost else ZoneState.NORMAL


def _zone_rates(records: Sequence[Seen], rules: Rules) -> Iterator[str]:
    for seen, zone in _of(records, "zones", ZoneChanged):
        where = f"zone {zone.zone}, generation {zone.generation}"
        if zone.state is not _state(zone, rules):
            yield (
                f"{where}: {zone.not_ready} of {zone.nodes} nodes are not ready, "
                f"and it is {zone.state}, not {_state(zone, rules)}"
            )
        if zone.rate != _rate(zone, rules):
            yield f"{where}: its rate is {zone.rate} at {seen.decided}, and must be {_rate(zone, rules)}"


def _grants(records: Sequence[Seen], rules: Rules) -> Iterator[str]:
    rates: dict[str, _Rates] = defaultdict(list)
    stopped: dict[str, bool] = {}
    for seen, zone in _of(records, "zones", ZoneChanged):
        resumes = stopped.get(zone.zone, False) and not zone.stopped
        rates[zone.zone].append((seen.decided, _rate(zone, rules), resumes))
        stopped[zone.zone] = zone.stopped
    incidents: dict[tuple[str, int], datetime] = {}
    for _, member in _of(records, "zone-members", ZoneMembered):
        if member.incident:
            incidents.setdefault((member.target.key, member.incident), member.since)
    grants: dict[str, list[NoExecuteGranted]] = defaultdict(list)
    for _, grant in _of(records, "zone-grants", NoExecuteGranted):
        if grant.granted:
            grants[grant.zone].append(grant)
            since = incidents.get((grant.target.key, grant.incident))
            if since is None:
                yield f"{grant.target.key}: granted for incident {grant.incident}, which it never had"
            elif rules.monitor_period and _ticks(grant.granted_time, rules) == _ticks(since, rules):
                waited = (grant.granted_time - since).total_seconds()
                yield f"{grant.target.key}: granted after {waited:.3f} s, before a tick of {rules.monitor_period} s"
    for zone_name, granted in grants.items():
        yield from _outside_the_rate(zone_name, granted, rates.get(zone_name, []))


def _ticks(at: datetime, rules: Rules) -> int:
    """Count the ticks from the epoch to a time."""
    return (at - datetime.fromtimestamp(0, UTC)) // timedelta(seconds=rules.monitor_period)


_Rates = list[tuple[datetime, float, bool]]
"""The rates of a zone, each with its start, and whether a stop of the whole fleet ended then."""


def _outside_the_rate(zone: str, granted: Iterable[NoExecuteGranted], rates: _Rates) -> Iterator[str]:
    """Apply a bucket of one token to the grants. It starts full, and is full again after a stop of the whole fleet."""
    tokens, at = 1.0, None
    for grant in sorted(granted, key=lambda one: one.granted_time):
        now = grant.granted_time
        rate = _rate_at(rates, now)
        if math.isinf(rate):
            tokens, at = 1.0, now
            continue
        if at is not None:
            tokens = min(1.0, tokens + _filled(rates, at, now))
        if rate == 0 or tokens < 1 - _SPARE:
            yield (
                f"zone {zone}: {grant.target.key} was granted at {now}, outside the rate {rate}: "
                f"the bucket held {tokens:.3f} tokens"
            )
        tokens, at = max(0.0, tokens - 1), now


def _rate_at(rates: _Rates, now: datetime) -> float:
    """The highest rate that applied at an instant, because a zone's record is written together with its grants."""
    before = [rate for time, rate, _ in rates if time < now][-1:]
    return max(before + [rate for time, rate, _ in rates if time == now], default=0.0)


def _filled(rates: _Rates, start: datetime, end: datetime) -> float:
    """The tokens that are added between two instants."""
    times = [time for time, _, _ in rates] + [end]
    total = 0.0
    for number, (time, rate, _) in enumerate(rates):
        begins, ends = max(time, start), min(max(times[number + 1], time), end)
        if ends > begins and rate:
            total += rate * (ends - begins).total_seconds()
    # After a stop of the whole fleet, a bucket starts full again.
    return max(total, 1.0) if any(resumes and start < time <= end for time, _, resumes in rates) else total


def _tainted_without_grant(records: Sequence[Seen]) -> Iterator[str]:
    granted: dict[tuple[str, int], datetime] = {}
    for _, grant in _of(records, "zone-grants", NoExecuteGranted):
        if grant.granted:
            granted.setdefault((grant.target.key, grant.incident), grant.granted_time)
    told: set[tuple[str, int]] = set()
    for _, event in _of(records, "taints", TargetTainted):
        name = (event.target.key, event.incident)
        for taint in event.taints:
            if taint.effect != "NoExecute" or taint.key not in _BY_CONDITION:
                continue
            if TaintOrigin.CONDITION not in taint.origins or name in told:
                continue
            since = granted.get(name)
            if since is None:
                told.add(name)
                yield f"{event.target.key}: carries {taint.key}:NoExecute without a grant for incident {event.incident}"
            elif taint.time_added < since:
                told.add(name)
                yield f"{event.target.key}: {taint.key}:NoExecute is of {taint.time_added}, granted only at {since}"


# Deadlines.


def _deadline(taint: Taint | TaintRecord, tolerations: Iterable[Toleration]) -> datetime | None:
    """When work with these tolerations has to leave because of a taint. None means never.

    Supports only the operators that this benchmark's workloads use: `Exists` and `Equal`.
    """
    added = taint.time_added or _LONG_AGO
    for toleration in tolerations:
        same_key = not toleration.key or toleration.key == taint.key
        same_value = toleration.operator == "Exists" or toleration.value == taint.value
        if same_key and same_value and toleration.effect in ("", taint.effect):
            seconds = toleration.toleration_seconds
            return None if seconds is None else added + timedelta(seconds=max(0, seconds))
    return added


def _early(records: Sequence[Seen]) -> Iterator[str]:
    bindings: dict[tuple[str, int], WorkloadBound] = {}
    for seen, bound in _of(records, "bindings", WorkloadBound):
        bindings[seen.key, bound.generation] = bound
    taints = {
        (event.target.key, event.generation): {(t.key, t.effect, t.time_added) for t in event.taints}
        for _, event in _of(records, "taints", TargetTainted)
    }
    for seen, event in _of(records, "evictions", EvictionDecided):
        if event.state is not EvictionState.REQUESTED:
            continue
        binding = bindings.get((f"{event.workload.key}|{event.target.key}", event.generation))
        if binding is None:
            yield f"{seen.key}: evicted, but there was no such binding"
            continue
        there = taints.get((event.target.key, event.taint_generation), set())
        absent = [t.key for t in event.taints if (t.key, t.effect, t.time_added) not in there]
        if absent or not event.taints:
            yield f"{seen.key}: evicted for taints {absent} that {event.target.key} did not carry"
            continue
        ends = [end for taint in event.taints if (end := _deadline(taint, binding.tolerations)) is not None]
        if not ends:
            yield f"{seen.key}: evicted, but it tolerates the taints for ever"
        elif min(event.decided_time, seen.written + timedelta(milliseconds=1)) < min(ends):
            # Kafka's timestamps are truncated to whole milliseconds.
            yield f"{seen.key}: requested at {event.decided_time}, before its deadline {min(ends)}"


# Losses.


@dataclass(slots=True)
class _Stay:
    """A workload's time on a target."""

    bound: WorkloadBound
    begins: datetime
    ends: datetime | None = None


def _stays(records: Sequence[Seen]) -> dict[str, list[_Stay]]:
    """The stays by target key."""
    found: dict[str, list[_Stay]] = defaultdict(list)
    now: dict[str, _Stay] = {}
    for seen in records:
        if seen.topic != "bindings":
            continue
        there = now.get(seen.key)
        if isinstance(seen.event, WorkloadBound):
            if there is not None and there.bound.generation == seen.event.generation:
                there.bound = seen.event
                continue
            if there is not None:
                there.ends = seen.written
            now[seen.key] = stay = _Stay(seen.event, seen.written)
            found[seen.event.target.key].append(stay)
        elif there is not None:
            there.ends = seen.written
            del now[seen.key]
    return found


def _not_evicted(records: Sequence[Seen], rules: Rules) -> Iterator[str]:
    requested = Counter(
        (event.workload.key, event.target.key, event.generation)
        for _, event in _of(records, "evictions", EvictionDecided)
        if event.state is EvictionState.REQUESTED
    )
    for name, count in requested.items():
        if count > 1:
            yield f"{'|'.join(map(str, name))}: requested {count} times"
    last = rules.end - timedelta(seconds=rules.slack)
    history: dict[str, list[tuple[datetime, TargetTainted]]] = defaultdict(list)
    for seen, event in _of(records, "taints", TargetTainted):
        history[event.target.key].append((seen.written, event))
    stays = _stays(records)
    for target, events in history.items():
        evicting = _evicting(events)
        if not evicting:
            continue
        for stay in stays.get(target, ()):
            name = (stay.bound.workload.key, target, stay.bound.generation)
            if name in requested:
                continue
            due = _first_missed(stay, evicting, last)
            if due is not None:
                yield f"{'|'.join(map(str, name))}: its time was over at {due}, and it has no eviction"


_Spans = list[tuple[TaintRecord, datetime, datetime | None]]


def _evicting(events: Sequence[tuple[datetime, TargetTainted]]) -> _Spans:
    """The NoExecute taints of a target, each with the times when it was added and removed."""
    open_: dict[tuple[str, str, datetime], tuple[TaintRecord, datetime]] = {}
    spans: _Spans = []
    for written, event in events:
        present = {(t.key, t.value, t.time_added): t for t in event.taints if t.effect == "NoExecute"}
        for name in [name for name in open_ if name not in present]:
            spans.append((*open_.pop(name), written))
        for name, taint in present.items():
            open_.setdefault(name, (taint, written))
    return spans + [(taint, began, None) for taint, began in open_.values()]


def _first_missed(stay: _Stay, spans: _Spans, last: datetime) -> datetime | None:
    """When a stay should have ended in an eviction. None if it need not have."""
    missed = []
    for taint, came, went in spans:
        end = _deadline(taint, stay.bound.tolerations)
        if end is None:
            continue
        due = max(end, came, stay.begins)
        over = min(moment for moment in (went, stay.ends, last) if moment is not None)
        if due < over:
            missed.append(due)
    return min(missed, default=None)


def _not_placed(records: Sequence[Seen], rules: Rules) -> Iterator[str]:
    last = rules.end - timedelta(seconds=rules.slack)
    answers: dict[str, list[WorkloadPlaced]] = defaultdict(list)
    for _, placed in _of(records, "placements", WorkloadPlaced):
        answers[placed.workload.key].append(placed)
        if placed.replaces:
            answers[placed.replaces].append(placed)
    for seen, event in _of(records, "evictions", EvictionDecided):
        if event.state is not EvictionState.REQUESTED or seen.written > last:
            continue
        after = [placed for placed in answers.get(event.workload.key, ()) if _answers(placed, event)]
        if not after:
            yield f"{seen.key}: evicted, and never placed again nor pending"
        elif any(placed.state is PlacementState.PENDING and not placed.reason for placed in after):
            yield f"{seen.key}: pending without a reason"


def _answers(placed: WorkloadPlaced, event: EvictionDecided) -> bool:
    """Whether a placement follows an eviction: of the workload itself, or of its replacement."""
    if placed.workload.key == event.workload.key and placed.binding_generation == event.generation:
        return placed.state is PlacementState.EVICTED  # a bare pod is gone
    if placed.state is PlacementState.PLACED:
        return placed.target is not None and (
            placed.target != event.target or placed.binding_generation > event.generation
        )
    return placed.replaces == event.workload.key or placed.decided_time >= event.decided_time


def _not_whole(records: Sequence[Seen], rules: Rules) -> Iterator[str]:
    latest: dict[str, WorkloadPlaced | None] = {}
    for seen in records:
        if seen.topic == "placements":
            latest[seen.key] = seen.event if isinstance(seen.event, WorkloadPlaced) else None
    there = Counter(
        placed.owner.key
        for placed in latest.values()
        if placed is not None and placed.state in (PlacementState.PLACED, PlacementState.PENDING)
    )
    for owner, wanted in rules.replicas.items():
        if there[owner] != wanted:
            yield f"{owner}: {there[owner]} replicas are placed or pending, {wanted} are wanted"
    bound = _stays(records)
    alive = {
        (stay.bound.workload.key, target) for target, stays in bound.items() for stay in stays if stay.ends is None
    }
    for placed in latest.values():
        if placed is None or placed.state is not PlacementState.PLACED or placed.target is None:
            continue
        if (placed.workload.key, placed.target.key) not in alive:
            yield f"{placed.workload.key}: placed on {placed.target.key}, but not bound to it"
