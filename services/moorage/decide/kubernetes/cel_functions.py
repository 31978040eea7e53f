"""Functions that CEL expressions may call in addition to CEL's own: those of OCM and of Kubernetes' CEL libraries.

CEL evaluates `x.f(a)` as `f(x, a)`, so the first argument of each function is its receiver. A value of a type that CEL
does not have (a quantity, a version, an address, a network, a URL) is a map with one entry, which names the type.

Available: `parseJSON`; quantities, semantic versions, IP addresses and networks, and URLs; regular expressions, lists
and formats as in Kubernetes; and the extended string functions of the library. `scores` needs the fleet, so it is in
`cel`. Not available: `format` on strings, `string` of an address or a network, optional field selection (`.?x`), and
the formats `uri`, `dns1035Label` and `*Prefix`.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, TypeAlias
from urllib.parse import SplitResult, parse_qs, urlsplit

import cel
import re2
from cel.stdlib import STDLIB_FUNCTIONS

from moorage.decide.kubernetes.names import (
    check_dns_label,
    check_dns_subdomain,
    check_label_value,
    check_qualified_name,
)
from moorage.decide.kubernetes.quantities import parse_quantity

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Interface | ipaddress.IPv6Interface
Value: TypeAlias = Any
"""A CEL value."""

_QUANTITY, _SEMVER, _IP, _CIDR, _URL, _FORMAT = "#quantity", "#semver", "#ip", "#cidr", "#url", "#format"
_VERSION: Final = re.compile(
    r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.-]+))?"
)
MATCHES: Final = "matchesByRE2"
"""The name under which expressions call `matches`, because the library's own cannot be replaced."""

_UUID: Final = re.compile(r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)


def _is(kind: Callable[..., Value]) -> Callable[..., bool]:
    """Return a function that checks whether `kind` can convert a text."""

    def answer(*arguments: Value) -> bool:
        try:
            kind(*arguments)
        except (ValueError, TypeError):
            return False
        return True

    return answer


def _part(value: Value, kind: str) -> Value:
    if not isinstance(value, Mapping) or kind not in value:
        raise TypeError(f"no such overload: {value!r} is no {kind.removeprefix('#')}")
    return value[kind]


def parse_json(text: str) -> Value:
    """Parse a JSON text. Whole numbers become doubles, as in Go."""
    return json.loads(text, parse_int=float)


# --- quantities


def quantity(text: str) -> Value:
    """Parse a quantity."""
    return _quantity(parse_quantity(text))


def _quantity(number: Fraction) -> Value:
    return {_QUANTITY: f"{number.numerator}/{number.denominator}"}


def _number(value: Value) -> Fraction:
    return Fraction(value) if isinstance(value, int) else Fraction(_part(value, _QUANTITY))


def _as_integer(value: Value) -> int:
    number = _number(value)
    if number.denominator != 1 or not -(2**63) <= number < 2**63:
        raise ValueError("cannot convert value to integer")
    return int(number)


def _is_integer(value: Value) -> bool:
    return _is(_as_integer)(value)


def _sign(value: Value) -> int:
    number = _number(value)
    return (number > 0) - (number < 0)


# --- versions


def semver(text: str) -> Value:
    """Parse a semantic version without a leading `v`."""
    if not _VERSION.fullmatch(text):
        raise ValueError(f"{text!r} is no semantic version")
    return {_SEMVER: text}


def _version(value: Value) -> tuple[Any, ...]:
    """Return the sort key of a version. A pre-release comes before its release, and numbers come before words."""
    found = _VERSION.fullmatch(_part(value, _SEMVER))
    if found is None:
        raise ValueError("no semantic version")
    pre = found[4]
    parts = [(0, int(one), "") if one.isdigit() else (1, 0, one) for one in (pre or "").split(".")]
    return (int(found[1]), int(found[2]), int(found[3]), pre is None, parts if pre else [])


def _release(place: int) -> Callable[[Value], int]:
    return lambda value: int(_version(value)[place])


# --- shared by quantities and versions


def _compare(one: Value, other: Value) -> int:
    order = _version if isinstance(one, Mapping) and _SEMVER in one else _number
    mine, theirs = order(one), order(other)
    return (mine > theirs) - (mine < theirs)  # type: ignore[operator]  # both are of the same kind


