"""Validation of `ProbeGrant`: every part that says what is covered must be there, and name something that can be."""

from __future__ import annotations

from typing import Final

from moorage.apiserver.rules.validation.core import validate_label_selector, validate_name
from moorage.decide.conditions import report_keys
from moorage.decide.kubernetes.field_errors import FieldError, duplicate, invalid, not_supported, required
from moorage_schemas.refs import TargetKind
from moorage_schemas.resources.probe_grants import ProbeGrantSpec, ProbeKey, ProbeLimits, ProbeSubject, ProbeTargets

_KINDS: Final = tuple(kind.value for kind in TargetKind)
_ACCOUNT: Final = "ServiceAccount"
_SUBJECTS: Final = (_ACCOUNT, "User", "Group")
_RBAC: Final = "rbac.authorization.k8s.io"
_LONGEST: Final = 253  # characters of a source, a name, a type
_MOST: Final = 1000  # entries of a list
_LONGEST_ID: Final = 63
_LARGEST: Final = 1_000_000  # reports, for each second or at once


def validate_probe_grant(spec: ProbeGrantSpec) -> list[FieldError]:
    """Validate a grant."""
    errors = _pattern(spec.source, "spec.source")
    for field, entries in (("targets", spec.targets), ("conditions", spec.conditions)):
        if not entries:
            errors.append(required(f"spec.{field}", "must have at least one item"))
    lists = (("subjects", spec.subjects), ("targets", spec.targets), ("conditions", spec.conditions))
    for field, listed in (*lists, ("keys", spec.keys)):
        if len(listed or ()) > _MOST:
            errors.append(invalid(f"spec.{field}", len(listed or ()), f"must have at most {_MOST} items"))
    for i, subject in enumerate(spec.subjects or ()):
        errors += _subject(subject, f"spec.subjects[{i}]")
    for i, targets in enumerate(spec.targets):
        errors += _targets(targets, f"spec.targets[{i}]")
    for i, condition in enumerate(spec.conditions):
        errors += _pattern(condition, f"spec.conditions[{i}]")
    seen: set[str] = set()
    for i, key in enumerate(spec.keys or ()):
        errors += _key(key, f"spec.keys[{i}]")
        if key.id in seen:
            errors.append(duplicate(f"spec.keys[{i}].id", key.id))
        seen.add(key.id)
    return errors + ([] if spec.limits is None else _limits(spec.limits, "spec.limits"))


def _pattern(text: str, path: str) -> list[FieldError]:
    if not text:
        return [required(path)]
    if len(text) > _LONGEST:
        return [invalid(path, text, f"must have at most {_LONGEST} characters")]
    return [] if text.isprintable() else [invalid(path, text, "must consist of printable characters")]


def _subject(subject: ProbeSubject, path: str) -> list[FieldError]:
    if subject.kind not in _SUBJECTS:
        return [not_supported(f"{path}.kind", subject.kind, _SUBJECTS)]
    errors = [] if subject.name else [required(f"{path}.name")]
    groups = ("",) if subject.kind == _ACCOUNT else ("", _RBAC)
    if subject.api_group not in groups:
        errors.append(not_supported(f"{path}.apiGroup", subject.api_group, groups))
    if subject.kind == _ACCOUNT and not subject.namespace:
        errors.append(required(f"{path}.namespace"))
    return errors


def _targets(targets: ProbeTargets, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if targets.kind not in _KINDS:
        errors.append(not_supported(f"{path}.kind", targets.kind, _KINDS))
    if targets.names == []:
        errors.append(invalid(f"{path}.names", [], "must have at least one item; leave it out to mean all of them"))
    for i, name in enumerate(targets.names or ()):
        # A name in which each `*` is a letter must be one that a target can have.
        wrong = _pattern(name, f"{path}.names[{i}]") or validate_name(name.replace("*", "a"), f"{path}.names[{i}]")
        errors += [FieldError(one.path, one.kind, name, one.detail) for one in wrong]
    if targets.cluster:
        errors += validate_name(targets.cluster, f"{path}.cluster")
    return errors + validate_label_selector(targets.selector, f"{path}.selector")


def _key(key: ProbeKey, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not key.id:
        errors.append(required(f"{path}.id"))
    elif len(key.id) > _LONGEST_ID or not key.id.isascii() or not key.id.isprintable() or " " in key.id:
        rule = f"must have at most {_LONGEST_ID} printable ASCII characters, and no space"
        errors.append(invalid(f"{path}.id", key.id, rule))
    if not key.public_key:
        errors.append(required(f"{path}.publicKey"))
    elif report_keys.public_key(key.public_key) is None:
        errors.append(invalid(f"{path}.publicKey", key.public_key, report_keys.RULE))
    return errors


def _limits(limits: ProbeLimits, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for field, value in (("qps", limits.qps), ("burst", limits.burst)):
        if value is not None and not 1 <= value <= _LARGEST:
            errors.append(invalid(f"{path}.{field}", value, f"must be between 1 and {_LARGEST}"))
    if limits.burst is not None and limits.qps is None:
        errors.append(required(f"{path}.qps", "must be set if burst is"))
    if limits.max_bytes is not None and limits.max_bytes < 1:
        errors.append(invalid(f"{path}.maxBytes", limits.max_bytes, "must be greater than or equal to 1"))
    return errors
