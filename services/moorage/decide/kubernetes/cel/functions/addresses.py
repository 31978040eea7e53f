"""IP addresses and networks."""

from __future__ import annotations

import ipaddress
import math
import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from typing_extensions import override

from moorage.decide.kubernetes.cel.declarations import Overload, function, method
from moorage.decide.kubernetes.cel.types import BOOL, INT, STRING, Type
from moorage.decide.kubernetes.cel.values import CelError, Opaque

Plain: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

IP: Final = Type("net.IP")
CIDR: Final = Type("net.CIDR")

_LONGEST: Final = 64
_PREFIX: Final = re.compile(r"0|[1-9][0-9]{0,2}")
_BROADCAST: Final = ipaddress.IPv4Address("255.255.255.255")
_LINK_LOCAL: Final = {4: ipaddress.ip_network("224.0.0.0/24"), 6: ipaddress.ip_network("ff02::/16")}
_MULTICAST: Final = {4: ipaddress.ip_network("224.0.0.0/4"), 6: ipaddress.ip_network("ff00::/8")}


@dataclass(frozen=True, slots=True)
class Address(Opaque):
    """An IP address."""

    plain: Plain

    @property
    def kind(self) -> str:  # type: ignore[override]  # every address has this kind
        """The name of the type."""
        return IP.name

    @property
    def size(self) -> int:  # type: ignore[override]  # it depends on the version
        """Its bytes."""
        return self.plain.max_prefixlen // 8

    @override
    def same(self, other: Opaque) -> bool:
        return self == other


@dataclass(frozen=True, slots=True)
class Network(Opaque):
    """A network, with the address that it was written with."""

    plain: Plain
    length: int

    @property
    def kind(self) -> str:  # type: ignore[override]  # every network has this kind
        """The name of the type."""
        return CIDR.name

    @property
    def size(self) -> int:  # type: ignore[override]  # it depends on its length
        """The bytes of its prefix."""
        return math.ceil(self.length / 8)

    @property
    def network(self) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
        """The network."""
        return ipaddress.ip_network((self.plain, self.length), strict=False)

    @override
    def same(self, other: Opaque) -> bool:
        return self == other


def _plain(text: str) -> Plain:
    if len(text) > _LONGEST or "%" in text:
        raise CelError(f'IP address "{text}" with zone value is not allowed')
    try:
        found = ipaddress.ip_address(text)
    except ValueError as error:
        raise CelError(f'IP Address "{text}" parse error during conversion from string: {error}') from None
    if found.version == 6 and found.ipv4_mapped:  # noqa: PLR2004 - IP version 6
        raise CelError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return found


def _address(text: str) -> Address:
    return Address(_plain(text))


def _network(text: str) -> Network:
    address, slash, length = text.rpartition("/")
    if not slash or not _PREFIX.fullmatch(length):
        raise CelError(f'network address parse error during conversion from string: "{text}"')
    plain = _plain(address)
    if int(length) > plain.max_prefixlen:
        raise CelError(f'network address parse error during conversion from string: "{text}"')
    return Network(plain, int(length))


def _is_address(text: str) -> bool:
    try:
        _plain(text)
    except CelError:
        return False
    return True


def _is_network(text: str) -> bool:
    try:
        _network(text)
    except CelError:
        return False
    return True


def _text(plain: Plain) -> str:
    return str(plain)


def _contains_ip(network: Network, address: Address) -> bool:
    return address.plain in network.network


def _contains_cidr(one: Network, other: Network) -> bool:
    return one.plain.version == other.plain.version and one.length <= other.length and other.plain in one.network


def _is_global(address: Address) -> bool:
    """Return whether an address is global unicast. As in Go, private addresses are."""
    plain = address.plain
    return not (
        plain == _BROADCAST
        or plain.is_unspecified
        or plain.is_loopback
        or plain in _MULTICAST[plain.version]
        or _is_link_local(address)
    )


def _is_link_local(address: Address) -> bool:
    return address.plain.is_link_local


def _masked(network: Network) -> Network:
    return Network(network.network.network_address, network.length)


OVERLOADS: Final[tuple[Overload, ...]] = (
    function("ip", (STRING,), IP, _address),
    method("ip", (CIDR,), IP, lambda network: Address(network.plain)),
    function("isIP", (STRING,), BOOL, _is_address),
    function("ip.isCanonical", (STRING,), BOOL, lambda text: _text(_plain(text)) == text),
    function("string", (IP,), STRING, lambda address: _text(address.plain)),
    method("family", (IP,), INT, lambda address: address.plain.version),
    method("isUnspecified", (IP,), BOOL, lambda address: address.plain.is_unspecified),
    method("isLoopback", (IP,), BOOL, lambda address: address.plain.is_loopback),
    method("isLinkLocalMulticast", (IP,), BOOL, lambda address: address.plain in _LINK_LOCAL[address.plain.version]),
    method("isLinkLocalUnicast", (IP,), BOOL, _is_link_local),
    method("isGlobalUnicast", (IP,), BOOL, _is_global),
    function("cidr", (STRING,), CIDR, _network),
    function("isCIDR", (STRING,), BOOL, _is_network),
    function("string", (CIDR,), STRING, lambda network: f"{_text(network.plain)}/{network.length}"),
    method("containsIP", (CIDR, STRING), BOOL, lambda network, text: _contains_ip(network, _address(text))),
    method("containsIP", (CIDR, IP), BOOL, _contains_ip),
    method("containsCIDR", (CIDR, STRING), BOOL, lambda network, text: _contains_cidr(network, _network(text))),
    method("containsCIDR", (CIDR, CIDR), BOOL, _contains_cidr),
    method("prefixLength", (CIDR,), INT, lambda network: network.length),
    method("masked", (CIDR,), CIDR, _masked),
)
