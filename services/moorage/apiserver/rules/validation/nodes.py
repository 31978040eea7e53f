"""Validation of what nodes have beside their taints, as Kubernetes 1.37 has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_network
from typing import Any, Final

from moorage.apiserver.rules.validation.fields import Fields, inner, listed, object_in, text
from moorage.apiserver.rules.validation.pods import amounts
from moorage.decide.kubernetes.field_errors import FieldError, forbidden, invalid

_RANGES: Final = "spec.podCIDRs"
_PROVIDER: Final = "spec.providerID"


def validate_node(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate the amounts that a node has, and the addresses of its pods."""
    status = inner(document, "status")
    capacity = inner(status, "capacity")
    allocatable = object_in(status, "allocatable")
    return [
        *amounts(capacity, "status.capacity"),
        *amounts(capacity if allocatable is None else allocatable, "status.allocatable"),
        *_addresses(inner(document, "spec")),
    ]


def validate_node_update(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
    """Validate a change of a node: what its cloud and its network have given it stays.

    Args:
        before: the node as it is shown.
        after: the node as it is wanted.
    """
    old, new = inner(before, "spec"), inner(after, "spec")
    found = []
    if _ranges(old) and _ranges(old) != _ranges(new):
        found.append(forbidden(_RANGES, 'node updates may not change podCIDR except from "" to valid'))
    if (provider := text(old, "providerID")) and provider != text(new, "providerID"):
        changed = "modified" if text(new, "providerID") else "cleared"
        found.append(invalid(_PROVIDER, None, f"field cannot be {changed} once set"))
    return found


def _addresses(spec: Fields) -> Iterator[FieldError]:
    versions = []
    ranges = _ranges(spec)
    for number, value in enumerate(ranges):
        try:
            versions.append(ip_network(value, strict=False).version)
        except ValueError:
            rule = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
            yield invalid(f"{_RANGES}[{number}]", value, rule)
    if len(versions) > len(set(versions)):
        rule = "may specify no more than one CIDR for each IP family"
        yield invalid(_RANGES, ranges, rule)


def _ranges(spec: Fields) -> list[Any]:
    """The addresses of a node's pods. The older field counts if the newer one is left out."""
    older = text(spec, "podCIDR")
    return list(listed(spec, "podCIDRs")) or ([older] if older else [])
