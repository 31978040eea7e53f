"""The broker is killed and paused under the services, and services stand still until others have taken over.

Each time: the same decisions, none lost, none double, none early. Two processes of placement give no room away twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.chaos.faults.fleet import (
    SESSION_TIMEOUT,
    TOPICS,
    TRANSACTION_TIMEOUT,
    Fleet,
    check_decisions,
    copies_of_each,
    documents,
    events,
    running,
)
from tests.support.brokers import Broker, EmbeddedBroker
from tests.support.live import collect

from moorage.cli.api.topics import BEGINNING, Seen, TopicReader
from moorage.cli.errors import CliError
from moorage.cli.local.supervisor import Child
from moorage_schemas.eviction import EvictionState
from moorage_schemas.placement import PlacementState, WorkloadBound, WorkloadPlaced
from moorage_schemas.taint import TargetTainted
from moorage_schemas.topics import BINDINGS, PLACEMENTS, TIMER_FIRED, partition_of

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

PREFIX = "faults"
_PATIENCE_WITH_A_BROKER = 60.0  # seconds


async def stand_by(seconds: float) -> None:
    """Let time pass: how long a fault lasts is what is tested, and nothing tells of it."""
    await asyncio.sleep(max(0.0, seconds))


@contextmanager
def paused(children: Iterable[Child]) -> Iterator[None]:
    """Let processes stand still, with their connections open."""
    pids = [child.pid for child in children]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@asynccontextmanager
async def reading(fleet: Fleet) -> AsyncIterator[TopicReader]:
    """Read from the beginning; a broker that has just come back may take a moment before it serves anybody."""
    reader = TopicReader(fleet.settings.bootstrap_servers, fleet.settings.topic_prefix, TOPICS, BEGINNING)
    async with AsyncExitStack() as stack:
        async with asyncio.timeout(_PATIENCE_WITH_A_BROKER):
            while True:
                with contextlib.suppress(CliError):
                    await stack.enter_async_context(reader)
                    break
        yield reader


async def settle_in(fleet: Fleet, hosts: Sequence[str], patience: timedelta) -> None:
    """Declare the hosts with their pods, and wait until all are bound."""
    text = yaml.dump_all([one for host in hosts for one in documents(host, patience)])
    await fleet.moorage("apply", "-f", "-", text=text)
    async with reading(fleet) as reader:
        await collect(reader, lambda seen: sum(one.topic is BINDINGS for one in seen) >= 3 * len(hosts), 60)


async def taint(fleet: Fleet, hosts: Sequence[str]) -> None:
    await fleet.moorage("taint", "node", *hosts, "key1=value1:NoExecute")


async def until_completed(fleet: Fleet, hosts: Sequence[str], seconds: float) -> None:
    await everything_when(fleet, lambda seen: len(events(seen, EvictionState.COMPLETED)) >= 2 * len(hosts), seconds)


async def everything(fleet: Fleet) -> list[Seen]:
    async with reading(fleet) as reader:
        return await reader.to_end()


async def everything_when(fleet: Fleet, enough: Callable[[list[Seen]], bool], seconds: float) -> list[Seen]:
    """Read all there is, each time with a reader of its own that has seen no fault, until there is enough."""
    async with asyncio.timeout(seconds):
        while not enough(found := await everything(fleet)):
            pass
    return found


def tainted(seen: Iterable[Seen]) -> dict[str, datetime]:
    """When each host got its taint."""
    return {
        one.event.target.name: one.event.taints[0].time_added
        for one in seen
        if isinstance(one.event, TargetTainted) and one.event.taints
    }


def fired(seen: Iterable[Seen]) -> int:
    return sum(one.topic is TIMER_FIRED for one in seen)


async def killed_twice(broker: EmbeddedBroker, prefix: str, folder: Path, patience: timedelta) -> bool:
    """Kill the broker while decisions are written and while deadlines come, and check what was decided.

    Returns whether both came in this order. On a machine that is too slow, the deadlines come during the first outage.
    """
    hosts = ["h0", "h1", "h2"]
    async with running(broker.bootstrap, prefix, folder, copies_of_each(1)) as fleet:
        await settle_in(fleet, hosts, patience)
        await taint(fleet, hosts)
        await broker.kill()
        await broker.start()
        seen = await everything_when(fleet, lambda found: len(tainted(found)) == len(hosts), 100)
        in_order = fired(seen) == 0
        began = min(tainted(seen).values())
        await stand_by((began + patience - datetime.now(UTC)).total_seconds() + 0.1)
        await broker.kill()
        await broker.start()
        await until_completed(fleet, hosts, 100)
        await fleet.ready_again(30)
        assert not fleet.crashes, "an outage of the broker must be outlived"
        check_decisions(await everything(fleet), hosts, patience)
    return in_order


async def test_the_broker_is_killed_while_deadlines_run(own_broker: EmbeddedBroker, tmp_path: Path) -> None:
    for seconds in (15, 45):
        folder = tmp_path / str(seconds)
        folder.mkdir()
        if await killed_twice(own_broker, f"{PREFIX}{seconds}", folder, timedelta(seconds=seconds)):
            return
    pytest.fail("the deadlines came during the first outage, although they were 45 s away")


async def test_the_broker_hangs_longer_than_sessions_and_transactions_last(
    patient_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    hosts, patience = ["h0", "h1", "h2"], timedelta(seconds=5)
    async with running(patient_broker.bootstrap, PREFIX, tmp_path, copies_of_each(1)) as fleet:
        await settle_in(fleet, hosts, patience)
        await taint(fleet, hosts)
        await patient_broker.pause()
        try:
            await stand_by(max(SESSION_TIMEOUT, TRANSACTION_TIMEOUT) + 3)
        finally:
            await patient_broker.resume()
        await until_completed(fleet, hosts, 100)
        await fleet.ready_again(30)
        assert not fleet.crashes, "a broker that hangs must be outlived"
        check_decisions(await everything(fleet), hosts, patience)


def one_in_each_half(name: str, partitions: int) -> list[str]:
    """Two hosts, one in the partitions of each of two members of a group (the range assignor halves them)."""
    found: dict[int, str] = {}
    for number in itertools.count():
        host = f"{name}{number}"
        found.setdefault(partition_of(f"Node/{host}", partitions) * 2 // partitions, host)
        if len(found) == 2:
            return sorted(found.values())
    raise AssertionError


async def test_services_that_stood_still_until_others_took_over(
    broker: Broker, topic_prefix: str, tmp_path: Path
) -> None:
    names = ("taint-manager", "eviction", "timer", "placement")
    patience = timedelta(seconds=4)
    async with running(broker.bootstrap, f"{topic_prefix}faults", tmp_path, dict.fromkeys(names, 2)) as fleet:
        rounds = [one_in_each_half(name, fleet.settings.partitions) for name in "abcd"]
        hosts = [host for two in rounds for host in two]
        await settle_in(fleet, hosts, patience)
        done: list[str] = []
        for which in (0, 1):
            before, meanwhile = rounds.pop(0), rounds.pop(0)
            await taint(fleet, before)
            with paused(fleet.members(name)[which] for name in names):
                await taint(fleet, meanwhile)
                done += [*before, *meanwhile]
                # Every partition decides, so the others have taken over what the ones that stand still had.
                await until_completed(fleet, done, 60)
            await fleet.ready_again(30)
        await until_completed(fleet, hosts, 30)
        assert not fleet.crashes
        check_decisions(await everything(fleet), hosts, patience)


def unevenly(pods: int, partitions: int) -> list[str]:
    """Names of pods, an odd number in the partitions of each of two members, so that each fills one node more."""
    halves: tuple[list[str], list[str]] = ([], [])
    for number in range(10 * pods):
        name = f"p{number}"
        halves[partition_of(f"Pod/default/{name}", partitions) * 2 // partitions].append(name)
    return [*halves[0][: pods // 2 - 1], *halves[1][: pods // 2 + 1]]


def node(name: str, cpu: int) -> dict[str, Any]:
    status = {"allocatable": {"cpu": str(cpu)}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def pod(name: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "c:1", "resources": {"requests": {"cpu": "1"}}}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def bound(seen: Iterable[Seen]) -> dict[str, WorkloadBound]:
    """The bindings that hold in the end."""
    table: dict[str, WorkloadBound] = {}
    for one in seen:
        if one.topic is BINDINGS and isinstance(one.event, WorkloadBound):
            table[one.key] = one.event
        elif one.topic is BINDINGS:
            table.pop(one.key, None)
    return table


def placed(seen: Iterable[Seen]) -> dict[str, WorkloadPlaced]:
    """The last decision on each pod."""
    return {one.event.workload.name: one.event for one in seen if isinstance(one.event, WorkloadPlaced)}


def per_node(seen: Iterable[Seen]) -> Counter[str]:
    return Counter(one.target.name for one in bound(seen).values())


async def test_two_processes_of_placement_give_no_room_away_twice(
    broker: Broker, topic_prefix: str, tmp_path: Path
) -> None:
    nodes, cpu, pods = 2, 10, 20
    async with running(broker.bootstrap, f"{topic_prefix}faults", tmp_path, {"placement": 2}) as fleet:
        names = unevenly(pods, fleet.settings.partitions)
        await fleet.moorage("apply", "-f", "-", text=yaml.dump_all(map(pod, names)))
        async with reading(fleet) as reader:
            await collect(reader, lambda seen: len(placed(seen)) == pods, 30)
        # Both learn of the nodes at the same moment, when neither has seen a decision of the other.
        with paused(fleet.members("placement")):
            await fleet.moorage("apply", "-f", "-", text=yaml.dump_all([node(f"n{i}", cpu) for i in range(nodes)]))

        def all_fit(seen: list[Seen]) -> bool:
            return per_node(seen) == {f"n{i}": cpu for i in range(nodes)}

        async with reading(fleet) as reader:
            seen = await collect(reader, all_fit, 45)
        # What is on its way may still come: nothing may be left to do.
        await fleet.ready_again(30)
        seen = await everything(fleet)
        decisions = placed(seen)
    assert len(decisions) == pods
    assert {one.state for one in decisions.values()} == {PlacementState.PLACED}
    assert {(one.workload.key, one.target) for one in bound(seen).values()} == {
        (one.workload.key, one.target) for one in decisions.values()
    }
    assert per_node(seen) == {f"n{i}": cpu for i in range(nodes)}
    writers = {one.partition for one in seen if one.topic is PLACEMENTS}
    assert len(writers) > 1, "the pods are all of one partition, so one process decided alone"
