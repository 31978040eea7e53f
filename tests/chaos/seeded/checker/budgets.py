"""Budgets hold in every window, both by the governor's answers and by the evictions that were Requested."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tests.chaos.seeded.checker.guards import Subject, guard_name, in_force, in_scope, share, subject_of
from tests.chaos.seeded.checker.matching import selects
from tests.chaos.seeded.checker.parsed_history import EPSILON, Json, Run, Seen, is_request, name_of, when
from tests.chaos.seeded.checker.violations import Violation


@dataclass(frozen=True, slots=True)
class Grant:
    """One eviction that was let go, and went."""

    seen: Seen
    """The answer."""

    subject: Subject
    generation: int
    time: float
    """By the clock of the governor that gave it."""

    due: float
    """When it had come due; patience counts from here."""

    went: float
    """True time at which it could be read that it is Requested."""


def grants(run: Run) -> list[Grant]:
    """The evictions that were granted and Requested, by the order of the answers.

    An answer may be written again, for it may be lost; the first of them counts. One whose eviction was cancelled, or
    asked anew, before it was Requested has let nobody go.
    """
    went = {
        (seen.key, seen.data.get("asked")): seen.entry.committed for seen in run.of("evictions") if is_request(seen)
    }
    found: list[Grant] = []
    for answer in run.of("eviction-answers"):
        place = (answer.key, answer.data.get("asked"))
        time = when(answer.data, "answeredTime")
        if not answer.data.get("granted") or place not in went or time is None:
            continue
        requested = went.pop(place)
        workload, target, generation = answer.key.split("|")
        subject = subject_of(run, answer, workload, target, int(generation))
        if subject is None:
            continue
        asks = [one for one in run.records("eviction-asks", answer.key) if one.data.get("revision") == place[1]]
        due = when(asks[-1].data, "dueTime") if asks else None
        found.append(Grant(answer, subject, int(generation), time, time if due is None else due, requested))
    return found


def _part(spec: Json, subject: Subject) -> str:
    parts = {"Zone": subject.zone, "Namespace": subject.namespace, "Workload": subject.owner}
    return parts.get(str(spec.get("per", "Fleet")), "")


def _patient(run: Run, grant: Grant, seconds: object) -> bool:
    """Whether a guard surely still had patience; what went in spite of it breaks nothing."""
    return seconds is None or grant.time < grant.due + float(str(seconds)) - 2 * run.skew


def _judged(run: Run, found: Sequence[Grant]) -> Iterator[tuple[Grant, Seen, Json, list[Grant]]]:
    """Each grant with each budget that it had to keep, and the earlier grants that the budget counts, itself too."""
    for number, grant in enumerate(found):
        for budget in in_force(run, grant.seen, grant.subject, kind="EvictionBudget"):
            spec = budget.data["object"].get("spec") or {}
            if not _patient(run, grant, spec.get("patienceSeconds")):
                continue
            scope, part = spec.get("scope") or {}, _part(spec, grant.subject)
            same = [
                one for one in found[: number + 1] if in_scope(scope, one.subject) and _part(spec, one.subject) == part
            ]
            yield grant, budget, spec, same


def windows_are_kept(run: Run) -> Iterator[Violation]:
    """No EvictionBudget lets more go in any window than `maxInWindow`, but what its patience has ended for.

    What goes at the very end of a window counts in it no more. A window is shortened by twice the skew, for the
    governor may have moved to another clock. What went before the budget counted it, or remembered it for so long,
    does not count.

    So it is with what was granted, as of the answers, and with what was Requested, but for the time that an answer may
    have been on its way (`_ON_ITS_WAY`), by which a window is shorter then.
    """
    for grant, budget, spec, same in _judged(run, grants(run)):
        if spec.get("maxInWindow") is None:
            continue
        window = float(spec.get("windowSeconds") or 3600) - 2 * run.skew - EPSILON
        since = _counts_since(run, budget)
        inside = [one for one in same if one.time > grant.time - window and run.precedes(since, one.seen)]
        limit = share(spec["maxInWindow"], _bound(run, grant, spec))
        if len(inside) > limit:
            message = f"{guard_name(budget)}: {len(inside)} of {limit} in {spec.get('windowSeconds', 3600)} s"
            yield Violation("windows_are_kept", grant.seen.where, message)
        times = sorted(one.went for one in same if run.precedes(since, one.seen))
        most = _most_within(times, window - _on_its_way(run), grant.went)
        if most > limit:
            message = f"{guard_name(budget)}: {most} of {limit} Requested in {spec.get('windowSeconds', 3600)} s"
            yield Violation("windows_are_kept", grant.seen.where, message)


_ON_ITS_WAY: Final = 2.0
"""Seconds. The governor counts an eviction from its answer when it hears within that time that it is Requested, else
from when it hears it; till then it keeps its place. So two that may not be in one window are Requested as far apart as
the window is long, less this."""


def _on_its_way(run: Run) -> float:
    """By how much requests may be closer to one another than answers; more where times are those of records."""
    return _ON_ITS_WAY + (0.0 if run.history.exact else run.slack)


def _most_within(times: Sequence[float], window: float, time: float) -> int:
    """The most of some sorted times in any window, without its begin, that holds one of them."""
    ends = [end for end in times if time <= end < time + window]
    return max((sum(1 for one in times if end - window < one <= end) for end in ends), default=0)


def _counts_since(run: Run, budget: Seen) -> Seen:
    """The record with which a budget began to count what it counts now, and to remember it for as long."""

    def counts(one: Seen) -> tuple[object, object]:
        spec = one.data["object"].get("spec") or {}
        return spec.get("scope"), spec.get("per")

    def remembers(one: Seen) -> float:
        spec = one.data["object"].get("spec") or {}
        return float(spec.get("windowSeconds") or 3600) if spec.get("maxInWindow") is not None else 0.0

    since = budget
    for one in reversed(run.records("resources", budget.key)):
        if one.order >= budget.order:
            continue
        if one.gone or counts(one) != counts(budget) or remembers(one) < remembers(budget):
            break
        since = one
    return since


def concurrency_is_kept(run: Run) -> Iterator[Violation]:
    """No EvictionBudget lets more be under way than `maxConcurrent`, but what its patience has ended for.

    Under way is, at least, what was granted and whose binding has not ended by the record of the next grant.
    """
    for grant, budget, spec, same in _judged(run, grants(run)):
        if spec.get("maxConcurrent") is None:
            continue
        under_way = [one for one in same if one is grant or _stands(run, one, grant.seen)]
        limit = share(spec["maxConcurrent"], _bound(run, grant, spec))
        if len(under_way) > limit:
            message = f"{guard_name(budget)}: {len(under_way)} of {limit} at a time"
            yield Violation("concurrency_is_kept", grant.seen.where, message)


def _stands(run: Run, grant: Grant, at: Seen) -> bool:
    """Whether the binding of what was granted still stood, whatever the governor had read of it."""
    key = f"{grant.subject.workload}|{grant.subject.target}"
    known = [one for one in run.records("bindings", key) if run.precedes(one, at)]
    return bool(known) and not known[-1].gone and known[-1].data["generation"] == grant.generation


def _bound(run: Run, grant: Grant, spec: Json) -> int:
    """How many workloads in a budget's scope and part were bound, at the most."""
    if not any(str(spec.get(name, "")).endswith("%") for name in ("maxInWindow", "maxConcurrent")):
        return 0
    scope, part = spec.get("scope") or {}, _part(spec, grant.subject)
    count = 0
    for key, _ in run.keys("bindings"):
        workload, _, target = key.partition("|")
        for state in run.states("bindings", key, grant.seen, within=run.allowances.follow):
            if state is None or state.gone:
                continue
            zone = next((one.data.get("zone", "") for one in run.states("taints", target, grant.seen) if one), "")
            subject = Subject(workload, name_of(state.data["owner"]), target, zone, state.data.get("labels") or {})
            if in_scope(scope, subject) and _part(spec, subject) == part:
                count += 1
                break
    return count


