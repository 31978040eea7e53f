"""The operations of `moorage eval`: each request gets one answer, computed by the pure core alone.

A request is an object with `op`, optionally `id`, and the fields of the operation. An answer repeats the `id`. With
`--as upstream`, answers are those of the systems' own code. With `--as documented`, they are those of Moorage, which
differ only by `deviations.Deviation`. The answer to an invalid request is `{"error": …}`; no exception is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from moorage.apiserver.rules.validation.core import validate_tolerations
from moorage.conformance import (
    addon_labels,
    daemonset_status,
    devices,
    disruption_budget,
    karmada_schedule,
    node_pods,
    ocm_rollout,
    pod_operations,
)
from moorage.conformance.cel import cel
from moorage.conformance.karmada import ctp, karmada_evict, karmada_filter
from moorage.conformance.ocm_schedule import ocm_schedule
from moorage.conformance.ocm_taints import taint_controller, taint_webhook
from moorage.conformance.pod_schedule import pod_schedule
from moorage.conformance.request_fields import (
    Answer,
    RequestError,
    RequestFields,
    read_taint,
    read_toleration,
    taint_json,
    toleration_json,
)
from moorage.decide.kubernetes.field_errors import not_supported
from moorage.decide.kubernetes.quantities import INT64_MAX, NANOSECONDS, wrapped
from moorage.decide.taints.dialects.kubernetes import KUBERNETES
from moorage.decide.taints.eviction_verdict import Tolerated, deadline_of
from moorage.decide.taints.kubectl_syntax import TaintSpecError, parse_taints, set_taints
from moorage.decide.taints.matching import first_match, normalize_reversed, prefer_count, tolerates, untolerated
from moorage_schemas.times import format_time


def _comparison(fields: RequestFields) -> bool:
    return fields.flag("comparisonOperators", default=not fields.upstream)


def _tolerates(fields: RequestFields) -> Answer:
    fields.need("toleration")
    fields.need("taint")
    toleration = read_toleration(fields.values.get("toleration"), "toleration", upstream=fields.upstream)
    taint = read_taint(fields.values.get("taint"), "taint", upstream=fields.upstream)
    return {"tolerates": tolerates(toleration, taint, comparison=_comparison(fields), strict=not fields.upstream)}


def _filter(fields: RequestFields) -> Answer:
    taints, tolerations = fields.taints("taints"), fields.tolerations("tolerations")
    comparison, strict = _comparison(fields), not fields.upstream
    left = untolerated(taints, tolerations, KUBERNETES.filtering, comparison=comparison, strict=strict)
    answer: Answer = {
        "fits": not left,
        "untolerated": [taint_json(taint) for taint in left],
        "preferNoScheduleCount": prefer_count(
            taints, tolerations, KUBERNETES.scoring, comparison=comparison, strict=strict
        ),
    }
    if left:
        answer["first"] = taint_json(left[0])
        answer["code"] = "UnschedulableAndUnresolvable"
        answer["reason"] = "node(s) had untolerated taint(s)"
    return answer


def _normalize(fields: RequestFields) -> Answer:
    counts = fields.integers("scores")
    if not fields.upstream:
        return {"scores": normalize_reversed(counts)}
    highest = max(counts, default=0)
    if highest <= 0:
        return {"scores": normalize_reversed(counts)}
    # Upstream's product wraps around at 64 bits, and Go divides towards zero.
    products = [wrapped(100 * count) for count in counts]
    return {"scores": [wrapped(100 - (1 if p >= 0 else -1) * (abs(p) // highest)) for p in products]}


def _evict(fields: RequestFields) -> Answer:
    taints, tolerations = fields.taints("taints"), fields.tolerations("tolerations")
    # Upstream's eviction controller uses its own feature gate, which is off, regardless of the scheduler's setting.
    comparison = _comparison(fields) and not fields.upstream
    now = fields.time("now")
    pairs: list[Tolerated] = []
    for taint in taints:
        if taint.effect not in KUBERNETES.evicting:
            continue
        toleration = first_match(taint, tolerations, comparison=comparison, strict=not fields.upstream)
        if toleration is None:
            return {"evict": "now", "seconds": 0, "allTolerated": False, "used": []}
        pairs.append(Tolerated(taint, toleration))
    answer: Answer = {
        "evict": "never",
        "seconds": -1,
        "allTolerated": True,
        "used": [toleration_json(pair.toleration) for pair in pairs],
    }
    limited = [pair for pair in pairs if pair.toleration.toleration_seconds is not None]
    if not limited:
        return answer
    if fields.upstream:
        return answer | _after_as_upstream(limited)
    return answer | _after(limited, now)


def _seconds(pair: Tolerated) -> int:
    return max(pair.toleration.toleration_seconds or 0, 0)


def _after(limited: list[Tolerated], now: datetime | None) -> Answer:
    """Return the end of the tolerated time.

    If every taint whose toleration has seconds has a `timeAdded` (or `now` is given, which replaces a missing one), the
    earliest deadline counts and is part of the answer. Otherwise the shortest time counts.
    """
    shortest = min(map(_seconds, limited))
    answer: Answer = {"evict": "after", "seconds": shortest, "duration_ns": shortest * NANOSECONDS}
    if shortest == 0 or any(pair.taint.time_added is None and now is None for pair in limited):
        return answer
    deadlines = [(deadline, i) for i, p in enumerate(limited) if (deadline := deadline_of(p, seen_at=now))]
    if not deadlines:
        return {}
    if any(pair.taint.time_added is not None for pair in limited):
        deadline, first = min(deadlines)
        left = timedelta(seconds=_seconds(limited[first])) if now is None else max(deadline - now, timedelta())
        microseconds = left // timedelta(microseconds=1)
        whole, rest = divmod(microseconds, 1_000_000)
        answer = {
            "evict": "after" if left or now is None else "now",
            "seconds": whole if rest == 0 else microseconds / 1_000_000,
            "duration_ns": microseconds * 1000,
            "deadline": format_time(deadline),
        }
    return answer


def _after_as_upstream(limited: list[Tolerated]) -> Answer:
    shortest = min(map(_seconds, limited))
    if shortest == INT64_MAX:
        return {}
    duration = wrapped(shortest * NANOSECONDS)
    if duration < 0:
        return {}
    return {"evict": "after", "seconds": duration // NANOSECONDS, "duration_ns": duration}


def _validate(fields: RequestFields) -> Answer:
    errors = validate_tolerations(
        fields.tolerations("tolerations"),
        "tolerations",
        comparison=_comparison(fields),
        strict=not fields.upstream,
    )
    return {"valid": not errors, "errors": [str(error) for error in errors]}


def _parse_taints(fields: RequestFields) -> Answer:
    specs = parse_taints(fields.texts("spec"), strict=not fields.upstream)
    return {
        "add": [taint_json(taint) for taint in specs.add],
        "remove": [taint_json(taint) for taint in specs.remove],
    }


def _set_taints(fields: RequestFields) -> Answer:
    update = set_taints(
        fields.taints("taints"),
        fields.taints("add", nullable=False),
        fields.taints("remove", nullable=False, effect=False),
        overwrite=not fields.upstream and fields.flag("overwrite", default=False),
        strict=not fields.upstream,
    )
    return {
        "taints": [taint_json(taint, fresh=fresh) for taint, fresh in zip(update.taints, update.fresh, strict=True)]
    }


_OPERATIONS: Final[Mapping[str, tuple[Callable[[RequestFields], Answer], tuple[str, ...]]]] = {
    "tolerates": (_tolerates, ("toleration", "taint", "comparisonOperators")),
    "filter": (_filter, ("taints", "tolerations", "comparisonOperators")),
    "normalize": (_normalize, ("scores",)),
    "evict": (_evict, ("taints", "tolerations", "comparisonOperators", "now")),
    "validate": (_validate, ("tolerations", "comparisonOperators")),
    "parse_taints": (_parse_taints, ("spec",)),
    "set_taints": (_set_taints, ("taints", "add", "remove", "overwrite")),
    "cel": (cel, ("expression", "clusters", "scores")),
    "ctp": (ctp, ("cluster", "conditions", "taints", "labels", "policies")),
    "karmada_evict": (karmada_evict, ("taints", "tolerations", "comparisonOperators", "now")),
    "karmada_filter": (karmada_filter, ("taints", "tolerations", "comparisonOperators", "now", "alreadyScheduled")),
    "karmada_schedule": (karmada_schedule.schedule, karmada_schedule.FIELDS),
    "daemonset_status": (daemonset_status.daemonset_status, daemonset_status.FIELDS),
    "device_tolerates": (devices.device_tolerates, devices.FIELDS["device_tolerates"]),
    "device_cel": (devices.device_cel, devices.FIELDS["device_cel"]),
    "device_allocate": (devices.device_allocate, devices.FIELDS["device_allocate"]),
    "device_evict": (devices.device_evict, devices.FIELDS["device_evict"]),
    "disruption_budget": (disruption_budget.disruption_budget, disruption_budget.FIELDS),
    "node_pods": (node_pods.node_pods, node_pods.FIELDS),
    "pod_qos": (pod_operations.pod_qos, ("pod",)),
    "pod_requests": (pod_operations.requests, ("pod", "running")),
    "pod_tolerations": (pod_operations.tolerations, ("pod", "daemon")),
    "ocm_schedule": (
        ocm_schedule,
        ("kind", "now", "level", "placement", "clusters", "decisions", "scores", "clusterSets", "bindings"),
    ),
    "ocm_rollout": (ocm_rollout.ocm_rollout, ocm_rollout.FIELDS),
    "pod_schedule": (pod_schedule, ("pod", "pods", "nodes", "namespaces", "claims", "volumes")),
    "addon_labels": (addon_labels.addon_labels, addon_labels.FIELDS),
    "ocm_taint_controller": (taint_controller, ("cluster",)),
    "ocm_taint_webhook": (taint_webhook, ("cluster", "old")),
}

OPERATIONS: Final = tuple(_OPERATIONS)
"""The names of the operations."""

# RequestFields that every request may have. `unstable` marks oracle vectors whose upstream answer varies.
_COMMON: Final = ("id", "op", "unstable")


def _answer(request: Any, *, as_upstream: bool) -> Answer:
    head = RequestFields.of(request, "", ("id", "op"), upstream=True)
    name = head.text("op")
    operation = _OPERATIONS.get(name)
    if operation is None:
        if as_upstream:
            return {"error": f"unknown op {name}"}
        raise RequestError(not_supported("op", name, OPERATIONS))
    run, known = operation
    return run(RequestFields.of(request, "", (*_COMMON, *known), upstream=as_upstream))


def evaluate(request: Any, *, as_upstream: bool) -> Answer:
    """Answer one request.

    Args:
        request: the decoded JSON line. The answer to anything but an object is an error.
        as_upstream: whether to answer like the systems' own code. Otherwise the answer is as documented.

    Returns:
        The answer, with the request's `id` if it has one. If the request is invalid or its operation does not exist,
        the answer is `{"error": …}` and names field, value and rule.
    """
    try:
        answer = _answer(request, as_upstream=as_upstream)
    except (RequestError, TaintSpecError) as error:
        answer = {"error": str(error)}
    if isinstance(request, Mapping) and request.get("id") is not None:
        answer["id"] = request["id"]
    return answer
