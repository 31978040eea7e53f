"""Acknowledgements: the reports of deployers about the workloads that they run, and about their evictions.

A deployer that names its binding in its reports acknowledges evictions. The request for such an eviction names the
deployer, and the binding stays until the deployer has acknowledged. An acknowledgement counts for exactly one binding,
and only while its eviction is requested; until then it is kept. So the reading order of the topics does not matter.
"""

from __future__ import annotations

from sys import intern
from typing import Final

from msgspec import structs

from moorage.decide.disruption.eviction_transitions import Reported
from moorage.decide.kubernetes.taint_keys import OUT_OF_SERVICE
from moorage.workers.eviction.check import EvictionCheck
from moorage.workers.eviction.eviction_task import BoundTarget, DeployerReport, EvictionReport
from moorage.workers.eviction.state import EvictionPartition
from moorage.workers.eviction.tasks import write_report
from moorage_schemas.condition import EVICTED, FAILED, HEALTHY, ConditionStatus, WorkloadConditionChanged
from moorage_schemas.eviction import Acknowledgement, Escalation
from moorage_schemas.keys import WorkloadConditionKey

_REPORTED: Final = frozenset({HEALTHY, EVICTED})
"""The conditions of workloads that concern evictions."""

_OUT_OF_SERVICE: Final = f"taint/{OUT_OF_SERVICE}"
"""The source of acknowledgements that a taint stands for."""


def fold_report(state: EvictionPartition, key: str, event: WorkloadConditionChanged | None) -> tuple[str, str] | None:
    """Fold in a condition of a workload: its deployer, and the deployer's report about its eviction.

    Returns the target and the workload of a report about an eviction.

    Args:
        state: the state of the partition.
        key: the key of the record.
        event: the event or its row, which has the same fields; None for a tombstone.
    """
    workload, target_key, condition = WorkloadConditionKey.parse(key)
    if condition not in _REPORTED:
        return None
    target = state.targets.get(target_key)
    names_none = event is None or not event.binding_generation
    if target is None:
        if names_none:
            return None
        target = state.targets[target_key] = BoundTarget()
    if condition == EVICTED:
        report = _report_of(event) if event is not None and not names_none else None
        if report is not None:
            target.reports[workload] = report
        else:
            target.reports.pop(workload, None)
    else:
        _fold_deployer(target, workload, None if names_none else event)
    state.tidy(target_key, target)
    return (target_key, workload) if condition == EVICTED else None


def _fold_deployer(target: BoundTarget, workload: str, event: WorkloadConditionChanged | None) -> None:
    """Note which deployer runs a workload, if its last report names a binding."""
    binding = target.bindings.get(workload)
    target.early.pop(workload, None)
    if binding is not None and binding.traits.deployer:
        return  # its bridge acknowledges, whatever the reporter
    uid, generation = (event.workload_uid, event.binding_generation) if event is not None else ("", 0)
    source = intern(event.source) if event is not None else ""
    is_present = binding is not None and (binding.uid, binding.generation) == (uid, generation)
    if binding is not None and binding.deployer != (mine := source if is_present else ""):
        target.bindings[workload] = structs.replace(binding, deployer=mine)
    is_past = binding is not None and binding.uid == uid and binding.generation > generation
    if event is not None and not is_present and not is_past:
        target.early[workload] = DeployerReport(uid, generation, source)


def _report_of(event: WorkloadConditionChanged) -> EvictionReport | None:
    """Return a condition's report of an eviction; None if the result for the work is unknown."""
    if event.status is ConditionStatus.UNKNOWN:
        return None
    is_removed = event.status is ConditionStatus.TRUE
    return EvictionReport(
        event.workload_uid,
        event.binding_generation,
        is_removed,
        "" if is_removed else event.reason or FAILED,
        event.message,
        event.last_heartbeat_time,
        intern(event.source),
    )


def reported_on(it: EvictionCheck) -> Reported:
    """Return what the deployer has reported about a requested eviction, if its record does not have it yet."""
    task, report = it.task, it.bound.reports.get(it.workload)
    if task is None or task.acknowledged is not None:
        return Reported.NONE
    if it.bound.is_out_of_service and task.deployer:
        return Reported.OUT_OF_SERVICE
    if report is None or not report.is_about(task):
        return Reported.NONE
    if report.is_removed:
        return Reported.REMOVED
    known = task.escalated
    is_known = known is not None and (known.reason, known.message) == (report.reason, report.message)
    return Reported.NONE if is_known else Reported.ESCALATED


def acknowledge(it: EvictionCheck) -> None:
    """Write that the deployer has removed the work."""
    report = it.bound.reports[it.workload]
    by = Acknowledgement(message=report.message, time=report.time, source=report.source)
    write_report(it, acknowledged=by)


def acknowledge_node(it: EvictionCheck) -> None:
    """Write that the taint of the node acknowledges the eviction: it states that the work has ended."""
    by = Acknowledgement(message="the node is out of service", time=it.time, source=_OUT_OF_SERVICE)
    write_report(it, acknowledged=by)


def escalate(it: EvictionCheck) -> None:
    """Write why the deployer has not removed the work."""
    report = it.bound.reports[it.workload]
    why = Escalation(reason=report.reason, message=report.message, time=report.time, source=report.source)
    write_report(it, escalated=why)
