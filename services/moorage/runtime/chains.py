"""The chains: services that one process runs as one, because their topics are partitioned alike.

A chain and its services alone are two forms of the same. Both keep their positions in the consumer groups of the
services, so a fleet can change from one form to the other. A chain takes precedence: while its group has members, its
services alone wait (docs/decisions/0072).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

CHAINS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"targets": ("condition-ingest", "taint-manager", "eviction", "timer")}
)
"""The services of each chain by its name, in the order in which they decide."""


def chain_of(service: str) -> str | None:
    """Return the name of the chain that a service may be part of; None for none."""
    return next((name for name, services in CHAINS.items() if service in services), None)


def grouped(services: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return how a process runs some services: each chain of which all are there, and each of the others alone.

    Args:
        services: the names of the services.

    Returns:
        By the name of the chain or of the service, the services, in the order of the given ones.
    """
    given = tuple(services)
    found: dict[str, tuple[str, ...]] = {}
    for service in given:
        chain = chain_of(service)
        if chain is not None and set(CHAINS[chain]) <= set(given):
            found[chain] = CHAINS[chain]
        else:
            found[service] = (service,)
    return found
