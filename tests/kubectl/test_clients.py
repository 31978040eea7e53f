"""The Python clients of Kubernetes on a running Moorage, and an informer that outlives its gateway."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

import httpx
import kubernetes
import kubernetes_asyncio
import pytest
import pytest_asyncio
from tests.conftest import RUN
from tests.kubectl import informer, objects, programs
from tests.kubectl.fleet import machines
from tests.kubectl.servers import Server, kubeconfig
from tests.support.brokers import Broker
from tests.support.commands import program
from tests.support.live import Live, running
from tests.support.waiting import until

Found = TypeVar("Found")

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

SECONDS = float(os.environ.get("MOORAGE_INFORMER_SECONDS", "20"))
"""The least time for which the informer follows. `MOORAGE_INFORMER_SECONDS=600` is the long run."""

WRITES = int(SECONDS) + 1
"""The least number of writes that it follows, however slow the machine is."""

_PLACES = {"<id>": "clients", "<ns>": "default", "<image>": objects.IMAGE}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def live(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Live]:
    """A Moorage with two nodes, and machines that do what they are told."""
    folder, prefix = tmp_path_factory.mktemp("clients"), f"{RUN}-clients-"
    async with running(broker.bootstrap, prefix, folder) as found, machines(broker.bootstrap, prefix):
        async with httpx.AsyncClient(base_url=found.server) as client:
            for name in ("one", "two"):
                (await client.post("/api/v1/nodes", json=objects.node(name))).raise_for_status()
        yield found


@pytest.fixture(scope="module")
def server(live: Live, tmp_path_factory: pytest.TempPathFactory) -> Server:
    return kubeconfig(live.server, tmp_path_factory.mktemp("clients") / "kubeconfig")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The test of client-go is there where its program is."""
    if "clientgo" in metafunc.fixturenames:
        built = programs.clientgo()
        metafunc.parametrize("clientgo", [built] if built.exists() else [], ids=["built"] if built.exists() else [])


def _made(words: str) -> dict[str, Any]:
    found: dict[str, Any] = objects.placed(objects.manifest(words), _PLACES)
    return found


async def _in_a_thread(call: Callable[[], None]) -> None:
    await asyncio.to_thread(call)


def _retried(change: Callable[[], Found], times: int = 10) -> Found:
    """Read and write again on a conflict, as client-go's RetryOnConflict: a controller may write the status between."""
    for _ in range(times - 1):
        try:
            return change()
        except kubernetes.client.ApiException as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
    return change()


def _until(holds: Callable[[], bool], seconds: float = 120.0) -> None:
    asyncio.run(until(holds, seconds))


async def test_the_typed_client_reads_and_writes(server: Server) -> None:
    def use() -> None:
        with kubernetes.config.new_client_from_config(str(server.kubeconfig)) as api:
            core, apps = kubernetes.client.CoreV1Api(api), kubernetes.client.AppsV1Api(api)
            nodes = core.list_node()
            assert {one.metadata.name for one in nodes.items} >= {"one", "two"}
            assert nodes.items[0].status.conditions[0].last_transition_time is not None

            template = kubernetes.client.V1PodTemplateSpec(
                metadata=kubernetes.client.V1ObjectMeta(labels={"app": "typed"}),
                spec=kubernetes.client.V1PodSpec(
                    containers=[kubernetes.client.V1Container(name="main", image=objects.IMAGE)]
                ),
            )
            selector = kubernetes.client.V1LabelSelector(match_labels={"app": "typed"})
            spec = kubernetes.client.V1DeploymentSpec(replicas=2, selector=selector, template=template)
            metadata = kubernetes.client.V1ObjectMeta(name="typed")
            body = kubernetes.client.V1Deployment(metadata=metadata, spec=spec)
            apps.create_namespaced_deployment("default", body)
            _until(lambda: apps.read_namespaced_deployment("typed", "default").status.ready_replicas == 2)

            def scaled() -> None:
                scale = apps.read_namespaced_deployment_scale("typed", "default")
                scale.spec.replicas = 3
                apps.replace_namespaced_deployment_scale("typed", "default", scale)

            _retried(scaled)
            apps.patch_namespaced_deployment_scale("typed", "default", {"spec": {"replicas": 1}})
            _until(lambda: len(core.list_namespaced_pod("default", label_selector="app=typed").items) == 1)

            (pod,) = core.list_namespaced_pod("default", label_selector="app=typed").items
            assert pod.metadata.owner_references[0].controller
            eviction = kubernetes.client.V1Eviction(
                metadata=kubernetes.client.V1ObjectMeta(name=pod.metadata.name, namespace="default")
            )
            core.create_namespaced_pod_eviction(pod.metadata.name, "default", eviction)
            old = pod.metadata.uid

            def replaced() -> bool:
                there = core.list_namespaced_pod("default", label_selector="app=typed").items
                return len(there) == 1 and there[0].metadata.uid != old

            _until(replaced)

            def tainted() -> kubernetes.client.V1Node:
                node = core.read_node("one")
                node.spec.taints = [kubernetes.client.V1Taint(key="typed", value="yes", effect="PreferNoSchedule")]
                core.replace_node("one", node)
                return node

            node = _retried(tainted)
            assert [one.key for one in core.read_node("one").spec.taints] == ["typed"]
            core.patch_node("one", {"spec": {"taints": None}})
            assert core.read_node("one").spec.taints is None

            with pytest.raises(kubernetes.client.ApiException) as stale:
                core.replace_node("one", node)
            assert stale.value.status == 409
            deleted = apps.delete_namespaced_deployment("typed", "default")
            assert deleted["status"] == "Success"

    await _in_a_thread(use)


