"""The values that an API server of Kubernetes shows for absent fields, for the kinds that Moorage serves.

They are not stored. The API adds them to what it shows, and `in_stored_form` takes them out of what comes back. So the
hash of a template, which the names of its pods contain, is that of what people wrote, and programs may read an object
and write it back without a change. All functions are pure and never change their arguments. The values are in
`field_defaults.yaml` (docs/decisions/0046-defaults-of-fields.md).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

import yaml

from moorage.decide.kubernetes.quantities import QuantityError, canonical_text
from moorage.decide.kubernetes.unstructured import at

Object = dict[str, Any]
_Fill = Callable[[Object], Object]

_ABSENT: Final[Mapping[str, Callable[[Any], bool]]] = {
    "": lambda value: value is None or value == "",
    "null": lambda value: value is None,
    "falsy": lambda value: not value,
}


@cache
def _tables(section: str) -> dict[str, _Fill]:
    text = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    return {kind: _table(entries) for kind, entries in yaml.safe_load(text)[section].items()}


def _table(entries: Mapping[str, Any]) -> _Fill:
    steps = [_entry(key, value) for key, value in entries.items()]

    def fill(value: Object) -> Object:
        found = {**value}
        for step in steps:
            found = step(found)
        return found

    return fill


def _entry(key: str, value: Any) -> _Fill:
    match key[:-1], key[-1]:
        case "", sign:
            return _RULES[value] if sign == "=" else _table(value)
        case field, "/":
            return _in_object(field, _table(value))
        case field, "*":
            return _in_list(field, _table(value))
        case field, "#":
            return _quantities(field)
    field, is_condition, text = key.partition("=")
    if is_condition:
        return _if(field, text, _table(value))
    return _default(*key.partition("|")[::2], value)


def _if(field: str, text: str, table: _Fill) -> _Fill:
    return lambda found: table(found) if str(found.get(field) or "") == text else found


def _default(field: str, absent: str, default: Any) -> _Fill:
    is_absent = _ABSENT[absent]
    other = default[1:] if isinstance(default, str) and default.startswith("$") else ""

    def fill(found: Object) -> Object:
        if is_absent(found.get(field)) and (not other or found.get(other) not in (None, 0)):
            found[field] = found[other] if other else default
        return found

    return fill


def _in_object(field: str, table: _Fill) -> _Fill:
    def fill(found: Object) -> Object:
        if isinstance(inner := found.get(field), dict):
            found[field] = table(inner)
        return found

    return fill


def _in_list(field: str, table: _Fill) -> _Fill:
    def fill(found: Object) -> Object:
        if isinstance(items := found.get(field), list):
            found[field] = [table(one) if isinstance(one, dict) else one for one in items]
        return found

    return fill


def _quantities(field: str) -> _Fill:
    def fill(found: Object) -> Object:
        value = found.get(field)
        if isinstance(value, dict):
            found[field] = {name: _canonical(one) for name, one in value.items()}
        elif value is not None:
            found[field] = _canonical(value)
        return found

    return fill


def _canonical(value: Any) -> Any:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return value
    found = _canonical_text(value)
    return value if found == value else found


@lru_cache(maxsize=4096, typed=True)
def _canonical_text(value: str | float) -> str | float:
    try:
        return canonical_text(value)
    except QuantityError:
        return value


_SECOND_FAMILY: Final = {"IPv4": "IPv6", "IPv6": "IPv4"}
_NONE: Final = "None"
"""The address of a service without one, and the affinity of one that has none."""

_BY_ADMISSION: Final[Mapping[str, tuple[str, ...]]] = {
    "Pod": ("preemptionPolicy", "priority"),
    "Service": ("clusterIPs", "ipFamilies", "ipFamilyPolicy"),
}
"""Fields of `spec` that an object gets after it was read, by its kind."""

_UNBALANCED: Final[Object] = {"loadBalancer": {}}
_STATUSES: Final[Mapping[str, Object]] = {
    "CronJob": {},
    "HorizontalPodAutoscaler": {"desiredReplicas": 0, "currentMetrics": None},
    "Ingress": _UNBALANCED,
    "ResourceQuota": {},
    "Service": _UNBALANCED,
}
"""The status that an API server shows of an object that no controller has handled yet, by its kind."""


def with_field_defaults(document: Object) -> Object:
    """Return an object with the values of the fields that it leaves out, and its quantities in their canonical form.

    A second time changes nothing. Objects of other kinds, and parts of a wrong type, stay as they are.
    """
    fill = _tables("kinds").get(document.get("kind", ""))
    return fill(document) if fill is not None else document


def with_admitted_defaults(document: Object) -> Object:
    """Return an object of Karmada's kinds with the values that admission adds, which are stored."""
    return _tables("admitted")[document["kind"]](document)


