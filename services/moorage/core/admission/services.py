"""What a service gets that does not say everything, and what of it a change keeps, as Kubernetes 1.37 has it.

Moorage runs no network: it gives no addresses and no ports of nodes. All functions are pure and never change their
arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from moorage.core.apimachinery.unstructured import at

_Object = dict[str, Any]
_Fields = Mapping[str, Any]

CLUSTER_IP: Final = "ClusterIP"
NODE_PORT: Final = "NodePort"
LOAD_BALANCER: Final = "LoadBalancer"
EXTERNAL_NAME: Final = "ExternalName"
"""A service that is only another name of something outside: it has no addresses."""

HEADLESS: Final = "None"
"""The address of a service that wants none."""

LOCAL: Final = "Local"
CLIENT_IP: Final = "ClientIP"
NO_AFFINITY: Final = "None"
SINGLE_STACK: Final = "SingleStack"
FAMILIES: Final = ("IPv4", "IPv6")

_DUAL_STACK: Final = "RequireDualStack"
_TIMEOUT: Final = 10_800
_CLUSTER: Final = "Cluster"


def is_reached_from_outside(spec: _Fields) -> bool:
    """Whether a service has addresses outside of its cluster."""
    kind = spec.get("type")
    return kind in {NODE_PORT, LOAD_BALANCER} or (kind == CLUSTER_IP and bool(spec.get("externalIPs")))


def ignored_fields(spec: _Fields) -> Iterator[str]:
    """Warnings about fields of a service that have no effect in its type, or that are deprecated, as Kubernetes has."""
    is_name, is_headless = spec.get("type") == EXTERNAL_NAME, spec.get("clusterIP") == HEADLESS
    if is_headless and spec.get("loadBalancerIP"):
        yield "spec.loadBalancerIP is ignored for headless services"
    if spec.get("externalIPs"):
        if is_name:
            yield f'spec.externalIPs is ignored when spec.type is "{EXTERNAL_NAME}"'
        elif is_headless:
            yield "spec.externalIPs is ignored for headless services"
        else:
            yield "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
    if is_headless and spec.get("sessionAffinity") not in {None, "", NO_AFFINITY}:
        yield "spec.SessionAffinity is ignored for headless services"
    if not is_name and spec.get("externalName"):
        yield f'spec.externalName is ignored when spec.type is not "{EXTERNAL_NAME}"'
    if spec.get("trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


def with_service_defaults(spec: _Object) -> _Object:
    """The spec of a service with the values of the fields that it leaves out. A second time changes nothing."""
    found = {
        **spec,
        "type": spec.get("type") or CLUSTER_IP,
        "sessionAffinity": spec.get("sessionAffinity") or NO_AFFINITY,
    }
    if isinstance(ports := found.get("ports"), list):
        found["ports"] = [_port(one) if isinstance(one, dict) else one for one in ports]
    if found["sessionAffinity"] == NO_AFFINITY:
        found.pop("sessionAffinityConfig", None)
    elif (
        found["sessionAffinity"] == CLIENT_IP
        and at(found, "sessionAffinityConfig", "clientIP", "timeoutSeconds") is None
    ):
        found["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _TIMEOUT}}
    if found["type"] in {CLUSTER_IP, NODE_PORT, LOAD_BALANCER} and found.get("internalTrafficPolicy") is None:
        found["internalTrafficPolicy"] = _CLUSTER
    if is_reached_from_outside(found) and not found.get("externalTrafficPolicy"):
        found["externalTrafficPolicy"] = _CLUSTER
    if found["type"] == LOAD_BALANCER and found.get("allocateLoadBalancerNodePorts") is None:
        found["allocateLoadBalancerNodePorts"] = True
    return _with_addresses(found)


def _port(port: _Object) -> _Object:
    found = {**port, "protocol": port.get("protocol") or "TCP"}
    if not port.get("targetPort") and port.get("port"):
        found["targetPort"] = port["port"]
    return found


def _with_addresses(spec: _Object) -> _Object:
    """A service with the addresses that follow from those that it names, and with the families of one that has none."""
    first = spec.get("clusterIP")
    if not first:
        return spec
    found = {**spec, "clusterIPs": spec.get("clusterIPs") or [first]}
    if found["clusterIPs"] != [HEADLESS] or found["type"] == EXTERNAL_NAME:
        return found
    is_selecting = bool(spec.get("selector"))
    if found.get("ipFamilyPolicy") is None:
        found["ipFamilyPolicy"] = SINGLE_STACK if is_selecting else _DUAL_STACK
    families = found.get("ipFamilies") or [FAMILIES[0]]
    if not is_selecting and found["ipFamilyPolicy"] != SINGLE_STACK and len(families) == 1 and families[0] in FAMILIES:
        families = [*families, *(one for one in FAMILIES if one not in families)]
    return {**found, "ipFamilies": families}


def kept_in_change(wanted: _Fields, present: _Fields) -> _Object:
    """The spec that a change makes of a service.

    What was given to the service stays, if the change does not name it. What only another type has goes with that type,
    if the change does not touch it.

    Args:
        wanted: the spec that was sent, or that a patch makes.
        present: the spec as it is shown.
    """
    kind = wanted.get("type") or CLUSTER_IP
    found = _still_given({**wanted, "type": kind}, present)
    for field, is_for in _OF_TYPES.items():
        if is_for(present) and not is_for(found) and found.get(field) == present.get(field):
            found.pop(field, None)
    if _has_node_ports(present) and not _may_have_node_ports(found):
        ports = _objects(found)
        if [one.get("nodePort") or 0 for one in ports] == [one.get("nodePort") or 0 for one in _objects(present)]:
            found["ports"] = [{key: value for key, value in one.items() if key != "nodePort"} for one in ports]
    return found


def _still_given(wanted: _Object, present: _Fields) -> _Object:
    found = _with_kept_addresses(wanted, present) if _has_addresses(present) and _has_addresses(wanted) else wanted
    if _has_node_ports(present) and _has_node_ports(found) and isinstance(found.get("ports"), list):
        found = {**found, "ports": _with_node_ports(found, present)}
    if _has_health_check(present) and _has_health_check(found):
        return _with_kept(found, present, "healthCheckNodePort")
    return found


def _with_kept_addresses(wanted: _Object, present: _Fields) -> _Object:
    found = _with_kept(wanted, present, "clusterIP", "clusterIPs", "ipFamilyPolicy")
    if found.get("ipFamilyPolicy") == SINGLE_STACK:
        for field in ("clusterIPs", "ipFamilies"):  # the second one is given up
            if isinstance(found.get(field), list) and found[field] == present.get(field):
                found[field] = found[field][:1]
    return found


def _with_kept(wanted: _Object, present: _Fields, *fields: str) -> _Object:
    """The spec with those fields of the present one that it leaves out. A wrong policy that is empty stays wrong."""
    missing = [one for one in fields if not wanted.get(one) and (one != "ipFamilyPolicy" or wanted.get(one) is None)]
    return {**wanted, **{one: present[one] for one in missing if present.get(one)}}


def _with_node_ports(wanted: _Fields, present: _Fields) -> list[Any]:
    """The ports, each with the port of the nodes that the one of its name has, if no other port has that now."""
    known = {one.get("name") or "": one.get("nodePort") for one in _objects(present)}
    used = {one.get("nodePort") for one in _objects(present)} & {one.get("nodePort") for one in _objects(wanted)}
    return [
        {**one, "nodePort": given}
        if isinstance(one, dict)
        and not one.get("nodePort")
        and (given := known.get(one.get("name") or ""))
        and given not in used
        else one
        for one in wanted["ports"]
    ]


def _objects(spec: _Fields) -> list[_Object]:
    found = spec.get("ports")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _has_addresses(spec: _Fields) -> bool:
    return spec.get("type") != EXTERNAL_NAME


def _is_balanced(spec: _Fields) -> bool:
    return spec.get("type") == LOAD_BALANCER


def _may_have_node_ports(spec: _Fields) -> bool:
    return spec.get("type") in {NODE_PORT, LOAD_BALANCER}


def _has_node_ports(spec: _Fields) -> bool:
    return spec.get("type") == NODE_PORT or (
        _is_balanced(spec) and spec.get("allocateLoadBalancerNodePorts") is not False
    )


def _has_health_check(spec: _Fields) -> bool:
    return _is_balanced(spec) and spec.get("externalTrafficPolicy") == LOCAL


_OF_TYPES: Final = {
    "clusterIP": _has_addresses,
    "clusterIPs": _has_addresses,
    "ipFamilies": _has_addresses,
    "ipFamilyPolicy": _has_addresses,
    "internalTrafficPolicy": _has_addresses,
    "healthCheckNodePort": _has_health_check,
    "allocateLoadBalancerNodePorts": _is_balanced,
    "loadBalancerClass": _is_balanced,
    "externalTrafficPolicy": is_reached_from_outside,
}
"""Fields that only some services have, each with what says which."""
