"""Validation of what nodes have beside their taints, as Kubernetes 1.37 has it."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_network
from typing import Any, Final

from moorage.apiserver.rules.validation.fields import CheckedField
from moorage.apiserver.rules.validation.pods import check_amounts
from moorage.decide.kubernetes.field_errors import FieldError

_CIDR: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def validate_node(document: Mapping[str, Any]) -> list[FieldError]:
    """Validate the amounts that a node has, and the addresses of its pods."""
    node = CheckedField(document)
    capacity, allocatable = node["status"]["capacity"], node["status"]["allocatable"]
    check_amounts(capacity)
    check_amounts(allocatable if allocatable.is_object else CheckedField(capacity.value, allocatable.path, node.errors))
    _check_ranges(_ranges(node["spec"]))
    return node.errors


def validate_node_update(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
    """Validate that a change of a node keeps what its cloud and its network have given it."""
    old, new = CheckedField(before)["spec"], CheckedField(after)["spec"]
    ranges, provider = _ranges(old).value, old["providerID"].text
    if ranges and ranges != _ranges(new).value:
        _ranges(new).forbidden('node updates may not change podCIDR except from "" to valid')
    if provider and provider != new["providerID"].text:
        changed = "modified" if new["providerID"].text else "cleared"
        new["providerID"].invalid(f"field cannot be {changed} once set", None)
    return new.errors


def _check_ranges(ranges: CheckedField) -> None:
    versions = []
    for one in ranges.each():
        try:
            versions.append(ip_network(one.value, strict=False).version)
        except ValueError:
            one.invalid(_CIDR)
    if len(versions) > len(set(versions)):
        ranges.invalid("may specify no more than one CIDR for each IP family")


def _ranges(spec: CheckedField) -> CheckedField:
    """Return the addresses of a node's pods. The older field counts if the newer one is left out."""
    older, newer = spec["podCIDR"].text, spec["podCIDRs"]
    return CheckedField(newer.items or ([older] if older else []), newer.path, spec.errors)