def with_empty_status(document: Object) -> Object:
    """Return an object as it is shown if it has no status."""
    status = _STATUSES.get(document.get("kind", ""))
    return document if status is None or document.get("status") else {**document, "status": dict(status)}


def with_decoded_defaults(document: Object) -> Object:
    """Return an object with the values that an API server fills in when it reads it, before its admission."""
    found = with_field_defaults(document)
    spec, later = document.get("spec"), _BY_ADMISSION.get(document.get("kind", ""), ())
    if not later or not isinstance(spec, dict):
        return found
    left = {field for field in later if spec.get(field) is None}
    return {**found, "spec": {field: value for field, value in found["spec"].items() if field not in left}}


def in_stored_form(wanted: Object, stored: Mapping[str, Any]) -> Object:
    """Return a changed object without the default values that the stored one leaves out too.

    Args:
        wanted: the changed object, with the values of `with_field_defaults`.
        stored: the object as it is stored.

    Returns:
        An object that means the same as `wanted`, with its unchanged parts in the form in which they are stored.
    """
    shown = with_field_defaults(dict(stored))
    short: Object = _short(wanted, stored, shown)
    # A default may depend on another field that has changed: then the value that is wanted has to be kept.
    return short if with_field_defaults(short) == wanted else wanted


def _short(wanted: Any, stored: Any, shown: Any) -> Any:
    if wanted == shown:
        return stored
    if isinstance(wanted, Mapping) and isinstance(stored, Mapping) and isinstance(shown, Mapping):
        return {
            key: _short(value, stored[key], shown[key]) if key in stored else value
            for key, value in wanted.items()
            if key in stored or key not in shown or shown[key] != value
        }
    if isinstance(wanted, list) and isinstance(stored, list) and len(wanted) == len(stored) == len(shown):
        return [_short(*one) for one in zip(wanted, stored, shown, strict=True)]
    return wanted


def with_texts_as_data(secret: Object) -> Object:
    """Return a secret whose texts are data."""
    texts = secret.get("stringData")
    if not isinstance(texts, dict):
        return secret
    data = {key: base64.b64encode(str(value).encode()).decode() for key, value in texts.items()}
    rest = {key: value for key, value in secret.items() if key != "stringData"}
    return {**rest, "data": {**(rest.get("data") or {}), **data}} if data else rest


def selecting_by_template(document: Object) -> Object:
    """Return a replication controller that selects by the labels of its pods, and has them, unless it has others."""
    labels, spec = at(document, "spec", "template", "metadata", "labels"), document.get("spec")
    if labels and isinstance(spec, dict) and not spec.get("selector"):
        document = {**document, "spec": {**spec, "selector": labels}}
    return _with_labels_of_template(document)


def _with_labels_of_template(document: Object) -> Object:
    labels, metadata = at(document, "spec", "template", "metadata", "labels"), document.get("metadata") or {}
    if not labels or not isinstance(metadata, dict) or metadata.get("labels"):
        return document
    return {**document, "metadata": {**metadata, "labels": labels}}


def _with_service_account(spec: Object) -> Object:
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    return {**spec, "serviceAccountName": account, "serviceAccount": account} if account else spec  # one is an alias


def _with_grace_period(spec: Object) -> Object:
    grace = spec.get("terminationGracePeriodSeconds")
    # As in Kubernetes, which had accepted negative ones once.
    return {**spec, "terminationGracePeriodSeconds": 1} if isinstance(grace, int) and grace < 0 else spec


def _with_pull_policy(container: Object) -> Object:
    return {**container, "imagePullPolicy": container.get("imagePullPolicy") or _pull_policy(container.get("image"))}


def _with_policy_of_reference(image: Object) -> Object:
    return {**image, "pullPolicy": image.get("pullPolicy") or _pull_policy(image.get("reference"))}


