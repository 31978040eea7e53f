"""Discovery in both forms, health, and paths that lead nowhere."""

from __future__ import annotations

from typing import Any

import pytest
from tests.component.gateway.double import Fixture, pod
from tests.support.tables import table

from moorage.apiserver.machinery.protobuf.messages import decode_object

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
KUBECTL = ",".join((AGGREGATED.format("v2"), AGGREGATED.format("v2beta1"), "application/json"))


async def aggregated(gateway: Fixture, path: str, accept: str = KUBECTL) -> Any:
    answer = await gateway.http.get(path, headers={"accept": accept})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_the_aggregated_form_says_what_the_first_one_says() -> None:
    gateway = Fixture()
    for path in ("/api", "/apis"):
        found = await aggregated(gateway, path)
        assert (found["kind"], found["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
        for group in found["items"]:
            name = group["metadata"].get("name", "")
            for version in group["versions"]:
                base = f"/apis/{name}" if name else "/api"
                listed = (await gateway.ok("GET", f"{base}/{version['version']}"))["resources"]
                flat = {
                    one["resource"] + (f"/{below['subresource']}" if below else ""): (below or one)["verbs"]
                    for one in version["resources"]
                    for below in (None, *one.get("subresources", ()))
                }
                assert {one["name"]: one["verbs"] for one in listed} == flat, group


async def test_the_older_aggregated_form_is_served_too() -> None:
    found = await aggregated(Fixture(), "/apis", AGGREGATED.format("v2beta1"))
    assert found["apiVersion"] == "apidiscovery.k8s.io/v2beta1"


async def test_an_aggregated_answer_that_the_client_has_is_not_sent_again() -> None:
    gateway = Fixture()
    answer = await gateway.http.get("/apis", headers={"accept": KUBECTL})
    assert "as=APIGroupDiscoveryList" in answer.headers["content-type"]
    headers = {"accept": KUBECTL, "if-none-match": answer.headers["etag"]}
    assert (await gateway.http.get("/apis", headers=headers)).status_code == 304


async def test_the_first_form_is_sent_to_those_who_know_no_other() -> None:
    gateway = Fixture()
    assert (await aggregated(gateway, "/apis", "application/json"))["kind"] == "APIGroupList"
    assert (await aggregated(gateway, "/api", "*/*"))["kind"] == "APIVersions"
    answer = await gateway.http.get("/apis", headers={"accept": "application/vnd.kubernetes.protobuf"})
    assert decode_object(answer.content)["kind"] == "APIGroupList"


async def test_kinds_are_in_the_category_all() -> None:
    gateway = Fixture()
    core = {one["name"]: one for one in (await gateway.ok("GET", "/api/v1"))["resources"]}
    assert core["pods"]["categories"] == ["all"]
    assert "categories" not in core["configmaps"]
    assert "deletecollection" in core["pods"]["verbs"]
    assert "deletecollection" not in core["namespaces"]["verbs"]


async def test_the_root_names_the_paths_and_each_leads_somewhere() -> None:
    gateway = Fixture()
    for path in (await gateway.ok("GET", "/"))["paths"]:
        if not path.startswith(("/openapi", "/v1/")):
            assert (await gateway.http.get(path)).status_code == 200, path


async def test_the_version_has_what_clients_read() -> None:
    found = await Fixture().ok("GET", "/version")
    assert (found["major"], found["minor"]) == ("1", "37")
    assert found["gitVersion"].startswith("v1.37.0+moorage-")


@pytest.mark.parametrize(
    ("path", "code", "text"),
    [
        ("/healthz", 200, "ok"),
        ("/livez", 200, "ok"),
        ("/readyz", 200, "ok"),
        ("/readyz/tables", 200, "ok"),
        ("/readyz/nothing", 404, "404 page not found\n"),
        ("/readyz?verbose", 200, "[+]ping ok\n[+]tables ok\n[+]log ok\nreadyz check passed\n"),
        ("/readyz?verbose&exclude=log", 200, "[+]ping ok\n[+]tables ok\n[+]log excluded: ok\nreadyz check passed\n"),
    ],
)
async def test_health(path: str, code: int, text: str) -> None:
    answer = await Fixture().http.get(path)
    assert (answer.status_code, answer.text) == (code, text)


async def test_health_of_a_gateway_that_cannot_write() -> None:
    gateway = Fixture()
    gateway.log.obstacle = "Kafka does not answer"
    answer = await gateway.http.get("/readyz?verbose")
    assert answer.status_code == 503
    assert "[-]log failed: not ready: Kafka does not answer\nreadyz check failed\n" in answer.text
    assert (await gateway.http.get("/livez")).status_code == 200


async def test_the_readiness_page_notes_a_clock_that_is_off() -> None:
    gateway = Fixture()
    gateway.gateway.clock_state = lambda: "the clock of this process is 600.0 s ahead of the brokers'"
    answer = await gateway.http.get("/readyz?verbose")
    assert answer.status_code == 200
    assert "[+]log ok\n[!]the clock of this process is 600.0 s ahead of the brokers'\n" in answer.text
    assert "[!]" not in (await gateway.http.get("/healthz?verbose")).text


@table(
    ("method", "path", "code", "reason"),
    [
        ("GET", "/api/v1//nodes", 404, "NotFound"),
        ("GET", "/api/v1/nodes//n1", 404, "NotFound"),
        ("GET", "/api/v1/namespaces/default/pods/a%2Fb", 404, "NotFound"),
        ("GET", "/api/v1/namespaces/default/%2e%2e/pods", 404, "NotFound"),
        ("GET", "/api/v1/pods/p1", 404, "NotFound"),
        ("GET", "/apis/apps/v9", 404, "NotFound"),
        ("GET", "/api/v2", 404, "NotFound"),
        ("PUT", "/api/v1/nodes", 405, "MethodNotAllowed"),
        ("PATCH", "/api/v1/nodes", 405, "MethodNotAllowed"),
        ("POST", "/apis", 405, "MethodNotAllowed"),
        ("POST", "/api/v1", 405, "MethodNotAllowed"),
        ("POST", "/version", 405, "MethodNotAllowed"),
        ("OPTIONS", "/api/v1/nodes", 405, "MethodNotAllowed"),
        ("TRACE", "/api/v1/nodes/n1", 405, "MethodNotAllowed"),
        ("BREW", "/api/v1/nodes/n1", 405, "MethodNotAllowed"),
        ("POST", "/api/v1/watch/nodes", 405, "MethodNotAllowed"),
    ],
)
async def test_paths_and_methods_that_lead_nowhere(method: str, path: str, code: int, reason: str) -> None:
    answer = await Fixture().http.request(method, path)
    assert (answer.status_code, answer.json()["reason"]) == (code, reason)


@pytest.mark.parametrize("path", ["/nothing", "/apis/nothing.example", "/apis/nothing.example/v1/things", "/apis//v1"])
async def test_below_a_path_that_is_not_served_there_is_no_page(path: str) -> None:
    answer = await Fixture().http.request("GET", path)
    assert (answer.status_code, answer.text) == (404, "404 page not found\n")
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_answers_are_not_kept_by_others() -> None:
    gateway = Fixture()
    for path in ("/api/v1/nodes", "/version", "/healthz", "/api/v1/nodes/nothing"):
        assert (await gateway.http.request("GET", path)).headers["cache-control"] == "no-cache, private"


async def test_a_slash_at_the_end_means_nothing() -> None:
    gateway = Fixture()
    assert (await gateway.ok("GET", "/api/v1/nodes/"))["kind"] == "NodeList"
    assert (await gateway.ok("GET", "/apis/"))["kind"] == "APIGroupList"


@pytest.mark.parametrize("name", ["attach", "ephemeralcontainers", "exec", "log", "portforward", "proxy", "resize"])
async def test_what_needs_a_container_says_that_there_is_none(name: str) -> None:
    gateway = Fixture()
    await gateway.ok("POST", "/api/v1/namespaces/default/pods", pod())
    for method in ("GET", "POST", "PATCH"):
        answer = await gateway.http.request(method, f"/api/v1/namespaces/default/pods/p1/{name}")
        assert (answer.status_code, answer.json()["reason"]) == (501, "NotImplemented")
        assert "runs no containers" in answer.json()["message"]


@pytest.mark.parametrize("path", ["proxy", "proxy/", "proxy/api/v1/namespaces/default/pods"])
async def test_a_cluster_says_that_there_is_no_way_to_it(path: str) -> None:
    gateway, clusters = Fixture(), "/apis/cluster.karmada.io/v1alpha1/clusters"
    assert (await gateway.http.get(f"{clusters}/m1/{path}")).status_code == 404
    await gateway.ok("POST", clusters, {"metadata": {"name": "m1"}, "spec": {"syncMode": "Pull"}})
    answer = await gateway.http.get(f"{clusters}/m1/{path}")
    assert (answer.status_code, answer.json()["reason"]) == (501, "NotImplemented")
    assert "has no connection to them" in answer.json()["message"]
