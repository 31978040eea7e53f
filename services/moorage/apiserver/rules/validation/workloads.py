"""Validation of the controllers that create pods, and of changes to them, as Kubernetes 1.37 has it.

Documents have the defaults of their fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moorage.apiserver.rules.validation.fields import CheckedField
from moorage.apiserver.rules.validation.pods import check_pod_template
from moorage.decide.kubernetes.field_errors import FieldError, invalid
from moorage.decide.kubernetes.selectors import matches_labels
from moorage.decide.kubernetes.unstructured import at
from moorage_schemas.resources.meta import LabelSelector

_ALWAYS: Final = "Always"
_ROLLING: Final = "RollingUpdate"
_RECREATE: Final = "Recreate"
_ON_DELETE: Final = "OnDelete"
_ORDERS: Final = ("OrderedReady", "Parallel")
_RETENTIONS: Final = ("Retain", "Delete")
_UNMATCHED: Final = "`selector` does not match template `labels`"
_IMMUTABLE: Final = "field is immutable"


def validate_deployment(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate the spec of a deployment."""
    spec = CheckedField(document)["spec"]
    spec.check_not_negative("replicas")
    _check_selected_template(spec, "deployment", "ReplicaSet")
    _check_deployment_strategy(spec["strategy"])
    spec.check_not_negative("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
    deadline = spec["progressDeadlineSeconds"]
    if deadline.number is not None and deadline.number <= (spec["minReadySeconds"].number or 0):
        deadline.invalid("must be greater than minReadySeconds")
    return spec.errors


def validate_replica_set(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate the spec of a replica set."""
    spec = CheckedField(document)["spec"]
    spec.check_not_negative("replicas", "minReadySeconds")
    _check_selected_template(spec, "deployment", "ReplicaSet")  # as in Kubernetes, messages name a deployment
    return spec.errors


def validate_replication_controller(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate the spec of a replication controller."""
    spec = CheckedField(document)["spec"]
    selector, template = spec["selector"], spec["template"]
    labels = template["metadata"]["labels"]
    spec.check_not_negative("minReadySeconds")
    if not selector.fields:
        selector.required()
    spec.check_not_negative("replicas")
    if not template.is_object:
        template.required()
        return spec.errors
    if not selector.fields.items() <= labels.fields.items():
        labels.invalid(_UNMATCHED, _in_order(labels))
    check_pod_template(template)
    _check_runs_for_ever(template["spec"], "ReplicationController")
    return spec.errors


def validate_stateful_set(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate the spec of a stateful set."""
    spec = CheckedField(document)["spec"]
    order, retention = spec["podManagementPolicy"], spec["persistentVolumeClaimRetentionPolicy"]
    if order.text not in _ORDERS:
        order.invalid(f"must be '{_ORDERS[0]}' or '{_ORDERS[1]}'", order.text)
    _check_stateful_strategy(spec["updateStrategy"])
    retention["whenDeleted"].check_known(_RETENTIONS)
    retention["whenScaled"].check_known(_RETENTIONS)
    spec.check_not_negative("replicas", "minReadySeconds")
    spec["ordinals"].check_not_negative("start")
    if spec["serviceName"].text:
        spec["serviceName"].check_dns_label()
    _check_selected_template(spec, "statefulset", "StatefulSet")
    return spec.errors


def validate_daemon_set(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate the spec of a daemon set."""
    spec = CheckedField(document)["spec"]
    selector = spec["selector"]
    selector.check_label_selector()
    if not spec.errors:
        _check_match(spec)
    if selector.is_object and _is_empty(selector):
        selector.invalid("empty selector is invalid for daemonset", {})
    check_pod_template(spec["template"])
    _check_runs_for_ever(spec["template"]["spec"], "DaemonSet")
    spec.check_not_negative("minReadySeconds")
    _check_daemon_strategy(spec["updateStrategy"])
    spec.check_not_negative("revisionHistoryLimit")
    return spec.errors


def validate_same_selector(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
    """Validate that the selector of a controller does not change."""
    old, new = (CheckedField(one)["spec"]["selector"] for one in (before, after))
    if (old.is_object, old.fields) != (new.is_object, new.fields):
        new.invalid(_IMMUTABLE, _shown(new) if new.is_object else None)
    return new.errors


def validate_same(
    before: Mapping[str, Any], after: Mapping[str, Any], field: str, *, shown: bool = True
) -> list[FieldError]:
    """Validate that a field of `spec` does not change."""
    old, new = at(before, "spec", field), at(after, "spec", field)
    return [] if old == new else [invalid(f"spec.{field}", new if shown else "", _IMMUTABLE)]


def _is_empty(selector: CheckedField) -> bool:
    return not selector["matchLabels"].value and not selector["matchExpressions"].value


def _in_order(labels: CheckedField) -> dict[str, Any] | None:
    return dict(sorted(labels.fields.items())) if labels.is_object else None


def _shown(selector: CheckedField) -> dict[str, Any]:
    """Return a selector in the form of messages: without empty fields, and with labels in their order."""
    expressions = [
        {key: one.fields[key] for key in ("key", "operator", "values") if one.fields.get(key)}
        for one in selector["matchExpressions"].objects()
    ]
    found = {"matchLabels": _in_order(selector["matchLabels"]), "matchExpressions": expressions}
    return {key: value for key, value in found.items() if value}


def _check_selected_template(spec: CheckedField, kind: str, controller: str) -> None:
    """Check a selector, and the template that it must select."""
    selector, known = spec["selector"], len(spec.errors)
    selector.check_label_selector()
    is_wrong = len(spec.errors) > known
    if not selector.is_object:
        selector.required()
    elif _is_empty(selector):
        selector.invalid(f"empty selector is invalid for {kind}", {})
    if is_wrong:
        selector.invalid("" if kind == "statefulset" else "invalid label selector", _shown(selector))
    else:
        _check_match(spec)
        check_pod_template(spec["template"])
    _check_runs_for_ever(spec["template"]["spec"], controller)


def _check_match(spec: CheckedField) -> None:
    labels, selector = spec["template"]["metadata"]["labels"], spec["selector"]
    # No selector selects nothing, and an empty one everything.
    if not selector.is_object or not matches_labels(LabelSelector.model_validate(selector.value), labels.fields):
        labels.invalid(_UNMATCHED, _in_order(labels))


def _check_runs_for_ever(pod: CheckedField, controller: str) -> None:
    pod["restartPolicy"].check_known((_ALWAYS,))
    if pod["activeDeadlineSeconds"].number is not None:
        pod["activeDeadlineSeconds"].forbidden(f"activeDeadlineSeconds in {controller} is not Supported")


def _internal(strategy: CheckedField, **absent: int | None) -> dict[str, Any]:
    """Return a strategy in the form of an API server's messages: with capitals, and all of its fields."""
    rolling = strategy["rollingUpdate"]
    shown = {field[0].upper() + field[1:]: rolling.fields.get(field, missing) for field, missing in absent.items()}
    return {"Type": strategy["type"].text, "RollingUpdate": shown if rolling.is_object else None}


def _check_deployment_strategy(strategy: CheckedField) -> None:
    kind, rolling = strategy["type"].text, strategy["rollingUpdate"]
    fewer, more = rolling["maxUnavailable"], rolling["maxSurge"]
    if kind == _RECREATE:
        if rolling.is_object:
            rolling.forbidden(f"may not be specified when strategy `type` is '{_RECREATE}'")
    elif kind != _ROLLING:
        strategy.not_supported((_RECREATE, _ROLLING), _internal(strategy, maxUnavailable=0, maxSurge=0))
    elif rolling.is_object:
        fewer.check_amount()
        more.check_amount()
        if not fewer.amount and not more.amount:
            fewer.invalid("may not be 0 when `maxSurge` is 0")
        fewer.check_not_more_than_all()


def _check_daemon_strategy(strategy: CheckedField) -> None:
    kind, rolling = strategy["type"].text, strategy["rollingUpdate"]
    fewer, more = rolling["maxUnavailable"], rolling["maxSurge"]
    if kind == _ON_DELETE:
        return
    if kind != _ROLLING:
        strategy.not_supported((_ROLLING, _ON_DELETE), _internal(strategy, maxUnavailable=0, maxSurge=0))
    elif rolling.is_object:
        fewer.check_amount()
        more.check_amount()
        fewer.check_not_more_than_all()
        more.check_not_more_than_all()
        if fewer.amount and more.amount:
            more.invalid("may not be set when maxUnavailable is non-zero")
        elif not fewer.amount and not more.amount:
            fewer.required("cannot be 0 when maxSurge is 0")


def _check_stateful_strategy(strategy: CheckedField) -> None:
    kind, rolling = strategy["type"].text, strategy["rollingUpdate"]
    shown, fewer = _internal(strategy, partition=0, maxUnavailable=None), rolling["maxUnavailable"]
    if kind == _ON_DELETE:
        if rolling.is_object:
            rolling.invalid(f"only allowed for updateStrategy '{_ROLLING}'", shown["RollingUpdate"])
    elif kind != _ROLLING:
        strategy.invalid(f"must be '{_ROLLING}' or '{_ON_DELETE}'", shown)
    elif rolling.is_object:
        rolling.check_not_negative("partition")
        if fewer.value is not None:
            fewer.check_amount()
            if not fewer.amount:
                fewer.invalid("cannot be 0")
            fewer.check_not_more_than_all()


_NUMBERS: Final = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_INDEXED: Final = "Indexed"
_MODES: Final = ("NonIndexed", _INDEXED)
_POLICIES: Final = ("OnFailure", "Never")
_ENTRIES_OF_INDEXED: Final = 100_000
_FIXED: Final = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")


def validate_job(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate the spec of a job, apart from its selector, which is optional."""
    spec = CheckedField(document)["spec"]
    spec.check_not_negative(*_NUMBERS)
    if spec["maxFailedIndexes"].number is not None and spec["backoffLimitPerIndex"].number is None:
        spec["backoffLimitPerIndex"].required("when maxFailedIndexes is specified")
    _check_mode(spec)
    check_pod_template(spec["template"])
    policy = spec["template"]["spec"]["restartPolicy"]
    if policy.text in {"", _ALWAYS}:
        policy.required('valid values: "OnFailure", "Never"')
    elif policy.text not in _POLICIES:
        policy.not_supported(_POLICIES)
    elif spec["podFailurePolicy"].value is not None and policy.text != "Never":
        policy.invalid('only "Never" is supported when podFailurePolicy is specified')
    return spec.errors


def validate_job_update(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
    """Validate a change of a job: its number of completions, its selector, its template and its policies stay."""
    is_elastic = at(after, "spec", "completionMode") == _INDEXED
    return [
        *([] if is_elastic else validate_same(before, after, "completions")),
        *validate_same(before, after, "selector"),
        *validate_same(before, after, "template", shown=False),
        *(error for field in _FIXED for error in validate_same(before, after, field)),
    ]


def _check_mode(spec: CheckedField) -> None:
    mode, parallelism = spec["completionMode"], spec["parallelism"]
    mode.check_known(_MODES)
    if mode.text == _INDEXED:
        if spec["completions"].number is None:
            spec["completions"].required(f"when completion mode is {_INDEXED}")
        if (parallelism.number or 0) > _ENTRIES_OF_INDEXED:
            rule = f"must be less than or equal to {_ENTRIES_OF_INDEXED} when completion mode is {_INDEXED}"
            parallelism.invalid(rule)
    elif mode.text in {"", _MODES[0]}:
        for field in (spec["backoffLimitPerIndex"], spec["maxFailedIndexes"]):
            if field.number is not None:
                field.invalid("requires indexed completion mode")
