"""Validation of services, and of changes to them, as Kubernetes 1.37 has it.

Documents have the defaults of their fields. Moorage runs no network: it gives a service no addresses and no ports of
nodes, so what only a cluster's own ranges could decide is not looked at. What a service has already may stay in it,
although it breaks a rule: it may have been accepted once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from moorage.core.admission.services import (
    CLIENT_IP,
    CLUSTER_IP,
    EXTERNAL_NAME,
    FAMILIES,
    HEADLESS,
    LOAD_BALANCER,
    LOCAL,
    NO_AFFINITY,
    NODE_PORT,
    SINGLE_STACK,
    is_reached_from_outside,
)
from moorage.core.admission.validation.fields import (
    PROTOCOLS,
    Fields,
    dns_label,
    dns_subdomain,
    inner,
    labels,
    listed,
    number,
    object_in,
    objects,
    one_of,
    port,
    port_number,
    qualified_name,
    text,
    texts,
)
from moorage.core.apimachinery.addresses import address_of, check_address, check_block, check_reachable
from moorage.core.apimachinery.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)

_TYPES: Final = (CLUSTER_IP, EXTERNAL_NAME, LOAD_BALANCER, NODE_PORT)
_AFFINITIES: Final = (CLIENT_IP, NO_AFFINITY)
_POLICIES: Final = ("Cluster", LOCAL)
_STACKS: Final = ("PreferDualStack", "RequireDualStack", SINGLE_STACK)
_DISTRIBUTIONS: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")
_LONGEST_AFFINITY: Final = 86_400
_TOPOLOGY: Final = "service.kubernetes.io/topology-mode"
_OLD_TOPOLOGY: Final = "service.kubernetes.io/topology-aware-hints"
_RANGES: Final = "service.beta.kubernetes.io/load-balancer-source-ranges"
_IN_TYPE: Final = "may only be used when `type` is 'LoadBalancer'"
_STAYS: Final = "may not change once set"
_NOTHING: Final[Mapping[str, Any]] = {}


def validate_service(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate a new service."""
    return list(_first_addresses(document, _NOTHING)) or list(_service(document, _NOTHING))


