"""Validation of jobs, and of changes to them, as Kubernetes 1.37 has it.

Documents have the defaults of their fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from moorage.apiserver.rules.validation.fields import Fields, inner, known, not_negative, number, text
from moorage.apiserver.rules.validation.pods import validate_pod_template
from moorage.apiserver.rules.validation.workloads import validate_same
from moorage.decide.kubernetes.field_errors import FieldError, invalid, not_supported, required

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
_ALWAYS: Final = "Always"
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
