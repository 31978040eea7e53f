"""Validation of the controllers that create pods, and of changes to them, as Kubernetes 1.37 has it.

Documents have the defaults of their fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from moorage.apiserver.rules.validation.fields import (
    Fields,
    amount,
    dns_label,
    inner,
    int_of,
    known,
    label_selector,
    not_more_than_all,
    not_negative,
    number,
    object_in,
    objects,
    one_of,
    text,
)
from moorage.apiserver.rules.validation.pods import validate_pod_template
from moorage.decide.kubernetes.field_errors import FieldError, forbidden, invalid, not_supported, required
from moorage.decide.kubernetes.selectors import matches_labels
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
    spec = inner(document, "spec")
    return [
        *not_negative(spec, "spec", "replicas"),
        *_selected_template(spec, "deployment", "ReplicaSet", empty_is_said_of="deployment"),
        *_deployment_strategy(inner(spec, "strategy"), "spec.strategy"),
        *not_negative(spec, "spec", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"),
        *_progress(spec),
    ]


def validate_replica_set(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate the spec of a replica set."""
    spec = inner(document, "spec")
    found = not_negative(spec, "spec", "replicas", "minReadySeconds")
    # As in Kubernetes, the message about an empty selector speaks of a deployment.
    return [*found, *_selected_template(spec, "replicaset", "ReplicaSet", empty_is_said_of="deployment")]


