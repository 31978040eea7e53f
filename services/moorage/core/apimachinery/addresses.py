"""IP addresses and blocks of them in fields that Kubernetes has always had.

Such a field once took addresses that no field takes today: with zeros before the numbers, and IPv4 addresses written as
IPv6 ones. They are still understood, so that whoever writes one is told what is wrong with it. Each `check_*` function
returns a list of errors with Kubernetes' messages. The list is empty if the value is valid.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final, TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Block: TypeAlias = ipaddress.IPv4Interface | ipaddress.IPv6Interface

_ZEROS: Final = re.compile("(?<![0-9a-fA-F])0+(?=[0-9a-fA-F])")
"""Zeros before a number."""

_LENGTH: Final = re.compile("[0-9]{1,8}")
_V4_IN_V6: Final = 96
"""The number of bits before the IPv4 address in an IPv6 address."""

_LOCAL_MULTICAST: Final = ipaddress.IPv4Network("224.0.0.0/24")
_LINK: Final = 2
"""The scope of an IPv6 multicast address that stays on its link."""


def address_of(value: str) -> Address | None:
    """The address that a text was ever understood as. None if it never was one."""
    return _strict(_ZEROS.sub("", value))


def block_of(value: str) -> Block | None:
    """The block, with the address that it is written with. None if the text was never understood as one."""
    text, slash, length = value.partition("/")
    address = address_of(text)
    if not slash or address is None or not _LENGTH.fullmatch(length) or int(length) > address.max_prefixlen:
        return None
    return ipaddress.ip_interface((address, int(length)))


def check_address(value: str) -> list[str]:
    """Check an IP address."""
    address = address_of(value)
    if address is None:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    if _strict(value) is None:
        return ["must not have leading 0s"]
    return ["must not be an IPv4-mapped IPv6 address"] if _is_mapped(address) else []


def check_block(value: str) -> list[str]:
    """Check a block of addresses such as `10.0.0.0/8`."""
    block = block_of(value)
    if block is None:
        return ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]
    text, _, length = value.partition("/")
    if _strict(text) is None or length != str(int(length)):
        return ["must not have leading 0s in IP or prefix length"]
    if _is_mapped(block.ip):
        return ["must not have an IPv4-mapped IPv6 address"]
    return [] if block.ip == block.network.network_address else ["must not have bits set beyond the prefix length"]


def check_reachable(address: Address, shown: str) -> list[str]:
    """Check that an address is one at which others may be reached.

    Args:
        address: the address.
        shown: its text.
    """
    one = _unmapped(address)
    is_v4 = isinstance(one, ipaddress.IPv4Address)
    is_local = one in _LOCAL_MULTICAST if is_v4 else one.is_multicast and one.packed[1] & 0xF == _LINK
    rules = (
        (one.is_unspecified, f"may not be unspecified ({shown})"),
        (one.is_loopback, "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (one.is_link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        (is_local, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
    )
    return [rule for is_broken, rule in rules if is_broken]


def is_strictly_within(inner: Block, outer: Block) -> bool:
    """Whether a block is a part of another one, and smaller."""
    first, network = _unmapped(inner.network.network_address), _unmapped_network(outer)
    is_smaller = inner.network.prefixlen > outer.network.prefixlen
    return is_smaller and first.version == network.version and first in network


def _strict(value: str) -> Address | None:
    if "%" in value:
        return None
    try:
        return ipaddress.ip_address(value)
    except ValueError:
        return None


def _is_mapped(address: Address) -> bool:
    return _unmapped(address) is not address


def _unmapped(address: Address) -> Address:
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _unmapped_network(block: Block) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    network = block.network
    first = _unmapped(network.network_address)
    if first is network.network_address:
        return network
    return ipaddress.ip_network((first, network.prefixlen - _V4_IN_V6))


def with_port(host: str, port: int) -> str:
    """An address and a port in one text: `10.0.0.1:80`, `[::1]:80`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def check_today(value: str) -> list[str]:
    """Check an IP address in a field that only takes what such a field takes today."""
    wrong = check_address(value)
    address = address_of(value)
    if wrong or address is None or str(address) == value:
        return wrong
    return [f'must be in canonical form ("{address}")']
