"""docs/domain.md, "Requests to leave", implemented independently: when requests make work leave, and who had asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.chaos.seeded.checker.desired_taints import kind_of
from tests.chaos.seeded.checker.matching import AT_ONCE, must_leave
from tests.chaos.seeded.checker.parsed_history import EPSILON, Json, Run, Seen, is_request, when
from tests.chaos.seeded.checker.violations import Violation

_TOPIC = "eviction-requests"


def keys_of(run: Run, workload: str, target: str) -> list[str]:
    """The keys of all requests that a workload leaves a target."""
    return [key for key, _ in run.keys(_TOPIC) if key.startswith(f"{workload}|{target}|")]


def times_for(run: Run, decision: Seen, workload: str, target: str, bound: Sequence[Seen]) -> list[float]:
    """When requests that may have been seen at a decision make one of these bindings leave."""
    found = []
    for key in keys_of(run, workload, target):
        for state in run.states(_TOPIC, key, decision):
            found += [time for one in bound if (time := _time(state, one)) is not None]
    return found


def times_of_past(run: Run, decision: Seen, workload: str, target: str, bound: Sequence[Seen]) -> list[float]:
    """When requests of any time before a decision make one of these bindings leave."""
    found = []
    for key in keys_of(run, workload, target):
        for record in run.records(_TOPIC, key):
            if run.precedes(record, decision):
                found += [time for one in bound if (time := _time(record, one)) is not None]
    return found


def time_in_the_end(run: Run, workload: str, target: str, bound: Seen) -> float | None:
    """When the requests that are there at the end make a binding leave; None when none does."""
    table = run.table(_TOPIC)
    times = [_time(table[key], bound) for key in keys_of(run, workload, target) if key in table]
    return min((time for time in times if time is not None), default=None)


def demands(run: Run, decision: Seen) -> bool:
    """Whether a request may demand what was decided."""
    workload, target, generation = decision.key.split("|")
    bound = [
        one
        for one in run.records("bindings", f"{workload}|{target}")
        if not one.gone and one.data["generation"] == int(generation)
    ]
    return bool(times_for(run, decision, workload, target, bound))


def _time(request: Seen | None, bound: Seen) -> float | None:
    if request is None or request.gone:
        return None
    same = request.data["generation"] == bound.data["generation"]
    if not same or request.data.get("workloadUid", "") != bound.data.get("uid", ""):
        return None
    deadline = when(request.data, "deadline")
    return AT_ONCE if deadline is None else deadline


def named_requesters_had_asked(run: Run) -> Iterator[Violation]:
    """Each requester that a Requested names had a request for this binding that had not been withdrawn.

    A record about its deployer repeats the names of the first.
    """
    for seen in run.of("evictions"):
        if not is_request(seen):
            continue
        workload, target, generation = seen.key.split("|")
        for one in seen.data.get("requesters") or ():
            key = f"{workload}|{target}|{one['kind']}/{one['name']}"
            states = [found for found in run.states(_TOPIC, key, seen) if found is not None and not found.gone]
            if not any(found.data["generation"] == int(generation) for found in states):
                yield Violation("named_requesters_had_asked", seen.where, f"{key} is not there")


def who_demands_it_is_named(run: Run) -> Iterator[Violation]:
    """A Scheduled that names requesters, and no taint, names one whose deadline it has."""
    if not run.history.exact:
        return
    for seen in run.of("evictions"):
        deadline = when(seen.data, "deadline")
        requesters = seen.data.get("requesters") or ()
        if seen.data.get("state") != "Scheduled" or seen.data.get("taints") or not requesters or deadline is None:
            continue
        if not _has_deadline(run, seen, requesters, deadline):
            yield Violation("who_demands_it_is_named", seen.where, f"no named requester has {deadline:.6f}")


def _has_deadline(run: Run, seen: Seen, requesters: Sequence[Json], deadline: float) -> bool:
    workload, target, _ = seen.key.split("|")
    for one in requesters:
        for record in run.records(_TOPIC, f"{workload}|{target}|{one['kind']}/{one['name']}"):
            found = None if record.gone else when(record.data, "deadline")
            if found is not None and abs(found - deadline) <= EPSILON and run.precedes(record, seen):
                return True
    return False


def nobody_scheduled_late(run: Run) -> Iterator[Violation]:
    """The deadline of a Scheduled is no later than that of any request, or of the taints, that must have been seen."""
    if not run.history.exact:
        return
    for seen in run.of("evictions"):
        deadline = when(seen.data, "deadline")
        if seen.data.get("state") != "Scheduled" or deadline is None:
            continue
        workload, target, generation = seen.key.split("|")
        asked = keys_of(run, workload, target)
        bound = [
            one
            for one in run.states("bindings", f"{workload}|{target}", seen)
            if one is not None and not one.gone and one.data["generation"] == int(generation)
        ]
        if not asked or not bound:
            continue
        sure = [[_time(state, one) for state in run.states(_TOPIC, key, seen) for one in bound] for key in asked]
        if kind_of(target) == "Node":
            tainted = [one.data.get("taints") or () if one else () for one in run.states("taints", target, seen)]
            sure.append([must_leave(one, work.data.get("tolerations") or ()) for one in tainted for work in bound])
        for times in sure:
            known = [time for time in times if time is not None]
            if times and len(known) == len(times) and max(known) < deadline - EPSILON:
                yield Violation("nobody_scheduled_late", seen.where, f"had to leave by {max(known):.6f}")
