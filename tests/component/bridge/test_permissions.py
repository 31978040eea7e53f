"""A bridge that may not do something says what, goes on with everything else, and goes on with that when it may."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.component.bridge.cluster import node, pod
from tests.component.bridge.rig import Rig, rig
from tests.component.bridge.topics import a_taint
from tests.support.kube_api import Seen, serve_kube_api
from tests.support.tables import table
from tests.support.virtual_time import virtual_time
from tests.support.waiting import until

from moorage.bridges.kube.api_error import ApiError
from moorage.bridges.kube.client import ClusterAccess, KubeClient
from moorage.bridges.kube.permissions import ClusterPermission, MissingPermissions
from moorage.bridges.kubernetes.cluster_bridge import KubernetesBridge

_HUB = "/apis/cluster.open-cluster-management.io/v1beta1"
_WATCH = {"watch": "true", "resourceVersion": "7"}


@table(
    ("method", "path", "params", "words"),
    [
        ("GET", "/api/v1/nodes", {}, "list nodes"),
        ("GET", "/api/v1/nodes", _WATCH, "watch nodes"),
        ("GET", "/api/v1/namespaces/kube-system", {}, "get namespaces"),
        ("PATCH", "/api/v1/nodes/n1/status", {}, "patch nodes/status"),
        ("POST", "/api/v1/namespaces/shop/pods/web-0/eviction", {}, "create pods/eviction in shop"),
        ("DELETE", "/api/v1/namespaces/shop/pods/web-0", {}, "delete pods in shop"),
        ("GET", "/readyz", {}, "get /readyz"),
        ("POST", "/api/v1/namespaces/shop/events", {}, "create events in shop"),
        ("GET", f"{_HUB}/placements", {"limit": "500"}, "list placements.cluster.open-cluster-management.io"),
        (
            "PATCH",
            f"{_HUB}/namespaces/a/placementdecisions/p/status",
            {},
            "patch placementdecisions.cluster.open-cluster-management.io/status in a",
        ),
        (
            "PUT",
            "/apis/coordination.k8s.io/v1/namespaces/moorage/leases/x",
            {},
            "update leases.coordination.k8s.io in moorage",
        ),
        (
            "GET",
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
            _WATCH,
            "watch leases.coordination.k8s.io in kube-node-lease",
        ),
    ],
)
def test_a_request_needs_a_verb_of_a_resource(method: str, path: str, params: Mapping[str, str], words: str) -> None:
    assert str(ClusterPermission.of(method, path, params)) == words


def test_a_refusal_is_shown_until_it_is_permitted_or_not_asked_for_any_more() -> None:
    now = [0.0]
    refusals = MissingPermissions(lambda: now[0])
    first, second = ClusterPermission.of("GET", "/api/v1/nodes"), ClusterPermission.of("GET", "/api/v1/pods")
    with capture_logs() as logs:
        for _ in range(3):
            refusals.note(first, "no")
        refusals.note(second, "never")
        assert refusals.current() == ["list nodes: no", "list pods: never"]
        assert [one["permission"] for one in logs] == ["list nodes", "list pods"], "not each time"
        refusals.permitted(second)
        assert refusals.current() == ["list nodes: no"]
        now[0] = 61.0
        refusals.note(first, "no")
        assert [one["permission"] for one in logs if one["event"] == "bridge.not_permitted"][2:] == ["list nodes"]
        now[0] = 200.0
        assert refusals.current() == []
        assert not refusals


def refused(bridge: KubernetesBridge) -> list[str]:
    """The permissions that a bridge lacks, as it says on its readiness page."""
    return [one.partition(":")[0] for one in bridge.report().get("refused", ())]


def forbid(here: Rig, verb: str, resource: str, namespace: str = "") -> None:
    """Take a permission away."""

    def matches(seen: Seen) -> bool:
        asked = ClusterPermission.of(seen.method, seen.path, seen.params)
        return (asked.verb, asked.resource, asked.namespace or namespace) == (verb, resource, namespace)

    here.api.fault_of(matches, times=float("inf"), status=403)


@virtual_time
@pytest.mark.parametrize(
    ("verb", "resource", "words"),
    [("list", "jobs", "list jobs.batch"), ("get", "namespaces", "get namespaces"), ("list", "nodes", "list nodes")],
)
async def test_a_bridge_that_may_not_read_says_what_and_begins_when_it_may(
    tmp_path: Path, verb: str, resource: str, words: str
) -> None:
    async with rig(tmp_path) as here:
        here.store.create("Node", node("n1"))
        forbid(here, verb, resource)
        with capture_logs() as logs:
            bridge = await here.start()
            await until(lambda: refused(bridge) == [words])
            await here.quiet(300)
        assert not bridge.ready
        assert refused(bridge) == [words], "it is still so"
        assert here.gateway.objects == [], "nothing is decided on a part of the cluster"
        assert {one["permission"] for one in logs if one["event"] == "bridge.not_permitted"} == {words}
        here.api.heal()
        await until(lambda: bridge.ready and here.gateway.objects == ["Node/n1"])
        assert refused(bridge) == []


@virtual_time
async def test_a_bridge_that_may_not_watch_goes_on_with_what_it_may(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        here.store.create("Node", node("n1"))
        forbid(here, "watch", "jobs")
        bridge = await here.run()
        await until(lambda: refused(bridge) == ["watch jobs.batch"])
        here.store.create("Node", node("n2"))
        await until(lambda: here.gateway.objects == ["Node/n1", "Node/n2"])
        assert not bridge.report()["linked"], "nobody is judged silent by what is not seen"
        here.api.heal()
        await until(lambda: bridge.report()["linked"] and not refused(bridge))


@virtual_time
async def test_an_act_that_is_not_permitted_holds_up_no_other(tmp_path: Path) -> None:
    async with rig(tmp_path) as here:
        here.store.create("Node", node("n1"))
        here.store.create("Pod", pod("web", node="n1"))
        bridge = await here.run()
        forbid(here, "patch", "nodes")
        here.topics.taint("n1", a_taint("broken"))
        await until(lambda: refused(bridge) == ["patch nodes"])
        here.topics.evict("web", str(here.store.get("Pod", "web", "default")["metadata"]["uid"]), "n1")
        await until(lambda: "deletionTimestamp" in here.store.get("Pod", "web", "default")["metadata"])
        assert bridge.ready
        here.api.heal()
        await until(lambda: bool(here.store.get("Node", "n1")["spec"].get("taints")))
        assert refused(bridge) == []


@virtual_time
async def test_a_token_that_was_replaced_in_the_kubeconfig_is_used(tmp_path: Path) -> None:
    async with serve_kube_api() as api:
        api.store.create("Node", node("n1"))
        client = await KubeClient.connect(ClusterAccess(api.kubeconfig(tmp_path)))
        try:
            await client.get("/api/v1/nodes/n1")
            api.token = "another"  # noqa: S105 - what the double accepts
            with pytest.raises(ApiError, match="401"):
                await client.get("/api/v1/nodes/n1")
            (tmp_path / "kubeconfig").write_text("{")
            with pytest.raises(ApiError, match="401"):
                await client.get("/api/v1/nodes/n1")
            api.kubeconfig(tmp_path)

            async def is_taken() -> bool:
                try:
                    await client.get("/api/v1/nodes/n1")
                except ApiError:
                    return False
                return True

            await until(is_taken)
        finally:
            await client.close()