def disruption_budgets_are_kept(run: Run) -> Iterator[Violation]:
    """No healthy pod is let go when its PodDisruptionBudget then has fewer healthy pods than it needs.

    But after `disruption_budget_patience`. Pods that are bound count, unless reported unhealthy or let go; where the
    governor may or may not have read a change, the larger number counts. Needed is `minAvailable`, or what
    `maxUnavailable` leaves of what the pods' owners want; pods of other owners than Deployments, ReplicaSets and
    StatefulSets are left to the tests of the governor.
    """
    found = grants(run)
    for number, grant in enumerate(found):
        if not _patient(run, grant, min(run.settings("disruption_budget_patience", 300))):
            continue
        for budget in in_force(run, grant.seen, grant.subject, kind="PodDisruptionBudget"):
            spec = budget.data["object"].get("spec") or {}
            leaving = {one.subject.workload for one in found[: number + 1] if _stands(run, one, grant.seen)}
            pods = [one for one in _pods(run, grant) if selects(spec.get("selector"), one.labels)]
            if any(one.workload == grant.subject.workload and one.unhealthy for one in pods):
                continue  # whether one that is ill may go is a rule of its own
            needed = _needed(run, grant, spec, pods)
            left = sum(1 for one in pods if not one.unhealthy and one.workload not in leaving)
            if needed is not None and left < needed:
                message = f"{guard_name(budget)}: {left} healthy pods are left of {needed} that are needed"
                yield Violation("disruption_budgets_are_kept", grant.seen.where, message)