# --- addresses and networks


def ip(value: Value) -> Value:
    """Parse an IP address, or return the address of a network."""
    if isinstance(value, Mapping):
        return {_IP: str(_network(value).ip)}
    if "%" in value or not isinstance(value, str):
        raise ValueError("IP address with zone value is not allowed")
    return {_IP: str(_plain(value))}


def _plain(text: str) -> Address:
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        raise ValueError("IPv4-mapped IPv6 address is not allowed")
    return address


def cidr(text: str) -> Value:
    """Parse a network."""
    if "/" not in text:
        raise ValueError("network has no prefix")
    _plain(text.partition("/")[0])
    return {_CIDR: str(ipaddress.ip_interface(text))}


def _address(value: Value) -> Address:
    return _plain(value if isinstance(value, str) else _part(value, _IP))


def _network(value: Value) -> Network:
    return ipaddress.ip_interface(value if isinstance(value, str) else _part(value, _CIDR))


def _contains_ip(network: Value, address: Value) -> bool:
    return _address(address) in _network(network).network


def _contains_cidr(network: Value, other: Value) -> bool:
    mine, theirs = _network(network).network, _network(other).network
    return mine.version == theirs.version and theirs.subnet_of(mine)  # type: ignore[arg-type]  # of one version


def _global_unicast(value: Value) -> bool:
    """Return whether an address is global unicast. As in Go, private addresses are."""
    address = _address(value)
    broadcast = address == ipaddress.IPv4Address("255.255.255.255")
    return not (
        broadcast or address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    )


def _link_local_multicast(value: Value) -> bool:
    address = _address(value)
    among = "224.0.0.0/24" if address.version == 4 else "ff02::/16"  # noqa: PLR2004 - IP version 4
    return address in ipaddress.ip_network(among)


# --- URLs


def url(text: str) -> Value:
    """Parse a URL that is absolute or a path from the root."""
    parts = urlsplit(text)
    if not (parts.scheme or text.startswith("/")):
        raise ValueError(f"invalid URI for request: {text!r}")
    return {_URL: text}


def _url(value: Value) -> SplitResult:
    return urlsplit(_part(value, _URL))


def _host(value: Value) -> str:
    return _url(value).netloc.rpartition("@")[2]


def _hostname(value: Value) -> str:
    host = _host(value)
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def _port(value: Value) -> str:
    return _host(value).rpartition("]")[2].rpartition(":")[2] if ":" in _host(value).rpartition("]")[2] else ""


# --- texts, lists, formats


_PATTERN_MEMORY: Final = 2 * 1_048_576
"""Bytes that a compiled pattern may take. A larger one is an error, as a repetition of more than 1,000 is."""

_PATTERNS: Final = 1024
"""How many compiled patterns are kept."""


def _options() -> Any:
    found = re2.Options()
    found.max_mem = _PATTERN_MEMORY
    found.log_errors = False
    return found


@lru_cache(maxsize=_PATTERNS)
def _compiled(pattern: str) -> Any:
    """Return a compiled pattern, or the error in it. As upstream's, RE2 takes a time that is linear in the text."""
    try:
        return re2.compile(pattern, _options())
    except re2.error as error:
        return ValueError(f"invalid regular expression {pattern!r}: {error}")


def _pattern(pattern: str) -> Any:
    found = _compiled(pattern)
    if isinstance(found, ValueError):
        raise found
    return found


def pattern_size(pattern: str) -> int:
    """Return the number of instructions of a compiled regular expression. 1 if it is invalid."""
    found = _compiled(pattern)
    return 1 if isinstance(found, ValueError) else int(found.programsize)


def matches(text: str, pattern: str) -> bool:
    """Return whether a text contains a match of a regular expression."""
    return _pattern(pattern).search(text) is not None


def _find(text: str, pattern: str) -> str:
    found = _pattern(pattern).search(text)
    return str(found[0]) if found else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = _pattern(pattern).finditer(text)
    return [str(one[0]) for one in (found if limit < 0 else itertools.islice(found, limit))]


