"""Validation of Moorage's own kinds and of disruption budgets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from moorage.apiserver.rules.machine_sets import CAPACITY
from moorage.apiserver.rules.validation.core import validate_duration, validate_name, validate_taints
from moorage.apiserver.rules.validation.fields import CheckedField, read
from moorage.apiserver.rules.validation.match_conditions import check_match_conditions
from moorage.decide.conditions import grants
from moorage.decide.kubernetes import names
from moorage.decide.kubernetes.durations import seconds_of
from moorage.decide.kubernetes.field_errors import FieldError
from moorage.decide.kubernetes.recurring_windows import cron_problem, duration_problem, zone_problem
from moorage.decide.kubernetes.selectors import matches_labels
from moorage.decide.taints.desired.taint_policies import EVERY_CLUSTER
from moorage.decide.taints.dialects.kubernetes import KUBERNETES
from moorage.decide.taints.dialects.table import DIALECTS
from moorage_schemas.keys import split_cluster
from moorage_schemas.refs import TargetKind
from moorage_schemas.resources.budgets import EvictionBudgetSpec, EvictionPauseSpec, PodDisruptionBudgetSpec
from moorage_schemas.resources.machines import MachineSet
from moorage_schemas.resources.maintenances import MaintenanceSpec
from moorage_schemas.resources.probe_grants import ProbeGrantSpec
from moorage_schemas.resources.taint_policies import TaintPolicy
from moorage_schemas.resources.webhook import WebhookSpec

_WHOLE: Final = re.compile(r"[0-9]{1,18}")
_UNHEALTHY_POLICIES: Final = ("AlwaysAllow", "IfHealthyBudget")
_AT_LEAST_ONE: Final = "must have at least one item"
_ALL_IF_ABSENT: Final = "must have at least one item; leave it out to mean all of them"
_KINDS: Final = tuple(kind.value for kind in TargetKind)


def _check_amounts(*amounts: CheckedField) -> None:
    """Check non-negative numbers, or percentages of at most 100. None is valid."""
    for amount in amounts:
        amount.check_amount()
        amount.check_not_more_than_all()


def validate_disruption_budget(spec: PodDisruptionBudgetSpec) -> list[FieldError]:
    """Validate a `PodDisruptionBudget`: at most one of the two amounts, and the selector.

    With neither, no eviction is allowed, as in Kubernetes.
    """
    found = read(spec, "spec")
    least, most, policy = found["minAvailable"], found["maxUnavailable"], found["unhealthyPodEvictionPolicy"]
    if least.value is not None and most.value is not None:
        found.invalid("minAvailable and maxUnavailable cannot be both set", _internal(spec))
    _check_amounts(least, most)
    found["selector"].check_label_selector()
    if policy.value is not None:
        policy.check_supported(_UNHEALTHY_POLICIES)
    return found.errors


def _internal(spec: PodDisruptionBudgetSpec) -> dict[str, Any]:
    """Return the spec as an API server's messages show it: with capitals, and all of its fields."""
    selector = spec.selector
    return {
        "MinAvailable": spec.min_available,
        "Selector": None if selector is None else selector.model_dump(by_alias=True, exclude_none=True),
        "MaxUnavailable": spec.max_unavailable,
        "UnhealthyPodEvictionPolicy": (spec.model_extra or {}).get("unhealthyPodEvictionPolicy"),
    }


def validate_eviction_budget(spec: EvictionBudgetSpec) -> list[FieldError]:
    """Validate an `EvictionBudget`: at least one amount, and the scope."""
    found = read(spec, "spec")
    at_once, in_window = found["maxConcurrent"], found["maxInWindow"]
    if at_once.value is None and in_window.value is None:
        at_once.required("at least one of maxConcurrent and maxInWindow must be set")
    _check_amounts(at_once, in_window)
    _check_applies(found)
    return found.errors


def validate_eviction_pause(spec: EvictionPauseSpec) -> list[FieldError]:
    """Validate the scope, the schedule and the reasons of an `EvictionPause`."""
    found = read(spec, "spec")
    _check_applies(found)
    return found.errors


