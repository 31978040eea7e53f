"""Validation of Moorage's own kinds and of disruption budgets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from moorage.apiserver.rules.machine_sets import CAPACITY
from moorage.apiserver.rules.validation.core import (
    validate_label_selector,
    validate_labels,
    validate_name,
    validate_taints,
)
from moorage.apiserver.rules.validation.fields import amount, not_more_than_all
from moorage.decide.conditions import grants
from moorage.decide.kubernetes import names
from moorage.decide.kubernetes.field_errors import FieldError, duplicate, invalid, not_supported, required
from moorage.decide.kubernetes.selectors import matches_labels
from moorage.decide.taints.dialects.kubernetes import KUBERNETES
from moorage_schemas.keys import split_cluster
from moorage_schemas.refs import TargetKind
from moorage_schemas.resources.budgets import (
    Amount,
    EvictionBudgetSpec,
    EvictionPauseSpec,
    PodDisruptionBudgetSpec,
    Scope,
)
from moorage_schemas.resources.machines import MachineSet
from moorage_schemas.resources.probe_grants import ProbeGrantSpec, ProbeKey, ProbeLimits, ProbeSubject, ProbeTargets
from moorage_schemas.resources.webhook import WebhookSpec

_WHOLE: Final = re.compile(r"[0-9]{1,18}")
_UNHEALTHY_POLICIES: Final = ("AlwaysAllow", "IfHealthyBudget")
_NOT_NEGATIVE: Final = "must be greater than or equal to 0"


def validate_amount(value: Amount | None, path: str) -> list[FieldError]:
    """Validate a non-negative number, or a percentage of at most 100. An absent amount is valid."""
    return [*amount(value, path), *not_more_than_all(value, path)]


def validate_disruption_budget(spec: PodDisruptionBudgetSpec) -> list[FieldError]:
    """Validate a `PodDisruptionBudget`: exactly one of the two amounts, and the selector."""
    errors: list[FieldError] = []
    if spec.min_available is not None and spec.max_unavailable is not None:
        rule = "minAvailable and maxUnavailable cannot be both set"
        errors.append(invalid("spec", _internal(spec), rule))
    elif spec.min_available is None and spec.max_unavailable is None:
        errors.append(required("spec.minAvailable", "one of minAvailable and maxUnavailable must be set"))
    errors += validate_amount(spec.min_available, "spec.minAvailable")
    errors += validate_amount(spec.max_unavailable, "spec.maxUnavailable")
    errors += validate_label_selector(spec.selector, "spec.selector")
    policy = (spec.model_extra or {}).get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in _UNHEALTHY_POLICIES:
        errors.append(not_supported("spec.unhealthyPodEvictionPolicy", policy, _UNHEALTHY_POLICIES))
    return errors


def _internal(spec: PodDisruptionBudgetSpec) -> dict[str, Any]:
    """The spec in the form in which an API server shows it in messages: with capitals, and all of its fields."""
    selector = spec.selector
    return {
        "MinAvailable": spec.min_available,
        "Selector": None if selector is None else selector.model_dump(by_alias=True, exclude_none=True),
        "MaxUnavailable": spec.max_unavailable,
        "UnhealthyPodEvictionPolicy": (spec.model_extra or {}).get("unhealthyPodEvictionPolicy"),
    }


def validate_eviction_budget(spec: EvictionBudgetSpec) -> list[FieldError]:
    """Validate an `EvictionBudget`: at least one amount, and the scope."""
    errors: list[FieldError] = []
    if spec.max_concurrent is None and spec.max_in_window is None:
        errors.append(required("spec.maxConcurrent", "at least one of maxConcurrent and maxInWindow must be set"))
    errors += validate_amount(spec.max_concurrent, "spec.maxConcurrent")
    errors += validate_amount(spec.max_in_window, "spec.maxInWindow")
    return errors + validate_scope(spec.scope, "spec.scope")


def validate_eviction_pause(spec: EvictionPauseSpec) -> list[FieldError]:
    """Validate an `EvictionPause`: its scope."""
    return validate_scope(spec.scope, "spec.scope")


def validate_scope(scope: Scope, path: str) -> list[FieldError]:
    """Validate a scope: each entry must have the one accepted format."""
    lists = (("namespaces", scope.namespaces), ("zones", scope.zones), ("targets", scope.targets))
    errors = [
        invalid(f"{path}.{field}", listed, "must have at least one item; leave it out to mean all of them")
        for field, listed in (*lists, ("workloads", scope.workloads))
        if listed == []
    ]
    for i, namespace in enumerate(scope.namespaces or ()):
        errors += validate_name(namespace, f"{path}.namespaces[{i}]", dns_label=True)
    for i, zone in enumerate(scope.zones or ()):
        errors += _zone(zone, f"{path}.zones[{i}]")
    for i, target in enumerate(scope.targets or ()):
        errors += _target(target, f"{path}.targets[{i}]")
    for i, workload in enumerate(scope.workloads or ()):
        errors += _workload(workload, f"{path}.workloads[{i}]")
    return errors + validate_label_selector(scope.selector, f"{path}.selector")


def _zone(zone: str, path: str) -> list[FieldError]:
    cluster, rest = split_cluster(zone)
    parts = rest.split("/")
    if len(parts) != 2:  # noqa: PLR2004 - region and zone
        return [invalid(path, zone, "must be region/zone, such as eu/eu-1; / for targets without either")]
    messages = [*_cluster(cluster), *(message for part in parts for message in names.check_label_value(part))]
    return [invalid(path, zone, message) for message in messages]


def _target(target: str, path: str) -> list[FieldError]:
    cluster, rest = split_cluster(target)
    kind, slash, name = rest.partition("/")
    if not slash or "/" in name:
        return [invalid(path, target, "must be Kind/name, such as Node/n1")]
    if kind not in {known.value for known in TargetKind}:
        rule = f"must be Kind/name with one of the kinds {', '.join(known.value for known in TargetKind)}"
        return [invalid(path, target, rule)]
    return [invalid(path, target, message) for message in (*_cluster(cluster), *names.check_dns_subdomain(name))]


def _cluster(name: str) -> Iterable[str]:
    """The rules that the name of a cluster before a colon breaks. Empty stands for the home fleet."""
    return names.check_dns_subdomain(name) if name else ()


def _workload(workload: str, path: str) -> list[FieldError]:
    cluster, rest = split_cluster(workload)
    parts = rest.split("/")
    if len(parts) != 3 or not parts[0] or not parts[2]:  # noqa: PLR2004 - kind, namespace, name
        return [invalid(path, workload, "must be Kind/namespace/name, such as Deployment/shop/web")]
    _, namespace, name = parts
    messages = [
        *_cluster(cluster),
        *(names.check_dns_label(namespace) if namespace else ()),
        *names.check_dns_subdomain(name),
    ]
    return [invalid(path, workload, message) for message in messages]


def validate_machine_set(machine_set: MachineSet) -> list[FieldError]:
    """Validate a `MachineSet`: the number of nodes and their template."""
    spec = machine_set.spec
    template = spec.template
    errors = _capacities(machine_set.metadata.annotations or {}, "metadata.annotations")
    if spec.replicas is not None and spec.replicas < 0:
        errors.append(invalid("spec.replicas", spec.replicas, _NOT_NEGATIVE))
    errors += validate_label_selector(spec.selector, "spec.selector")
    labels = template.metadata.labels or {}
    if spec.selector is not None and not matches_labels(spec.selector, labels):
        path = "spec.template.metadata.labels"
        errors.append(invalid(path, labels, "`selector` does not match template `labels`"))
    errors += validate_labels(labels, "spec.template.metadata.labels")
    errors += validate_labels(template.spec.metadata.labels or {}, "spec.template.spec.metadata.labels")
    return errors + validate_taints(template.spec.taints or [], "spec.template.spec.taints", KUBERNETES)


def _capacities(annotations: Mapping[str, str], path: str) -> list[FieldError]:
    return [
        invalid(f"{path}[{name}]", annotations[name], "must be a whole number, not negative")
        for name in CAPACITY
        if name in annotations and not _WHOLE.fullmatch(annotations[name])
    ]


_FILE: Final = re.compile(r"[A-Za-z0-9]([-._A-Za-z0-9]{0,252})")
_MAX_URL: Final = 2048


def validate_webhook(spec: WebhookSpec) -> list[FieldError]:
    """Validate a `Webhook`: its URL, the name of its file of secrets, its filters, and the time of a replay."""
    errors = _url(spec)
    if not spec.secret_file:
        errors.append(required("spec.secretFile", "names a file in the worker's folder of secrets"))
    elif not _FILE.fullmatch(spec.secret_file):
        rule = "must be the name of a file: letters, digits, '-', '_' and '.', beginning with a letter or digit"
        errors.append(invalid("spec.secretFile", spec.secret_file, rule))
    if not spec.events:
        errors.append(required("spec.events", "at least one must be named"))
    errors += [
        duplicate(f"spec.events[{number}]", event.value)
        for number, event in enumerate(spec.events)
        if event in spec.events[:number]
    ]
    for number, target in enumerate(spec.targets or ()):
        kind, slash, name = target.partition("/")
        if not slash or not name or kind not in set(TargetKind):
            rule = f"must be a kind ({', '.join(TargetKind)}), a slash, and a name or pattern, such as Node/*"
            errors.append(invalid(f"spec.targets[{number}]", target, rule))
    if spec.replay is not None and spec.replay.since > spec.replay.until:
        errors.append(
            invalid("spec.replay.since", spec.replay.since.isoformat(), "must not be after spec.replay.until")
        )
    return errors


def _url(spec: WebhookSpec) -> list[FieldError]:
    path = "spec.url"
    if not spec.url:
        return [required(path, "is where events are sent")]
    try:
        url = urlsplit(spec.url)
        host, _ = url.hostname, url.port
    except ValueError as error:
        return [invalid(path, spec.url, f"must be a URL: {error}")]
    rule = ""
    if len(spec.url) > _MAX_URL or not spec.url.isascii() or not spec.url.isprintable() or " " in spec.url:
        rule = f"must be at most {_MAX_URL} printable ASCII characters without spaces"
    elif url.scheme not in {"http", "https"} or not host:
        rule = "must be https://HOST/…, or http://HOST/…"
    elif url.username is not None or url.password is not None:
        return [FieldError(path, invalid(path, "", "").kind, "…", "must have no user or password")]
    elif url.fragment:
        rule = "must have no fragment"
    elif url.scheme == "http" and not spec.allow_insecure and not _is_loopback(url):
        rule = "must be https, unless the host is loopback or spec.allowInsecure is true"
    return [invalid(path, spec.url, rule)] if rule else []


def _is_loopback(url: SplitResult) -> bool:
    host = url.hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


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
    elif grants.public_key(key.public_key) is None:
        errors.append(invalid(f"{path}.publicKey", key.public_key, grants.RULE))
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
