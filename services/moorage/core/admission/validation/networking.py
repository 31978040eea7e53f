"""Validation of ingresses and network policies, as Kubernetes 1.37 has it.

Documents have the defaults of their fields. What an object has already may stay in it, although it breaks a rule: it
may have been accepted once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from moorage.core.admission.validation.fields import (
    Fields,
    dns_label,
    dns_subdomain,
    has_same_spec,
    inner,
    label_selector,
    number,
    object_in,
    objects,
    path_segment,
    port,
    port_number,
    text,
    texts,
)
from moorage.core.apimachinery import names
from moorage.core.apimachinery.addresses import address_of, block_of, check_block, is_strictly_within
from moorage.core.apimachinery.field_errors import FieldError, forbidden, invalid, not_supported, required

_CLASS: Final = "kubernetes.io/ingress.class"
_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_PATTERN: Final = "ImplementationSpecific"
_WITHIN_PATH: Final = ("//", "/./", "/../", "%2f", "%2F")
_AFTER_PATH: Final = ("/..", "/.")
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_DIRECTIONS: Final = ("Ingress", "Egress")
_RULES: Final = (("ingress", "from"), ("egress", "to"))


def validate_ingress(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate a new ingress."""
    spec = inner(document, "spec")
    return [*_ingress(spec, any_secret=False, any_wildcard=False), *_ingress_class(document, spec)]


