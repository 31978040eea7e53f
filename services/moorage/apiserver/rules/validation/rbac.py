"""Validation of roles and their bindings, with Kubernetes' rules and messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from moorage.apiserver.rules.validation.fields import dns_subdomain, label_selector, objects
from moorage.decide.kubernetes import names
from moorage.decide.kubernetes.field_errors import ErrorKind, FieldError, invalid, not_supported, required
from moorage_schemas.resources.meta import Resource

_GROUP: Final = "rbac.authorization.k8s.io"
_ACCOUNT: Final = "ServiceAccount"
_SUBJECTS: Final = (_ACCOUNT, "User", "Group")


def validate_path_name(name: str, path: str = "metadata.name") -> list[FieldError]:
    """Validate the name of a role or a binding, which must be a valid path segment."""
    if not name:
        return [required(path, "name or generateName is required")]
    return [invalid(path, name, rule) for rule in names.check_path_segment(name)]


def validate_role(role: Resource, *, whole: bool) -> list[FieldError]:
    """Validate a role. `whole` states whether it applies to all namespaces."""
    said: Mapping[str, Any] = role.model_extra or {}
    found = [*_rules(said.get("rules"), "rules", whole=whole), *(_aggregation(said) if whole else ())]
    return [*(one for one in found if not _is_declared(one)), *filter(_is_declared, found)]


def _is_declared(error: FieldError) -> bool:
    """Whether Kubernetes finds an error by the marks of a type. It tells such ones last."""
    return error.kind is ErrorKind.REQUIRED and not error.detail and error.path.endswith((".verbs", ".name"))


def _aggregation(said: Mapping[str, Any]) -> Iterator[FieldError]:
    rule = said.get("aggregationRule")
    if not isinstance(rule, Mapping):
        return
    path = "aggregationRule.clusterRoleSelectors"
    if not rule.get("clusterRoleSelectors"):
        yield required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil")
    for selector, at in objects(rule, "clusterRoleSelectors", path):
        errors = list(label_selector(selector, at))
        yield from errors
        if errors:
            yield invalid(at, None, "invalid label selector.")


def _rules(rules: Any, path: str, *, whole: bool) -> list[FieldError]:
    if rules is None:
        return []
    if not isinstance(rules, list):
        return [invalid(path, rules, "must be a list")]
    errors: list[FieldError] = []
    for i, rule in enumerate(rules):
        at = f"{path}[{i}]"
        if not isinstance(rule, Mapping):
            errors.append(invalid(at, rule, "must be an object"))
            continue
        wrong = [
            name
            for name in ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")
            if not _texts(rule.get(name))
        ]
        if wrong:
            errors += [invalid(f"{at}.{name}", rule[name], "must be a list of texts") for name in wrong]
            continue
        errors += _rule(rule, at, whole=whole)
    return errors


def _texts(found: Any) -> bool:
    return found is None or (isinstance(found, list) and all(isinstance(one, str) for one in found))


def _rule(rule: Mapping[str, Any], at: str, *, whole: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    if not rule.get("verbs"):
        errors.append(required(f"{at}.verbs"))
    if rule.get("nonResourceURLs"):
        if not whole:
            text = "namespaced rules cannot apply to non-resource URLs"
            errors.append(invalid(f"{at}.nonResourceURLs", rule["nonResourceURLs"], text))
        if any(rule.get(name) for name in ("apiGroups", "resources", "resourceNames")):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            errors.append(invalid(f"{at}.nonResourceURLs", rule["nonResourceURLs"], text))
        return errors
    if not rule.get("apiGroups"):
        errors.append(required(f"{at}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        errors.append(required(f"{at}.resources", "resource rules must supply at least one resource"))
    return errors


def validate_role_binding(binding: Resource, roles: Sequence[str], *, whole: bool) -> list[FieldError]:
    """Validate a binding.

    Args:
        binding: the binding.
        roles: the kinds of roles that it may give.
        whole: whether it applies to all namespaces.
    """
    said: Mapping[str, Any] = binding.model_extra or {}
    ref = said.get("roleRef")
    ref = ref if isinstance(ref, Mapping) else {}
    errors: list[FieldError] = []
    if ref.get("apiGroup") not in {None, "", _GROUP}:
        errors.append(not_supported("roleRef.apiGroup", ref["apiGroup"], (_GROUP,)))
    if ref.get("kind") not in roles:
        errors.append(not_supported("roleRef.kind", ref.get("kind") or "", roles))
    name = ref.get("name")
    errors += validate_path_name(str(name), "roleRef.name") if name else [required("roleRef.name")]
    subjects = said.get("subjects") or []
    for i, subject in enumerate(subjects if isinstance(subjects, list) else ()):
        errors += _subject(subject, f"subjects[{i}]", whole=whole)
    return [*(one for one in errors if not _is_declared(one)), *filter(_is_declared, errors)]


def validate_role_binding_update(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
    """Validate a change of a binding, which keeps its role."""
    old, new = (_role_ref(one) for one in (before, after))
    return [] if old == new else [invalid("roleRef", new, "field is immutable")]


def _role_ref(binding: Mapping[str, Any]) -> dict[str, str]:
    found = binding.get("roleRef")
    ref = found if isinstance(found, Mapping) else {}
    group, kind, name = (str(ref.get(field) or "") for field in ("apiGroup", "kind", "name"))
    return {"APIGroup": group or _GROUP, "Kind": kind, "Name": name}


def _subject(subject: Any, at: str, *, whole: bool) -> Iterator[FieldError]:
    if not isinstance(subject, Mapping):
        yield invalid(at, subject, "must be an object")
        return
    kind, name, group = (str(subject.get(field) or "") for field in ("kind", "name", "apiGroup"))
    if not name:
        yield required(f"{at}.name")
    if kind not in _SUBJECTS:
        yield not_supported(f"{at}.kind", kind, _SUBJECTS)
    elif kind == _ACCOUNT:
        yield from dns_subdomain(name, f"{at}.name") if name else ()
        if group:
            yield not_supported(f"{at}.apiGroup", group, ("",))
        if whole and not subject.get("namespace"):
            yield required(f"{at}.namespace")
    elif group not in {"", _GROUP}:
        yield not_supported(f"{at}.apiGroup", group, (_GROUP,))
