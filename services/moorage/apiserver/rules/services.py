"""What a service shows that does not say everything, as Kubernetes 1.37 has it.

Moorage runs no network: it gives no addresses and no ports of nodes. All functions are pure and never change their
arguments.
"""

from __future__ import annotations

from typing import Any, Final

from moorage.decide.kubernetes.unstructured import at

_Object = dict[str, Any]

_CLUSTER_IP: Final = "ClusterIP"
_BALANCED: Final = "LoadBalancer"
_ON_NODES: Final = frozenset({"NodePort", _BALANCED})
_NONE: Final = "None"
"""The address of a service that wants none, and the affinity of one that has none."""

_SINGLE_STACK: Final = "SingleStack"
_FAMILIES: Final = ("IPv4", "IPv6")
_TIMEOUT: Final = 10_800
_CLUSTER: Final = "Cluster"


def with_service_defaults(spec: _Object) -> _Object:
    """The spec of a service with the values of the fields that it leaves out. A second time changes nothing."""
    kind, affinity = spec.get("type") or _CLUSTER_IP, spec.get("sessionAffinity") or _NONE
    found = {**spec, "type": kind, "sessionAffinity": affinity}
    if isinstance(ports := found.get("ports"), list):
        found["ports"] = [_port(one) if isinstance(one, dict) else one for one in ports]
    if affinity == _NONE:
        found.pop("sessionAffinityConfig", None)
    elif affinity == "ClientIP" and at(found, "sessionAffinityConfig", "clientIP", "timeoutSeconds") is None:
        found["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _TIMEOUT}}
    if kind in {_CLUSTER_IP, *_ON_NODES} and found.get("internalTrafficPolicy") is None:
        found["internalTrafficPolicy"] = _CLUSTER
    is_outside = kind in _ON_NODES or (kind == _CLUSTER_IP and bool(found.get("externalIPs")))
    if is_outside and not found.get("externalTrafficPolicy"):
        found["externalTrafficPolicy"] = _CLUSTER
    if kind == _BALANCED and found.get("allocateLoadBalancerNodePorts") is None:
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
    if found["clusterIPs"] != [_NONE] or found["type"] == "ExternalName":
        return found
    is_selecting = bool(spec.get("selector"))
    if found.get("ipFamilyPolicy") is None:
        found["ipFamilyPolicy"] = _SINGLE_STACK if is_selecting else "RequireDualStack"
    families = found.get("ipFamilies") or [_FAMILIES[0]]
    if (
        not is_selecting
        and found["ipFamilyPolicy"] != _SINGLE_STACK
        and len(families) == 1
        and families[0] in _FAMILIES
    ):
        families = [*families, *(one for one in _FAMILIES if one not in families)]
    return {**found, "ipFamilies": families}