def _check_applies(guard: CheckedField) -> None:
    """Check which evictions a guard applies to, and when."""
    _check_scope(guard["scope"])
    schedule, reasons = guard["schedule"], guard["reasons"]
    if schedule.is_object:
        check_schedule(schedule)
    if reasons.value == []:
        reasons.invalid(_ALL_IF_ABSENT)
    seen: set[str] = set()
    for reason in reasons.each():
        reason.check_unique(seen)


def check_schedule(schedule: CheckedField) -> None:
    """Check a cron expression, its time zone, and the length of its windows."""
    for name, problem_of in (("cron", cron_problem), ("timeZone", zone_problem), ("duration", duration_problem)):
        field = schedule[name]
        if field.check_set() and (problem := problem_of(field.text)):
            field.invalid(problem)


def validate_maintenance(spec: MaintenanceSpec) -> list[FieldError]:
    """Validate a `Maintenance`: its targets, its window, durations and amounts."""
    found = read(spec, "spec")
    targets, window = found["targets"], found["window"]
    targets["kind"].check_supported((TargetKind.NODE.value,))
    for name in ("names", "zones"):
        if targets[name].value == []:
            targets[name].invalid(_ALL_IF_ABSENT)
    for one in targets["names"].each():
        one.check_dns_subdomain()
    for zone in targets["zones"].each():
        zone.broken(_zone(zone.text))
    targets["selector"].check_label_selector()
    if (window["start"].value is None) == (window["cron"].value is None):
        window.invalid("exactly one of start and cron must be set", spec.window.model_dump(mode="json", by_alias=True))
    elif window["start"].value is None:
        check_schedule(window)
    elif window["duration"].check_set() and (problem := duration_problem(spec.window.duration)):
        window["duration"].invalid(problem)
    for name in ("drainDeadline", "releaseAfter"):
        if found[name].value is not None and seconds_of(found[name].text) is None:
            found[name].invalid("must be a duration, such as 90m")
    _check_amounts(found["maxAtOnce"], found["minHealthy"])
    return found.errors


def _check_scope(scope: CheckedField) -> None:
    """Check a scope: each entry must have the one accepted format."""
    for name in ("namespaces", "zones", "targets", "workloads"):
        if scope[name].value == []:
            scope[name].invalid(_ALL_IF_ABSENT)
    for namespace in scope["namespaces"].each():
        scope.check(validate_name(namespace.value, namespace.path, dns_label=True))
    for zone in scope["zones"].each():
        zone.broken(_zone(zone.text))
    for target in scope["targets"].each():
        target.broken(_target(target.text))
    for workload in scope["workloads"].each():
        workload.broken(_workload(workload.text))
    scope["selector"].check_label_selector()


def _zone(zone: str) -> list[str]:
    cluster, rest = split_cluster(zone)
    parts = rest.split("/")
    if len(parts) != 2:  # noqa: PLR2004 - region and zone
        return ["must be region/zone, such as eu/eu-1; / for targets without either"]
    return [*_cluster(cluster), *(message for part in parts for message in names.check_label_value(part))]


def _target(target: str) -> list[str]:
    cluster, rest = split_cluster(target)
    kind, slash, name = rest.partition("/")
    if not slash or "/" in name:
        return ["must be Kind/name, such as Node/n1"]
    if kind not in _KINDS:
        return [f"must be Kind/name with one of the kinds {', '.join(_KINDS)}"]
    return [*_cluster(cluster), *names.check_dns_subdomain(name)]


def _cluster(name: str) -> Iterable[str]:
    """Return the rules that the name of a cluster before a colon breaks. Empty stands for the home fleet."""
    return names.check_dns_subdomain(name) if name else ()


def _workload(workload: str) -> list[str]:
    cluster, rest = split_cluster(workload)
    parts = rest.split("/")
    if len(parts) != 3 or not parts[0] or not parts[2]:  # noqa: PLR2004 - kind, namespace, name
        return ["must be Kind/namespace/name, such as Deployment/shop/web"]
    _, namespace, name = parts
    of_namespace = names.check_dns_label(namespace) if namespace else ()
    return [*_cluster(cluster), *of_namespace, *names.check_dns_subdomain(name)]


