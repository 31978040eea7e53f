"""The operation `ocm_rollout`: the next step of a rollout over the decision groups of a placement, at a time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from moorage.conformance.request_fields import Answer, RequestError, RequestFields
from moorage.decide.kubernetes.field_errors import ErrorKind, FieldError, not_supported
from moorage.decide.rollouts.evaluation import RolloutProgress, RolloutState, RolloutStep, evaluate_rollout
from moorage.decide.rollouts.strategy import GroupKey, RolloutTerms, RolloutType, StrategyError

FIELDS: Final = ("now", "strategy", "groups", "clusters")

_PARTS: Final = {one.value: one[0].lower() + one[1:] for one in RolloutType}
_STATES: Final = tuple(one.value for one in RolloutState)
_CONFIG: Final = ("minSuccessTime", "progressDeadline", "maxFailures", "maxConcurrency", "mandatoryDecisionGroups")
_NO_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)


def ocm_rollout(fields: RequestFields) -> Answer:
    """Return the clusters of the next step, and when the following one is. Or only that the strategy is invalid."""
    now = fields.time("now", cut=False) or _NO_TIME
    terms = _terms(fields.inner("strategy", ("type", *_PARTS.values())))
    groups = {
        key: frozenset(clusters)
        for key, clusters in fields.objects("groups", ("name", "index", "clusters"), _group_with_clusters)
    }
    clusters = fields.objects("clusters", ("name", "state", "groupName", "groupIndex", "since"), _progress)
    return {"invalid": True} if terms is None else _answer(evaluate_rollout(terms, groups, clusters, now), now)


def _terms(strategy: RequestFields) -> RolloutTerms | None:
    kind = strategy.text("type")
    part = strategy.inner(_PARTS.get(kind, ""), _CONFIG)
    mandatory = part.objects("mandatoryDecisionGroups", ("groupName", "groupIndex"), _reference)
    try:
        return RolloutTerms.of(
            kind,
            min_success=part.text("minSuccessTime"),
            deadline=part.text("progressDeadline"),
            max_failures=_amount(part, "maxFailures"),
            max_concurrency=_amount(part, "maxConcurrency"),
            mandatory=mandatory,
        )
    except StrategyError:
        return None


def _amount(part: RequestFields, name: str) -> int | str:
    value = part.values.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise RequestError(FieldError(part.at(name), ErrorKind.INVALID, value, "must be a number or a percentage"))
    return value


def _reference(fields: RequestFields) -> tuple[str, int]:
    return fields.text("groupName"), fields.integer("groupIndex") or 0


def _group_with_clusters(fields: RequestFields) -> tuple[GroupKey, list[str]]:
    return GroupKey(fields.integer("index") or 0, fields.text("name")), fields.texts("clusters")


def _progress(fields: RequestFields) -> RolloutProgress:
    state = fields.text("state")
    if state not in _STATES:
        raise RequestError(not_supported(fields.at("state"), state, _STATES))
    group = GroupKey(fields.integer("groupIndex") or 0, fields.text("groupName"))
    return RolloutProgress(fields.text("name"), RolloutState(state), group, fields.time("since", cut=False))


def _answer(step: RolloutStep, now: datetime) -> Answer:
    answer: Answer = {
        "rollOut": [_shown(one) for one in step.roll_out],
        "timedOut": [_shown(one) for one in step.timed_out],
        "removed": [_shown(one) for one in step.removed],
        "maxFailureBreach": step.breached,
    }
    if step.next_time is not None:
        answer["recheckAfter"] = (step.next_time - now).total_seconds()
    return answer


def _shown(one: RolloutProgress) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": one.name,
        "state": one.state.value,
        "groupName": one.group.name,
        "groupIndex": one.group.index,
    }
    if one.recheck is not None:
        found["recheck"] = one.recheck.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return found
