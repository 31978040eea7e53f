"""The client of a kube-apiserver: what it asks again, when, and what it does not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from kubernetes_asyncio.client import ApiClient, Configuration
from tests.component.bridge.cluster import client_of, node, pod
from tests.support.kube_api import TOKEN, serve_kube_api
from tests.support.virtual_time import virtual_time

from moorage.bridges.kube.api_error import ApiError
from moorage.bridges.kube.client import MERGE_PATCH, ClusterAccess, KubeClient
from moorage.runtime.process.failures import RuntimeFailure


def now() -> float:
    return asyncio.get_running_loop().time()


@virtual_time
async def test_a_kubeconfig_says_where_and_as_whom(tmp_path: Path) -> None:
    async with serve_kube_api() as api:
        api.store.create("Node", node("n1"))
        client = await KubeClient.connect(ClusterAccess(api.kubeconfig(tmp_path)))
        try:
            assert (await client.get("/api/v1/nodes/n1"))["metadata"]["name"] == "n1"
            assert api.requests[-1].headers["User-Agent"] == "moorage-bridge"
        finally:
            await client.close()


@virtual_time
@pytest.mark.parametrize("of_kubeconfig", [True, False])
async def test_requests_go_by_the_proxy_of_the_kubeconfig_or_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, *, of_kubeconfig: bool
) -> None:
    async with serve_kube_api() as api:
        api.store.create("Node", node("n1"))
        bearer = {"BearerToken": f"Bearer {TOKEN}"}
        configuration = Configuration(host="http://cluster.invalid", api_key=bearer)
        if of_kubeconfig:
            configuration.proxy = api.server
        else:
            monkeypatch.setenv("http_proxy", api.server)
        client = KubeClient(ApiClient(configuration), ClusterAccess())
        assert (await client.get("/api/v1/nodes/n1"))["metadata"]["name"] == "n1"
        assert [one.headers["Host"] for one in api.seen("GET", "/n1")] == ["cluster.invalid"]
        await client.close()


@virtual_time
async def test_a_connection_stays_open_between_acts(tmp_path: Path) -> None:
    async with serve_kube_api() as api:
        api.store.create("Node", node("n1"))
        client = await KubeClient.connect(ClusterAccess(api.kubeconfig(tmp_path)))
        for _ in range(3):
            await client.get("/api/v1/nodes/n1")
            await asyncio.sleep(70)
        assert len({one.peer for one in api.seen("GET", "/n1")}) == 1
        await client.close()


@virtual_time
@pytest.mark.parametrize(("file", "context"), [("missing", ""), ("kubeconfig", "another")])
async def test_a_kubeconfig_that_does_not_do_is_named(tmp_path: Path, file: str, context: str) -> None:
    async with serve_kube_api() as api:
        api.kubeconfig(tmp_path)
    path = str(tmp_path / file)
    with pytest.raises(RuntimeFailure, match=file):
        await KubeClient.connect(ClusterAccess(path, context))


@virtual_time
@pytest.mark.parametrize("status", [429, 500, 503, 504])
async def test_a_busy_server_is_asked_again(status: int) -> None:
    async with serve_kube_api() as api:
        client = client_of(api)
        api.store.create("Node", node("n1"))
        api.fault("GET", "/n1", status=status, times=5)
        await client.get("/api/v1/nodes/n1")
        assert len(api.seen("GET", "/n1")) == 6
        assert now() > 0.2 * (2**5 - 1)
        await client.close()


@virtual_time
async def test_the_server_says_after_which_time() -> None:
    async with serve_kube_api() as api:
        client = client_of(api)
        api.store.create("Node", node("n1"))
        api.fault("GET", "/n1", status=429, headers={"Retry-After": "7"})
        await client.get("/api/v1/nodes/n1")
        assert 7.0 <= now() <= 8.5
        await client.close()


@virtual_time
async def test_it_gives_up_in_the_end() -> None:
    async with serve_kube_api() as api:
        client = client_of(api)
        api.fault("GET", "/n1", status=503, times=1000)
        with pytest.raises(ApiError) as error:
            await client.get("/api/v1/nodes/n1")
        assert error.value.status == 503
        api.heal()
        api.go_away()
        with pytest.raises(OSError, match=r"127\.0\.0\.1"):
            await client.get("/api/v1/nodes/n1")
        await client.close()


@virtual_time
async def test_a_refusal_by_a_budget_is_not_repeated() -> None:
    """The queue tries it again, when others have had their turn."""
    async with serve_kube_api() as api:
        client = client_of(api)
        api.store.create("Pod", pod("web", node="n1"))
        api.held_by_budget.add("web")
        with pytest.raises(ApiError) as error:
            await client.request("POST", "/api/v1/namespaces/default/pods/web/eviction", body={})
        assert error.value.is_held_by_budget
        assert len(api.seen("POST")) == 1
        await client.close()


@virtual_time
@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 422])
async def test_a_refusal_is_not_repeated(status: int) -> None:
    async with serve_kube_api() as api:
        client = client_of(api)
        api.fault("GET", "/n1", status=status)
        with pytest.raises(ApiError) as error:
            await client.get("/api/v1/nodes/n1")
        assert (error.value.status, error.value.reason) == (status, "InternalError")
        assert len(api.requests) == 1
        await client.close()


@virtual_time
async def test_a_request_whose_answer_was_lost_is_sent_again() -> None:
    async with serve_kube_api() as api:
        client = client_of(api)
        api.store.create("Node", node("n1"))
        api.fault("PATCH", "/n1", lost=True)
        body = {"metadata": {"labels": {"a": "b"}}}
        found = await client.request("PATCH", "/api/v1/nodes/n1", body=body, content_type=MERGE_PATCH)
        assert found["metadata"]["labels"] == {"a": "b"}
        assert len(api.seen("PATCH")) == 2
        await client.close()


@virtual_time
async def test_a_server_that_does_not_answer_is_left_after_a_time() -> None:
    async with serve_kube_api() as api:
        client = client_of(api)
        api.fault("GET", "/readyz", before=asyncio.Event())
        with pytest.raises(OSError, match="no answer within 30"):
            await client.ping()
        assert now() == pytest.approx(30, abs=1)
        await client.close()


@virtual_time
async def test_a_page_to_log_in_is_no_answer_of_the_server() -> None:
    async with serve_kube_api() as api:
        client = client_of(api)
        api.store.create("Node", node("n1"))
        page = "<html>\nPlease log in\n</html>"
        api.fault("GET", "/n1", text=page, times=2)
        assert (await client.get("/api/v1/nodes/n1"))["metadata"]["name"] == "n1"
        api.fault("GET", "/n1", text=page, times=1000)
        with pytest.raises(OSError, match=r"GET /api/v1/nodes/n1: the answer is no JSON object: .<html>"):
            await client.get("/api/v1/nodes/n1")
        api.heal()
        api.fault("GET", "/nodes", text=page)
        with pytest.raises(OSError, match="a watch of /api/v1/nodes: the answer is no JSON object"):
            await anext(client.watch("/api/v1/nodes", {"watch": "true"}))
        await client.close()


@pytest.mark.parametrize(
    ("body", "causes", "is_budget"),
    [
        ({"details": {"causes": [{"reason": "DisruptionBudget"}]}}, ("DisruptionBudget",), True),
        ({"details": {"causes": None}}, (), False),
        ({"details": None}, (), False),
        ({"details": {"causes": ["text", {"message": "x"}]}}, ("",), False),
        ("a page of a proxy", (), False),
        (None, (), False),
    ],
)
def test_errors_are_read_from_whatever_is_answered(body: Any, causes: tuple[str, ...], is_budget: bool) -> None:  # noqa: FBT001 - a column of the table
    error = ApiError.of(429, body, "x")
    assert error.causes == causes
    assert error.is_held_by_budget is is_budget
    assert error.is_overload is not is_budget
    assert error.retry_after is None


@virtual_time
async def test_a_large_object_comes_through_a_watch() -> None:
    async with serve_kube_api() as api:
        client = client_of(api)
        version = str(api.store.version)
        api.store.create("Node", node("n1", annotations={"large": "x" * 1_400_000}))
        params = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "5"}
        events = [event async for event in client.watch("/api/v1/nodes", params)]
        assert [len(event["object"]["metadata"]["annotations"]["large"]) for event in events] == [1_400_000]
        await client.close()