def validate_taint_policy(policy: TaintPolicy) -> list[FieldError]:
    """Validate a `TaintPolicy`: its targets, conditions and holds, and taints with effects that such targets have."""
    found = read(policy)
    spec = found["spec"]
    targets = spec["targets"]
    targets["kind"].check_supported(_KINDS)
    targets["selector"].check_label_selector()
    if targets["names"].value == []:
        targets["names"].invalid(_ALL_IF_ABSENT)
    for name in (*targets["names"].each(), *targets["exclude"].each()):
        name.broken(names.check_dns_subdomain(name.text))
    if targets["cluster"].value not in {"", EVERY_CLUSTER}:
        targets.check(validate_name(targets["cluster"].text, targets["cluster"].path))
    check_match_conditions(spec)
    for hold in (spec["addHold"], spec["removeHold"]):
        if hold.value is not None:
            hold.check(validate_duration(hold.value, hold.path))
    dialect = DIALECTS.get(targets["kind"].text)
    if dialect is not None:
        found.check(validate_taints(policy.spec.taints, "spec.taints", dialect))
    return found.errors


def validate_machine_set(machine_set: MachineSet) -> list[FieldError]:
    """Validate a `MachineSet`: the number of nodes and their template."""
    found = read(machine_set)
    annotations, spec, template = found["metadata"]["annotations"], found["spec"], found["spec"]["template"]
    labels, selector = template["metadata"]["labels"], machine_set.spec.selector
    for name in CAPACITY:
        if name in annotations.fields and not _WHOLE.fullmatch(annotations.fields[name]):
            annotations.at(name, annotations.fields[name]).invalid("must be a whole number, not negative")
    spec.check_not_negative("replicas")
    spec["selector"].check_label_selector()
    if selector is not None and not matches_labels(selector, labels.fields):
        labels.invalid("`selector` does not match template `labels`", labels.fields)
    labels.check_labels()
    template["spec"]["metadata"]["labels"].check_labels()
    taints = machine_set.spec.template.spec.taints or []
    found.check(validate_taints(taints, "spec.template.spec.taints", KUBERNETES))
    return found.errors


_FILE: Final = re.compile(r"[A-Za-z0-9]([-._A-Za-z0-9]{0,252})")
_MAX_URL: Final = 2048


def validate_webhook(spec: WebhookSpec) -> list[FieldError]:
    """Validate a `Webhook`: its URL, the name of its file of secrets, its filters, and the time of a replay."""
    found = read(spec, "spec")
    file, events, replay = found["secretFile"], found["events"], found["replay"]
    if found["url"].check_set("is where events are sent"):
        _check_url(found["url"], allow_insecure=spec.allow_insecure)
    if file.check_set("names a file in the worker's folder of secrets") and not _FILE.fullmatch(file.text):
        file.invalid("must be the name of a file: letters, digits, '-', '_' and '.', beginning with a letter or digit")
    events.check_set("at least one must be named")
    seen: set[str] = set()
    for event in events.each():
        event.check_unique(seen)
    for target in found["targets"].each():
        kind, slash, name = target.text.partition("/")
        if not slash or not name or kind not in _KINDS:
            target.invalid(f"must be a kind ({', '.join(_KINDS)}), a slash, and a name or pattern, such as Node/*")
    if replay.is_object and replay["since"].value > replay["until"].value:
        replay["since"].invalid("must not be after spec.replay.until", replay["since"].value.isoformat())
    return found.errors


def _check_url(field: CheckedField, *, allow_insecure: bool) -> None:
    text = field.text
    try:
        url = urlsplit(text)
        host, _ = url.hostname, url.port
    except ValueError as error:
        field.invalid(f"must be a URL: {error}")
        return
    if len(text) > _MAX_URL or not text.isascii() or not text.isprintable() or " " in text:
        field.invalid(f"must be at most {_MAX_URL} printable ASCII characters without spaces")
    elif url.scheme not in {"http", "https"} or not host:
        field.invalid("must be https://HOST/…, or http://HOST/…")
    elif url.username is not None or url.password is not None:
        field.invalid("must have no user or password", "…")
    elif url.fragment:
        field.invalid("must have no fragment")
    elif url.scheme == "http" and not allow_insecure and not _is_loopback(url):
        field.invalid("must be https, unless the host is loopback or spec.allowInsecure is true")


