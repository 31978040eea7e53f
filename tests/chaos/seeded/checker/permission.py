"""Workloads are not evicted after a cancel, during a pause, or without the governor's permission."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from tests.chaos.seeded.checker import leaves
from tests.chaos.seeded.checker.evictions import evicts, requested
from tests.chaos.seeded.checker.guards import guard_name, in_force, subject_of
from tests.chaos.seeded.checker.parsed_history import Run
from tests.chaos.seeded.checker.violations import Violation


def nobody_evicted_after_a_cancel(run: Run) -> Iterator[Violation]:
    """A Cancelled eviction is Requested only after something has changed.

    It was scheduled or held anew, or other taints, tolerations or requests came: a taint that nothing tolerates, or a
    request, may ask for it at once.
    """
    for key, records in run.keys("evictions"):
        for before, after in itertools.pairwise(records):
            if before.data.get("state") != "Cancelled" or after.data.get("state") != "Requested":
                continue
            same_taints = before.data.get("taintGeneration") == after.data.get("taintGeneration")
            bound = run.records("bindings", key.rpartition("|")[0])
            rebound = any(before.decided - run.skew <= one.decided and run.precedes(one, after) for one in bound)
            if same_taints and not rebound and not leaves.demands(run, after):
                yield Violation("nobody_evicted_after_a_cancel", after.where, "nothing has changed since its cancel")


def nobody_evicted_while_paused(run: Run) -> Iterator[Violation]:
    """Nobody is Requested whom a pause concerns that was declared before the decision and still stood after it."""
    for seen, workload, target, generation in requested(run):
        subject = subject_of(run, seen, workload, target, generation)
        if subject is None:
            continue
        for pause in in_force(run, seen, subject, kind="EvictionPause"):
            yield Violation("nobody_evicted_while_paused", seen.where, f"{guard_name(pause)} was declared")


def nobody_evicted_without_leave(run: Run) -> Iterator[Violation]:
    """Where something may hold an eviction it asks, and is Requested only with a granted answer to that very ask.

    Whoever has taken its partition over asks for himself: an answer from before is not his.
    Something may when a pause, a budget or a disruption budget concerns it, or it leaves a cluster and there is a rate.
    """
    for seen, workload, target, generation in requested(run):
        name = "nobody_evicted_without_leave"
        asked = int(seen.data.get("asked", 0))
        if asked:
            answers = [one for one in run.records("eviction-answers", seen.key) if run.precedes(one, seen)]
            given = [one for one in answers if one.data.get("granted") and one.data.get("asked") == asked]
            started = seen.entry.started
            if not given:
                yield Violation(name, seen.where, f"ask {asked} was never granted")
            elif started is not None and given[-1].entry.committed < started:
                yield Violation(name, seen.where, f"ask {asked} was granted before its owner began")
            continue
        subject = subject_of(run, seen, workload, target, generation)
        if subject is None or not evicts(run, target, seen):
            continue
        rate = max(run.settings("resource_eviction_rate", 0.5))
        if target.startswith("Cluster/") and not math.isinf(rate):
            yield Violation(name, seen.where, "it did not ask, and there is a rate")
        for guard in in_force(run, seen, subject):
            yield Violation(name, seen.where, f"it did not ask, and there is {guard_name(guard)}")
