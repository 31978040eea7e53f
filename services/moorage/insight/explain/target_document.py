"""The explanation of a target as one JSON document."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from moorage.insight.explain.chain import EventRecord
from moorage.insight.explain.target_explanation import (
    ExplainedCondition,
    ExplainedEviction,
    ExplainedTaint,
    ExplainedWait,
    TargetExplanation,
    taint_words,
)
from moorage.insight.explain.wording import words
from moorage_schemas.times import format_time
from moorage_schemas.zone import ZoneChanged

Document = dict[str, Any]


def target_document(told: TargetExplanation) -> Document:
    """Return the explanation without its chains.

    What is in a chain is named there by the id of its event, `event`.
    """
    in_chains = {step.record.meta.id for chain in told.chains for step in chain.steps if step.record is not None}
    return {
        "target": told.target,
        "at": format_time(told.at),
        "status": told.status,
        "cordoned": told.is_cordoned,
        "zone": _zone(told.zone, told.zone_state) if told.zone else None,
        "notReadySince": _time(told.incident_time),
        "conditions": [_condition(one) for one in told.conditions],
        "taints": [_taint(one) for one in told.taints],
        "held": [_wait(one) for one in told.waits],
        "evictions": [_eviction(one, in_chains) for one in told.evictions],
        "evictionStates": told.counts,
        "leftOut": told.left_out,
    }


def _zone(name: str, state: ZoneChanged | None) -> Document:
    if state is None:
        return {"name": name, "state": None, "what": ""}
    return {"name": name, "state": state.state.value, "what": words(name, state)}


def _condition(one: ExplainedCondition) -> Document:
    event = one.event
    return {
        "type": event.type,
        "status": event.status.value,
        "reason": event.reason,
        "message": event.message,
        "source": event.source,
        "lastTransitionTime": format_time(event.last_transition_time),
        "lastHeartbeatTime": format_time(event.last_heartbeat_time),
        "silent": not event.report_id,
        "event": one.record.meta.id,
    }


def _taint(one: ExplainedTaint) -> Document:
    taint = one.taint
    return {
        "taint": taint_words(taint),
        "key": taint.key,
        "value": taint.value,
        "effect": taint.effect,
        "timeAdded": format_time(taint.time_added),
        "reason": taint.reason,
        "origins": [
            {"origin": origin.value, "event": begun.record.meta.id, "known": begun.known}
            for origin, begun in one.origins
        ],
        "evictions": one.evictions,
    }


def _wait(one: ExplainedWait) -> Document:
    return {
        "taint": f"{one.taint.key}:{one.taint.effect}",
        "key": one.taint.key,
        "effect": one.taint.effect,
        "since": format_time(one.taint.since),
        "reason": one.taint.reason,
        "zone": _zone(one.zone.zone, one.zone) if one.zone is not None else None,
        "place": one.place,
        "event": one.began.record.meta.id,
        "known": one.began.known,
    }


def _eviction(one: ExplainedEviction, in_chains: set[str]) -> Document:
    event = one.event
    ref = event.workload
    return {
        "workload": {"kind": ref.kind, "namespace": ref.namespace, "name": ref.name},
        "state": event.state.value,
        "deadline": _time(event.deadline),
        "decidedTime": format_time(event.decided_time),
        "heldBy": list(event.held_by),
        "taints": [f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}" for taint in event.taints],
        "reason": event.reason,
        "message": event.message,
        "generation": event.generation,
        "event": _in(one.record, in_chains),
    }


def _in(record: EventRecord, in_chains: set[str]) -> str | None:
    return record.meta.id if record.meta.id in in_chains else None


def _time(when: datetime | None) -> str | None:
    return None if when is None else format_time(when)