def _is_loopback(url: SplitResult) -> bool:
    host = url.hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


_ACCOUNT: Final = "ServiceAccount"
_SUBJECTS: Final = (_ACCOUNT, "User", "Group")
_RBAC: Final = "rbac.authorization.k8s.io"
_LONGEST: Final = 253  # characters of a source, a name, a type
_MOST: Final = 1000  # entries of a list
_LONGEST_ID: Final = 63
_LARGEST: Final = 1_000_000  # reports, for each second or at once


def validate_probe_grant(spec: ProbeGrantSpec) -> list[FieldError]:
    """Validate a grant."""
    found = read(spec, "spec")
    subjects, targets, conditions, keys = (found[name] for name in ("subjects", "targets", "conditions", "keys"))
    _check_pattern(found["source"])
    targets.check_set(_AT_LEAST_ONE)
    conditions.check_set(_AT_LEAST_ONE)
    for listed in (subjects, targets, conditions, keys):
        if len(listed.items) > _MOST:
            listed.invalid(f"must have at most {_MOST} items", len(listed.items))
    for subject in subjects.each():
        _check_subject(subject)
    for target in targets.each():
        _check_targets(target)
    for condition in conditions.each():
        _check_pattern(condition)
    seen: set[str] = set()
    for key in keys.each():
        _check_key(key["id"], key["publicKey"])
        key["id"].check_unique(seen)
    if found["limits"].is_object:
        _check_limits(found["limits"])
    return found.errors


def _check_pattern(pattern: CheckedField) -> bool:
    """Check a pattern, and return whether it is valid."""
    if not pattern.check_set():
        return False
    if len(pattern.text) > _LONGEST:
        pattern.invalid(f"must have at most {_LONGEST} characters")
    elif not pattern.text.isprintable():
        pattern.invalid("must consist of printable characters")
    else:
        return True
    return False


def _check_subject(subject: CheckedField) -> None:
    kind = subject["kind"].value
    if kind not in _SUBJECTS:
        subject["kind"].not_supported(_SUBJECTS)
        return
    subject["name"].check_set()
    subject["apiGroup"].check_supported(("",) if kind == _ACCOUNT else ("", _RBAC))
    if kind == _ACCOUNT:
        subject["namespace"].check_set()


def _check_targets(targets: CheckedField) -> None:
    targets["kind"].check_supported(_KINDS)
    if targets["names"].value == []:
        targets["names"].invalid(_ALL_IF_ABSENT)
    for name in targets["names"].each():
        # A name in which each `*` is a letter must be one that a target can have.
        if _check_pattern(name):
            name.broken(error.detail for error in validate_name(name.text.replace("*", "a"), name.path))
    if targets["cluster"].value:
        targets.check(validate_name(targets["cluster"].text, targets["cluster"].path))
    targets["selector"].check_label_selector()


def _check_key(identity: CheckedField, public: CheckedField) -> None:
    text = identity.text
    if identity.check_set() and (
        len(text) > _LONGEST_ID or not text.isascii() or not text.isprintable() or " " in text
    ):
        identity.invalid(f"must have at most {_LONGEST_ID} printable ASCII characters, and no space")
    if public.check_set() and grants.public_key(public.text) is None:
        public.invalid(grants.RULE)


def _check_limits(limits: CheckedField) -> None:
    limits["qps"].check_within(1, _LARGEST, "must be between {} and {}")
    limits["burst"].check_within(1, _LARGEST, "must be between {} and {}")
    if limits["burst"].value is not None and limits["qps"].value is None:
        limits["qps"].required("must be set if burst is")
    most = limits["maxBytes"]
    if most.number is not None and most.number < 1:
        most.invalid("must be greater than or equal to 1")
