"""Validation of taints, tolerations, names, labels and owners, with Kubernetes' field paths and messages.

Every function returns all errors that it finds, in the order of the fields, and raises none. `path` is the path of the
field in the document, such as `spec.taints`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from moorage.apiserver.rules.validation.fields import CheckedField
from moorage.decide.kubernetes import names
from moorage.decide.kubernetes.field_errors import ErrorKind, FieldError, forbidden, invalid, quote, required
from moorage.decide.taints.desired.from_conditions import parse_hold
from moorage.decide.taints.dialects.kubernetes import KUBERNETES, EffectRules
from moorage_schemas.resources.meta import ObjectMeta
from moorage_schemas.taint import Taint, Toleration, TolerationOperator

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
    field = CheckedField(labels, path)
    field.check_labels()
    return field.errors


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
) -> list[FieldError]:
    """Validate name, namespace and labels of an object. Names are DNS labels, or else DNS subdomains."""
    errors = validate_name(name, "metadata.name", dns_label=dns_label)
    if namespaced and not namespace:
        errors.append(required("metadata.namespace"))
    elif namespaced:
        errors.extend(validate_name(namespace, "metadata.namespace", dns_label=True))
    elif namespace:
        errors.append(forbidden("metadata.namespace", "not allowed on this type"))
    errors.extend(validate_labels(labels, "metadata.labels"))
    return errors


def _check_key(key: CheckedField, *, strict: bool) -> None:
    messages = names.check_qualified_name(key.text)
    key.broken(names.check_key_length(key.text) if strict and not messages else messages)


def validate_taints(
    taints: Sequence[Taint], path: str = "spec.taints", dialect: EffectRules = KUBERNETES
) -> list[FieldError]:
    """Validate a target's taints: keys, values, effects of the dialect, and no (key, effect) twice.

    A key has at most 253 bytes in all, as documented. Upstream's code allows more.
    """
    field = CheckedField([taint.model_dump(by_alias=True) for taint in taints], path)
    seen: set[tuple[str, str]] = set()
    for taint, at in zip(taints, field.each(), strict=True):
        _check_key(at["key"], strict=True)
        if rules := names.check_label_value(taint.value):
            at["value"].invalid(";".join(rules))
        at["effect"].check_one_of(dialect.effects)
        if taint.identity in seen:
            shown = _as_internal(taint) if dialect is KUBERNETES else _as_sent(taint)
            at.duplicate(shown, "taints must be unique by key and effect pair")
        seen.add(taint.identity)
    return field.errors


def _as_internal(taint: Taint) -> dict[str, Any]:
    """Return a taint as Kubernetes' errors show it: in its internal form, with all fields and capitalised names."""
    time = taint.model_dump(mode="json")["timeAdded"]
    return {"Key": taint.key, "Value": taint.value, "Effect": taint.effect, "TimeAdded": time}


def _as_sent(taint: Taint) -> dict[str, Any]:
    return {name: value for name, value in taint.model_dump(mode="json").items() if value}


def _check_integer(value: CheckedField) -> None:
    """Check the value of `Gt` or `Lt`: a canonical 64-bit decimal integer."""
    text = value.text
    if not text:
        value.invalid("must be non-empty")
    elif not _CANONICAL.fullmatch(text):
        value.invalid("must be a valid decimal integer in canonical form")
    # The API server makes two checks with two messages; the second one also checks the range.
    if not _DECIMAL.fullmatch(text):
        value.invalid(f"strconv.ParseInt: parsing {quote(text)}: invalid syntax")
    elif not _in_int64(text):
        value.invalid(f"strconv.ParseInt: parsing {quote(text)}: value out of range")


def _in_int64(value: str) -> bool:
    sign = "-" if value.startswith("-") else ""
    digits = value.lstrip("+-").lstrip("0") or "0"
    # Check the length first: Python refuses to parse very long integers, and none of them fits.
    return len(digits) <= len(str(2**63)) and -(2**63) <= int(sign + digits) < 2**63


