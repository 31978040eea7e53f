"""The command line against the real thing: what issue 3 says must hold, from a user's side."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio
import yaml
from tests.conftest import RUN
from tests.support.brokers import Broker
from tests.support.commands import program
from tests.support.forks import ROOT, fork, moorage
from tests.support.live import Live, collect, running
from tests.support.waiting import until

from moorage.cli.api.topics import Seen
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.taint import TargetTainted
from moorage_schemas.topics import BINDINGS, CONDITIONS, DEAD_LETTERS, EVICTIONS, PLACEMENTS, TAINTS

pytestmark = pytest.mark.kafka

SECOND = timedelta(seconds=1)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def live(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Live]:
    async with running(broker.bootstrap, f"{RUN}-cli", tmp_path_factory.mktemp("cli")) as found:
        yield found


def node(name: str, **labels: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"host": name, **labels}}}


def pod(name: str, host: str, *tolerations: dict[str, object]) -> dict[str, object]:
    spec = {
        "nodeSelector": {"host": host},
        "containers": [{"name": "c", "image": "c:1"}],
        "tolerations": list(tolerations),
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def tolerates(seconds: int | None = None) -> dict[str, object]:
    toleration: dict[str, object] = {"key": "key1", "operator": "Exists", "effect": "NoExecute"}
    return toleration if seconds is None else {**toleration, "tolerationSeconds": seconds}


def evictions(seen: list[Seen], state: EvictionState) -> dict[str, EvictionDecided]:
    return {
        one.event.workload.name: one.event
        for one in seen
        if isinstance(one.event, EvictionDecided) and one.event.state is state
    }


async def test_three_pods_on_a_tainted_node(live: Live) -> None:
    documents = [
        node("n1"),
        pod("intolerant", "n1"),
        pod("patient", "n1", tolerates(3)),
        pod("stoic", "n1", tolerates()),
    ]
    done = await live.moorage("apply", "-f", "-", text=yaml.dump_all(documents))
    assert done.out.splitlines() == [
        "node/n1 created",
        *(f"pod/{name} created" for name in ("intolerant", "patient", "stoic")),
    ]
    await live.running("intolerant", "patient", "stoic")
    async with live.reader(EVICTIONS) as reader:
        done = await live.moorage("taint", "node", "n1", "key1=value1:NoExecute")
        assert done.out == "node/n1 tainted\n"
        seen = await collect(reader, lambda found: "patient" in evictions(found, EvictionState.COMPLETED))
    (taint,) = (await live.moorage("get", "node", "n1", "-o", "json")).json["spec"]["taints"]
    added = datetime.fromisoformat(taint["timeAdded"])
    requested = evictions(seen, EvictionState.REQUESTED)
    assert set(requested) == {"intolerant", "patient"}
    assert timedelta() <= requested["intolerant"].decided_time - added < 3 * SECOND
    assert requested["patient"].decided_time - added >= 3 * SECOND
    assert await live.node_of("stoic") == "n1"
    await live.moorage("get", "pod", "intolerant", code=1)
    await live.moorage("get", "pod", "patient", code=1)
    told = (await live.moorage("describe", "node", "n1")).out
    assert "key1=value1:NoExecute" in told
    assert "explicit" in told
    assert "stoic" in told


async def test_a_taint_that_goes_in_time_lets_the_pod_stay(live: Live) -> None:
    documents = [node("n2"), node("n3"), pod("lucky", "n2", tolerates(8)), pod("clock", "n3", tolerates(8))]
    await live.here("apply", "-f", "-", text=yaml.dump_all(documents))
    await live.running("lucky", "clock")
    async with live.reader(EVICTIONS) as reader:
        await live.here("taint", "node", "n2", "n3", "key1=value1:NoExecute")
        done = await live.here("taint", "node", "n2", "key1:NoExecute-")
        assert done.out == "node/n2 untainted\n"
        # The clock was tainted after the lucky one and leaves at its own deadline: by then the other's has passed.
        seen = await collect(reader, lambda found: "clock" in evictions(found, EvictionState.COMPLETED))
    assert "lucky" in evictions(seen, EvictionState.SCHEDULED)
    assert "lucky" in evictions(seen, EvictionState.CANCELLED)
    assert "lucky" not in evictions(seen, EvictionState.REQUESTED)
    assert await live.node_of("lucky") == "n2"
    done = await live.here("taint", "node", "n2", "key1:NoExecute-", code=1)
    assert done.err == 'error: taint "key1:NoExecute" not found\n'


async def test_evicted_replicas_are_placed_again_with_reasons(live: Live) -> None:
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"nodeSelector": {"pool": "web"}, "containers": [{"name": "c", "image": "c:1"}]},
            },
        },
    }
    await live.here("apply", "-f", "-", text=yaml.dump_all([node("w1", pool="web"), deployment]))

    async def on(host: str) -> bool:
        items = (await live.here("get", "pods", "-l", "app=web", "-o", "json")).json["items"]
        return [one["spec"].get("nodeName") for one in items] == [host, host]

    await until(lambda: on("w1"))
    await live.here("apply", "-f", "-", text=yaml.dump(node("w2", pool="web")))
    async with live.reader(PLACEMENTS) as reader:
        await live.here("taint", "node", "w1", "key1=value1:NoExecute")
        await until(lambda: on("w2"))
        seen = await collect(reader, lambda found: sum(_replaces(one) for one in found) == 2)
    told = (await live.here("describe", "deployment", "web")).out
    assert "Pods of this Deployment (2)" in told
    for one in seen:
        if _replaces(one) and isinstance(one.event, WorkloadPlaced):
            assert one.event.target is not None
            assert one.event.target.name == "w2"
            assert "key1=value1:NoExecute" in one.event.message
            told = (await live.here("describe", "pod", one.event.workload.name)).out
            assert one.event.replaces in told
            assert "TaintToleration" in told or "taint" in told


def _replaces(one: Seen) -> bool:
    return isinstance(one.event, WorkloadPlaced) and bool(one.event.replaces)


async def test_cordon_keeps_new_pods_away_and_running_ones_on(live: Live) -> None:
    await live.here("apply", "-f", "-", text=yaml.dump_all([node("k1"), pod("early", "k1")]))
    await live.running("early")
    assert (await live.here("cordon", "k1")).out == "node/k1 cordoned\n"

    async def marked() -> bool:
        spec = (await live.here("get", "node", "k1", "-o", "json")).json["spec"]
        return bool([taint["key"] for taint in spec.get("taints", [])] == ["node.kubernetes.io/unschedulable"])

    await until(marked)
    async with live.reader(PLACEMENTS) as reader:
        await live.here("apply", "-f", "-", text=yaml.dump(pod("late", "k1")))
        seen = await collect(reader, lambda found: any(one.key == "Pod/default/late" for one in found))
    decision = next(one.event for one in seen if one.key == "Pod/default/late")
    assert isinstance(decision, WorkloadPlaced)
    assert decision.state.value == "Pending"
    assert await live.node_of("early") == "k1"
    await live.here("uncordon", "k1")
    await live.running("late")


async def test_report_and_both_example_probes_reach_the_taints(live: Live) -> None:
    await live.here("apply", "-f", "-", text=yaml.dump(node("p1")))

    async def has(*keys: str) -> bool:
        found = (await live.here("get", "node", "p1", "-o", "json")).json["spec"].get("taints", [])
        return {taint["key"].partition("/")[2] for taint in found} == set(keys)

    kafka = {**live.env, "MOORAGE_TRANSPORT": "kafka"}
    async with live.reader(CONDITIONS, TAINTS) as reader:
        done = await program(
            sys.executable, "examples/probe.py", "Node/p1", "DiskPressure=True", "--reason", "Full", env=kafka
        )
        assert done.code == 0, done.err
        identity = done.out.split()[0]
        seen = await collect(reader, lambda found: len([one for one in found if _about_disk(one)]) == 2)
    assert {one.meta.correlation for one in seen if one.meta and _about_disk(one)} == {identity}
    await live.here("report", "node/p1", "MemoryPressure=True")
    await until(lambda: has("disk-pressure", "memory-pressure"))
    if shutil.which("curl"):
        words = ("sh", "examples/probe.sh", "Node/p1", "PIDPressure=True", "Crowded")
        done = await program(*words, env={"GATEWAY": live.server})
        assert done.code == 0, done.out + done.err
        await until(lambda: has("disk-pressure", "memory-pressure", "pid-pressure"))
        refused = await program(
            "sh", "examples/probe.sh", "Node/p1", "PIDPressure=Perhaps", env={"GATEWAY": live.server}
        )
        assert refused.code != 0
        assert "Perhaps" in refused.out
    wrong = await program(sys.executable, "examples/probe.py", "Node/p1", "DiskPressure=Perhaps", env=live.env)
    assert wrong.code == 2


def _about_disk(one: Seen) -> bool:
    """Whether it is the condition that the probe reports, or the taint that follows; not what its node came with."""
    if isinstance(one.event, TargetTainted):
        return one.key == "Node/p1" and any("disk-pressure" in taint.key for taint in one.event.taints)
    return one.key == "Node/p1|DiskPressure"


async def test_what_a_probe_sends_about_nobody_is_a_dead_letter(live: Live) -> None:
    async with live.reader(DEAD_LETTERS) as reader:
        kafka = {**live.env, "MOORAGE_TRANSPORT": "kafka"}
        done = await program(sys.executable, "examples/probe.py", "Node/nobody", "Ready=False", env=kafka)
        assert done.code == 0, done.err
        await collect(reader, bool)
    done = await live.here("watch", "dead-letters", "--since", "10m", "--count", "1", "--timeout", "20s", "-o", "json")
    assert json.loads(done.out)["data"]["reason"] == "UnknownTarget"
    done = await live.here("report", "node/nobody", "Ready=False", code=1)
    assert done.err.startswith("Error from server")
    future = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    done = await live.here("report", "node/nobody", "Ready=False", "--at", future, code=1)
    assert "observedTime" in done.err


async def test_the_example_deployer_does_what_is_decided(live: Live, tmp_path: Path) -> None:
    await live.here("apply", "-f", "-", text=yaml.dump_all([node("d1"), pod("cargo", "d1", tolerates(1))]))
    await live.running("cargo")
    assert await _shown(live, "cargo", "0/1", "Scheduled")
    words = ("-u", "examples/deployer.py", "--folder", str(tmp_path))
    environment = {**os.environ, **live.env, "MOORAGE_TRANSPORT": "kafka"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, env=environment, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(120):
            lines = await _lines(process.stdout, "start Pod/default/cargo on Node/d1")
            await until(lambda: _shown(live, "cargo", "1/1", "Running"))
            await live.here("taint", "node", "d1", "key1=value1:NoExecute")
            lines += await _lines(process.stdout, "stop Pod/default/cargo on Node/d1: TolerationExpired")
    finally:
        process.send_signal(signal.SIGTERM)
        await process.communicate()
    about = [line for line in lines if "cargo" in line]
    assert about[0].startswith("start ")
    assert len([line for line in about if line.startswith("start ")]) == 1
    assert [line for line in about if line.startswith("stop ")] == [
        "stop Pod/default/cargo on Node/d1: TolerationExpired"
    ]


async def _shown(live: Live, name: str, ready: str, status: str) -> bool:
    """Whether `get` shows a pod like this."""
    row = (await live.here("get", "pod", name, "--no-headers")).out
    return row.split()[1:3] == [ready, status]


async def _lines(stream: asyncio.StreamReader, last: str) -> list[str]:
    found: list[str] = []
    while not found or found[-1] != last:
        line = await stream.readline()
        assert line, f"the program ended before it said {last!r}: {found}"
        found.append(line.decode().strip())
    return found


async def test_watch_ends_by_count_and_by_time(live: Live) -> None:
    await live.here("apply", "-f", "-", text=yaml.dump_all([node("x1"), pod("seen", "x1")]))
    await live.running("seen")
    words = ("watch", "bindings,placements", "--since", "beginning")
    done = await live.moorage(*words, "--count", "2", "-o", "json")
    events = [json.loads(line) for line in done.out.splitlines()]
    assert len(events) == 2
    assert {event["topic"] for event in events} <= {"bindings", "placements"}
    assert all(event["correlationid"] for event in events)
    lines = (await live.moorage(*words, "--timeout", "2s")).out
    assert "pod/seen bound to node/x1" in lines
    done = await live.moorage("watch", "audit", "--count", "9999", "--since", "1m", "--timeout", "1s", code=1)
    assert "timed out after 1s after" in done.err


async def test_watch_writes_each_event_as_it_comes(live: Live) -> None:
    """A reader of the pipe sees an event while the watch goes on."""
    await live.here("apply", "-f", "-", text=yaml.dump(node("y1")))
    words = ("watch", "taints", "--since", "5m", "-o", "json")
    process = await fork(moorage, *words, environment=live.env)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(120):
            await live.here("taint", "node", "y1", "key1=value1:NoSchedule")
            while json.loads(await process.stdout.readline())["key"] != "Node/y1":
                pass
        assert process.returncode is None
    finally:
        # Not SIGINT, which is ignored where the tests run in the background of a script.
        process.send_signal(signal.SIGTERM)
        code = await process.wait()
    assert code == -signal.SIGTERM


async def test_applying_the_fleet_twice_changes_nothing(live: Live) -> None:
    first = await live.here("apply", "-f", "examples/fleet")
    assert {line.split()[-1] for line in first.out.splitlines()} == {"created"}
    second = await live.here("apply", "-f", "examples/fleet")
    assert {line.split()[-1] for line in second.out.splitlines()} == {"unchanged"}

    async def settled() -> bool:
        items = (await live.here("get", "pods", "-A", "-o", "json")).json["items"]
        mine = [one for one in items if one["metadata"]["namespace"] in {"shop", "data", "ops"}]
        bound = [one["metadata"]["namespace"] for one in mine if one["spec"].get("nodeName")]
        return len(bound) >= 60 and bound.count("data") == 3

    await until(settled)
    databases = (await live.here("get", "pods", "-n", "data", "-o", "json")).json["items"]
    assert sorted(one["spec"]["nodeName"] for one in databases) == ["a7", "b7", "c6"]
    done = await live.here("delete", "-f", "examples/fleet")
    assert len(done.out.splitlines()) == len(first.out.splitlines())


async def test_wrong_objects_are_refused_by_the_server_with_their_place(live: Live) -> None:
    bad = pod("bad", "n1", {"operator": "Exists", "value": "x"})
    done = await live.here("apply", "-f", "-", text=yaml.dump_all([node("z1"), bad]), code=1)
    assert done.out == "node/z1 created\n"
    assert done.err.startswith(
        'error when applying standard input, document 2: The Pod "bad" is invalid: spec.tolerations[0]'
    )
    done = await live.here("apply", "-f", "-", text=yaml.dump({**bad, "spec": "none"}), code=1)
    assert "document 1" in done.err
    assert "Traceback" not in done.err


async def test_without_the_switches_clusters_evict_nothing(live: Live) -> None:
    done = await live.here("apply", "-f", str(ROOT / "examples" / "karmada" / "no-execute"), code=1)
    assert "spec.taints[0].effect" in done.err
    assert "spec.allowNoExecuteTaintPolicy of moorageconfiguration/cluster" in done.err
    policies = ROOT / "examples" / "karmada" / "20-taint-policies.yaml"
    done = await live.here("apply", "-f", str(policies))
    assert {line.split()[-1] for line in done.out.splitlines()} == {"created"}
    assert done.err.startswith("Warning: ")
    assert "spec.featureGates.Failover" in done.err
    await live.here("delete", "-f", str(policies))


async def test_topics_are_listed_with_their_partitions(live: Live) -> None:
    rows = (await live.moorage("topics", "list", "-o", "json")).json["items"]
    assert {row["partitions"] for row in rows} == {6}
    assert f"{live.prefix}.{BINDINGS.short}.v1" in {row["name"] for row in rows}
    assert (await live.moorage("topics", "apply", "-o", "name")).out.count("\n") == len(rows)
    assert "EVENT" in (await live.moorage("topics", "list", "-o", "wide")).out


async def test_get_watches_changes(live: Live, tmp_path: Path) -> None:
    await live.here("apply", "-f", "-", text=yaml.dump(node("v1")))
    errors = tmp_path / "errors"
    with errors.open("wb") as file:
        process = await fork(moorage, "get", "node", "v1", "-w", environment=live.env, stderr=file)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(120):
            assert (await process.stdout.readline()).split()[0] == b"NAME"
            assert (await process.stdout.readline()).split()[-1] == b"<none>"
            await live.here("taint", "node", "v1", "key1=value1:NoSchedule")
            while b"key1=value1:NoSchedule" not in await process.stdout.readline():
                pass
    finally:
        process.send_signal(signal.SIGTERM)  # not SIGINT, which is ignored in the background of a script
        await process.wait()
    assert errors.read_bytes() == b""


async def test_a_watch_goes_on_when_the_gateway_restarts(live: Live) -> None:
    await live.here("apply", "-f", "-", text=yaml.dump_all([node("w1"), node("w2")]))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "moorage.cli", "get", "nodes", "-w", "-o", "name"),
        env={**os.environ, **live.env},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(120):
            while await process.stdout.readline() != b"node/w2\n":
                pass
            await live.restart_gateway()
            assert b"The watch was interrupted, trying again" in await process.stderr.readline()
            assert await process.stderr.readline() == b"The watch continues.\n"
            await live.here("delete", "node", "w1")
            while await process.stdout.readline() != b"node/w1\n":
                pass
    finally:
        process.terminate()
        _, err = await process.communicate()
    assert err == b""


async def test_the_gateways_own_view_of_reasons_is_listed(live: Live) -> None:
    await live.here("apply", "-f", "-", text=yaml.dump_all([node("g1"), pod("listed", "g1", tolerates(600))]))
    await live.running("listed")
    await live.here("taint", "node", "g1", "key1=value1:NoExecute")

    async def timed() -> bool:
        return "listed" in (await live.here("get", "timers")).out

    await until(timed)
    evicted = (await live.here("get", "evictions", "-o", "wide")).out
    assert [line.split()[3] for line in evicted.splitlines() if line.startswith("listed")] == ["Scheduled"]
    assert "explicit" in (await live.here("get", "taints")).out
    for kind in ("workloadplacements", "bindings"):
        assert "listed" in (await live.here("get", kind)).out
    told = (await live.here("describe", "pod", "listed")).out
    assert "key1:NoExecute op=Exists for 600s" in told
    assert "Scores:" in told
    assert "Scheduled" in told