async def test_the_typed_client_watches_and_resumes(server: Server) -> None:
    def use() -> None:
        with kubernetes.config.new_client_from_config(str(server.kubeconfig)) as api:
            core = kubernetes.client.CoreV1Api(api)

            def made(name: str) -> None:
                metadata = kubernetes.client.V1ObjectMeta(name=name, labels={"watched": "yes"})
                core.create_namespaced_config_map("default", kubernetes.client.V1ConfigMap(metadata=metadata))

            start = core.list_namespaced_config_map("default", label_selector="watched=yes").metadata.resource_version
            for name in ("first", "second"):
                made(name)
            seen, watch, version = [], kubernetes.watch.Watch(), ""
            stream = {"namespace": "default", "label_selector": "watched=yes", "timeout_seconds": 20}
            for event in watch.stream(core.list_namespaced_config_map, resource_version=start, **stream):
                seen.append((event["type"], event["object"].metadata.name))
                if len(seen) == 2:
                    version = event["object"].metadata.resource_version
                    watch.stop()
            assert seen == [("ADDED", "first"), ("ADDED", "second")]
            core.delete_namespaced_config_map("first", "default")
            for event in watch.stream(core.list_namespaced_config_map, resource_version=version, **stream):
                assert (event["type"], event["object"].metadata.name) == ("DELETED", "first")
                watch.stop()

    await _in_a_thread(use)


async def test_the_asyncio_client_reads_writes_and_watches(server: Server) -> None:
    await kubernetes_asyncio.config.load_kube_config(str(server.kubeconfig))
    async with kubernetes_asyncio.client.ApiClient() as api:
        core = kubernetes_asyncio.client.CoreV1Api(api)
        pod = await core.create_namespaced_pod("default", _made("pod awaited"))
        watch = kubernetes_asyncio.watch.Watch()
        field = {"field_selector": "metadata.name=awaited", "timeout_seconds": 30}
        async with watch.stream(core.list_namespaced_pod, "default", **field) as stream:
            async for event in stream:
                if event["object"].status.phase == "Running":
                    pod = event["object"]
                    break
        assert pod.spec.node_name in {"one", "two"}
        patched = await core.patch_namespaced_pod("awaited", "default", {"metadata": {"labels": {"patched": "yes"}}})
        assert patched.metadata.labels["patched"] == "yes"
        await core.delete_namespaced_pod("awaited", "default", grace_period_seconds=0)

        async def gone() -> bool:
            listed = await core.list_namespaced_pod("default", field_selector="metadata.name=awaited")
            return not listed.items

        await until(gone)


async def test_an_informer_is_told_of_everything_once_over_restarts_of_its_gateway(live: Live, tmp_path: Path) -> None:
    def connect() -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=live.server, timeout=120)

    copies = [informer.Informer(connect, "default") for _ in range(3)]
    writers = [informer.Writer(connect, "default", f"told-{n}", 10, seed=n) for n in range(3)]
    followers = [asyncio.create_task(one.run()) for one in copies]
    try:
        await asyncio.gather(*(one.synced.wait() for one in copies))
        end = time.monotonic() + SECONDS

        def enough() -> bool:
            return time.monotonic() > end and sum(one.writes for one in writers) >= WRITES

        writing = [asyncio.create_task(one.run(enough)) for one in writers]
        restarts = 0
        while time.monotonic() < end - SECONDS / 4:
            await asyncio.wait(writing, timeout=SECONDS / 4)
            await live.restart_gateway()
            restarts += 1
        await asyncio.gather(*writing)
        async with connect() as client:
            final = await informer.listed(client, "default")

        def caught_up() -> bool:
            return all({name: informer.marks(found) for name, found in one.seen.items()} == final for one in copies)

        await until(caught_up, message="an informer's copy is not what a list shows")
    finally:
        for task in followers:
            task.cancel()
        await asyncio.gather(*followers, return_exceptions=True)
    assert restarts >= 1
    assert sum(one.writes for one in writers) >= WRITES
    for one in copies:
        assert (one.counts.missed, one.counts.doubled, one.counts.relists) == ([], [], 0), one.counts
        assert one.counts.reconnects >= restarts
    (tmp_path / "counts.txt").write_text(str([one.counts for one in copies]))


async def test_client_go_is_told_of_everything_once_over_restarts_of_its_gateway(
    live: Live, server: Server, clientgo: Path
) -> None:
    least = ("--seconds", str(SECONDS), "--writes", str(WRITES))
    words = (str(clientgo), "--kubeconfig", str(server.kubeconfig), *least)
    running = asyncio.create_task(program(*words, seconds=SECONDS + 300))
    end = time.monotonic() + SECONDS
    while time.monotonic() < end - SECONDS / 4:
        await asyncio.wait([running], timeout=SECONDS / 4)
        await live.restart_gateway()
    done = await running
    assert done.code == 0, done.err
    assert {name: done.json[name] for name in ("missed", "doubled", "differs")} == {
        "missed": [],
        "doubled": [],
        "differs": [],
    }
    assert done.json["writes"] >= WRITES