def _is_sorted(items: Sequence[Value]) -> bool:
    return all(one <= other for one, other in itertools.pairwise(items))


def _index_of(whole: Value, part: Value, start: int = 0) -> int:
    if isinstance(whole, str):
        return whole.find(part, start)
    return next((i for i, one in enumerate(whole) if one == part), -1)


def _last_index_of(whole: Value, part: Value, end: int | None = None) -> int:
    if isinstance(whole, str):
        return whole.rfind(part) if end is None else whole.rfind(part, 0, end + len(part))
    return max((i for i, one in enumerate(whole) if one == part), default=-1)


def _uuid(text: str) -> list[str]:
    return [] if _UUID.fullmatch(text) else ["does not match the UUID format"]


def _base64(text: str) -> list[str]:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        return ["invalid base64"]
    return []


_FORMATS: Final[Mapping[str, Callable[[str], list[str]]]] = {
    "dns1123Label": check_dns_label,
    "dns1123Subdomain": check_dns_subdomain,
    "qualifiedName": check_qualified_name,
    "labelValue": check_label_value,
    "uuid": _uuid,
    "byte": _base64,
    "date": lambda text: [] if _is(date.fromisoformat)(text) else ["invalid date"],
    "datetime": lambda text: [] if _is(datetime.fromisoformat)(text) else ["invalid datetime"],
}


def _named(name: str) -> Value:
    return cel.OptionalValue.of({_FORMAT: name}) if name in _FORMATS else cel.OptionalValue.none()


def _validate(form: Value, text: str) -> Value:
    errors = _FORMATS[_part(form, _FORMAT)](text)
    return cel.OptionalValue.of(errors) if errors else cel.OptionalValue.none()


_OF_LIBRARY: Final = (
    *("charAt", "join", "lowerAscii", "max", "min", "replace", "reverse"),
    *("split", "strings.quote", "substring", "sum", "trim", "upperAscii"),
)

FUNCTIONS: Final[Mapping[str, Callable[..., Value]]] = {
    **{name: STDLIB_FUNCTIONS[name] for name in _OF_LIBRARY},
    MATCHES: matches,
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "parseJSON": parse_json,
    "quantity": quantity,
    "isQuantity": _is(quantity),
    "sign": _sign,
    "isInteger": _is_integer,
    "asInteger": _as_integer,
    "asApproximateFloat": lambda value: float(_number(value)),
    "add": lambda one, other: _quantity(_number(one) + _number(other)),
    "sub": lambda one, other: _quantity(_number(one) - _number(other)),
    "semver": semver,
    "isSemver": _is(semver),
    "major": _release(0),
    "minor": _release(1),
    "patch": _release(2),
    "compareTo": _compare,
    "isGreaterThan": lambda one, other: _compare(one, other) > 0,
    "isLessThan": lambda one, other: _compare(one, other) < 0,
    "ip": ip,
    "isIP": _is(ip),
    "ip.isCanonical": lambda text: str(_plain(text)) == text,
    "family": lambda value: _address(value).version,
    "isUnspecified": lambda value: _address(value).is_unspecified,
    "isLoopback": lambda value: _address(value).is_loopback,
    "isLinkLocalMulticast": _link_local_multicast,
    "isLinkLocalUnicast": lambda value: _address(value).is_link_local,
    "isGlobalUnicast": _global_unicast,
    "cidr": cidr,
    "isCIDR": _is(cidr),
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "prefixLength": lambda value: _network(value).network.prefixlen,
    "masked": lambda value: {_CIDR: str(_network(value).network)},
    "url": url,
    "isURL": _is(url),
    "getScheme": lambda value: _url(value).scheme,
    "getHost": _host,
    "getHostname": _hostname,
    "getPort": _port,
    "getEscapedPath": lambda value: _url(value).path,
    "getQuery": lambda value: parse_qs(_url(value).query, keep_blank_values=True),
    "find": _find,
    "findAll": _find_all,
    "isSorted": _is_sorted,
    "format.named": _named,
    "validate": _validate,
    **{f"format.{name}": (lambda name=name: {_FORMAT: name}) for name in _FORMATS},
}
"""The functions by the name under which expressions call them."""
