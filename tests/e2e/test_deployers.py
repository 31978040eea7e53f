"""Deployers and probes of several languages over HTTP, against all services: kills, restarts, namesakes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from tests.conftest import RUN
from tests.support.brokers import Broker, EmbeddedBroker
from tests.support.commands import moorage, program
from tests.support.examples import command, languages
from tests.support.forks import ROOT
from tests.support.live import Live, running
from tests.support.waiting import until

pytestmark = pytest.mark.kafka


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def live(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Live]:
    folder = tmp_path_factory.mktemp("deployers")
    async with running(broker.bootstrap, f"{RUN}-deployers", folder, gateways=2) as found:
        yield found


def node(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"host": name}}}


def pod(name: str, host: str) -> dict[str, object]:
    spec = {"nodeSelector": {"host": host}, "containers": [{"name": "c", "image": "c:1"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def environment(live: Live) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MOORAGE_")}
    return {**kept, "MOORAGE_SERVER": live.server}


@asynccontextmanager
async def deploying(
    live: Live, language: str, folder: Path, target: str, *more: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    by_kafka = language == "kafka"
    words = (*command("python" if by_kafka else language, "deployer"), "--folder", str(folder), "--target", target)
    kafka = {"MOORAGE_BOOTSTRAP_SERVERS": live.bootstrap, "MOORAGE_TOPIC_PREFIX": live.prefix}
    env = {**environment(live), **(kafka | {"MOORAGE_TRANSPORT": "kafka"} if by_kafka else {})}
    process = await asyncio.create_subprocess_exec(*words, *more, env=env, cwd=ROOT)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
            await process.wait()


def on_disk(folder: Path) -> dict[str, str]:
    """What runs: the uid of each workload."""
    found = {}
    for path in folder.glob("*.json"):
        with contextlib.suppress(FileNotFoundError):  # its deployer has removed it in the meantime
            one = json.loads(path.read_text())
            found[one["workload"]] = one["uid"]
    return found


async def uid_of(live: Live, name: str) -> str:
    return str((await live.here("get", "pod", name, "-o", "json")).json["metadata"]["uid"])


async def phase_of(live: Live, name: str) -> str:
    return str((await live.here("get", "pod", name, "-o", "json")).json["status"]["phase"])


@pytest.mark.parametrize("language", languages())
async def test_a_deployer_keeps_to_the_decisions_through_kills_and_restarts(
    live: Live, tmp_path: Path, language: str
) -> None:
    host = f"h-{language}"
    stays, evicted = f"stays-{language}", f"evicted-{language}"
    folder, target = tmp_path / "running", f"Node/{host}"
    key = f"Pod/default/{evicted}"
    await live.here("apply", "-f", "-", text=yaml.dump_all([node(host), pod(stays, host), pod(evicted, host)]))
    await live.running(stays, evicted)
    first = await uid_of(live, evicted)

    async def is_running(name: str) -> bool:
        return await phase_of(live, name) == "Running"

    async with deploying(live, language, folder, target):
        await until(lambda: on_disk(folder).get(key) == first)
        for name in (stays, evicted):  # what it has not reported yet is gone at once when it is evicted
            await until(partial(is_running, name))
    # While it is away, the pod is evicted and deleted, and one of the same name is created on the same node.
    await live.here("taint", "node", host, "bad=yes:NoExecute")
    await until(lambda: is_evicted(live, evicted, "Requested"))
    await live.here("taint", "node", host, "bad-")
    await live.here("delete", "pod", stays, evicted)
    await until(lambda: _gone(live, evicted))
    await live.here("apply", "-f", "-", text=yaml.dump_all([pod(stays, host), pod(evicted, host)]))
    await live.running(stays, evicted)
    second = await uid_of(live, evicted)
    assert second != first
    assert on_disk(folder)[key] == first, "the workload goes on running without its deployer"
    async with deploying(live, language, folder, target):
        await until(lambda: on_disk(folder).get(key) == second)
        await until(lambda: is_running(evicted))
        # The gateway that it reads from is killed. It goes on where it was.
        await live.kill_gateway(next(iter(live.gateways)))
        await live.here("delete", "pod", evicted)
        await until(lambda: key not in on_disk(folder))
    async with deploying(live, language, folder, target):
        await until(lambda: set(on_disk(folder)) == {f"Pod/default/{stays}"})


async def eviction_of(live: Live, name: str) -> dict[str, Any]:
    """The status of a pod's last eviction. Empty if there is none."""
    listed = (await live.here("get", "evictions", "-o", "json")).json["items"]
    found = [one["status"] for one in listed if one["status"]["workload"]["name"] == name]
    return max(found, key=lambda status: int(status["generation"]), default={})


