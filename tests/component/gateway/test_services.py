"""Services: what they get, what a change keeps of them, and what it may not change."""

from __future__ import annotations

from typing import Any

import pytest
from tests.component.gateway.double import Fixture, Json

SERVICES = "/api/v1/namespaces/default/services"
PORTS = [{"port": 80}]
SELECTING = {"selector": {"a": "b"}, "ports": PORTS}
HEADLESS = {"clusterIP": "None", **SELECTING}
BALANCED = {"type": "LoadBalancer", "loadBalancerClass": "a.b/c", **SELECTING}


async def made(gateway: Fixture, spec: Json) -> Json:
    found: Json = (await gateway.ok("POST", SERVICES, {"metadata": {"name": "s"}, "spec": spec}))["spec"]
    return found


async def changed(gateway: Fixture, patch: Json) -> Json:
    found: Json = (await gateway.ok("PATCH", f"{SERVICES}/s", {"spec": patch}))["spec"]
    return found


async def fields(answer: Any) -> list[str]:
    assert answer.status_code == 422, answer.text
    return [one["field"] for one in answer.json()["details"]["causes"]]


@pytest.mark.parametrize(
    ("spec", "families", "policy"),
    [
        (HEADLESS, ["IPv4"], "SingleStack"),
        ({"clusterIP": "None", "ports": PORTS}, ["IPv4", "IPv6"], "RequireDualStack"),
        ({"clusterIP": "None", "ipFamilies": ["IPv6"]}, ["IPv6", "IPv4"], "RequireDualStack"),
        ({"clusterIP": "None", "ipFamilyPolicy": "SingleStack"}, ["IPv4"], "SingleStack"),
    ],
)
async def test_a_service_without_an_address_shows_the_families_of_its_endpoints(
    spec: Json, families: list[str], policy: str
) -> None:
    gateway = Fixture()
    found = await made(gateway, spec)
    assert (found["clusterIPs"], found["ipFamilies"], found["ipFamilyPolicy"]) == (["None"], families, policy)
    again = await gateway.ok("PUT", f"{SERVICES}/s", {"metadata": {"name": "s"}, "spec": found})
    assert again["spec"] == found


async def test_a_service_gets_no_address() -> None:
    found = await made(Fixture(), SELECTING)
    assert not {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"} & set(found)


@pytest.mark.parametrize("gone", [{"clusterIP": None}, {"clusterIP": ""}, {"clusterIP": None, "clusterIPs": None}])
async def test_an_address_that_a_change_leaves_out_stays(gone: Json) -> None:
    gateway = Fixture()
    first = await made(gateway, HEADLESS)
    assert await changed(gateway, gone) == first
    whole = await gateway.ok("PUT", f"{SERVICES}/s", {"metadata": {"name": "s"}, "spec": SELECTING})
    assert whole["spec"] == first


async def test_a_port_of_the_nodes_that_a_change_leaves_out_stays() -> None:
    gateway = Fixture()
    ports = [{"name": "a", "port": 80, "nodePort": 30080}, {"name": "b", "port": 81}]
    await made(gateway, {"type": "NodePort", "ports": ports})
    found = await changed(gateway, {"ports": [{"name": "b", "port": 81}, {"name": "a", "port": 82}]})
    assert [one.get("nodePort") for one in found["ports"]] == [None, 30080]
    found = await changed(gateway, {"type": "ClusterIP"})
    assert [one.get("nodePort") for one in found["ports"]] == [None, None]


@pytest.mark.parametrize(
    ("spec", "patch", "gone"),
    [
        (
            HEADLESS,
            {"type": "ExternalName", "externalName": "a.b"},
            {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"},
        ),
        (
            BALANCED,
            {"type": "ClusterIP"},
            {"allocateLoadBalancerNodePorts", "externalTrafficPolicy", "loadBalancerClass"},
        ),
        (BALANCED, {"type": "NodePort"}, {"allocateLoadBalancerNodePorts", "loadBalancerClass"}),
        ({**SELECTING, "externalIPs": ["1.2.3.4"]}, {"externalIPs": None}, {"externalIPs", "externalTrafficPolicy"}),
        ({**SELECTING, "sessionAffinity": "ClientIP"}, {"sessionAffinity": "None"}, {"sessionAffinityConfig"}),
    ],
)
async def test_what_only_another_type_has_goes_with_it(spec: Json, patch: Json, gone: set[str]) -> None:
    gateway = Fixture()
    first = await made(gateway, spec)
    assert set(first) - set(await changed(gateway, patch)) == gone


@pytest.mark.parametrize(
    ("spec", "patch", "field"),
    [
        (SELECTING, {"clusterIP": "None"}, "spec.clusterIPs[0]"),
        ({**SELECTING, "clusterIP": "10.0.0.1"}, {"clusterIP": "10.0.0.2", "clusterIPs": None}, "spec.clusterIPs"),
        (
            {**SELECTING, "clusterIP": "10.0.0.1"},
            {"clusterIP": "10.0.0.2", "clusterIPs": ["10.0.0.2"]},
            "spec.clusterIPs[0]",
        ),
        (BALANCED, {"loadBalancerClass": "other"}, "spec.loadBalancerClass"),
        (BALANCED, {"type": "ClusterIP", "externalTrafficPolicy": "Local"}, "spec.externalTrafficPolicy"),
        (
            {**BALANCED, "externalTrafficPolicy": "Local", "healthCheckNodePort": 30100},
            {"healthCheckNodePort": 30101},
            "spec.healthCheckNodePort",
        ),
        (HEADLESS, {"type": "NodePort"}, "spec.clusterIPs[0]"),
        (HEADLESS, {"ports": [{"port": 0, "targetPort": 1}]}, "spec.ports[0].port"),
    ],
)
async def test_most_of_what_was_given_to_a_service_stays(spec: Json, patch: Json, field: str) -> None:
    gateway = Fixture()
    await made(gateway, spec)
    assert await fields(await gateway.call("PATCH", f"{SERVICES}/s", {"spec": patch})) == [field]


async def test_a_second_address_is_given_up_with_the_policy() -> None:
    gateway = Fixture()
    both = {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"], "ipFamilyPolicy": "RequireDualStack"}
    await made(gateway, {**SELECTING, **both, "ipFamilies": ["IPv4", "IPv6"]})
    found = await changed(gateway, {"ipFamilyPolicy": "SingleStack"})
    assert (found["clusterIPs"], found["ipFamilies"]) == (["10.0.0.1"], ["IPv4"])


async def test_addresses_from_outside_that_are_there_may_stay() -> None:
    gateway = Fixture()
    await made(gateway, {**SELECTING, "externalIPs": ["1.2.3.4"]})
    answer = await gateway.call("PATCH", f"{SERVICES}/s", {"spec": {"externalIPs": ["1.2.3.4", "127.0.0.1", "x"]}})
    assert await fields(answer) == ["spec.externalIPs[1]", "spec.externalIPs[2]"]