def _pull_policy(image: object) -> str:
    """Return the default policy: always if the tag is `latest` or absent, else only if the image is missing."""
    text = image if isinstance(image, str) else ""
    tag = text.rpartition("/")[2].partition(":")[2]
    return "Always" if "@" not in text and tag in {"", "latest"} else "IfNotPresent"


def _with_requests(container: Object) -> Object:
    """Return a container that requests what its limits allow, unless it requests something else."""
    limits = at(container, "resources", "limits")
    if not isinstance(limits, dict) or not limits:
        return container
    requests = container["resources"].get("requests") or {}
    return {**container, "resources": {**container["resources"], "requests": {**limits, **requests}}}


def _with_volume_source(volume: Object) -> Object:
    return volume if set(volume) - {"name"} else {**volume, "emptyDir": {}}


def _job(spec: Object) -> Object:
    found = {**spec}
    if found.get("completions") is None and found.get("parallelism") is None:
        found["completions"] = 1
    if found.get("backoffLimitPerIndex") is not None and found.get("backoffLimit") is None:
        found["backoffLimit"] = 2**31 - 1
    if found.get("podFailurePolicy"):
        found["podReplacementPolicy"] = found.get("podReplacementPolicy") or "Failed"
    return found


def _service(spec: Object) -> Object:
    """Return a service with the addresses that follow from its own, and the families of one without an address."""
    found = {**spec}
    if found["sessionAffinity"] == _NONE:
        found.pop("sessionAffinityConfig", None)
    if found["type"] == "ClusterIP" and found.get("externalIPs"):
        found["externalTrafficPolicy"] = found.get("externalTrafficPolicy") or "Cluster"
    if not found.get("clusterIP"):
        return found
    found["clusterIPs"] = found.get("clusterIPs") or [found["clusterIP"]]
    if found["clusterIPs"] == [_NONE] and found["type"] != "ExternalName":
        is_single = bool(found.get("selector"))
        if found.get("ipFamilyPolicy") is None:
            found["ipFamilyPolicy"] = "SingleStack" if is_single else "RequireDualStack"
        families = found.get("ipFamilies") or ["IPv4"]
        if not is_single and found["ipFamilyPolicy"] != "SingleStack" and len(families) == 1:
            families = [*families, *(_SECOND_FAMILY[one] for one in families if one in _SECOND_FAMILY)]
        found["ipFamilies"] = families
    return found


def _limit(limit: Object) -> Object:
    """Return a limit. The most of a container is its default, which it requests, unless it has another request."""
    if limit.get("type") != "Container":
        return limit
    most, least, default, request = (limit.get(field) or {} for field in ("max", "min", "default", "defaultRequest"))
    default = {**most, **default}
    found = {"default": default, "defaultRequest": {**least, **default, **request}}
    return {**limit, **{field: one for field, one in found.items() if one}}


def _with_selectors_in_namespace(policy: Object) -> Object:
    namespace, selectors = at(policy, "metadata", "namespace"), policy["spec"].get("resourceSelectors")
    if not namespace or not selectors:
        return policy
    found = [{**one, "namespace": one.get("namespace") or namespace} for one in selectors]
    return {**policy, "spec": {**policy["spec"], "resourceSelectors": found}}


def _without_nulls(value: Object) -> Object:
    return {field: one for field, one in value.items() if one is not None}


def _with_policy_types(spec: Object) -> Object:
    types = ["Ingress", *(["Egress"] if spec.get("egress") else [])]
    return spec if spec.get("policyTypes") is not None else {**spec, "policyTypes": types}


_RULES: Final[Mapping[str, _Fill]] = {
    "grace_period": _with_grace_period,
    "image_volume": _with_policy_of_reference,
    "job": _job,
    "labels_of_template": _with_labels_of_template,
    "limit": _limit,
    "policy_types": _with_policy_types,
    "pull_policy": _with_pull_policy,
    "requests": _with_requests,
    "selector_of_template": selecting_by_template,
    "selectors_in_namespace": _with_selectors_in_namespace,
    "service": _service,
    "service_account": _with_service_account,
    "texts_as_data": with_texts_as_data,
    "volume": _with_volume_source,
    "without_nulls": _without_nulls,
}