async def is_evicted(live: Live, name: str, state: str) -> bool:
    return (await eviction_of(live, name)).get("state") == state


@pytest.mark.parametrize("language", [*languages(), "kafka"])
async def test_an_eviction_is_completed_only_when_the_deployer_has_acknowledged_it(
    live: Live, tmp_path: Path, language: str
) -> None:
    host = f"a-{language}"
    names = done, gone, kept = f"done-{language}", f"gone-{language}", f"kept-{language}"
    folder, target = tmp_path / "running", f"Node/{host}"
    source = ("--source", f"deployer/{language}")
    await live.here("apply", "-f", "-", text=yaml.dump_all([node(host), *(pod(name, host) for name in names)]))

    async def all_are(phase: str) -> bool:
        return all([await phase_of(live, name) == phase for name in names])

    await live.running(*names)
    async with deploying(live, language, folder, target, *source):
        await until(lambda: all_are("Running"))
    # While it is away nobody acknowledges, so the pods stay where they are.
    await live.here("taint", "node", host, "bad=yes:NoExecute")
    for name in names:
        await until(partial(is_evicted, live, name, "Requested"))
        assert (await eviction_of(live, name))["deployer"] == f"deployer/{language}"
    assert set(on_disk(folder)) == {f"Pod/default/{name}" for name in names}
    # As if it had been killed after it had stopped one of them.
    for path in folder.glob("*.json"):
        if json.loads(path.read_text())["workload"] == f"Pod/default/{gone}":
            path.unlink()
    assert not any([await _gone(live, name) for name in names])
    async with deploying(live, language, folder, target, *source, "--protect", f"Pod/default/{kept}"):
        for name in (done, gone):
            await until(partial(is_evicted, live, name, "Completed"))
            assert (await eviction_of(live, name))["acknowledged"]["source"] == f"deployer/{language}"
            await until(partial(_gone, live, name))
        await until(lambda: _is_escalated(live, kept, "Refused"))
        assert set(on_disk(folder)) == {f"Pod/default/{kept}"}
        assert not await _gone(live, kept)
    async with deploying(live, language, folder, target, *source):
        await until(partial(is_evicted, live, kept, "Completed"))
    assert (await eviction_of(live, kept))["escalated"]["reason"] == "Refused"
    assert on_disk(folder) == {}


async def _is_escalated(live: Live, name: str, reason: str) -> bool:
    return bool((await eviction_of(live, name)).get("escalated", {}).get("reason") == reason)


async def _gone(live: Live, name: str) -> bool:
    listed = (await live.here("get", "pods", "-o", "json")).json["items"]
    return name not in {one["metadata"]["name"] for one in listed}


@pytest.mark.parametrize("language", languages())
async def test_a_probe_reports_and_learns_what_does_not_count(live: Live, language: str) -> None:
    name = f"p-{language}"
    await live.here("apply", "-f", "-", text=yaml.dump(node(name)))

    async def is_tainted() -> bool:
        found = (await live.here("get", "node", name, "-o", "json")).json["spec"].get("taints", [])
        return any(taint["key"] == "node.kubernetes.io/disk-pressure" for taint in found)

    words = (*command(language, "probe"), f"Node/{name}", "DiskPressure=True", "--reason", "Full")
    done = await program(*words, env={"MOORAGE_SERVER": live.server, "MOORAGE_BOOTSTRAP_SERVERS": ""})
    assert done.code == 0, done.err
    await until(is_tainted)
    words = (*command(language, "probe"), "Node/nobody", "Ready=True")
    done = await program(*words, env={"MOORAGE_SERVER": live.server, "MOORAGE_BOOTSTRAP_SERVERS": ""})
    assert done.code == 1, done.out
    assert "UnknownTarget" in done.err


