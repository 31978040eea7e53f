"""Which addresses a webhook may be sent to. The address that was checked is the one that is connected to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""Looks up the addresses of a host."""

# These carry an IPv4 address, which may be a private one.
_TRANSLATED: Final = (ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/48"), ip_network("2002::/16"))


class AddressError(Exception):
    """A host has no address that may be connected to."""


async def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host, as the system knows them.

    Raises:
        OSError: it has none.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


async def address_of(host: str, port: int, *, allow_private: bool, look_up: Resolve = resolve) -> str:
    """Return the address to connect to.

    Raises:
        AddressError: the host is unknown, or one of its addresses is not a public one and only those are allowed.
    """
    try:
        found = await look_up(host, port)
    except (OSError, UnicodeError) as error:
        raise AddressError(f"{host} cannot be resolved: {error}") from None
    if not found:
        raise AddressError(f"{host} has no address")
    if not allow_private:
        for address in found:
            if not is_public(ip_address(address.partition("%")[0])):
                raise AddressError(f"{host} has the address {address}, which needs allowPrivate")
    return found[0]


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address is one of the public internet."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if any(address in network for network in _TRANSLATED):
            return False
    return address.is_global and not address.is_multicast