def validate_ingress_update(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
    """Validate a change of an ingress.

    Args:
        before: the ingress as it is shown.
        after: the ingress as it is wanted.
    """
    if has_same_spec(before, after):
        return []
    old, new = inner(before, "spec"), inner(after, "spec")
    secrets = [text(one, "secretName") for one, _ in objects(old, "tls", "")]
    wildcards = [one for one, _ in objects(old, "rules", "") if "*" in text(one, "host")]
    return list(
        _ingress(
            new,
            any_secret=any(one and names.check_dns_subdomain(one) for one in secrets),
            any_wildcard=any(any(_paths(one, "")) for one in wildcards),
        )
    )


def _ingress(spec: Fields, *, any_secret: bool, any_wildcard: bool) -> Iterator[FieldError]:
    backend, rules = object_in(spec, "defaultBackend"), list(objects(spec, "rules", "spec.rules"))
    if not rules and backend is None:
        yield invalid("spec", spec.get("rules"), "either `defaultBackend` or `rules` must be specified")
    if backend is not None:
        yield from _backend(backend, "spec.defaultBackend")
    for rule, at in rules:
        host = text(rule, "host")
        if host:
            if address_of(host) is not None:
                yield invalid(f"{at}.host", host, "must be a DNS name, not an IP address")
            yield from _host(host, f"{at}.host")
        if not (any_wildcard and "*" in host):
            yield from _paths(rule, at)
    yield from _tls(spec, any_secret=any_secret)
    if isinstance(name := spec.get("ingressClassName"), str):
        yield from dns_subdomain(name, "spec.ingressClassName")


def _tls(spec: Fields, *, any_secret: bool) -> Iterator[FieldError]:
    for entry, at in objects(spec, "tls", "spec.tls"):
        for i, host in enumerate(texts(entry, "hosts")):
            yield from _host(host, f"{at}.hosts[{i}]")
        secret = text(entry, "secretName")
        if secret and not any_secret:
            yield from dns_subdomain(secret, f"{at}.secretName")


def _ingress_class(document: Mapping[str, Any], spec: Fields) -> Iterator[FieldError]:
    said = inner(inner(document, "metadata"), "annotations").get(_CLASS)
    wanted = spec.get("ingressClassName")
    if said is not None and wanted is not None and said != wanted:
        yield invalid(f"annotations.{_CLASS}", said, "must match `ingressClassName` when both are specified")


def _host(host: str, path: str) -> Iterator[FieldError]:
    if "*" in host:
        yield from (invalid(path, host, rule) for rule in names.check_wildcard_subdomain(host))
    else:
        yield from dns_subdomain(host, path)


def _paths(rule: Fields, path: str) -> Iterator[FieldError]:
    found = object_in(rule, "http")
    if found is None:
        return
    paths = list(objects(found, "paths", f"{path}.http.paths"))
    if not paths:
        yield required(f"{path}.http.paths")
    for one, at in paths:
        if one.get("pathType") is None:
            yield required(f"{at}.pathType", "pathType must be specified")
            continue
        yield from _path(text(one, "path"), text(one, "pathType"), at)
        yield from _backend(inner(one, "backend"), f"{at}.backend")


def _path(value: str, kind: str, path: str) -> Iterator[FieldError]:
    if kind not in _PATH_TYPES:
        yield not_supported(f"{path}.pathType", kind, _PATH_TYPES)
        return
    if not value.startswith("/") and (value or kind != _PATTERN):
        yield invalid(f"{path}.path", value, "must be an absolute path")
    if kind != _PATTERN:
        found = [f"must not contain '{one}'" for one in _WITHIN_PATH if one in value]
        found += [f"cannot end with '{one}'" for one in _AFTER_PATH if value.endswith(one)]
        yield from (invalid(f"{path}.path", value, rule) for rule in found)


def _backend(backend: Fields, path: str) -> Iterator[FieldError]:
    service, resource = object_in(backend, "service"), object_in(backend, "resource")
    if service is not None and resource is not None:
        yield invalid(path, "", "cannot set both resource and service backends")
    elif resource is not None:
        if isinstance(group := resource.get("apiGroup"), str):
            yield from dns_subdomain(group, f"{path}.resource.apiGroup")
        for field in ("kind", "name"):
            yield from path_segment(text(resource, field), f"{path}.resource.{field}")
    elif service is not None:
        yield from _service(service, path)
    else:
        yield invalid(path, "", "resource or service backend is required")


def _service(service: Fields, path: str) -> Iterator[FieldError]:
    name, found = text(service, "name"), inner(service, "port")
    if name:
        yield from dns_label(name, f"{path}.service.name")
    else:
        yield required(f"{path}.service.name")
    port_name, value = text(found, "name"), number(found, "number")
    if port_name and value:
        yield invalid(path, "", "cannot set both port name & port number")
    elif port_name:
        yield from port(port_name, f"{path}.service.port.name")
    elif value:
        yield from port_number(value, f"{path}.service.port.number")
    else:
        yield required(path, "port name or number is required")


def validate_network_policy(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate a new network policy."""
    return list(_network_policy(inner(document, "spec"), frozenset()))


def validate_network_policy_update(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
    """Validate a change of a network policy.

    Args:
        before: the policy as it is shown.
        after: the policy as it is wanted.
    """
    if has_same_spec(before, after):
        return []
    spec = inner(before, "spec")
    peers = [
        peer for rules, field in _RULES for rule, _ in objects(spec, rules, "") for peer, _ in objects(rule, field, "")
    ]
    blocks = [inner(peer, "ipBlock") for peer in peers]
    known = {block for one in blocks for block in (text(one, "cidr"), *texts(one, "except"))}
    return list(_network_policy(inner(after, "spec"), known))


def _network_policy(spec: Fields, known: Collection[str]) -> Iterator[FieldError]:
    missing: list[FieldError] = []
    yield from label_selector(object_in(spec, "podSelector"), "spec.podSelector")
    for rules, peers in _RULES:
        for rule, at in objects(spec, rules, f"spec.{rules}"):
            for one, where in objects(rule, "ports", f"{at}.ports"):
                yield from _policy_port(one, where)
            for one, where in objects(rule, peers, f"{at}.{peers}"):
                yield from _peer(one, where, known, missing.append)
    types = texts(spec, "policyTypes")
    if len(types) > len(_DIRECTIONS):
        yield invalid("spec.policyTypes", types, "may not specify more than two policyTypes")
    else:
        for i, direction in enumerate(types):
            if direction not in _DIRECTIONS:
                yield not_supported(f"spec.policyTypes[{i}]", direction, _DIRECTIONS)
    yield from missing


def _policy_port(found: Fields, path: str) -> Iterator[FieldError]:
    protocol, value, last = found.get("protocol"), found.get("port"), number(found, "endPort")
    if isinstance(protocol, str) and protocol not in _PROTOCOLS:
        yield not_supported(f"{path}.protocol", protocol, _PROTOCOLS)
    if value is None:
        if last is not None:
            yield invalid(f"{path}.endPort", last, "may not be specified when `port` is not specified")
    elif isinstance(value, str):
        if last is not None:
            yield invalid(f"{path}.endPort", last, "may not be specified when `port` is non-numeric")
        yield from port(value, f"{path}.port")
    else:
        yield from port(value, f"{path}.port")
        if last is not None:
            if isinstance(value, int) and last < value:
                yield invalid(f"{path}.endPort", last, "must be greater than or equal to `port`")
            yield from port_number(last, f"{path}.endPort")


def _peer(peer: Fields, path: str, known: Collection[str], miss: Callable[[FieldError], None]) -> Iterator[FieldError]:
    """The errors of a peer. One that Kubernetes tells after all others goes to `miss`."""
    selectors = [field for field in ("podSelector", "namespaceSelector") if object_in(peer, field) is not None]
    for field in selectors:
        yield from label_selector(object_in(peer, field), f"{path}.{field}")
    block = object_in(peer, "ipBlock")
    if block is not None:
        if text(block, "cidr"):
            yield from _block(block, f"{path}.ipBlock", known)
        else:
            miss(required(f"{path}.ipBlock.cidr"))
    if block is None and not selectors:
        yield required(path, "must specify a peer")
    elif block is not None and selectors:
        yield forbidden(path, "may not specify both ipBlock and another peer")


def _block(found: Fields, path: str, known: Collection[str]) -> Iterator[FieldError]:
    whole = text(found, "cidr")
    if whole not in known:
        yield from (invalid(f"{path}.cidr", whole, rule) for rule in check_block(whole))
    outer = block_of(whole)
    if outer is None:
        return
    for i, value in enumerate(texts(found, "except")):
        at, one = f"{path}.except[{i}]", block_of(value)
        if value not in known:
            yield from (invalid(at, value, rule) for rule in check_block(value))
        if one is not None and not is_strictly_within(one, outer):
            yield invalid(at, value, "must be a strict subset of `cidr`")
