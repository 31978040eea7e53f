"""Validation of taints, tolerations, names, labels and owners, with Kubernetes' field paths and messages.

Every function returns all errors that it finds, in the order of the fields, and raises none. `path` is the path of the
field in the document, such as `spec.taints`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from moorage.decide.kubernetes import names
from moorage.decide.kubernetes.field_errors import (
    ErrorKind,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    quote,
    required,
)
from moorage.decide.kubernetes.selectors import DOES_NOT_EXIST, EXISTS, IN, NOT_IN
from moorage.decide.taints.desired.from_conditions import parse_hold
from moorage.decide.taints.dialects.kubernetes import KUBERNETES, EffectRules
from moorage_schemas.resources.meta import LabelSelector, ObjectMeta, OwnerReference
from moorage_schemas.taint import Taint, Toleration, TolerationOperator

__all__ = [
    "ErrorKind",
    "FieldError",
    "validate_annotations",
    "validate_duration",
    "validate_label_selector",
    "validate_labels",
    "validate_metadata",
    "validate_name",
    "validate_taints",
    "validate_tolerations",
]

_ANNOTATIONS: Final = 256 << 10  # bytes of all keys and values together, as in Kubernetes
_EXISTS: Final = TolerationOperator.EXISTS.value
_EQUAL: Final = TolerationOperator.EQUAL.value
_COMPARISONS: Final = (TolerationOperator.LT.value, TolerationOperator.GT.value)

_CANONICAL: Final = re.compile(r"0|-?[1-9][0-9]*")
_DECIMAL: Final = re.compile(r"[+-]?[0-9]+")


def validate_name(name: str, path: str = "metadata.name", *, dns_label: bool = False) -> list[FieldError]:
    """Validate an object's name: a DNS subdomain, or a DNS label (namespaces, prefix of a pod's host name)."""
    if not name:
        return [required(path, "name or generateName is required")]
    check = names.check_dns_label if dns_label else names.check_dns_subdomain
    return [invalid(path, name, message) for message in check(name, names.OLDER)]


def validate_generate_name(prefix: str, *, dns_label: bool = False) -> list[FieldError]:
    """Validate what the server makes a name of: like a name, but it may end with a dash. An empty one is valid."""
    if not prefix:
        return []
    masked = f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix
    check = names.check_dns_label if dns_label else names.check_dns_subdomain
    return [invalid("metadata.generateName", prefix, message) for message in check(masked, names.OLDER)]


def validate_labels(labels: Mapping[str, str], path: str = "metadata.labels") -> list[FieldError]:
    """Validate the keys and values of labels. Errors are ordered by key, so that equal labels give equal messages."""
    errors: list[FieldError] = []
    for key, value in sorted(labels.items()):
        errors.extend(invalid(path, key, message) for message in names.check_qualified_name(key))
        errors.extend(invalid(path, value, message) for message in names.check_label_value(value))
    return errors


def validate_label_selector(selector: LabelSelector | None, path: str) -> list[FieldError]:
    """Validate a label selector: keys, values and operators. An absent selector is valid."""
    if selector is None:
        return []
    errors = validate_labels(selector.match_labels or {}, f"{path}.matchLabels")
    for i, requirement in enumerate(selector.match_expressions or ()):
        at = f"{path}.matchExpressions[{i}]"
        values = requirement.values or []
        if requirement.operator in {IN, NOT_IN}:
            if not values:
                errors.append(required(f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        elif requirement.operator in {EXISTS, DOES_NOT_EXIST}:
            if values:
                rule = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                errors.append(forbidden(f"{at}.values", rule))
        else:
            errors.append(invalid(f"{at}.operator", requirement.operator, "not a valid selector operator"))
        errors.extend(
            invalid(f"{at}.key", requirement.key, message) for message in names.check_qualified_name(requirement.key)
        )
        for number, value in enumerate(values):
            found = names.check_label_value(value)
            errors.extend(invalid(f"{at}.values[{number}]", value, message) for message in found)
    return errors


def validate_duration(value: str, path: str) -> list[FieldError]:
    """Validate a duration of an annotation or flag: numbers with units, such as `30s` or `1m30s`, never negative."""
    if parse_hold(value) is not None:
        return []
    return [invalid(path, value, "must be a duration such as 30s, 5m or 1m30s (units ms, s, m, h, d)")]


def validate_annotations(annotations: Mapping[str, str], path: str = "metadata.annotations") -> list[FieldError]:
    """Validate the keys of annotations, and their size together. Upper case counts as lower case."""
    errors = [invalid(path, key, message) for key in annotations for message in names.check_qualified_name(key.lower())]
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _ANNOTATIONS:
        errors.append(FieldError(path, ErrorKind.TOO_LONG, None, f"may not be more than {_ANNOTATIONS} bytes"))
    return errors


def validate_metadata(
    name: str,
    namespace: str,
    labels: Mapping[str, str],
    *,
    namespaced: bool,
    dns_label: bool = False,
    path: str = "metadata",
) -> list[FieldError]:
    """Validate name, namespace and labels of an object.

    Args:
        name: of the object.
        namespace: of the object; empty if it has none.
        labels: of the object.
        namespaced: whether its kind is namespaced.
        dns_label: whether the names of its kind are DNS labels. Otherwise, they are DNS subdomains.
        path: of the metadata.
    """
    errors = validate_name(name, f"{path}.name", dns_label=dns_label)
    if namespaced and not namespace:
        errors.append(required(f"{path}.namespace"))
    elif namespaced:
        errors.extend(validate_name(namespace, f"{path}.namespace", dns_label=True))
    elif namespace:
        errors.append(forbidden(f"{path}.namespace", "not allowed on this type"))
    errors.extend(validate_labels(labels, f"{path}.labels"))
    return errors


def _key_errors(key: str, path: str, *, strict: bool) -> Iterable[FieldError]:
    messages = names.check_qualified_name(key)
    if strict and not messages:
        messages = names.check_key_length(key)
    return (invalid(path, key, message) for message in messages)


def _effect_errors(effect: str, path: str, dialect: EffectRules) -> list[FieldError]:
    return [] if effect in dialect.effects else [not_supported(path, effect, dialect.effects)]


def validate_taints(
    taints: Sequence[Taint],
    path: str = "spec.taints",
    dialect: EffectRules = KUBERNETES,
    *,
    strict: bool = True,
) -> list[FieldError]:
    """Validate a target's taints: keys, values, effects of the dialect, and no (key, effect) twice.

    Args:
        taints: the taints in their order.
        path: the path of the list in the document.
        dialect: defines the allowed effects.
        strict: whether a key may have at most 253 bytes in all, as documented. Upstream's code allows more.
    """
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for i, taint in enumerate(taints):
        at = f"{path}[{i}]"
        errors.extend(_key_errors(taint.key, f"{at}.key", strict=strict))
        value_errors = names.check_label_value(taint.value)
        if value_errors:
            errors.append(invalid(f"{at}.value", taint.value, ";".join(value_errors)))
        if taint.effect:
            errors.extend(_effect_errors(taint.effect, f"{at}.effect", dialect))
        else:
            errors.append(required(f"{at}.effect"))
        if taint.identity in seen:
            shown = _as_internal(taint) if dialect is KUBERNETES else _as_sent(taint)
            errors.append(duplicate(at, shown, "taints must be unique by key and effect pair"))
        seen.add(taint.identity)
    return errors


def _as_internal(taint: Taint) -> dict[str, Any]:
    """A taint as Kubernetes shows it in an error: in its internal form, with all fields and capitalised names."""
    time = taint.model_dump(mode="json")["timeAdded"]
    return {"Key": taint.key, "Value": taint.value, "Effect": taint.effect, "TimeAdded": time}


def _as_sent(taint: Taint) -> dict[str, Any]:
    return {name: value for name, value in taint.model_dump(mode="json").items() if value}


def _integer_errors(value: str, path: str) -> list[FieldError]:
    """Validate the value of `Gt` or `Lt`: a canonical 64-bit decimal integer."""
    errors = []
    if not value:
        errors.append(invalid(path, value, "must be non-empty"))
    elif not _CANONICAL.fullmatch(value):
        errors.append(invalid(path, value, "must be a valid decimal integer in canonical form"))
    # The API server makes two checks with two messages; the second one also checks the range.
    if not _DECIMAL.fullmatch(value):
        errors.append(invalid(path, value, f"strconv.ParseInt: parsing {quote(value)}: invalid syntax"))
    elif not _in_int64(value):
        errors.append(invalid(path, value, f"strconv.ParseInt: parsing {quote(value)}: value out of range"))
    return errors


def _in_int64(value: str) -> bool:
    sign = "-" if value.startswith("-") else ""
    digits = value.lstrip("+-").lstrip("0") or "0"
    # Check the length first: Python refuses to parse very long integers, and none of them fits.
    return len(digits) <= len(str(2**63)) and -(2**63) <= int(sign + digits) < 2**63


def _operator_errors(toleration: Toleration, at: str, *, comparison: bool) -> list[FieldError]:
    operator, value = toleration.operator, toleration.value
    if operator in {"", _EQUAL}:
        messages = names.check_label_value(value)
        # As in upstream, the path is `operator`, although the value is wrong.
        return [invalid(f"{at}.operator", value, ";".join(messages))] if messages else []
    if operator == _EXISTS:
        rule = "value must be empty when `operator` is 'Exists'"
        return [invalid(f"{at}.operator", value, rule)] if value else []
    if operator in _COMPARISONS and comparison:
        return _integer_errors(value, f"{at}.value")
    # Upstream lists the comparisons only if one was used. For an unknown operator it lists only the first two.
    supported = (_EQUAL, _EXISTS, *(_COMPARISONS if operator in _COMPARISONS else ()))
    return [not_supported(f"{at}.operator", operator, supported)]


def validate_tolerations(
    tolerations: Sequence[Toleration],
    path: str = "spec.tolerations",
    dialect: EffectRules = KUBERNETES,
    *,
    comparison: bool = True,
    strict: bool = True,
) -> list[FieldError]:
    """Validate a workload's tolerations.

    Args:
        tolerations: the tolerations in their order.
        path: the path of the list in the document.
        dialect: defines the allowed effects.
        comparison: whether `Gt` and `Lt` are allowed.
        strict: whether to follow the documentation: a key has at most 253 bytes in all, and `tolerationSeconds` may be
            combined with any effect, because it counts only for taints that evict. False behaves like upstream's code.
    """
    errors: list[FieldError] = []
    for i, toleration in enumerate(tolerations):
        at = f"{path}[{i}]"
        if toleration.key:
            errors.extend(_key_errors(toleration.key, f"{at}.key", strict=strict))
        elif toleration.operator != _EXISTS:
            rule = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            errors.append(invalid(f"{at}.operator", toleration.operator, rule))
        timed = toleration.toleration_seconds is not None
        if timed and not strict and toleration.effect not in dialect.evicting:
            allowed = " or ".join(f"'{effect}'" for effect in sorted(dialect.evicting))
            rule = f"effect must be {allowed} when `tolerationSeconds` is set"
            errors.append(invalid(f"{at}.effect", toleration.effect, rule))
        errors.extend(_operator_errors(toleration, at, comparison=comparison))
        if toleration.effect:
            errors.extend(_effect_errors(toleration.effect, f"{at}.effect", dialect))
    return errors


_OWNERS: Final = "metadata.ownerReferences"
_FINALIZERS: Final = "metadata.finalizers"
_MOST_SHOWN: Final = 65_536  # characters of owners in errors
_NO_OWNER: Final = ("v1", "Event")
_STANDARD: Final = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
"""The finalizers whose names have no domain."""


def validate_ties(metadata: ObjectMeta) -> list[FieldError]:
    """Validate the owner references and the finalizers of an object, with Kubernetes' paths and messages."""
    return [*_owners(metadata.owner_references or []), *_finalizers(metadata.finalizers or [])]