def _check_operator(operator: CheckedField, value: CheckedField, *, comparison: bool) -> None:
    if operator.text in {"", _EQUAL}:
        # As in upstream, the path is `operator`, although the value is wrong.
        if rules := names.check_label_value(value.text):
            operator.invalid(";".join(rules), value.text)
    elif operator.text == _EXISTS:
        if value.text:
            operator.invalid("value must be empty when `operator` is 'Exists'", value.text)
    elif operator.text in _COMPARISONS and comparison:
        _check_integer(value)
    else:
        # Upstream lists the comparisons only if one was used. For an unknown operator it lists only the first two.
        operator.not_supported((_EQUAL, _EXISTS, *(_COMPARISONS if operator.text in _COMPARISONS else ())))


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
    field = CheckedField([toleration.model_dump(by_alias=True) for toleration in tolerations], path)
    for at in field.each():
        operator, effect = at["operator"], at["effect"]
        if at["key"].value:
            _check_key(at["key"], strict=strict)
        elif operator.value != _EXISTS:
            operator.invalid('operator must be Exists when `key` is empty, which means "match all values and all keys"')
        if at["tolerationSeconds"].value is not None and not strict and effect.value not in dialect.evicting:
            allowed = " or ".join(f"'{one}'" for one in sorted(dialect.evicting))
            effect.invalid(f"effect must be {allowed} when `tolerationSeconds` is set")
        _check_operator(operator, at["value"], comparison=comparison)
        effect.check_known(dialect.effects)
    return field.errors


_FINALIZERS: Final = "metadata.finalizers"
_MOST_SHOWN: Final = 65_536  # characters of owners in errors
_NO_OWNER: Final = ("v1", "Event")
_STANDARD: Final = frozenset({"kubernetes", "orphan", "foregroundDeletion"})
"""The finalizers whose names have no domain."""


def validate_ties(metadata: ObjectMeta) -> list[FieldError]:
    """Validate the owner references and the finalizers of an object, with Kubernetes' paths and messages."""
    owners = [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in metadata.owner_references or ()]
    field = CheckedField(owners, "metadata.ownerReferences")
    _check_owners(field)
    given = metadata.finalizers or []
    finalizers = CheckedField(given, _FINALIZERS, field.errors)
    for one in given:
        finalizers.broken(names.check_qualified_name(one), one)
    if {"orphan", "foregroundDeletion"} <= set(given):
        finalizers.invalid("finalizer orphan and foregroundDeletion cannot be both set")
    return field.errors


def without_domain(finalizers: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Return the finalizers without a domain, each with its place. Another program may use the same name."""
    return ((i, one) for i, one in enumerate(finalizers) if "/" not in one and one not in _STANDARD)


def validate_domains(finalizers: Sequence[str], present: Collection[str]) -> list[FieldError]:
    """Validate that new finalizers have a domain. An API server requires it only of its built-in kinds.

    An older release may have accepted those that are `present`.
    """
    rule = "name is neither a standard finalizer name nor is it fully qualified"
    known = frozenset(present)
    return [invalid(f"{_FINALIZERS}[{i}]", one, rule) for i, one in without_domain(finalizers) if one not in known]


def _check_owners(owners: CheckedField) -> None:
    controller, shown, room = "", list[dict[str, object]](), 0
    for owner in owners.each():
        if owner["apiVersion"].text.count("/") > 1:
            owner["apiVersion"].invalid("must be <group>/<version> or <version>")
        for field in ("apiVersion", "kind", "name", "uid"):
            owner[field].check_set("must not be empty")
        if (owner["apiVersion"].value, owner["kind"].value) == _NO_OWNER:
            owner.invalid("/v1, Kind=Event is disallowed from being an owner", _shown(owner))
        if owner["controller"].value:
            named = f"{owner['kind'].text}/{owner['name'].text}"
            if controller and not shown:
                shown = [_shown(one) for one in owners.each()]
                # Each error shows all owners: a short request gets no long answer, and at least one error.
                room = max(1, _MOST_SHOWN // len(json.dumps(shown)))
            if controller and room:
                rule = (
                    "Only one reference can have Controller set to true. "
                    f'Found "true" in references for {controller} and {named}'
                )
                owners.invalid(rule, shown)
                room -= 1
            controller = controller or named


def _shown(owner: CheckedField) -> dict[str, object]:
    """Return an owner as messages show it: without unset fields, apart from those that must be set."""
    return {"apiVersion": "", "kind": "", "name": "", "uid": "", **owner.fields}
