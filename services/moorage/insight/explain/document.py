"""An explanation as one JSON document, for `-o json`, for HTTP, and as the source of the text output."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from moorage.decide.taints.tolerations import JudgedTaint, toleration_text
from moorage.insight.explain.chain import Chain, EventRecord, Step
from moorage.insight.explain.explanation import ExplainedTarget, Explanation, Summary, Until
from moorage.insight.explain.target_reasons import (
    ExplainedCondition,
    ExplainedEviction,
    ExplainedTaint,
    ExplainedWait,
    TargetExplanation,
)
from moorage.insight.explain.wording import taint_words, utc_clock, words
from moorage_schemas.base import Model
from moorage_schemas.times import format_time
from moorage_schemas.zone import ZoneChanged


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
        "taints": [_target_taint(one) for one in told.taints],
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


def _target_taint(one: ExplainedTaint) -> Document:
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
        "taints": list(map(taint_words, event.taints)),
        "reason": event.reason,
        "message": event.message,
        "generation": event.generation,
        "event": _in(one.record, in_chains),
    }


def _in(record: EventRecord, in_chains: set[str]) -> str | None:
    return record.meta.id if record.meta.id in in_chains else None


def _time(when: datetime | None) -> str | None:
    return None if when is None else format_time(when)


Document = dict[str, Any]


def document_of(told: Explanation | Summary | TargetExplanation) -> Document:
    """Return an explanation as a document. Times are in UTC, and in RFC 3339 where they are fields."""
    if isinstance(told, TargetExplanation):
        return target_document(told) | {"chains": [_chain(one) for one in told.chains]}
    return _summary(told) if isinstance(told, Summary) else _explanation(told)


def _explanation(told: Explanation) -> Document:
    return {
        "workload": told.workload,
        "owner": told.owner or None,
        "at": format_time(told.at),
        "decision": _event(told.record),
        "here": list(told.here),
        "agrees": told.agrees,
        "differences": list(told.differences),
        "notes": list(told.notes),
        "targetKind": told.kind_of_target,
        "considered": told.considered,
        "fitting": told.fitting,
        "ruledOut": [{"filter": one.filter, "reason": one.reason, "count": one.count} for one in told.reasons],
        "targets": [_target(one) for one in told.targets],
        "leftOut": told.left_out,
        "until": [_until(one) for one in told.until],
        "chains": [_chain(one) for one in told.chains],
    }


def _summary(told: Summary) -> Document:
    return {
        "owner": told.owner,
        "at": format_time(told.at),
        "pods": [
            {
                "workload": row.workload,
                "decision": _event(row.record),
                "until": _until(row.until) if row.until is not None else None,
            }
            for row in told.rows
        ],
    }


def _event(event: Model | None) -> Document | None:
    return None if event is None else event.model_dump(mode="json")


def _target(one: ExplainedTarget) -> Document:
    return {
        "name": one.name,
        "here": one.here,
        "outcome": one.outcome,
        "replicas": one.replicas,
        "passed": one.verdict.passed,
        "rank": one.verdict.rank,
        "total": one.verdict.total,
        "filters": [
            {"filter": by.filter, "passed": by.passed, "reasons": list(by.reasons), "details": list(by.details)}
            for by in one.verdict.filters
        ],
        "scores": [
            {
                "prioritizer": by.prioritizer,
                "score": by.score,
                "weight": by.weight,
                "points": by.points,
                "details": list(by.details),
            }
            for by in one.verdict.scores
        ],
        "taints": [_taint(taint) for taint in one.taints],
    }


def _taint(one: JudgedTaint) -> Document:
    return {
        "taint": _event(one.taint),
        "keepsAway": one.keeps_away,
        "evicts": one.evicts,
        "toleration": toleration_text(one.toleration) if one.toleration is not None else None,
        "until": _time(one.until),
        "words": str(one),
    }


def _until(one: Until) -> Document:
    return {
        "what": one.what,
        "when": _time(one.when),
        "heldBy": list(one.held_by),
    }


def _chain(chain: Chain) -> Document:
    return {"about": chain.about, "whole": chain.whole, "steps": [_step(step) for step in chain.steps]}


def _step(step: Step) -> Document:
    kept = step.record
    if kept is None:
        return {"lost": step.lost, "note": step.note}
    return {
        "time": _time(step.time),
        "topic": kept.topic.short,
        "partition": kept.partition,
        "offset": kept.offset,
        "key": kept.key,
        "id": kept.meta.id,
        "causationid": kept.meta.causation_id or None,
        "configuration": kept.meta.configuration or None,
        "source": kept.meta.source,
        "what": words(kept.key, kept.event, utc_clock),
        "note": step.note,
        "data": _event(kept.event),
    }