def without_domain(finalizers: Iterable[str]) -> Iterator[tuple[int, str]]:
    """The finalizers that say nothing of who owns them, each with its place. Another program may use the same."""
    return ((i, one) for i, one in enumerate(finalizers) if "/" not in one and one not in _STANDARD)


def validate_domains(finalizers: Sequence[str], present: Collection[str]) -> list[FieldError]:
    """Validate that new finalizers have a domain. An API server asks it only of kinds that are built into it.

    Args:
        finalizers: those that the object is to have.
        present: those that it has. An older release may have accepted them.
    """
    rule = "name is neither a standard finalizer name nor is it fully qualified"
    known = frozenset(present)
    return [invalid(f"{_FINALIZERS}[{i}]", one, rule) for i, one in without_domain(finalizers) if one not in known]


def _owners(references: list[OwnerReference]) -> list[FieldError]:
    found: list[FieldError] = []
    controller, shown, room = "", list[dict[str, object]](), 0
    for number, reference in enumerate(references):
        if (version := reference.api_version).count("/") > 1:
            rule = "must be <group>/<version> or <version>"
            found.append(invalid(f"{_OWNERS}[{number}].apiVersion", version, rule))
        for field, value in (
            ("apiVersion", reference.api_version),
            ("kind", reference.kind),
            ("name", reference.name),
            ("uid", reference.uid),
        ):
            if not value:
                found.append(required(f"{_OWNERS}[{number}].{field}", "must not be empty"))
        if (reference.api_version, reference.kind) == _NO_OWNER:
            rule = "/v1, Kind=Event is disallowed from being an owner"
            found.append(invalid(f"{_OWNERS}[{number}]", _shown(reference), rule))
        if reference.controller:
            named = f"{reference.kind}/{reference.name}"
            if controller and not shown:
                shown = [_shown(one) for one in references]
                # Each error shows all owners: a short request gets no long answer, and at least one error.
                room = max(1, _MOST_SHOWN // len(json.dumps(shown)))
            if controller and room:
                rule = (
                    "Only one reference can have Controller set to true. "
                    f'Found "true" in references for {controller} and {named}'
                )
                found.append(invalid(_OWNERS, shown, rule))
                room -= 1
            controller = controller or named
    return found


def _shown(reference: OwnerReference) -> dict[str, object]:
    """An owner in the form in which messages show it: without what is not set, apart from what has to be."""
    found = reference.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {"apiVersion": "", "kind": "", "name": "", "uid": "", **found}


def _finalizers(finalizers: list[str]) -> list[FieldError]:
    found = [invalid(_FINALIZERS, one, rule) for one in finalizers for rule in names.check_qualified_name(one)]
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        rule = "finalizer orphan and foregroundDeletion cannot be both set"
        found.append(invalid(_FINALIZERS, finalizers, rule))
    return found
