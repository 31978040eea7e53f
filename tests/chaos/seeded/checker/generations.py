"""Each eviction passes through its states once, and generations only grow."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from tests.chaos.seeded.checker.parsed_history import EPSILON, Run, Seen, is_request, retentions, when
from tests.chaos.seeded.checker.violations import Violation

_BEGIN: Final = "nothing"
_ENDED: Final = "the end"

_NEXT: Final[Mapping[str, frozenset[str]]] = {
    _BEGIN: frozenset({"Scheduled", "Held", "Requested"}),
    "Scheduled": frozenset({"Scheduled", "Held", "Requested", "Cancelled", _ENDED}),
    # What is held may be given another deadline: its taint went, another came.
    "Held": frozenset({"Held", "Scheduled", "Requested", "Cancelled", _ENDED}),
    # Whoever must go must go, whatever becomes of the taint; the end of the binding completes it.
    "Requested": frozenset({"Completed"}),
    # While its binding stands, a taint may come again.
    "Cancelled": frozenset({"Scheduled", "Held", "Requested", _ENDED}),
    _ENDED: frozenset(),
}

_MILLISECOND: Final = 0.001
"""By which the time of a record on a broker may be too early: it is cut off there."""


def evictions_have_one_outcome(run: Run) -> Iterator[Violation]:
    """The states of each eviction follow each other as they may, with growing revisions, to one end.

    Scheduled and Held as often as need be; Requested at most once, and then only Completed, but for what its deployer
    says of it, which ends with its acknowledgement, or Cancelled where placement has noted on the binding that the work
    had no other place, and may stay (`keptTime`); Cancelled may be scheduled
    again while the binding stands. It ends with Completed, with Cancelled for `BindingEnded`, or with a tombstone of a
    cancelled one; nothing follows but a tombstone, after the retention. A workload made again under its name (another
    uid) begins anew.
    """
    for key, records in run.keys("evictions"):
        state, revision, uid = _BEGIN, 0, None
        for before, seen in zip([None, *records], records, strict=False):
            if seen.gone:
                if state != "Cancelled" and not _kept_long_enough(run, before, seen):
                    yield Violation("evictions_have_one_outcome", seen.where, f"a tombstone follows {state}")
                state = _ENDED
                continue
            its = seen.data.get("workloadUid", "")
            if uid is not None and its != uid and state in {_ENDED, "Completed"}:
                state, revision = _BEGIN, 0
            uid = its
            name = str(seen.data["state"])
            over = name == "Cancelled" and seen.data.get("reason") == "BindingEnded"
            after = _ENDED if over else name
            # Of a real run what came before may have been compacted away.
            cut_off = state == _BEGIN and not run.history.exact and seen.data["revision"] > 1
            is_told = after == state == "Requested" and not is_request(seen) and not _is_acknowledged(before)
            is_withdrawn = state == "Requested" and name == "Cancelled" and _was_kept(run, key, seen)
            if not (cut_off or is_told or is_withdrawn) and after not in _NEXT.get(state, frozenset()):
                yield Violation("evictions_have_one_outcome", seen.where, f"{after} follows {state}")
            if seen.data["revision"] <= revision:
                message = f"revision {seen.data['revision']} follows {revision}"
                yield Violation("evictions_have_one_outcome", seen.where, message)
            state, revision = after, seen.data["revision"]
            if run.history.exact and (name == "Completed" or over) and not _binding_ended(run, key, seen):
                yield Violation("evictions_have_one_outcome", seen.where, "its binding has not ended")


def _is_acknowledged(before: Seen | None) -> bool:
    return before is not None and bool(before.data.get("acknowledged"))


def _was_kept(run: Run, key: str, seen: Seen) -> bool:
    """Whether placement had noted, before a record, that it has not carried out the eviction of this binding."""
    place, _, generation = key.rpartition("|")
    return any(
        one.data.get("keptTime") is not None and str(one.data.get("generation")) == generation
        for one in run.records("bindings", place)
        if not one.gone and run.precedes(one, seen)
    )


def _kept_long_enough(run: Run, before: Seen | None, tombstone: Seen) -> bool:
    """Whether an eviction that is over was deleted no earlier than its retention allows."""
    if before is None or before.gone or before.data["state"] not in {"Completed", "Cancelled"}:
        return False
    decided = when(before.data, "decidedTime")
    retention = min(retentions(run))
    return decided is not None and tombstone.decided - decided + 2 * run.skew + EPSILON >= retention


def _binding_ended(run: Run, key: str, seen: Seen) -> bool:
    """Whether the binding of an eviction was gone, or another one, before the record that says so."""
    binding, _, generation = key.rpartition("|")
    begun = False
    for one in run.records("bindings", binding):
        if one.order > seen.order:
            break
        same = not one.gone and (one.data["generation"], one.data.get("uid", "")) == (
            int(generation),
            seen.data.get("workloadUid", ""),
        )
        if begun and not same:
            return True
        begun = begun or same
    return not begun


def generations_of_evictions_grow(run: Run) -> Iterator[Violation]:
    """Of one workload on one target no eviction of an earlier binding follows that of a later one."""
    last: dict[tuple[str, str], int] = {}
    for seen in run.of("evictions"):
        if seen.gone:
            continue
        binding, _, text = seen.key.rpartition("|")
        place = (binding, str(seen.data.get("workloadUid", "")))
        if int(text) < last.get(place, 0):
            yield Violation("generations_of_evictions_grow", seen.where, f"follows generation {last[place]}")
        last[place] = max(int(text), last.get(place, 0))


def generations_grow(run: Run) -> Iterator[Violation]:
    """The generations of taints, conditions, bindings, placements, grants and zones only grow.

    Of taints, conditions, bindings and placements for each uid of what they are about, for what is made again under
    its name may begin anew; a placement's and a zone's memory goes with its tombstone. Of one generation of a binding
    the revisions grow.
    """
    for topic, uid in _UIDS.items():
        for _, records in run.keys(topic):
            last: dict[str, tuple[int, int]] = {}
            for seen in records:
                if seen.gone and topic in _FORGETFUL:
                    last.clear()
                if seen.gone or not seen.source.startswith("moorage/"):
                    continue  # what was written by hand is not judged
                its = str(seen.data.get(uid, ""))
                found = (int(seen.data["generation"]), int(seen.data.get("revision", 0)) if topic == "bindings" else 0)
                if found <= last.get(its, (0, 0)):
                    yield Violation("generations_grow", seen.where, f"{found} follows {last[its]}")
                last[its] = max(found, last.get(its, (0, 0)))


_UIDS: Final[Mapping[str, str]] = {
    "taints": "targetUid",
    "conditions": "targetUid",
    "workload-conditions": "targetUid",
    "bindings": "uid",
    "placements": "uid",
    "zone-grants": "",
    "zones": "",
}
"""By topic, the field with the uid of what its records are about."""

_FORGETFUL: Final = frozenset({"placements", "zone-grants", "zones"})
"""Topics whose writer remembers no generation of a key once it has written its tombstone."""


def timers_move_forward(run: Run) -> Iterator[Violation]:
    """The generation of a timer grows until its tombstone, and one generation has one deadline."""
    for _, records in run.keys("timers"):
        known: tuple[int, float | None] | None = None
        for seen in records:
            if seen.gone:
                known = None
                continue
            found = (int(seen.data["generation"]), when(seen.data, "deadline"))
            if known is not None and (found[0] < known[0] or (found[0] == known[0] and found != known)):
                yield Violation("timers_move_forward", seen.where, f"{found} follows {known}")
            known = found


def timers_fire_once_and_never_early(run: Run) -> Iterator[Violation]:
    """A timer that was set fires at or after its deadline, once for each generation.

    By the clock of whoever fires it exactly; by true time but for the skew. A timer that was forgotten (a tombstone)
    and set again may fire again.
    """
    lives: dict[tuple[str, int], set[int]] = defaultdict(set)
    for key, records in run.keys("timers"):
        life = 0
        for seen in records:
            life += seen.gone
            if not seen.gone:
                lives[key, int(seen.data["generation"])].add(life)
    fired: Counter[tuple[str, int]] = Counter()
    for seen in run.of("timer-fired"):
        if seen.gone:
            continue
        place = (seen.key, int(seen.data["generation"]))
        fired[place] += 1
        name = "timers_fire_once_and_never_early"
        if run.history.exact and fired[place] > len(lives[place]):
            yield Violation(name, seen.where, f"generation {place[1]} fired {fired[place]} times")
        deadline, told = when(seen.data, "deadline"), when(seen.data, "firedTime")
        if deadline is None or told is None or told < deadline:
            yield Violation(name, seen.where, "fired before its deadline")
        elif seen.entry.appended + run.skew + (EPSILON if run.history.exact else _MILLISECOND) < deadline:
            yield Violation(name, seen.where, "was written before its deadline")


def deadlines_have_their_timers(run: Run) -> Iterator[Violation]:
    """Each deadline of a scheduled eviction was given to its timer, in the same transaction or before."""
    for key, records in run.keys("evictions"):
        timers = [one for one in run.records("timers", f"evict|{key}") if not one.gone]
        for seen in records:
            deadline = when(seen.data, "deadline")
            if seen.data.get("state") != "Scheduled" or deadline is None or not run.history.exact:
                continue
            given = [when(one.data, "deadline") for one in timers]
            if not any(one is not None and abs(one - deadline) <= EPSILON for one in given):
                yield Violation("deadlines_have_their_timers", seen.where, f"no timer was set for {deadline:.6f}")
