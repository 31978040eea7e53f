"""No workload is evicted early, without need, or after its taint has gone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tests.chaos.seeded.checker import leaves
from tests.chaos.seeded.checker.desired_taints import kind_of, possible
from tests.chaos.seeded.checker.matching import leaves_at, must_leave
from tests.chaos.seeded.checker.parsed_history import EPSILON, Json, Run, Seen, is_request, when
from tests.chaos.seeded.checker.violations import Violation


def requested(run: Run) -> Iterator[tuple[Seen, str, str, int]]:
    """Each decision that work must go now, with the workload, the target and the generation of the binding."""
    for seen in run.of("evictions"):
        if is_request(seen):
            workload, target, generation = seen.key.split("|")
            yield seen, workload, target, int(generation)


def evicts(run: Run, target: str, decision: Seen | None = None) -> bool:
    """Whether taints evicted from targets of its kind at all, when something was decided or at the end."""
    return kind_of(target) == "Node" or (kind_of(target) == "Cluster" and run.clusters_evict(decision))


def bindings(run: Run, decision: Seen, workload: str, target: str, generation: int) -> list[Seen]:
    """The binding of that generation, as whoever decided may have seen it; empty when it was not there."""
    key = f"{workload}|{target}"
    found = []
    for state in run.states("bindings", key, decision):
        if state is None:
            continue
        # One that ended or was renewed just now, or in the very batch that was decided on, may still be told to go:
        # whoever is told so knows the generation.
        of_it = [
            one
            for one in run.records("bindings", key)
            if one.order <= state.order and not one.gone and one.data["generation"] == generation
        ]
        found += of_it[-1:]
    return found


def ended_before(run: Run, decision: Seen, workload: str, target: str, generation: int) -> bool:
    """Whether a binding had ended already when whoever decided must have known of it.

    It has not when one with the same generation may have been known since: a workload made again begins anew.
    """
    key = f"{workload}|{target}"
    count = run.readable("bindings", key, run.before(decision))
    known = run.records("bindings", key)[:count]
    later = run.records("bindings", key)[count : run.at_most("bindings", key, decision)]
    if not any(one.data.get("generation") == generation for one in known):
        return False  # it had not begun
    if any(one.data.get("generation") == generation for one in later):
        return False
    return known[-1].gone or known[-1].data["generation"] > generation


def nobody_evicted_needlessly(run: Run) -> Iterator[Violation]:
    """Who is Requested had to go, by the taints and the binding that were committed when that was decided.

    The verdict is worked out anew from the taints and the binding at the positions that the record names, or, where
    it names none or others were readable 50 ms (and the skew) before the decision, as of then. It must be "go", and
    its time must have come.
    """
    for seen, workload, target, generation in requested(run):
        name = "nobody_evicted_needlessly"
        if not evicts(run, target, seen) and not leaves.demands(run, seen):
            yield Violation(name, seen.where, f"nothing leaves a {kind_of(target)}")
            continue
        bound = bindings(run, seen, workload, target, generation)
        if not bound or ended_before(run, seen, workload, target, generation):
            yield Violation(name, seen.where, "it was not bound there, or not any more")
            continue
        times = [
            must_leave(_taints(tainted), one.data.get("tolerations") or ())
            for tainted in run.states("taints", target, seen)
            for one in bound
            if evicts(run, target, seen)
        ]
        found = [time for time in times if time is not None]
        found += leaves.times_for(run, seen, workload, target, bound)
        if not found:
            yield Violation(name, seen.where, "no committed taint evicts it, and no request demands it")
        # The decision's own clock, and the deadline's (a toleration counts from another process's), may both be off.
        elif min(found) > seen.decided + 2 * run.skew + EPSILON:
            late = min(found) - seen.decided
            yield Violation("nobody_evicted_early", seen.where, f"its time comes {late:.6f} s after the decision")
        # Whether the time has come is judged by eviction's clock alone.
        elif run.history.exact and min(found) > seen.entry.appended + run.eviction_skew + EPSILON:
            late = min(found) - seen.entry.appended
            yield Violation("nobody_evicted_early", seen.where, f"its time comes {late:.6f} s after the record")


def decisions_are_written_soon(run: Run) -> Iterator[Violation]:
    """A Requested that takes long to be written is not written: what it rests on may be over.

    A second may pass until it is begun to be written, and five until it is committed. Only where others wrote meanwhile
    is it known that this was not the broker's doing.
    """
    if not run.history.exact:
        return
    for seen, *_ in requested(run):
        late = seen.entry.committed - seen.decided - run.skew
        if late > _WRITTEN and run.wrote(seen.decided + run.skew + 1, seen.entry.committed - 1):
            yield Violation("decisions_are_written_soon", seen.where, f"is written {late:.3f} s after the decision")


_WRITTEN: Final = 6.5


def deadlines_are_what_taints_say(run: Run) -> Iterator[Violation]:
    """Who is Scheduled has a deadline that follows from his binding and some set of taints that was there by then."""
    if not run.history.exact:
        return
    for seen in run.of("evictions"):
        deadline = when(seen.data, "deadline")
        if seen.data.get("state") != "Scheduled" or deadline is None:
            continue
        workload, target, generation = seen.key.split("|")
        bound = [
            one
            for one in run.records("bindings", f"{workload}|{target}")
            if not one.gone and one.data["generation"] == int(generation) and one.order < seen.order
        ]
        tainted = [one for one in run.records("taints", target) if run.precedes(one, seen)]
        times = [must_leave(_taints(one), work.data.get("tolerations") or ()) for one in tainted for work in bound]
        times += leaves.times_of_past(run, seen, workload, target, bound)
        if not any(time is not None and abs(time - deadline) <= EPSILON for time in times):
            yield Violation(
                "deadlines_are_what_taints_say", seen.where, f"no taints and no requests say {deadline:.6f}"
            )


def nobody_evicted_on_stale_positions(run: Run) -> Iterator[Violation]:
    """The positions that a Requested names cover the taints and the binding that were readable when it was decided.

    Only what concerns this work counts; that another target's records were not read yet makes no difference to it.
    """
    if not run.history.exact:
        return  # offsets of what compaction took away are not known
    for seen, workload, target, _ in requested(run):
        positions = seen.positions()
        asked = [("eviction-requests", key) for key in leaves.keys_of(run, workload, target)]
        for topic, key in (("taints", target), ("bindings", f"{workload}|{target}"), *asked):
            count = run.readable(topic, key, run.before(seen))
            if positions is None or topic not in positions or not count:
                continue
            must = run.records(topic, key)[count - 1]
            if must.entry.offset >= positions[topic]:
                yield Violation("nobody_evicted_on_stale_positions", seen.where, f"{must.where} was readable")


def owners_know_what_was_there(run: Run) -> Iterator[Violation]:
    """Whoever takes a partition over decides only when he has read what was in its tables when he began.

    What is written while that is read is not judged: the taint-manager follows the past then, and so does eviction, but
    for what it requests.
    """
    for seen in run.of_services(_TABLES):
        positions, started = seen.positions(), seen.entry.started
        if positions is None or started is None:
            continue
        if seen.source == "moorage/eviction" and not is_request(seen):
            continue
        for topic in _TABLES[seen.source]:
            must = run.latest(topic, seen.entry.partition, started, seen)
            if must is not None and must.entry.offset >= positions.get(topic, 0):
                yield Violation("owners_know_what_was_there", seen.where, f"{must.where} was there")


_TABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "moorage/governor": ("zone-members", "eviction-asks"),
    "moorage/timer": ("timers",),
    "moorage/placement": ("resources",),
    "moorage/eviction": ("taints", "bindings", "eviction-requests", "workload-conditions"),
}


def what_waited_is_read_in_order(run: Run) -> Iterator[Violation]:
    """Whoever takes a partition over reads what was waiting in his tables in the order in which it was written.

    So nothing is written that rests on a record and not on an older one, unless that was written anew since, and may
    have been compacted away. Live, records of two topics may pass each other, by a second or so.
    """
    if not run.history.exact:
        return
    for service, topics in _IN_ORDER.items():
        for seen in run.of_services({service}):
            positions, started = seen.positions(), seen.entry.started
            if positions is None or started is None:
                continue
            part = seen.entry.partition
            oldest = min(
                (
                    one.entry.committed
                    for topic in topics
                    for one in run.unread(topic, part, positions.get(topic, 0))
                    if one.entry.committed <= started
                    and run.records(topic, one.key)[run.readable(topic, one.key, started) - 1] is one
                ),
                default=None,
            )
            if oldest is None:
                continue
            for topic in topics:
                last = run.last_read(topic, part, positions.get(topic, 0))
                if last is not None and oldest + _MOMENT < last.entry.appended and last.entry.committed <= started:
                    message = (
                        f"{last.where} was read before what was written {last.entry.appended - oldest:.3f} s earlier"
                    )
                    yield Violation("what_waited_is_read_in_order", seen.where, message)


_IN_ORDER: Final[Mapping[str, tuple[str, ...]]] = {
    "moorage/taint-manager": ("conditions", "resources", "zone-grants"),
    "moorage/eviction": ("taints", "bindings"),
}
_MOMENT: Final = 1.5


def nobody_evicted_after_relief(run: Run) -> Iterator[Violation]:
    """Nobody is Requested for taints of which an acknowledged edit or an accepted condition had removed every one.

    Told from `resources` as acknowledged and `conditions` as committed, 50 ms (and the skew) before the decision:
    while the taint-manager has not read these, such evictions wait.
    """
    for seen, workload, target, generation in requested(run):
        if leaves.demands(run, seen):
            continue
        reasons: list[tuple[Json, Seen]] = []
        for tainted in run.states("taints", target, seen):
            if tainted is None or tainted.source != "moorage/taint-manager":
                reasons = []
                break  # written by hand, so there are no sources to look at
            for bound in bindings(run, seen, workload, target, generation):
                tolerations = bound.data.get("tolerations") or ()
                for taint in _taints(tainted):
                    if taint["effect"] == "NoExecute" and leaves_at(taint, tolerations) is not None:
                        reasons.append((taint, tainted))
        if reasons and not any(possible(run, target, taint, tainted, seen) for taint, tainted in reasons):
            keys = ", ".join(sorted({str(taint["key"]) for taint, _ in reasons}))
            yield Violation("nobody_evicted_after_relief", seen.where, f"{keys}: nothing asked for it any more")


def _taints(tainted: Seen | None) -> list[Json]:
    return list(tainted.data.get("taints") or ()) if tainted is not None else []
