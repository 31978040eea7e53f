"""Validation of roles and their bindings, with Kubernetes' rules and messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from moorage.apiserver.rules.validation.fields import CheckedField
from moorage.decide.kubernetes import names
from moorage.decide.kubernetes.field_errors import ErrorKind, FieldError, invalid, required
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
    found = CheckedField(role.model_extra or {})
    rules = found["rules"]
    if rules.value is not None and not isinstance(rules.value, list):
        rules.invalid("must be a list")
    for rule in rules.each():
        _check_rule(rule, whole=whole)
    if whole and found["aggregationRule"].is_object:
        _check_selectors(found["aggregationRule"]["clusterRoleSelectors"])
    return _in_order(found.errors)


def _in_order(errors: Sequence[FieldError]) -> list[FieldError]:
    """Return errors in Kubernetes' order: those that it finds by the marks of a type are last."""

    def is_declared(error: FieldError) -> bool:
        return error.kind is ErrorKind.REQUIRED and not error.detail and error.path.endswith((".verbs", ".name"))

    return sorted(errors, key=is_declared)


def _check_selectors(selectors: CheckedField) -> None:
    if not selectors.value:
        selectors.required("at least one clusterRoleSelector required if aggregationRule is non-nil")
    for selector in selectors.objects():
        known = len(selector.errors)
        selector.check_label_selector()
        if len(selector.errors) > known:
            selector.invalid("invalid label selector.", None)


def _check_rule(rule: CheckedField, *, whole: bool) -> None:
    if not rule.is_object:
        rule.invalid("must be an object")
        return
    fields = [rule[name] for name in ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")]
    wrong = [field for field in fields if not _is_texts(field.value)]
    for field in wrong:
        field.invalid("must be a list of texts")
    if wrong:
        return
    verbs, groups, resources, named, urls = fields
    verbs.check_set()
    if not urls.value:
        groups.check_set("resource rules must supply at least one api group")
        resources.check_set("resource rules must supply at least one resource")
        return
    if not whole:
        urls.invalid("namespaced rules cannot apply to non-resource URLs")
    if groups.value or resources.value or named.value:
        urls.invalid("rules cannot apply to both regular resources and non-resource URLs")


def _is_texts(found: Any) -> bool:
    return found is None or (isinstance(found, list) and all(isinstance(one, str) for one in found))


def validate_role_binding(binding: Resource, roles: Sequence[str], *, whole: bool) -> list[FieldError]:
    """Validate a binding."""
    found = CheckedField(binding.model_extra or {})
    group, kind, name = (found["roleRef"][field] for field in ("apiGroup", "kind", "name"))
    if group.value:
        group.check_supported((_GROUP,))
    if kind.value not in roles:
        kind.not_supported(roles, kind.value or "")
    if name.check_set():
        name.check(validate_path_name(str(name.value), name.path))
    for subject in found["subjects"].each():
        _check_subject(subject, whole=whole)
    return _in_order(found.errors)


def validate_role_binding_update(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
    """Validate that a change of a binding keeps its role."""
    old, new = (_role_ref(one) for one in (before, after))
    return [] if old == new else [invalid("roleRef", new, "field is immutable")]


def _role_ref(binding: Mapping[str, Any]) -> dict[str, str]:
    ref = CheckedField(binding)["roleRef"].fields
    group, kind, name = (str(ref.get(field) or "") for field in ("apiGroup", "kind", "name"))
    return {"APIGroup": group or _GROUP, "Kind": kind, "Name": name}


def _check_subject(subject: CheckedField, *, whole: bool) -> None:
    if not subject.is_object:
        subject.invalid("must be an object")
        return
    kind, group = (str(subject.fields.get(field) or "") for field in ("kind", "apiGroup"))
    is_named = subject["name"].check_set()
    if kind not in _SUBJECTS:
        subject["kind"].not_supported(_SUBJECTS, kind)
    elif kind == _ACCOUNT:
        if is_named:
            subject["name"].check_dns_subdomain()
        if group:
            subject["apiGroup"].not_supported(("",), group)
        if whole:
            subject["namespace"].check_set()
    elif group not in {"", _GROUP}:
        subject["apiGroup"].not_supported((_GROUP,), group)