def validate_replication_controller(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate the spec of a replication controller."""
    spec = inner(document, "spec")
    selector, template, at = inner(spec, "selector"), object_in(spec, "template"), "spec.template"
    found = [*not_negative(spec, "spec", "minReadySeconds")]
    if not selector:
        found.append(required("spec.selector"))
    found += not_negative(spec, "spec", "replicas")
    if template is None:
        return [*found, required(at)]
    labels = inner(template, "metadata").get("labels")
    if not selector.items() <= (labels or {}).items():
        shown = dict(sorted(labels.items())) if isinstance(labels, Mapping) else None
        found.append(invalid(f"{at}.metadata.labels", shown, _UNMATCHED))
    return [*found, *validate_pod_template(template, at), *_runs_for_ever(spec, "ReplicationController")]


def validate_stateful_set(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate the spec of a stateful set."""
    spec = inner(document, "spec")
    order = text(spec, "podManagementPolicy")
    found: list[FieldError] = []
    if order not in _ORDERS:
        found.append(invalid("spec.podManagementPolicy", order, f"must be '{_ORDERS[0]}' or '{_ORDERS[1]}'"))
    found += _stateful_strategy(inner(spec, "updateStrategy"), "spec.updateStrategy")
    retention = inner(spec, "persistentVolumeClaimRetentionPolicy")
    for field in ("whenDeleted", "whenScaled"):
        path = f"spec.persistentVolumeClaimRetentionPolicy.{field}"
        found += one_of(text(retention, field) or _RETENTIONS[0], path, _RETENTIONS)
    found += not_negative(spec, "spec", "replicas", "minReadySeconds")
    found += not_negative(inner(spec, "ordinals"), "spec.ordinals", "start")
    if service := text(spec, "serviceName"):
        found += dns_label(service, "spec.serviceName")
    return [*found, *_selected_template(spec, "statefulset", "StatefulSet")]


def validate_daemon_set(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate the spec of a daemon set."""
    spec = inner(document, "spec")
    selector = object_in(spec, "selector")
    found = list(label_selector(selector, "spec.selector"))
    if not found:
        found += _match(spec, selector)
    if selector is not None and _is_empty(selector):
        found.append(invalid("spec.selector", {}, "empty selector is invalid for daemonset"))
    return [
        *found,
        *validate_pod_template(inner(spec, "template"), "spec.template"),
        *_runs_for_ever(spec, "DaemonSet"),
        *not_negative(spec, "spec", "minReadySeconds"),
        *_daemon_strategy(inner(spec, "updateStrategy"), "spec.updateStrategy"),
        *not_negative(spec, "spec", "revisionHistoryLimit"),
    ]


def validate_same_selector(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
    """Validate that the selector of a controller does not change.

    Args:
        before: the present object.
        after: the requested object.
    """
    old, new = (object_in(inner(one, "spec"), "selector") for one in (before, after))
    return [] if old == new else [invalid("spec.selector", None if new is None else _shown(new), _IMMUTABLE)]


def validate_same(
    before: Mapping[str, Any], after: Mapping[str, Any], field: str, *, shown: bool = True
) -> list[FieldError]:
    """Validate that a field of `spec` does not change.

    Args:
        before: the present object.
        after: the requested object.
        field: the field's name.
        shown: whether the message contains the requested value.
    """
    old, new = (before.get("spec") or {}).get(field), (after.get("spec") or {}).get(field)
    return [] if old == new else [invalid(f"spec.{field}", new if shown else "", _IMMUTABLE)]


def _is_empty(selector: Fields) -> bool:
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def _shown(selector: Fields) -> dict[str, Any]:
    """A selector in the form in which messages show it: without fields that are empty, and labels in their order."""
    expressions = [
        {key: one[key] for key in ("key", "operator", "values") if one.get(key)}
        for one, _ in objects(selector, "matchExpressions", "")
    ]
    labels_in_order = dict(sorted(inner(selector, "matchLabels").items()))
    found = {"matchLabels": labels_in_order, "matchExpressions": expressions}
    return {key: value for key, value in found.items() if value}


def _selected_template(spec: Fields, kind: str, said_of: str, *, empty_is_said_of: str = "") -> Iterator[FieldError]:
    """The errors of a selector and of the template that it has to select."""
    selector = object_in(spec, "selector")
    wrong = list(label_selector(selector, "spec.selector"))
    yield from wrong
    if selector is None:
        yield required("spec.selector")
    elif _is_empty(selector):
        yield invalid("spec.selector", {}, f"empty selector is invalid for {empty_is_said_of or kind}")
    if wrong:
        yield invalid(
            "spec.selector", _shown(selector or {}), "" if kind == "statefulset" else "invalid label selector"
        )
    else:
        yield from _match(spec, selector)
        yield from validate_pod_template(inner(spec, "template"), "spec.template")
    yield from _runs_for_ever(spec, said_of)


def _match(spec: Fields, selector: Fields | None) -> Iterator[FieldError]:
    metadata = inner(inner(spec, "template"), "metadata")
    found = metadata.get("labels")
    wanted = LabelSelector.model_validate(selector) if selector is not None else None
    # No selector selects nothing, and an empty one everything.
    if wanted is None or not matches_labels(wanted, found or {}):
        shown = dict(sorted(found.items())) if isinstance(found, Mapping) else None
        yield invalid("spec.template.metadata.labels", shown, _UNMATCHED)


def _runs_for_ever(spec: Fields, kind: str) -> Iterator[FieldError]:
    pod, path = inner(inner(spec, "template"), "spec"), "spec.template.spec"
    policy = text(pod, "restartPolicy") or _ALWAYS
    if policy != _ALWAYS:
        yield not_supported(f"{path}.restartPolicy", policy, (_ALWAYS,))
    if number(pod, "activeDeadlineSeconds") is not None:
        rule = f"activeDeadlineSeconds in {kind} is not Supported"
        yield forbidden(f"{path}.activeDeadlineSeconds", rule)


def _progress(spec: Fields) -> Iterator[FieldError]:
    deadline = number(spec, "progressDeadlineSeconds")
    if deadline is not None and deadline <= (number(spec, "minReadySeconds") or 0):
        yield invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def _internal(strategy: Fields, **absent: int | None) -> dict[str, Any]:
    """A strategy in the form in which an API server shows it in messages: with capitals, and all of its fields.

    Args:
        strategy: of a controller.
        absent: the fields of its `rollingUpdate`, each with what is shown if it is missing.
    """
    rolling = object_in(strategy, "rollingUpdate")
    shown = (
        None
        if rolling is None
        else {field[0].upper() + field[1:]: rolling.get(field, missing) for field, missing in absent.items()}
    )
    return {"Type": text(strategy, "type"), "RollingUpdate": shown}


def _deployment_strategy(strategy: Fields, path: str) -> Iterator[FieldError]:
    kind, rolling = text(strategy, "type"), object_in(strategy, "rollingUpdate")
    if kind == _RECREATE:
        if rolling is not None:
            rule = f"may not be specified when strategy `type` is '{_RECREATE}'"
            yield forbidden(f"{path}.rollingUpdate", rule)
    elif kind != _ROLLING:
        yield not_supported(path, _internal(strategy, maxUnavailable=0, maxSurge=0), (_RECREATE, _ROLLING))
    elif rolling is not None:
        at, fewer, more = f"{path}.rollingUpdate", rolling.get("maxUnavailable"), rolling.get("maxSurge")
        yield from amount(fewer, f"{at}.maxUnavailable")
        yield from amount(more, f"{at}.maxSurge")
        if not int_of(fewer) and not int_of(more):
            yield invalid(f"{at}.maxUnavailable", fewer, "may not be 0 when `maxSurge` is 0")
        yield from not_more_than_all(fewer, f"{at}.maxUnavailable")


def _daemon_strategy(strategy: Fields, path: str) -> Iterator[FieldError]:
    kind, rolling = text(strategy, "type"), object_in(strategy, "rollingUpdate")
    if kind == _ON_DELETE:
        return
    if kind != _ROLLING:
        yield not_supported(path, _internal(strategy, maxUnavailable=0, maxSurge=0), (_ROLLING, _ON_DELETE))
    elif rolling is not None:
        at, fewer, more = f"{path}.rollingUpdate", rolling.get("maxUnavailable"), rolling.get("maxSurge")
        yield from amount(fewer, f"{at}.maxUnavailable")
        yield from amount(more, f"{at}.maxSurge")
        yield from not_more_than_all(fewer, f"{at}.maxUnavailable")
        yield from not_more_than_all(more, f"{at}.maxSurge")
        if int_of(fewer) and int_of(more):
            yield invalid(f"{at}.maxSurge", more, "may not be set when maxUnavailable is non-zero")
        elif not int_of(fewer) and not int_of(more):
            yield required(f"{at}.maxUnavailable", "cannot be 0 when maxSurge is 0")


def _stateful_strategy(strategy: Fields, path: str) -> Iterator[FieldError]:
    kind, rolling = text(strategy, "type"), object_in(strategy, "rollingUpdate")
    shown = _internal(strategy, partition=0, maxUnavailable=None)
    if kind == _ON_DELETE:
        if rolling is not None:
            yield invalid(
                f"{path}.rollingUpdate", shown["RollingUpdate"], f"only allowed for updateStrategy '{_ROLLING}'"
            )
    elif kind != _ROLLING:
        yield invalid(path, shown, f"must be '{_ROLLING}' or '{_ON_DELETE}'")
    elif rolling is not None:
        at, fewer = f"{path}.rollingUpdate", rolling.get("maxUnavailable")
        yield from not_negative(rolling, at, "partition")
        if fewer is not None:
            yield from amount(fewer, f"{at}.maxUnavailable")
            if not int_of(fewer):
                yield invalid(f"{at}.maxUnavailable", fewer, "cannot be 0")
            yield from not_more_than_all(fewer, f"{at}.maxUnavailable")


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
    """Validate the spec of a job. Its selector is not looked at: nobody has to give one."""
    return validate_job_spec(inner(document, "spec"), "spec")


def validate_job_spec(spec: Fields, path: str) -> list[FieldError]:
    """Validate the spec of a job, or of the jobs that are made from a template.

    Args:
        spec: the spec.
        path: of it.
    """
    return [
        *not_negative(spec, path, *_NUMBERS),
        *_indexes(spec, path),
        *_mode(spec, path),
        *validate_pod_template(inner(spec, "template"), f"{path}.template"),
        *_restart_policy(spec, path),
    ]


def validate_job_update(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
    """Validate a change of a job: its number of completions, its selector, its template and its policies stay.

    Args:
        before: the job as it is shown.
        after: the job as it is wanted.
    """
    is_elastic = text(inner(after, "spec"), "completionMode") == _INDEXED
    return [
        *([] if is_elastic else validate_same(before, after, "completions")),
        *validate_same(before, after, "selector"),
        *validate_same(before, after, "template", shown=False),
        *(error for field in _FIXED for error in validate_same(before, after, field)),
    ]


def _indexes(spec: Fields, path: str) -> Iterator[FieldError]:
    if number(spec, "maxFailedIndexes") is not None and number(spec, "backoffLimitPerIndex") is None:
        yield required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")


def _mode(spec: Fields, path: str) -> Iterator[FieldError]:
    mode = text(spec, "completionMode")
    yield from known(mode, f"{path}.completionMode", _MODES)
    if mode == _INDEXED:
        if number(spec, "completions") is None:
            yield required(f"{path}.completions", f"when completion mode is {_INDEXED}")
        at_once = number(spec, "parallelism") or 0
        if at_once > _ENTRIES_OF_INDEXED:
            rule = f"must be less than or equal to {_ENTRIES_OF_INDEXED} when completion mode is {_INDEXED}"
            yield invalid(f"{path}.parallelism", at_once, rule)
    elif mode in {"", _MODES[0]}:
        for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if (found := number(spec, field)) is not None:
                yield invalid(f"{path}.{field}", found, "requires indexed completion mode")


def _restart_policy(spec: Fields, path: str) -> Iterator[FieldError]:
    at, policy = f"{path}.template.spec.restartPolicy", text(inner(inner(spec, "template"), "spec"), "restartPolicy")
    if policy in {"", _ALWAYS}:
        yield required(at, 'valid values: "OnFailure", "Never"')
    elif policy not in _POLICIES:
        yield not_supported(at, policy, _POLICIES)
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        yield invalid(at, policy, 'only "Never" is supported when podFailurePolicy is specified')
