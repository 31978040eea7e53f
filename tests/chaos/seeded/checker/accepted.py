"""Nobody is evicted against what had been accepted before, whichever service had not processed it yet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tests.chaos.seeded.checker import leaves
from tests.chaos.seeded.checker.desired_taints import resource_key
from tests.chaos.seeded.checker.evictions import evicts, requested
from tests.chaos.seeded.checker.guards import guard_name, in_force, subject_of
from tests.chaos.seeded.checker.matching import leaves_at, must_leave
from tests.chaos.seeded.checker.parsed_history import EPSILON, Json, Run, Seen, when
from tests.chaos.seeded.checker.violations import Violation

_NOT_WELL: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})


def nobody_evicted_against_its_own_record(run: Run) -> Iterator[Violation]:
    """A bare pod is Requested only if it had to go by the tolerations that were accepted for it, too.

    Its record in `resources` is what people wrote. Whether placement has read it makes no difference.
    """
    for seen, workload, target, generation in requested(run):
        records = _own_records(run, seen, workload, target, generation)
        if not records or not evicts(run, target, seen) or leaves.demands(run, seen):
            continue
        times = [
            must_leave(_taints(tainted), (one.data["object"].get("spec") or {}).get("tolerations") or ())
            for tainted in run.states("taints", target, seen)
            for one in records
        ]
        if not any(time is not None and time <= seen.decided + 2 * run.skew + EPSILON for time in times):
            yield Violation(
                "nobody_evicted_against_its_own_record", seen.where, f"{records[0].where} had been accepted"
            )


def nobody_evicted_whose_labels_are_paused(run: Run) -> Iterator[Violation]:
    """A bare pod is not Requested while a pause concerns the labels that were accepted for it."""
    for seen, workload, target, generation in requested(run):
        records = _own_records(run, seen, workload, target, generation)
        subject = subject_of(run, seen, workload, target, generation)
        if len(records) != 1 or subject is None:
            continue
        labels = (records[0].data["object"].get("metadata") or {}).get("labels") or {}
        for pause in in_force(run, seen, replace(subject, labels=labels), kind="EvictionPause"):
            message = f"{guard_name(pause)} concerns {records[0].where}"
            yield Violation("nobody_evicted_whose_labels_are_paused", seen.where, message)


def nobody_evicted_from_a_node_reported_ready(run: Run) -> Iterator[Violation]:
    """Nobody is Requested only because a node is not ready if the last accepted report says that it is.

    Not judged where removals of taints are held, where a report was refused, and where silence came after it.
    """
    if any(run.settings("taint_remove_hold", 0)):
        return
    refused = {
        (str(seen.data["topic"]), int(seen.data["partition"]), int(seen.data["offset"]))
        for seen in run.of("dead-letters")
        if "offset" in seen.data
    }
    for seen, workload, target, generation in requested(run):
        if not target.startswith("Node/") or leaves.demands(run, seen):
            continue
        bound = [
            one
            for one in run.states("bindings", f"{workload}|{target}", seen)
            if one is not None and not one.gone and one.data["generation"] == generation
        ]
        reasons = {
            str(taint["key"])
            for tainted in run.states("taints", target, seen)
            for one in bound
            for taint in _taints(tainted)
            if taint["effect"] == "NoExecute" and leaves_at(taint, one.data.get("tolerations") or ()) is not None
        }
        if not reasons or not reasons <= _NOT_WELL:
            continue
        report = _last_report(run, seen, target)
        if (
            report is not None
            and report.data.get("status") == "True"
            and (report.entry.topic, report.entry.partition, report.entry.offset) not in refused
            and not _silenced(run, seen, target, report)
        ):
            message = f"{report.where} had been accepted"
            yield Violation("nobody_evicted_from_a_node_reported_ready", seen.where, message)


def _own_records(run: Run, decision: Seen, workload: str, target: str, generation: int) -> list[Seen]:
    """The record of a bare pod as it may have been accepted when something was decided; empty when it is another pod.

    Empty as well when it may have been deleted: whoever is deleted may be told to go.
    """
    if not workload.startswith("Pod/"):
        return []
    states = run.states("resources", workload, decision)
    if any(state is None or state.gone for state in states):
        return []
    records = [state for state in states if state is not None]
    uids = {
        one.data.get("uid")
        for one in run.records("bindings", f"{workload}|{target}")
        if not one.gone and one.data["generation"] == generation
    }
    own = {str((one.data["object"].get("metadata") or {}).get("uid") or "") for one in records}
    return records if own == uids else []


def _last_report(run: Run, decision: Seen, target: str) -> Seen | None:
    """The report of a node's readiness that counts last; None when a later one may have come."""
    reports = [
        one
        for one in run.records("condition-reports", target)
        if one.data.get("type") == "Ready" and _about(one, target)
    ]
    known = run.before(decision)
    before = [one for one in reports if one.entry.committed <= known]
    later = [one for one in reports if one.entry.committed > known and run.precedes(one, decision)]
    if not before or later:
        return None
    declared = [one for one in run.records("resources", resource_key(target)) if run.precedes(one, decision)]
    last = max(before, key=lambda one: (when(one.data, "observedTime") or 0.0, one.order))
    if any(one.gone for one in declared):
        return None  # a report may have been about the node before
    same = [one for one in before if when(one.data, "observedTime") == when(last.data, "observedTime")]
    return last if len(same) == 1 else None


def _about(report: Seen, target: str) -> bool:
    found = report.data.get("target")
    named = isinstance(found, dict) and f"{found.get('kind')}/{found.get('name')}" == target
    return named and report.data.get("workload") is None


def _silenced(run: Run, decision: Seen, target: str, report: Seen) -> bool:
    """Whether the node may have become Unknown by silence after a report, as far as whoever decided knew."""
    observed = when(report.data, "observedTime") or 0.0
    return any(
        one.data.get("reason") == "HeartbeatStopped" and (when(one.data, "statusSince") or 0.0) >= observed
        for one in run.records("conditions", f"{target}|Ready")
        if not one.gone and run.precedes(one, decision)
    )


def _taints(tainted: Seen | None) -> list[Json]:
    return list(tainted.data.get("taints") or ()) if tainted is not None else []