def validate_service_update(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
    """Validate a change of a service. Its addresses and the class of its load balancer stay.

    Args:
        before: the service as it is shown.
        after: the service as it is wanted.
    """
    old, new = inner(before, "spec"), inner(after, "spec")
    return list(_first_addresses(after, before)) or [
        *_same_addresses(old, new),
        *_same_families(old, new),
        *_same_class(old, new),
        *_same_health_check(old, new),
        *_service(after, before),
    ]


def _first_addresses(document: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[FieldError]:
    """The errors of addresses. As long as there are any, Kubernetes tells no others."""
    spec = inner(document, "spec")
    found = list(_addresses(spec, inner(before, "spec")))
    yield from found
    if found or text(spec, "type") == EXTERNAL_NAME or text(spec, "ipFamilyPolicy") not in {"", SINGLE_STACK}:
        return
    for field, words in (("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")):
        if len(texts(spec, field)) > 1:
            rule = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {words} are specified"
            yield invalid("spec.ipFamilyPolicy", SINGLE_STACK, rule)


def _service(document: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[FieldError]:
    spec, old = inner(document, "spec"), inner(before, "spec")
    yield from _topology(_annotations(document))
    yield from _type_fields(spec)
    yield from _ports(spec)
    yield from labels(inner(spec, "selector"), "spec.selector")
    yield from _affinity(spec)
    yield from _outside_addresses(spec, old)
    yield from one_of(text(spec, "type"), "spec.type", _TYPES)
    yield from _port_uses(spec)
    yield from _source_ranges(document, before)
    if spec.get("allocateLoadBalancerNodePorts") is not None and text(spec, "type") != LOAD_BALANCER:
        yield forbidden("spec.allocateLoadBalancerNodePorts", _IN_TYPE)
    yield from _class(spec)
    yield from _traffic(spec)


def _annotations(document: Mapping[str, Any]) -> Fields:
    return inner(inner(document, "metadata"), "annotations")


def _is_headless(spec: Fields) -> bool:
    return listed(spec, "clusterIPs") == [HEADLESS]


def _topology(annotations: Fields) -> Iterator[FieldError]:
    new, old = annotations.get(_TOPOLOGY), annotations.get(_OLD_TOPOLOGY)
    if new is not None and old is not None and new != old:
        rule = f"must match annotations[{_OLD_TOPOLOGY}] when both are specified"
        yield invalid(f"metadata.annotations[{_TOPOLOGY}]", new, rule)


def _type_fields(spec: Fields) -> Iterator[FieldError]:
    """The errors of fields that the type of the service needs, or forbids."""
    kind, is_headless = text(spec, "type"), _is_headless(spec)
    if not listed(spec, "ports") and not is_headless and kind != EXTERNAL_NAME:
        yield required("spec.ports")
    if kind in {LOAD_BALANCER, NODE_PORT} and is_headless:
        yield invalid("spec.clusterIPs[0]", HEADLESS, f"may not be set to 'None' for {kind} services")
    if kind != EXTERNAL_NAME:
        return
    for field in ("clusterIPs", "ipFamilies"):
        if listed(spec, field):
            yield forbidden(f"spec.{field}", f"may not be set for {kind} services")
    if spec.get("ipFamilyPolicy") is not None:
        yield forbidden("spec.ipFamilyPolicy", f"may not be set for {kind} services")
    name = text(spec, "externalName").removesuffix(".")
    if name:
        yield from dns_subdomain(name, "spec.externalName")
    else:
        yield required("spec.externalName")


def _ports(spec: Fields) -> Iterator[FieldError]:
    found = list(objects(spec, "ports", "spec.ports"))
    seen = set()
    for one, at in found:
        name = text(one, "name")
        if name:
            yield from dns_label(name, f"{at}.name")
            if name in seen:
                yield duplicate(f"{at}.name", name)
            seen.add(name)
        elif len(found) > 1:
            yield required(f"{at}.name")
        yield from port_number(number(one, "port") or 0, f"{at}.port")
        yield from one_of(text(one, "protocol"), f"{at}.protocol", PROTOCOLS)
        yield from port(one.get("targetPort"), f"{at}.targetPort")
        if isinstance(protocol := one.get("appProtocol"), str):
            yield from qualified_name(protocol, f"{at}.appProtocol")


def _port_uses(spec: Fields) -> Iterator[FieldError]:
    """The errors of ports that are used twice, or not at all by a service of this type."""
    found = list(objects(spec, "ports", "spec.ports"))
    if text(spec, "type") == CLUSTER_IP:
        for one, at in found:
            if number(one, "nodePort"):
                yield forbidden(f"{at}.nodePort", "may not be used when `type` is 'ClusterIP'")
    on_nodes, inside = set(), set()
    for one, at in found:
        outside = number(one, "nodePort")
        if outside and (text(one, "protocol"), outside) in on_nodes:
            yield duplicate(f"{at}.nodePort", outside)
        on_nodes.add((text(one, "protocol"), outside))
    for one, at in found:
        use = text(one, "protocol"), number(one, "port") or 0
        if use in inside:
            yield duplicate(at, _internal_port(*use))
        inside.add(use)


def _internal_port(protocol: str, value: int) -> dict[str, Any]:
    """A port in the form in which an API server shows it in messages: with capitals, and all of its fields."""
    shown = {"Name": "", "Protocol": protocol, "AppProtocol": None, "Port": value}
    return {**shown, "TargetPort": 0, "NodePort": 0}


def _affinity(spec: Fields) -> Iterator[FieldError]:
    kind, config = text(spec, "sessionAffinity"), object_in(spec, "sessionAffinityConfig")
    yield from one_of(kind, "spec.sessionAffinity", _AFFINITIES)
    if kind == CLIENT_IP:
        seconds = number(inner(config or {}, "clientIP"), "timeoutSeconds") or 0
        if not 0 < seconds <= _LONGEST_AFFINITY:
            rule = f"must be greater than 0 and less than {_LONGEST_AFFINITY}"
            yield invalid("spec.sessionAffinityConfig.clientIP.timeoutSeconds", seconds, rule)


def _addresses(spec: Fields, old: Fields) -> Iterator[FieldError]:
    if text(spec, "type") == EXTERNAL_NAME:
        return
    first, found = text(spec, "clusterIP"), texts(spec, "clusterIPs")
    if first and found and found[0] != first:
        yield invalid("spec.clusterIPs", found, "first value must match `clusterIP`")
    elif found and not first:
        yield invalid("spec.clusterIPs", found, "must be empty when `clusterIP` is not specified")
    yield from _families(spec)
    wrong = list(_wrong_addresses(found, frozenset(texts(old, "clusterIPs"))))
    yield from wrong
    if len(found) > len(FAMILIES):
        yield invalid("spec.clusterIPs", found, "may only hold up to 2 values")
    if not wrong:
        yield from _families_of_addresses(found, texts(spec, "ipFamilies"))


def _families(spec: Fields) -> Iterator[FieldError]:
    found, policy, seen = texts(spec, "ipFamilies"), spec.get("ipFamilyPolicy"), set[str]()
    for i, one in enumerate(found):
        if one not in FAMILIES:
            yield not_supported(f"spec.ipFamilies[{i}]", one, FAMILIES)
        if one in seen:
            yield duplicate(f"spec.ipFamilies[{i}]", one)
        seen.add(one)
    if isinstance(policy, str) and policy not in _STACKS:
        yield not_supported("spec.ipFamilyPolicy", policy, _STACKS)


def _wrong_addresses(found: Sequence[str], known: Collection[str]) -> Iterator[FieldError]:
    for i, one in enumerate(found):
        if i == 0 and one == HEADLESS:
            if len(found) > 1:
                yield invalid("spec.clusterIPs", found, "'None' must be the first and only value")
        elif one not in known:
            yield from (invalid(f"spec.clusterIPs[{i}]", one, rule) for rule in check_address(one))


def _families_of_addresses(found: Sequence[str], families: Sequence[str]) -> Iterator[FieldError]:
    own = [_family(one) for one in found]
    if len(found) > 1 and len(set(own)) < len(FAMILIES):
        yield invalid("spec.clusterIPs", found, "may specify no more than one IP for each IP family")
    for i, (address, is_one, wanted) in enumerate(zip(found, own, families, strict=False)):
        if address != HEADLESS and wanted in FAMILIES and is_one != wanted:
            rule = f"expected an {wanted} value as indicated by `ipFamilies[{i}]`"
            yield invalid(f"spec.clusterIPs[{i}]", address, rule)


def _family(address: str) -> str:
    found = address_of(address)
    return "IPv6" if found is not None and found.version == 6 else "IPv4"  # noqa: PLR2004 - IPv6


def _outside_addresses(spec: Fields, old: Fields) -> Iterator[FieldError]:
    known = frozenset(texts(old, "externalIPs"))
    for i, one in enumerate(texts(spec, "externalIPs")):
        wrong = [] if one in known else check_address(one)
        if not wrong and (address := address_of(one)) is not None:
            wrong = check_reachable(address, one)
        yield from (invalid(f"spec.externalIPs[{i}]", one, rule) for rule in wrong)


def _source_ranges(document: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[FieldError]:
    spec = inner(document, "spec")
    # Kubernetes' messages have the first letter in upper case.
    path, found = "spec.LoadBalancerSourceRanges", texts(spec, "loadBalancerSourceRanges")
    said, present = _annotations(document).get(_RANGES), _annotations(before).get(_RANGES)
    if not found and not isinstance(said, str):
        return
    if not found:
        path = f"metadata.annotations[{_RANGES}]"
    if text(spec, "type") != LOAD_BALANCER:
        yield forbidden(path, _IN_TYPE)
    if found:
        known = {one.strip() for one in texts(inner(before, "spec"), "loadBalancerSourceRanges")}
        for i, one in enumerate(found):
            if one.strip() not in known:
                yield from _blocks([one], f"{path}[{i}]")
    elif isinstance(said, str) and said != present and said.strip():
        yield from _blocks(said.split(","), path)


def _blocks(found: Sequence[str], path: str) -> Iterator[FieldError]:
    for one in map(str.strip, found):
        yield from (invalid(path, one, rule) for rule in check_block(one))


def _class(spec: Fields) -> Iterator[FieldError]:
    name = spec.get("loadBalancerClass")
    if not isinstance(name, str):
        return
    if text(spec, "type") == LOAD_BALANCER:
        yield from qualified_name(name, "spec.loadBalancerClass")
    else:
        yield forbidden("spec.loadBalancerClass", _IN_TYPE)


def _traffic(spec: Fields) -> Iterator[FieldError]:
    policy, check = text(spec, "externalTrafficPolicy"), number(spec, "healthCheckNodePort")
    if is_reached_from_outside(spec):
        yield from one_of(policy, "spec.externalTrafficPolicy", _POLICIES)
    elif policy:
        rule = "may only be set for externally-accessible services"
        yield invalid("spec.externalTrafficPolicy", policy, rule)
    if check and _has_health_check(spec):
        yield from port_number(check, "spec.healthCheckNodePort")
    elif check:
        rule = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        yield invalid("spec.healthCheckNodePort", check, rule)
    for field, supported in (("internalTrafficPolicy", _POLICIES), ("trafficDistribution", _DISTRIBUTIONS)):
        found = spec.get(field)
        if isinstance(found, str) and found not in supported:
            yield not_supported(f"spec.{field}", found, supported)


def _has_health_check(spec: Fields) -> bool:
    return text(spec, "type") == LOAD_BALANCER and text(spec, "externalTrafficPolicy") == LOCAL


def _both(old: Fields, new: Fields, is_so: Callable[[Fields], bool]) -> bool:
    return is_so(old) and is_so(new)


def _has_no_address(spec: Fields) -> bool:
    return text(spec, "type") == EXTERNAL_NAME


def _same_addresses(old: Fields, new: Fields) -> Iterator[FieldError]:
    if _has_no_address(old) or _has_no_address(new) or _both(old, new, _is_headless):
        return
    first, second = texts(old, "clusterIPs"), texts(new, "clusterIPs")
    # In a cluster, a service that does not say otherwise has an address, which stays.
    if (first and second and first[0] != second[0]) or (not first and _is_headless(new)):
        yield invalid("spec.clusterIPs[0]", second, _STAYS)
    if len(first) == len(second):
        for i, (one, other) in enumerate(zip(first[1:], second[1:], strict=True), 1):
            if one != other:
                yield invalid(f"spec.clusterIPs[{i}]", second, _STAYS)


def _same_families(old: Fields, new: Fields) -> Iterator[FieldError]:
    if _has_no_address(old) or _has_no_address(new) or _is_headless(old) or _is_headless(new):
        return
    first, second = texts(old, "ipFamilies"), texts(new, "ipFamilies")
    if len(first) == len(second) and first != second:
        yield invalid("spec.ipFamilies[0]", second, _STAYS)
    elif first and second and first[0] != second[0]:
        yield invalid("spec.ipFamilies[0]", texts(new, "clusterIPs"), _STAYS)


def _same_class(old: Fields, new: Fields) -> Iterator[FieldError]:
    are_balanced = _both(old, new, lambda spec: text(spec, "type") == LOAD_BALANCER)
    if are_balanced and old.get("loadBalancerClass") != new.get("loadBalancerClass"):
        yield invalid("spec.loadBalancerClass", new.get("loadBalancerClass"), _STAYS)


def _same_health_check(old: Fields, new: Fields) -> Iterator[FieldError]:
    if _both(old, new, _has_health_check) and number(old, "healthCheckNodePort") != number(new, "healthCheckNodePort"):
        yield forbidden("spec.healthCheckNodePort", "field is immutable")