@asynccontextmanager
async def probing(live: Live, language: str, target: str, condition: str) -> AsyncIterator[None]:
    """A probe that repeats its report each second, until it is killed."""
    every = "1s" if language == "go" else "1"
    words = (*command(language, "probe"), target, condition, "--every", every)
    env = {**environment(live), "MOORAGE_BOOTSTRAP_SERVERS": ""}
    process = await asyncio.create_subprocess_exec(*words, env=env, cwd=ROOT)
    try:
        yield
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()


async def taints_of(live: Live, name: str) -> set[str]:
    """The keys of the taints that a report of pressure causes. Heartbeats of other conditions play no part."""
    found = (await live.here("get", "node", name, "-o", "json")).json["spec"].get("taints", [])
    return {taint["key"] for taint in found}


async def is_pressed(live: Live, name: str, *, pressed: bool) -> bool:
    return ("node.kubernetes.io/disk-pressure" in await taints_of(live, name)) is pressed


@pytest.mark.parametrize("language", languages())
async def test_a_probe_goes_on_after_kills_of_itself_and_of_its_gateway(live: Live, language: str) -> None:
    name = f"k-{language}"
    await live.here("apply", "-f", "-", text=yaml.dump(node(name)))
    gateway = next(name for name, address in live.gateways.items() if address == live.server)
    async with probing(live, language, f"Node/{name}", "DiskPressure=True"):
        await until(lambda: is_pressed(live, name, pressed=True))
    async with probing(live, language, f"Node/{name}", "DiskPressure=False"):
        await until(lambda: is_pressed(live, name, pressed=False))
        await live.kill_gateway(gateway)
        await until(partial(is_heard_after, live, name, await heard_of(live, name)))
    async with probing(live, language, f"Node/{name}", "DiskPressure=True"):
        await until(lambda: is_pressed(live, name, pressed=True))


async def heard_of(live: Live, name: str) -> str:
    """When the condition was last reported, as the node shows it."""
    found = (await live.here("get", "node", name, "-o", "json")).json["status"]["conditions"]
    return str(next(one["lastHeartbeatTime"] for one in found if one["type"] == "DiskPressure"))


async def is_heard_after(live: Live, name: str, heard: str) -> bool:
    return await heard_of(live, name) > heard


async def test_probes_and_deployers_of_all_languages_go_on_when_the_broker_comes_back(
    own_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        live = await stack.enter_async_context(running(own_broker.bootstrap, f"{RUN}-away", tmp_path / "state"))
        hosts = {language: f"h-{language}" for language in languages()}
        pods = {language: f"pod-{language}" for language in hosts}
        declared = [node(host) for host in hosts.values()]
        declared += [pod(name, hosts[language]) for language, name in pods.items()]
        await live.here("apply", "-f", "-", text=yaml.dump_all(declared))
        folders = {language: tmp_path / language for language in hosts}
        for language, host in hosts.items():
            await stack.enter_async_context(deploying(live, language, folders[language], f"Node/{host}"))
            await stack.enter_async_context(probing(live, language, f"Node/{host}", "DiskPressure=True"))
        await until(lambda: all(on_disk(folder) for folder in folders.values()), message="not everything was started")
        await own_broker.kill()
        await own_broker.start()

        async def is_tainted() -> bool:
            words = ("taint", "nodes", "--all", "bad=yes:NoExecute", "--overwrite")
            return (await moorage(*words, env=live.env)).code == 0

        await until(is_tainted, message="the gateway does not write again")
        await until(lambda: not any(on_disk(one) for one in folders.values()), message="what has to leave still runs")
        before = {host: await heard_of(live, host) for host in hosts.values()}

        for host, heard in before.items():
            await until(partial(is_heard_after, live, host, heard), message=f"{host}: its probe is not heard any more")
