"""The operation `disruption_budget`: the status of disruption budgets, and the answer to the eviction of one pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from pydantic import ValidationError

from moorage.conformance.request_fields import Answer, RequestError, RequestFields
from moorage.conformance.request_objects import (
    Object,
    condition_in,
    is_terminating,
    key_in,
    labels_in,
    name_in,
    namespace_in,
    objects,
)
from moorage.decide.disruption.budgets import (
    DISRUPTION,
    Disruption,
    Disruptions,
    disruption_of,
    disruptions,
    is_healthy,
    is_undisrupted,
)
from moorage.decide.disruption.expected_pods import ControllerRef, PodScale, expected_pods
from moorage.decide.kubernetes.field_errors import ErrorKind, FieldError
from moorage.decide.kubernetes.unstructured import at, part, parts_at
from moorage_schemas.condition import ConditionStatus
from moorage_schemas.resources.workload_kinds import SCALED

FIELDS: Final = ("now", "budgets", "pods", "controllers", "kinds", "evict")

_STATUSES: Final = frozenset(one.value for one in ConditionStatus)
_LEAVING: Final = timedelta(minutes=2)
"""For how long a pod whose eviction was granted counts as leaving. Source: `DeletionTimeout` in
k8s.io/kubernetes/pkg/controller/disruption."""


def disruption_budget(fields: RequestFields) -> Answer:
    """Return the status of each budget, and whether the pod `evict` may be evicted."""
    pods, controllers = objects(fields, "pods"), _Controllers(fields)
    now = fields.time("now")
    counted: list[tuple[Disruption, Disruptions]] = []
    answer: Answer = {"budgets": {}}
    for budget in objects(fields, "budgets"):
        try:
            # Without its status: what was counted earlier does not count.
            guard = disruption_of({"apiVersion": "policy/v1", "kind": DISRUPTION, **budget, "status": {}})
        except (ValidationError, ValueError) as error:
            raise RequestError(FieldError(f"budgets[{name_in(budget)}]", ErrorKind.INVALID, None, str(error))) from None
        leaving = _leaving(fields, budget, now)
        chosen = [pod for pod in pods if namespace_in(pod) == guard.namespace and guard.selects(dict(labels_in(pod)))]
        healthy = sum(
            (fields.upstream or _is_bound(pod))
            and is_healthy(_ready(pod), mirrored=fields.upstream)
            and not is_terminating(pod)
            and name_in(pod) not in leaving
            for pod in chosen
        )
        found = disruptions(guard, pods=len(chosen), healthy=healthy, scale=controllers.scale(chosen))
        counted.append((guard, found))
        answer["budgets"][key_in(budget)] = _status(found)
    evicted = next((pod for pod in pods if key_in(pod) == fields.text("evict")), None)
    if evicted is not None:
        answer["eviction"] = _eviction(evicted, counted, upstream=fields.upstream)
    return answer


def _status(found: Disruptions) -> Answer:
    allowed = "True/SufficientPods" if found.allowed else "False/InsufficientPods"
    if not found.scaled:
        return {"disruptionsAllowed": 0, "condition": "False/SyncFailed"}
    return {
        "disruptionsAllowed": found.allowed,
        "condition": allowed,
        "currentHealthy": found.healthy,
        "desiredHealthy": found.desired,
        "expectedPods": found.expected,
    }


def _eviction(pod: Object, counted: Sequence[tuple[Disruption, Disruptions]], *, upstream: bool) -> Answer:
    phase = str(at(pod, "status", "phase") or "")
    if is_undisrupted(phase, is_marked=is_terminating(pod), bound=upstream or _is_bound(pod), mirrored=upstream):
        return {"code": 201}
    guards = [
        (guard, found)
        for guard, found in counted
        if guard.namespace == namespace_in(pod) and guard.selects(dict(labels_in(pod)))
    ]
    if len(guards) > 1:
        return {"code": 500}
    unhealthy = not is_healthy(_ready(pod), mirrored=upstream)
    for guard, found in guards:
        if not found.lets_go(unhealthy=unhealthy, always=guard.always_allow_unhealthy):
            said = {"message": found.refusal(guard.key.rpartition("/")[2])} if found.scaled else {}
            return {"code": 429, **said}
    return {"code": 201}


def _is_bound(pod: Object) -> bool:
    return bool(at(pod, "spec", "nodeName"))


def _ready(pod: Object) -> ConditionStatus | None:
    condition = condition_in(pod, "Ready")
    status = str(condition.get("status")) if condition is not None else ""
    return ConditionStatus(status) if status in _STATUSES else None


def _leaving(fields: RequestFields, budget: Object, now: datetime | None) -> set[str]:
    """Return the names of the pods whose eviction was granted a short time ago."""
    granted = part(part(budget, "status"), "disruptedPods")
    times = RequestFields(granted, "status.disruptedPods", fields.upstream)
    found = {name: times.time(name) for name in granted}
    return {name for name, time in found.items() if time is not None and now is not None and time + _LEAVING > now}


class _Controllers:
    """The controllers of a request. Some kinds have no scale."""

    def __init__(self, fields: RequestFields) -> None:
        self._found: dict[tuple[str, str, str, str], PodScale] = {}
        scaled = {("" if kind == "ReplicationController" else "apps", kind) for kind in SCALED}
        scaled |= {(_group(one), str(one.get("kind"))) for one in objects(fields, "kinds") if one.get("scale")}
        for one in objects(fields, "controllers"):
            group, kind = _group(one), str(one.get("kind"))
            if (group, kind) in scaled:
                replicas = RequestFields(part(one, "spec"), "spec", fields.upstream).integer("replicas")
                known = PodScale(str(at(one, "metadata", "uid")), 1 if replicas is None else replicas, _reference(one))
                self._found[group, kind, namespace_in(one), name_in(one)] = known

    def scale(self, pods: Sequence[Object]) -> int | None:
        """Return the number of pods that the controllers of pods of a namespace want."""
        namespace = next(map(namespace_in, pods), "")

        def find(reference: ControllerRef) -> PodScale | None:
            return self._found.get((reference.group, reference.kind, namespace, reference.name))

        return expected_pods(map(_reference, pods), find)


def _group(document: Mapping[str, Any]) -> str:
    group, slash, _ = str(document.get("apiVersion") or "").partition("/")
    return group if slash else ""


def _reference(found: Object) -> ControllerRef | None:
    for one in parts_at(found, "metadata", "ownerReferences"):
        if one.get("controller"):
            return ControllerRef(
                _group(one), str(one.get("kind") or ""), str(one.get("name") or ""), str(one.get("uid") or "")
            )
    return None
