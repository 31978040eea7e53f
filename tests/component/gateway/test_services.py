"""Services: the values that they show for fields that are left out. No network gives them addresses or ports."""

from __future__ import annotations

import pytest
from tests.component.gateway.double import Fixture, Json

SERVICES = "/api/v1/namespaces/default/services"
PORTS = [{"port": 80}]
SELECTING = {"selector": {"a": "b"}, "ports": PORTS}
HEADLESS = {"clusterIP": "None", **SELECTING}


async def made(gateway: Fixture, spec: Json) -> Json:
    found: Json = (await gateway.ok("POST", SERVICES, {"metadata": {"name": "s"}, "spec": spec}))["spec"]
    return found


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


async def test_a_change_stores_what_was_sent() -> None:
    gateway = Fixture()
    await made(gateway, {**SELECTING, "type": "NodePort", "clusterIP": "10.0.0.1"})
    found = await gateway.ok("PUT", f"{SERVICES}/s", {"metadata": {"name": "s"}, "spec": SELECTING})
    assert not {"clusterIP", "clusterIPs", "externalTrafficPolicy"} & set(found["spec"])
    assert found["spec"]["type"] == "ClusterIP"
