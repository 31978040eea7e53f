"""Explains how far a rollout has come, and why it does not go on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from moorage.decide.rollouts.progress_report import STOPPED
from moorage.insight.explain.chain import Trail
from moorage.insight.explain.explanation import Explanation, NotFoundError
from moorage.insight.explain.grounds import Grounds, decision_on, declared_as
from moorage.workers.placement.rollouts.rollout_spec import ROLLOUT, declared_rollout_of
from moorage_schemas.condition import HEALTHY, WorkloadConditionChanged
from moorage_schemas.keys import workload_condition_key
from moorage_schemas.placement import RolloutGroupStatus, RolloutProgressed, WorkloadPlaced
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.times import format_time
from moorage_schemas.topics import WORKLOAD_CONDITIONS

ROLLOUTS_RESOURCE: Final = "rollouts.moorage.io"


def explain_rollout(grounds: Grounds, namespace: str, name: str) -> Explanation:
    """Explain the progress of a rollout. Raises NotFoundError if there is none of that name."""
    ref = WorkloadRef(kind=ROLLOUT, namespace=namespace, name=name)
    found, declared = decision_on(grounds, ref.key), declared_as(grounds, ref.key)
    if found is None and declared is None:
        raise NotFoundError(ROLLOUTS_RESOURCE, name)
    told = Explanation(workload=ref.key, kind_of_target=TargetKind.MANAGED_CLUSTER.value, at=grounds.taken)
    if found is None:
        spec = declared_rollout_of(declared) if declared is not None else None
        placement = spec.placement.name if spec is not None else ""
        told.notes = (f"nothing is decided yet: placement {placement} does not exist, or was declared a moment ago",)
        return told
    event, record = found
    progress = event.rollout
    told.record = event
    told.chains = tuple(Trail(grounds.records).chains([("the decision", record)]))
    if progress is not None:
        told.here = tuple(one.name for one in progress.clusters)
        told.notes = tuple(_notes(grounds, ref, event, progress))
        told.considered = sum(one.clusters for one in progress.groups)
    if declared is None:
        told.agrees = False
        told.notes = (*told.notes, f"{ref.key} is no longer declared, so its bindings are about to end")
    return told


def _notes(grounds: Grounds, ref: WorkloadRef, event: WorkloadPlaced, progress: RolloutProgressed) -> Iterator[str]:
    for group in progress.groups:
        yield f"{_called(group)}: {_numbers(group, progress.version)}"
    for cluster in progress.failing:
        yield f"{cluster}: {_reported(grounds, ref, cluster)}"
    waiting = sum(one.clusters - one.released for one in progress.groups)
    if event.reason == STOPPED and waiting:
        yield f"{waiting} clusters do not get {progress.version}: more have failed than may"
    elif waiting:
        yield f"{waiting} clusters get {progress.version} when those before them have succeeded"
    if event.decide_again is not None:
        yield f"the next soak time or deadline ends at {format_time(event.decide_again)}"


def _called(group: RolloutGroupStatus) -> str:
    return f"group {group.index}" + (f" ({group.name})" if group.name else "")


def _numbers(group: RolloutGroupStatus, version: str) -> str:
    rest = group.released - group.succeeded - group.failed - group.timed_out
    counts = (
        (group.succeeded, "succeeded"),
        (rest, "progressing"),
        (group.failed, "failed"),
        (group.timed_out, "timed out"),
    )
    states = ", ".join(f"{count} {state}" for count, state in counts if count)
    return f"{group.released} of {group.clusters} clusters have {version}" + (f": {states}" if states else "")


def _reported(grounds: Grounds, ref: WorkloadRef, cluster: str) -> str:
    target = TargetRef(kind=TargetKind.MANAGED_CLUSTER, name=cluster)
    kept = grounds.last(WORKLOAD_CONDITIONS, workload_condition_key(ref, target, HEALTHY))
    found = kept.event if kept is not None else None
    if not isinstance(found, WorkloadConditionChanged):
        return "no deployer has reported its health within the deadline"
    text = ": ".join(filter(None, (found.reason, found.message)))
    return f"{found.source} reported Healthy {found.status.value}" + (f" ({text})" if text else "")
