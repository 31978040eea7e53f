"""The values of the fields of what makes pods: Deployments, Jobs and others, and autoscalers (see `field_defaults`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moorage.apiserver.rules.field_filling import Object, each, filled, within
from moorage.apiserver.rules.pod_field_defaults import claim_defaults, template_defaults

_DEPLOYMENT: Final = {"progressDeadlineSeconds": 600, "replicas": 1, "revisionHistoryLimit": 10}
_QUARTER: Final = "25%"


def deployment(spec: Object) -> Object:
    """The spec of a Deployment."""
    found = filled(template_defaults(spec), {**_DEPLOYMENT, "strategy": {}})
    return within(found, "strategy", lambda one: _rolling(one, {"maxSurge": _QUARTER, "maxUnavailable": _QUARTER}))


def _rolling(strategy: Object, defaults: Mapping[str, Any]) -> Object:
    found = {**strategy, "type": strategy.get("type") or "RollingUpdate"}
    if found["type"] != "RollingUpdate":
        return found
    return within(filled(found, {"rollingUpdate": {}}), "rollingUpdate", lambda one: filled(one, defaults))


def replica_set(spec: Object) -> Object:
    """The spec of a ReplicaSet, or of a ReplicationController."""
    return filled(template_defaults(spec), {"replicas": 1})


def stateful_set(spec: Object) -> Object:
    """The spec of a StatefulSet."""
    keep = {"whenDeleted": "Retain", "whenScaled": "Retain"}
    others = {"podManagementPolicy": "OrderedReady", "replicas": 1, "revisionHistoryLimit": 10, "serviceName": ""}
    found = filled(
        template_defaults(spec), {**others, "persistentVolumeClaimRetentionPolicy": {}, "updateStrategy": {}}
    )
    found = within(found, "persistentVolumeClaimRetentionPolicy", lambda one: filled(one, keep))
    found = within(found, "updateStrategy", lambda one: _rolling(one, {"maxUnavailable": 1, "partition": 0}))
    return each(found, "volumeClaimTemplates", _claim_template)


def _claim_template(claim: Object) -> Object:
    kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": {"phase": "Pending"}}
    return claim_defaults(filled(claim, kind))


def daemon_set(spec: Object) -> Object:
    """The spec of a DaemonSet."""
    found = filled(template_defaults(spec), {"revisionHistoryLimit": 10, "updateStrategy": {}})
    return within(found, "updateStrategy", lambda one: _rolling(one, {"maxSurge": 0, "maxUnavailable": 1}))


def job(spec: Object) -> Object:
    """The spec of a Job."""
    found = template_defaults(spec)
    if found.get("completions") is None and found.get("parallelism") is None:
        found["completions"] = 1
    others = {
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "manualSelector": False,
        "parallelism": 1,
        "podReplacementPolicy": "Failed" if found.get("podFailurePolicy") else "TerminatingOrFailed",
        "suspend": False,
    }
    if found.get("backoffLimitPerIndex") is not None:
        others["backoffLimit"] = 2**31 - 1
    found = filled(found, others)
    return within(found, "podFailurePolicy", lambda one: each(one, "rules", _failure_rule))


def _failure_rule(rule: Object) -> Object:
    return each(rule, "onPodConditions", lambda one: filled(one, {"status": "True"}))


def cron_job(spec: Object) -> Object:
    """The spec of a CronJob."""
    return within(filled(spec, _CRON_JOB), "jobTemplate", _job_template)


def _job_template(template: Object) -> Object:
    found = within(filled(template, {"metadata": {}}), "spec", template_defaults)
    return within(found, "spec", lambda spec: within(spec, "template", lambda one: filled(one, {"metadata": {}})))


def with_labels_of_template(document: Object) -> Object:
    """A controller that has the labels of its pods, unless it has labels of its own."""
    labels, metadata = _labels_of_template(document), document.get("metadata") or {}
    if not labels or not isinstance(metadata, dict) or metadata.get("labels"):
        return document
    return {**document, "metadata": {**metadata, "labels": labels}}


def selecting_by_template(document: Object) -> Object:
    """A replication controller that selects by the labels of its pods, and has them, unless it says otherwise."""
    labels, spec = _labels_of_template(document), document.get("spec")
    if labels and isinstance(spec, dict) and not spec.get("selector"):
        document = {**document, "spec": {**spec, "selector": labels}}
    return with_labels_of_template(document)


def _labels_of_template(document: Object) -> Any:
    found: Any = document
    for field in ("spec", "template", "metadata", "labels"):
        found = found.get(field) if isinstance(found, dict) else None
    return found


def autoscaler(spec: Object) -> Object:
    """The spec of a HorizontalPodAutoscaler."""
    found = filled(spec, {"minReplicas": 1})
    if not found.get("metrics"):
        found["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": dict(_TARGET)}}]
    if isinstance(behavior := found.get("behavior"), dict):
        for field, defaults in _SCALING.items():
            rules = behavior.get(field)
            if rules is None or isinstance(rules, dict):
                said = {name: one for name, one in (rules or {}).items() if one is not None}
                behavior = {**behavior, field: {**defaults, **said}}  # an empty text is a wrong value here
        found["behavior"] = behavior
    return found


_TARGET: Final = {"type": "Utilization", "averageUtilization": 80}
_PERCENT: Final = {"type": "Percent", "value": 100, "periodSeconds": 15}
_SCALING: Final[Mapping[str, Object]] = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, _PERCENT],
    },
    "scaleDown": {"selectPolicy": "Max", "policies": [_PERCENT]},
}
_CRON_JOB: Final = {
    "concurrencyPolicy": "Allow",
    "failedJobsHistoryLimit": 1,
    "successfulJobsHistoryLimit": 3,
    "suspend": False,
}
