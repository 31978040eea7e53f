"""Validation of Endpoints and EndpointSlices, and of changes to them, as Kubernetes 1.37 has it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from moorage.core.admission.validation.fields import (
    PROTOCOLS,
    Fields,
    dns_label,
    dns_subdomain,
    listed,
    number,
    object_in,
    objects,
    one_of,
    port_number,
    qualified_name,
    text,
    texts,
)
from moorage.core.apimachinery import names
from moorage.core.apimachinery.addresses import address_of, check_address, check_reachable, check_today
from moorage.core.apimachinery.field_errors import FieldError, duplicate, invalid, not_supported, required, too_many

_ADDRESS_TYPES: Final = ("FQDN", "IPv4", "IPv6")
_MOST_ENDPOINTS: Final = 1000
_MOST_ADDRESSES: Final = 100
_MOST_PORTS: Final = 20_000
_MOST_HINTS: Final = 8


def validate_endpoints(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate the subsets of endpoints."""
    return [error for one, at in objects(document, "subsets", "subsets") for error in _subset(one, at)]


def validate_slice(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate an endpoint slice."""
    return [*_slice_itself(document), *_endpoints(document)]


def validate_slice_update(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
    """Validate a change of an endpoint slice. Endpoints that have not changed may have been accepted once.

    Args:
        before: the slice as it is shown.
        after: the slice as it is wanted.
    """
    found = list(_slice_itself(after))
    if before.get("endpoints") != after.get("endpoints"):
        found += _endpoints(after)
    if before.get("addressType") != after.get("addressType"):
        found.append(invalid("addressType", None, "field is immutable"))
    return found


def _subset(subset: Fields, path: str) -> Iterator[FieldError]:
    ports = listed(subset, "ports")
    if not listed(subset, "addresses") and not listed(subset, "notReadyAddresses"):
        yield required(path, "must specify `addresses` or `notReadyAddresses`")
    for field in ("addresses", "notReadyAddresses"):
        for address, at in objects(subset, field, f"{path}.{field}"):
            yield from _address(address, at)
    for port, at in objects(subset, "ports", f"{path}.ports"):
        if name := text(port, "name"):
            yield from dns_label(name, f"{at}.name")
        elif len(ports) > 1:
            yield required(f"{at}.name")
        yield from port_number(number(port, "port") or 0, f"{at}.port")
        yield from _protocols(port, at)


def _address(address: Fields, path: str) -> Iterator[FieldError]:
    ip, at = text(address, "ip"), f"{path}.ip"
    yield from (invalid(at, ip, rule) for rule in check_address(ip))
    if name := text(address, "hostname"):
        yield from dns_label(name, f"{path}.hostname")
    if isinstance(address.get("nodeName"), str):
        yield from dns_subdomain(address["nodeName"], f"{path}.nodeName")
    known = address_of(ip)
    rules = ["must be a valid IP address"] if known is None else check_reachable(known, ip)
    yield from (invalid(at, ip, rule) for rule in rules)


def _protocols(port: Fields, path: str) -> Iterator[FieldError]:
    yield from one_of(text(port, "protocol"), f"{path}.protocol", PROTOCOLS)
    if isinstance(port.get("appProtocol"), str):
        yield from qualified_name(port["appProtocol"], f"{path}.appProtocol")


def _slice_itself(document: Fields) -> Iterator[FieldError]:
    yield from one_of(text(document, "addressType"), "addressType", _ADDRESS_TYPES)
    ports = listed(document, "ports")
    if len(ports) > _MOST_PORTS:
        yield too_many("ports", len(ports), _MOST_PORTS)
        return
    seen: set[str] = set()
    for port, at in objects(document, "ports", "ports"):
        if name := text(port, "name"):
            yield from dns_label(name, f"{at}.name")
        if name in seen:
            yield duplicate(f"{at}.name", name)
        seen.add(name)
        protocol = text(port, "protocol")
        if protocol not in PROTOCOLS:
            yield not_supported(f"{at}.protocol", protocol, PROTOCOLS)
        if isinstance(port.get("appProtocol"), str):
            yield from qualified_name(port["appProtocol"], f"{at}.appProtocol")


def _endpoints(document: Fields) -> Iterator[FieldError]:
    found = listed(document, "endpoints")
    if len(found) > _MOST_ENDPOINTS:
        yield too_many("endpoints", len(found), _MOST_ENDPOINTS)
        return
    check = _ADDRESSES.get(text(document, "addressType"))
    for endpoint, path in objects(document, "endpoints", "endpoints"):
        addresses, at = texts(endpoint, "addresses"), f"{path}.addresses"
        if not addresses:
            yield required(at)
        elif len(addresses) > _MOST_ADDRESSES:
            yield too_many(at, len(addresses), _MOST_ADDRESSES)
        for index, one in enumerate(addresses if check is not None else ()):
            yield from check(one, at, f"{at}[{index}]") if check is not None else ()
        if isinstance(endpoint.get("nodeName"), str):
            yield from dns_subdomain(endpoint["nodeName"], f"{path}.nodeName")
        if isinstance(endpoint.get("hostname"), str):
            yield from dns_label(endpoint["hostname"], f"{path}.hostname")
        if (hints := object_in(endpoint, "hints")) is not None:
            yield from _hints(hints, f"{path}.hints")


def _of_version(version: int, check: Callable[[str], list[str]]) -> Callable[[str, str, str], Iterator[FieldError]]:
    def checked(address: str, of_all: str, path: str) -> Iterator[FieldError]:
        wrong, known = check(address), address_of(address)
        yield from (invalid(path, address, rule) for rule in wrong)
        if wrong or known is None:
            return
        if known.version != version:
            yield invalid(of_all, address, f"must be an IPv{version} address")
        yield from (invalid(path, address, rule) for rule in check_reachable(known, address))

    return checked


def _domain(address: str, _: str, path: str) -> Iterator[FieldError]:
    if not address:
        yield required(path)
        return
    plain = address.removesuffix(".")
    if rules := names.check_dns_subdomain(plain, names.OLDER):
        yield invalid(path, plain, ",".join(rules))
    elif "." not in plain:
        yield invalid(path, plain, "should be a domain with at least two segments separated by dots")
    else:
        wrong = ((label, names.check_dns_label(label, names.OLDER)) for label in plain.split("."))
        yield from itertools.islice((invalid(path, label, ",".join(rules)) for label, rules in wrong if rules), 1)


_ADDRESSES: Final[Mapping[str, Callable[[str, str, str], Iterator[FieldError]]]] = {
    "IPv4": _of_version(4, check_address),
    "IPv6": _of_version(6, check_today),
    "FQDN": _domain,
}


def _hints(hints: Fields, path: str) -> Iterator[FieldError]:
    for field, check in (("forZones", names.check_label_value), ("forNodes", names.check_dns_subdomain)):
        found, at = listed(hints, field), f"{path}.{field}"
        if len(found) > _MOST_HINTS:
            yield too_many(at, len(found), _MOST_HINTS)
            return
        seen: set[str] = set()
        for one, where in objects(hints, field, at):
            name = text(one, "name")
            if name in seen:
                yield duplicate(f"{where}.name", name)
            seen.add(name)
            yield from (invalid(f"{where}.name", name, rule) for rule in check(name, names.OLDER))
