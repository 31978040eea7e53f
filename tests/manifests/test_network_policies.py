"""Who may talk to whom in ops/kubernetes/base: its NetworkPolicies, evaluated as Kubernetes describes them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from tests.support import manifests
from tests.support.manifests import Manifest, component

WORKERS = ("targets", "governor", "placement")
HTTP, HTTPS = 8081, 8080


@dataclass(frozen=True)
class Peer:
    """A pod, or an address outside if it has no namespace."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    namespace: str = ""
    namespace_labels: tuple[tuple[str, str], ...] = ()
    address: str = "10.9.8.7"
    ports: tuple[tuple[str, int], ...] = ()


def other(name: str, **labels: str) -> Peer:
    named = (("kubernetes.io/metadata.name", name),)
    return Peer(f"a pod in {name}", (), name, (*named, *((key.replace("__", "/"), v) for key, v in labels.items())))


CLIENTS = Peer("a client", (), "probes", (("moorage.io/gateway-clients", "true"),))
MONITORING = other("monitoring")
STRANGER = other("shop")
DNS = other("kube-system")
INTERNET = Peer("the internet", address="203.0.113.9")
METADATA = Peer("the cloud's metadata", address="169.254.169.254")


@pytest.fixture(scope="module")
def base() -> dict[str, Manifest]:
    return manifests.objects(manifests.kustomized("base"))


@pytest.fixture(scope="module")
def pods(base: dict[str, Manifest]) -> dict[str, Peer]:
    found = {}
    for one in manifests.workloads(base):
        ports = tuple((each["name"], each["containerPort"]) for each in manifests.container(one).get("ports", ()))
        labels = tuple(one["spec"]["template"]["metadata"]["labels"].items())
        namespace = (("kubernetes.io/metadata.name", "moorage"),)
        found[component(one)] = Peer(component(one), labels, "moorage", namespace, ports=ports)
    return found


@pytest.fixture(scope="module")
def policies(base: dict[str, Manifest]) -> list[dict[str, Any]]:
    return [one["spec"] for one in base.values() if one["kind"] == "NetworkPolicy"]


@dataclass(frozen=True)
class Connection:
    source: Peer
    target: Peer
    port: int
    protocol: str = "TCP"


def allowed(policies: Iterable[dict[str, Any]], source: Peer, target: Peer, port: int, protocol: str = "TCP") -> bool:
    """Whether both ends allow a connection."""
    wanted = Connection(source, target, port, protocol)
    return all(side(policies, way, wanted) for way in ("Egress", "Ingress"))


def side(policies: Iterable[dict[str, Any]], way: str, wanted: Connection) -> bool:
    """Whether one end allows a connection. What no policy selects is open."""
    own, peer = (wanted.source, wanted.target) if way == "Egress" else (wanted.target, wanted.source)
    if own.namespace != "moorage":
        return True
    selecting = [one for one in policies if way in one["policyTypes"] and _selects(one["podSelector"], own.labels)]
    name, ends = ("egress", "to") if way == "Egress" else ("ingress", "from")
    return not selecting or any(
        _peers(rule.get(ends), peer) and _ports(rule.get("ports"), wanted)
        for one in selecting
        for rule in one.get(name, ())
    )


def _selects(selector: dict[str, Any], labels: tuple[tuple[str, str], ...]) -> bool:
    assert selector.keys() <= {"matchLabels"}
    return set(selector.get("matchLabels", {}).items()) <= set(labels)


def _peers(ends: list[dict[str, Any]] | None, peer: Peer) -> bool:
    return ends is None or any(_peer(end, peer) for end in ends)


def _peer(end: dict[str, Any], peer: Peer) -> bool:
    if block := end.get("ipBlock"):
        address, network = ip_address(peer.address), ip_network(block["cidr"])
        if address.version != network.version or address not in network:
            return False
        return all(address not in ip_network(one) for one in block.get("except", ()))
    if not peer.namespace:
        return False
    spaces = end.get("namespaceSelector")
    here = peer.namespace == "moorage" if spaces is None else _selects(spaces, peer.namespace_labels)
    return here and ("podSelector" not in end or _selects(end["podSelector"], peer.labels))


def _ports(ports: list[dict[str, Any]] | None, wanted: Connection) -> bool:
    if ports is None:
        return True
    named = dict(wanted.target.ports)
    return any(
        each["protocol"] == wanted.protocol
        and wanted.port == (each["port"] if isinstance(each["port"], int) else named.get(each["port"]))
        for each in ports
    )


def test_the_gateway_is_reached_by_its_clients_and_by_gateways_alone(
    policies: list[dict[str, Any]], pods: dict[str, Peer]
) -> None:
    everybody = [*pods.values(), CLIENTS, MONITORING, STRANGER, INTERNET]
    reach = {one.name for one in everybody if allowed(policies, one, pods["gateway"], HTTPS)}
    assert reach == {"gateway", CLIENTS.name, MONITORING.name}
    # What a bridge may send is said by a policy of its own.
    labels = tuple({**dict(pods["gateway"].labels), "app.kubernetes.io/component": "bridge"}.items())
    bridge = Peer("bridge", labels, "moorage", pods["gateway"].namespace_labels)
    assert side(policies, "Ingress", Connection(bridge, pods["gateway"], HTTPS))


def test_the_query_worker_is_reached_by_the_gateway_and_its_metrics_by_prometheus(
    policies: list[dict[str, Any]], pods: dict[str, Peer]
) -> None:
    everybody = [*pods.values(), CLIENTS, MONITORING, STRANGER, INTERNET]
    assert {one.name for one in everybody if allowed(policies, one, pods["query"], HTTP)} == {
        "gateway",
        MONITORING.name,
    }


@pytest.mark.parametrize("worker", [*WORKERS, "webhooks"])
def test_workers_are_reached_by_prometheus_alone(
    policies: list[dict[str, Any]], pods: dict[str, Peer], worker: str
) -> None:
    everybody = [*pods.values(), CLIENTS, MONITORING, STRANGER, INTERNET]
    assert {one.name for one in everybody if allowed(policies, one, pods[worker], HTTP)} == {MONITORING.name}


def test_everybody_reaches_kafka_and_dns_and_little_else(policies: list[dict[str, Any]], pods: dict[str, Peer]) -> None:
    for name, one in pods.items():
        assert all(allowed(policies, one, STRANGER, port) for port in (9092, 9093)), name
        assert allowed(policies, one, DNS, 53, "UDP"), name
        assert not allowed(policies, one, STRANGER, 53, "UDP"), name
        assert not allowed(policies, one, DNS, 443), name
        assert not allowed(policies, one, METADATA, 80), name
        assert not allowed(policies, one, METADATA, 443), name
        assert allowed(policies, one, INTERNET, 443) is (name == "webhooks"), name


def test_a_stranger_reaches_nothing(policies: list[dict[str, Any]], pods: dict[str, Peer]) -> None:
    for source in (STRANGER, INTERNET):
        assert not any(allowed(policies, source, one, port) for one in pods.values() for port in (HTTP, HTTPS, 9092))
