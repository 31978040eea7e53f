"""Default values of fields are shown and not stored, so that no template changes because it was read."""

from __future__ import annotations

import pytest
from tests.component.gateway.double import Fixture, Json, deployment, pod

WEB = "/apis/apps/v1/namespaces/default/deployments/web"
PODS = "/api/v1/namespaces/default/pods"


def stored(gateway: Fixture, key: str) -> Json:
    found: Json = gateway.store.tables.resources[key].object
    return found


async def made() -> tuple[Fixture, Json]:
    gateway = Fixture()
    await gateway.ok("POST", WEB.removesuffix("/web"), deployment())
    return gateway, await gateway.ok("GET", WEB)


async def test_what_is_left_out_is_shown_with_its_default() -> None:
    gateway, shown = await made()
    spec = shown["spec"]
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
    assert spec["template"]["spec"]["containers"][0]["imagePullPolicy"]
    assert "strategy" not in stored(gateway, "Deployment/default/web")["spec"]


async def test_a_nodes_room_is_its_capacity_and_an_old_account_field_is_an_alias() -> None:
    gateway = Fixture()
    capacity = {"cpu": "2", "memory": "1Gi"}
    node = {"metadata": {"name": "n1"}, "spec": {"externalID": "x"}, "status": {"capacity": capacity}}
    made = await gateway.call("POST", "/api/v1/nodes", node)
    assert made.json()["status"]["allocatable"] == capacity
    assert "spec.externalID: this field is deprecated" in made.headers["warning"]
    for field in ("serviceAccountName", "serviceAccount"):
        body = {
            "metadata": {"name": field.lower()},
            "spec": {"containers": [{"name": "c", "image": "a"}], field: "robot"},
        }
        spec = (await gateway.ok("POST", "/api/v1/namespaces/default/pods", body))["spec"]
        assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("robot", "robot")


async def test_writing_back_what_was_read_changes_nothing() -> None:
    gateway, shown = await made()
    before = stored(gateway, "Deployment/default/web")
    again = await gateway.ok("PUT", WEB, shown)
    assert stored(gateway, "Deployment/default/web")["spec"] == before["spec"]
    assert again["metadata"]["generation"] == 1


@pytest.mark.parametrize("change", [{"metadata": {"labels": {"a": "b"}}}, {"spec": {"replicas": 5}}])
async def test_another_change_leaves_the_template_as_it_was_stored(change: Json) -> None:
    gateway, _ = await made()
    before = stored(gateway, "Deployment/default/web")
    await gateway.ok("PATCH", WEB, change)
    assert stored(gateway, "Deployment/default/web")["spec"]["template"] == before["spec"]["template"]


async def test_a_pod_may_be_written_without_its_defaults() -> None:
    gateway = Fixture()
    await gateway.ok("POST", PODS, pod())
    shown = await gateway.ok("GET", f"{PODS}/p1")
    assert (shown["spec"]["dnsPolicy"], shown["spec"]["priority"]) == ("ClusterFirst", 0)
    labelled = {**pod(), "metadata": {**pod()["metadata"], "labels": {"a": "b"}}}
    again = await gateway.ok("PUT", f"{PODS}/p1", labelled)
    assert again["spec"] == shown["spec"]
    assert "dnsPolicy" not in stored(gateway, "Pod/default/p1")["spec"]
