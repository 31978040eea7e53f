"""Targets as they are shown: with their taints, conditions and held taints."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

from typing_extensions import override

from moorage.apiserver.kinds.status.index import Index
from moorage.apiserver.kinds.status.records import Document, ObjectId, Records
from moorage.decide.kubernetes.unstructured import part
from moorage.decide.taints.desired.taint_reconciliation import next_taints
from moorage_schemas.condition import ConditionChanged
from moorage_schemas.keys import ConditionKey, TargetKey
from moorage_schemas.refs import TargetKind
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.taint import TargetTainted
from moorage_schemas.times import format_time, parse_time

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""Stands for the time of what was written without one."""


class TargetIndex(Index):
    """Which target looks different when a record of its taints or of one of its conditions changes."""

    topics = ("taints", "conditions")

    @override
    def changed(self, topic: str, key: str, before: Any, after: Any, records: Records) -> Iterable[ObjectId]:
        target = TargetKey.parse(key if topic == "taints" else ConditionKey.parse(key).target)
        return (ObjectId(target.kind, "", target.name),)


def taints(resource: ResourceDeclared, records: Records) -> TargetTainted | None:
    """Return the taints of a target, with the edits that the taint-manager has not answered yet.

    A managed cluster without records of it gets the taints of an unreachable one, by which placements go in the
    meantime.
    """
    key = f"{resource.kind}/{resource.name}"
    current = records.taints.get(key)
    if current is not None and current.target_uid not in {"", resource.uid}:
        current = None
    applied = current.wishes_applied if current is not None else 0
    pending = [wish.time for wish in resource.wishes if wish.generation > applied]
    unknown = current is None and resource.kind == TargetKind.MANAGED_CLUSTER
    if unknown:
        pending = [*pending, _created(resource)]
    if not pending:
        return current
    conditions = {} if unknown else records.conditions.group(key)
    return next_taints(current, resource, conditions, max(pending)) or current


def shown(resource: ResourceDeclared, records: Records) -> Document:
    """Return a target with what the services have decided."""
    spec = {key: value for key, value in (resource.object.get("spec") or {}).items() if key != "taints"}
    tainted = taints(resource, records)
    if tainted is not None and tainted.taints:
        spec["taints"] = [
            {
                "key": taint.key,
                **({"value": taint.value} if taint.value else {}),
                "effect": taint.effect,
                "timeAdded": format_time(taint.time_added),
            }
            for taint in tainted.taints
        ]
    status = dict(resource.object.get("status") or {})
    known = records.conditions.group(f"{resource.kind}/{resource.name}")
    conditions = [
        _condition(condition) for _, condition in sorted(known.items()) if condition.target_uid in {"", resource.uid}
    ]
    if conditions:
        status["conditions"] = conditions
    if tainted is not None and tainted.held:
        status["heldTaints"] = [held.model_dump(mode="json") for held in tainted.held]
    return {**resource.object, "spec": spec, **({"status": status} if status else {})}


def _created(resource: ResourceDeclared) -> datetime:
    """Return when a target was declared."""
    said = part(resource.object, "metadata").get("creationTimestamp")
    try:
        time: datetime = parse_time(str(said))
    except ValueError:
        return EPOCH
    return time


def _condition(condition: ConditionChanged) -> Document:
    return {
        "type": condition.type,
        "status": condition.status.value,
        **({"reason": condition.reason} if condition.reason else {}),
        **({"message": condition.message} if condition.message else {}),
        "lastHeartbeatTime": format_time(condition.last_heartbeat_time),
        "lastTransitionTime": format_time(condition.last_transition_time),
    }
