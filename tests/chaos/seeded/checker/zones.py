"""Zones: taints that evict are added slowly, only where they may be, and only for conditions that have held."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from tests.chaos.seeded.checker.desired_taints import AVAILABLE, ROWS, incident_of, kind_of
from tests.chaos.seeded.checker.parsed_history import EPSILON, Json, Run, Seen, when
from tests.chaos.seeded.checker.violations import Violation

_DISRUPTED: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
_CONFIRMED = 2.0
"""Seconds: what a zone grants in them at its rate may be open, granted and not done yet; at least one node may be.

The governor does not know sooner than that that a grant was done. So after a silence so many nodes get the taint at
once, and one more, for whom the zone's token was kept.
"""

_MICROS: Final = 1_000_000
_FULL, _PARTIAL, _NORMAL = "FullDisruption", "PartialDisruption", "Normal"


def _granted(run: Run) -> Iterator[Seen]:
    """Each grant once, in order."""
    for seen in run.of("zone-grants"):
        if seen.data.get("granted") and seen.source == "moorage/governor":
            yield seen


def zone_rates_are_kept(run: Run) -> Iterator[Violation]:
    """The nodes of a zone are granted at `node_eviction_rate` per second at the most, one at a time.

    There is never more than one token, so two grants are at least 1/rate apart (but for twice the skew); a zone that
    had no nodes meanwhile begins anew. A large zone that was in partial disruption from the one grant to the other is
    held to `secondary_node_eviction_rate`.
    """
    rate = max(run.settings("node_eviction_rate", 0.1))
    slow = max(run.settings("secondary_node_eviction_rate", 0.01))
    states = _history(run)
    last: dict[str, Seen] = {}
    for seen in _granted(run):
        zone, time = seen.data["zone"], when(seen.data, "grantedTime") or seen.decided
        before = last.get(zone)
        last[zone] = seen
        if before is None or _emptied(run, zone, before, seen):
            continue
        gap = time - (when(before.data, "grantedTime") or before.decided)
        since = run.before(before)  # the one before may rest on what was known then
        between = {
            state.get(zone, _NORMAL) for one, state in states if one.entry.committed > since and one.order < seen.order
        }
        known = next((state for one, state in reversed(states) if one.entry.committed <= since), {})
        between.add(known.get(zone, _NORMAL))
        allowed = slow if between == {_PARTIAL} else max(rate, slow)
        if allowed <= 0 or (not math.isinf(allowed) and gap + 2 * run.skew + EPSILON < 1 / allowed):
            yield Violation("zone_rates_are_kept", seen.where, f"{gap:.6f} s after {before.key} in zone {zone}")


def nodes_wait_for_a_tick(run: Run) -> Iterator[Violation]:
    """A node is granted at a tick after its incident has begun, or later: at a multiple of `node_monitor_period`.

    Both are times that services have written, and the governor compares the one with its own clock. So no skew counts.
    A period that was changed may have been the one before or the one after.
    """
    periods = [round(seconds * _MICROS) for seconds in run.settings("node_monitor_period", 5)]
    if 0 in periods:
        return
    for seen in _granted(run):
        incident = (seen.data.get("targetUid", ""), seen.data["incident"])
        began = [
            when(one.data, "since") or one.decided
            for one in run.records("zone-members", seen.key)
            if not one.gone and (one.data.get("targetUid", ""), one.data.get("incident")) == incident
        ]
        granted = round((when(seen.data, "grantedTime") or seen.decided) * _MICROS)
        since = round(min(began, default=0.0) * _MICROS)
        if all(granted // period <= since // period for period in periods):
            yield Violation("nodes_wait_for_a_tick", seen.where, f"{(granted - since) / _MICROS:.6f} s after its begin")


def nodes_are_tainted_at_their_zones_rate(run: Run) -> Iterator[Violation]:
    """The nodes of a zone *get* the taint that evicts at its rate, too, whoever was away between grant and taint.

    Of any number of nodes one after the other all but those that may be open, and one, keep to the rate: what is open
    was granted before, and of what is granted meanwhile only the first finds a token that was kept. The times are
    true ones, from when the governor could read of the first to when the last could be read; the skew is that of the
    governor, by whose clock tokens grow. What has ended before it was done does not count, for it made room by that: a
    grant that was taken back, a node that moved.
    """
    rate = max(*run.settings("node_eviction_rate", 0.1), *run.settings("secondary_node_eviction_rate", 0.01))
    if rate <= 0 or math.isinf(rate) or not run.runs("governor"):
        return
    most = max(1, math.ceil(rate * _CONFIRMED))
    zones: dict[str, list[tuple[Seen, Seen]]] = defaultdict(list)
    for seen, grant in _tainted(run):
        if not _ended(run, seen, grant):
            zones[grant.data["zone"]].append((seen, grant))
    for zone, found in sorted(zones.items()):
        found.sort(key=lambda one: one[0].entry.committed)
        for last, (seen, grant) in enumerate(found):
            for first in range(last - most):
                before, earlier = found[first]
                gap = seen.entry.committed - _told(run, before)
                needed = (last - first - most) / rate
                one, other = sorted((earlier, grant), key=lambda each: each.order)
                if gap + 2 * run.skew + run.slack < needed and not _emptied(run, zone, one, other):
                    count = last - first + 1
                    told = f"{count} nodes of zone {zone} in {gap:.3f} s, {needed:g} s are needed"
                    yield Violation("nodes_are_tainted_at_their_zones_rate", seen.where, told)
                    break


def _tainted(run: Run) -> Iterator[tuple[Seen, Seen]]:
    """Each set of taints by which a node gets the one that evicts for not being ready, and the grant for it."""
    for target, records in run.keys("taints"):
        had, uid = False, ""
        for seen, later in zip(records, [*records[1:], None], strict=True):
            if later is not None and _together(seen, later):
                continue
            has, had = _evicts(seen), had and seen.data.get("targetUid", "") == uid
            if has and not had and seen.source == "moorage/taint-manager":
                said = [one for one in run.records("zone-grants", target) if run.precedes(one, seen)]
                asked = [one for one in said if one.data.get("granted") and incident_of(one) == incident_of(seen)]
                if asked:
                    yield seen, asked[-1]
            had, uid = has, str(seen.data.get("targetUid", ""))


def _told(run: Run, seen: Seen) -> float:
    """When it could be read that a node has its taint: on `zone-members` sometimes before it is on `taints`.

    Both are of one transaction, but Kafka writes its marker to each partition on its own.
    """
    said = (one for one in run.records("zone-members", seen.key) if one.decided == seen.decided)
    return min(one.entry.committed for one in (seen, *said))


def _evicts(seen: Seen) -> bool:
    return any(
        taint["effect"] == "NoExecute" and taint["key"] in _DISRUPTED and "condition" in taint["origins"]
        for taint in seen.data.get("taints") or ()
    )


def _ended(run: Run, seen: Seen, grant: Seen) -> bool:
    """Whether a grant was taken back, or its node seen elsewhere, before the taint was there."""
    words = run.records("zone-grants", grant.key)
    if any(grant.order < one.order < seen.order and not one.data.get("granted") for one in words):
        return True
    places = run.records("zone-members", grant.key)
    known = [one for one in places if run.precedes(one, seen) or one.entry.committed <= seen.entry.committed]
    return any(one.order > grant.order and one.data.get("zone") != grant.data["zone"] for one in known)


def _emptied(run: Run, zone: str, before: Seen, after: Seen) -> bool:
    """Whether a zone had no nodes at some time between two records."""
    return any(one.gone for one in run.records("zones", zone) if before.order < one.order < after.order)


def lost_zones_get_nothing(run: Run) -> Iterator[Violation]:
    """No node is granted while every zone is fully disrupted, or while its small zone is in partial disruption.

    By the nodes as they were told to the governor (`zone-members`), from 50 ms (and the skew) before the grant on.
    docs/domain.md, "Zones": partial is a part of at least `unhealthy_zone_threshold` and at least 3, small is at most
    `large_cluster_size_threshold`.
    """
    states = _history(run)
    for seen in _granted(run):
        least = sum(1 for one, _ in states if one.entry.committed <= run.before(seen))
        most = sum(1 for one, _ in states if run.precedes(one, seen))
        seen_states = [states[count - 1][1] if count else {} for count in range(least, max(least, most) + 1)]
        zone = seen.data["zone"]
        if all(state and set(state.values()) == {_FULL} for state in seen_states):
            yield Violation("lost_zones_get_nothing", seen.where, "every zone is fully disrupted")
        elif all(state.get(zone) == _PARTIAL and _small(run, seen, zone) for state in seen_states):
            yield Violation("lost_zones_get_nothing", seen.where, f"zone {zone} is small and in partial disruption")


def _history(run: Run) -> list[tuple[Seen, Mapping[str, str]]]:
    """The state of every zone that has nodes, after each record of `zone-members`."""
    threshold = run.setting("unhealthy_zone_threshold", 0.55)
    members: dict[str, Json] = {}
    found: list[tuple[Seen, Mapping[str, str]]] = []
    for seen in run.of("zone-members"):
        if seen.gone:
            members.pop(seen.key, None)
        else:
            members[seen.key] = seen.data
        zones: dict[str, list[bool]] = defaultdict(list)
        for member in members.values():
            zones[member["zone"]].append(bool(member["ready"]))
        found.append((seen, {zone: _state(ready, threshold) for zone, ready in zones.items()}))
    return found


def _state(ready: list[bool], threshold: float) -> str:
    lost = ready.count(False)
    if lost == len(ready):
        return _FULL
    return _PARTIAL if lost >= 3 and lost / len(ready) >= threshold else _NORMAL


def _small(run: Run, seen: Seen, zone: str) -> bool:
    members: dict[str, str] = {}
    for one in run.of("zone-members"):
        if not run.precedes(one, seen):
            break
        members[one.key] = "" if one.gone else one.data["zone"]
    slow = max(run.settings("secondary_node_eviction_rate", 0.01))
    large = sum(1 for place in members.values() if place == zone) > run.setting("large_cluster_size_threshold", 50)
    return not large or slow <= 0


def node_taints_are_granted(run: Run) -> Iterator[Violation]:
    """A node gets the taint that evicts for not being ready only in an incident that the governor has granted.

    Not ready and unreachable are one incident: the one taint may take the other's place.
    """
    if not run.runs("governor"):
        return
    for target, records in run.keys("taints"):
        had, uid = False, ""
        for seen in records:
            has = _evicts(seen)
            had = had and seen.data.get("targetUid", "") == uid
            ours = kind_of(target) == "Node" and seen.source == "moorage/taint-manager"
            if has and not had and ours:
                incident = seen.data.get("incident")
                asked = [one for one in run.records("zone-grants", target) if run.precedes(one, seen)]
                if not any(one.data.get("granted") and one.data.get("incident") == incident for one in asked):
                    yield Violation("node_taints_are_granted", seen.where, f"incident {incident} was not granted")
            had, uid = has, str(seen.data.get("targetUid", ""))


def conditions_have_held(run: Run) -> Iterator[Violation]:
    """A condition's taint is added only after the condition has lasted for `taint_add_hold`.

    Judged by all that was ever accepted of it: at some time before the record it must have lasted so long, by the
    clock of condition-ingest, without a word to the contrary. Not ready and unreachable count as one, of a node. That
    nobody has ever said whether a managed cluster is available has no time: its first set of taints may say so. What
    the same transaction takes back was never there.
    """
    hold = min(run.settings("taint_add_hold", 0))
    if hold <= 0:
        return
    for target, records in run.keys("taints"):
        kind, before, uid = kind_of(target), set[tuple[str, str]](), None
        for seen, later in zip(records, [*records[1:], None], strict=True):
            if later is not None and _together(seen, later):
                continue
            first, uid = seen.data.get("targetUid") != uid, seen.data.get("targetUid")
            now = {
                (taint["key"], taint["effect"])
                for taint in seen.data.get("taints") or ()
                if "condition" in taint["origins"]
            }
            for row in ROWS.get(kind, ()):
                fresh = {(row.key, effect) for effect in row.effects} & (now - before)
                group = [one for one in ROWS[kind] if one.condition == row.condition]
                there = {(one.key, effect) for one in group for effect in one.effects}
                unreported = first and row.condition == AVAILABLE and row.status == "Unknown"
                if not fresh or there & before or unreported:
                    continue
                if not _lasted(run, f"{target}|{row.condition}", {one.status for one in group}, seen, hold):
                    yield Violation("conditions_have_held", seen.where, f"{row.key}: for less than {hold:g} s")
            before = now


def _together(one: Seen, other: Seen) -> bool:
    """Whether two records were written in one transaction: they rest on the same positions then."""
    positions = one.positions()
    return positions is not None and positions == other.positions() and one.entry.committed == other.entry.committed


def _lasted(run: Run, key: str, statuses: set[str], seen: Seen, hold: float) -> bool:
    since: float | None = None
    records = [one for one in run.records("conditions", key) if run.precedes(one, seen)]
    positions = seen.positions()
    if positions is not None:  # what was not read yet was not known
        began = seen.entry.started or 0.0
        records = [
            one for one in records if one.entry.offset < positions.get("conditions", 0) or one.entry.committed <= began
        ]
    if not records:
        return True  # an unreported condition has no time
    for one in records:
        began = when(one.data, "statusSince") or one.decided
        if one.data.get("status") in statuses:
            since = began if since is None else since
            continue
        if since is not None and began - since >= hold - 2 * run.skew - EPSILON:
            return True
        since = None
    return since is not None and seen.decided - since >= hold - 2 * run.skew - EPSILON


def zones_know_their_nodes(run: Run) -> Iterator[Violation]:
    """After quiet the governor was told of every declared node, and of no other: its zone, and whether it is ready.

    It is not ready while a condition gives it the taint for that.
    """
    if not (run.history.quiet and run.runs("taint-manager")):
        return
    name = "zones_know_their_nodes"
    members, resources = run.table("zone-members"), run.table("resources")
    nodes = {f"Node/{key.removeprefix('Node//')}" for key in resources if key.startswith("Node//")}
    for target in sorted(members.keys() - nodes):
        yield Violation(name, members[target].where, "is not declared")
    for target, seen in run.table("taints").items():
        if target not in nodes or seen.source != "moorage/taint-manager":
            continue
        if target not in members:
            yield Violation(name, seen.where, "its zone does not know it")
            continue
        carried = {one["key"] for one in seen.data.get("taints") or () if "condition" in one["origins"]}
        member = members[target].data
        if member["zone"] != seen.data.get("zone"):
            yield Violation(name, members[target].where, f"is in zone {seen.data.get('zone')}")
        elif bool(member["ready"]) is bool(carried & _DISRUPTED):
            yield Violation(name, members[target].where, f"is told to be ready: {member['ready']}, and is not so")