@dataclass(frozen=True, slots=True)
class _Pod:
    workload: str
    owner: str
    labels: dict[str, str]
    unhealthy: bool


def _pods(run: Run, grant: Grant) -> list[_Pod]:
    """The pods of the namespace that may have been bound."""
    found = []
    for key, _ in run.keys("bindings"):
        workload, _, target = key.partition("|")
        if not workload.startswith("Pod/") or workload.split("/")[1] != grant.subject.namespace:
            continue
        states = [
            one for one in run.states("bindings", key, grant.seen, within=run.allowances.follow) if one and not one.gone
        ]
        if not states:
            continue
        healths = run.states(
            "workload-conditions", f"{workload}|{target}|Healthy", grant.seen, within=run.allowances.follow
        )
        ill = all(one is not None and one.data.get("status") not in {None, "True"} for one in healths)
        owner, labels = name_of(states[-1].data["owner"]), states[-1].data.get("labels") or {}
        found.append(_Pod(workload, owner, labels, ill))
    return found


def _needed(run: Run, grant: Grant, spec: Json, pods: Sequence[_Pod]) -> int | None:
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if most is None and not str(least).endswith("%"):
        return None if least is None else int(str(least))
    scale = 0
    for owner in {one.owner for one in pods if not one.owner.startswith("Pod/")}:
        states = run.states("resources", owner, grant.seen, within=run.allowances.follow)
        known = states[0]
        if owner.partition("/")[0] not in {"Deployment", "ReplicaSet", "StatefulSet"} or len(states) > 1:
            return None
        if known is None or known.gone:
            return None
        replicas = (known.data["object"].get("spec") or {}).get("replicas")
        scale += 1 if replicas is None else int(replicas)
    return scale - share(most, scale) if most is not None else share(least, scale)


def cluster_rate_is_kept(run: Run) -> Iterator[Violation]:
    """Evictions from Karmada clusters are granted at `resource_eviction_rate` per second, one at a time.

    There is never more than one token, so two grants are at least 1/rate apart (but for twice the skew). Of what is
    Requested a little more may come together, as much as could be granted while an answer was on its way.
    """
    rate = max(run.settings("resource_eviction_rate", 0.5))
    if math.isinf(rate):
        return
    last: float | None = None
    answered: defaultdict[str, set[int]] = defaultdict(set)
    for seen in run.of("eviction-answers"):
        time, revision = when(seen.data, "answeredTime"), int(seen.data.get("revision", 0))
        if not seen.data.get("granted") or "|Cluster/" not in seen.key or time is None:
            continue
        if revision in answered[seen.key]:
            continue  # the same answer once more
        answered[seen.key].add(revision)
        if rate <= 0:
            yield Violation("cluster_rate_is_kept", seen.where, "the rate is 0")
        elif last is not None and time - last + 2 * run.skew + EPSILON < 1 / rate:
            yield Violation("cluster_rate_is_kept", seen.where, f"{time - last:.6f} s after the one before")
        last = time
    if rate <= 0:
        return
    spare = rate * (_on_its_way(run) + 2 * run.skew + EPSILON)
    least = math.inf
    asked = (one for one in run.of("evictions") if is_request(one) and one.data.get("asked"))
    for number, seen in enumerate(one for one in asked if "|Cluster/" in one.key):
        # So many more than the rate gives by then; how much that has grown since any earlier one is what counts.
        ahead = number - rate * seen.entry.committed
        least = min(least, ahead)
        if ahead - least > spare + EPSILON:
            message = f"{ahead - least:.3f} more are Requested than the rate gives in the time"
            yield Violation("cluster_rate_is_kept", seen.where, message)
