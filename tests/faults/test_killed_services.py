"""Every service runs as processes of its own, and they are killed while the deadlines run.

Whatever is killed whenever: the same decisions, none lost, none double, none early.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.brokers import Broker
from tests.kafka.cli_stack import collect, program, until

from moorage.cli import services
from moorage.cli.reading import BEGINNING, Seen, TopicReader
from moorage.cli.stack import free_ports
from moorage.cli.supervisor import Child, ChildSpec, Supervisor
from moorage.runtime.settings import Settings
from moorage.runtime.topics_admin import ensure_topics
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.taint import TargetTainted
from moorage_schemas.timer import TimerFired
from moorage_schemas.topics import BINDINGS, EVICTIONS, PLACEMENTS, TAINTS, TIMER_FIRED

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

PATIENCE = timedelta(seconds=3)
ROUNDS = 10
TOPICS = (TAINTS, BINDINGS, EVICTIONS, PLACEMENTS, TIMER_FIRED)


class Fleet:
    """Some processes of each service and a gateway; a killed process is started again by the supervisor."""

    def __init__(self, settings: Settings, folder: Path, each: int) -> None:
        self.settings = settings
        names = [(name, copy) for name in services.names() for copy in range(each)]
        *ports, gateway, health = free_ports(len(names) + 2)
        self.server = f"http://127.0.0.1:{gateway}"
        self.env = {
            "MOORAGE_SERVER": self.server,
            "MOORAGE_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
            "MOORAGE_TOPIC_PREFIX": settings.topic_prefix,
            "MOORAGE_PARTITIONS": str(settings.partitions),
            # The group forgets a killed member, and Kafka its transaction, after these.
            "MOORAGE_SESSION_TIMEOUT_MS": "3000",
            "MOORAGE_HEARTBEAT_INTERVAL_MS": "500",
            "MOORAGE_TRANSACTION_TIMEOUT_MS": "5000",
        }

        def spec(name: str, copy: int, port: int) -> ChildSpec:
            environment = {**self.env, "MOORAGE_HTTP_PORT": str(port), "MOORAGE_GATEWAY_PORT": str(gateway)}
            ready = gateway if name == services.GATEWAY else port
            return ChildSpec(
                name=f"{name}-{copy}",
                arguments=("run", "--with-parent", name),
                environment=environment,
                log=folder / f"{name}-{copy}.log",
                ready_url=f"http://127.0.0.1:{ready}/readyz",
            )

        specs = [spec(name, copy, port) for (name, copy), port in zip(names, ports, strict=True)]
        self.supervisor = Supervisor([*specs, spec(services.GATEWAY, 0, health)], lambda _: None)

    def members(self, service: str) -> list[Child]:
        """The processes of one service that run now."""
        return [one for one in self.supervisor.children if one.spec.name.startswith(f"{service}-") and one.pid]

    def kill(self, service: str, which: int) -> None:
        """Kill one process of a service, if one runs."""
        if members := self.members(service):
            os.kill(members[which % len(members)].pid, signal.SIGKILL)

    async def moorage(self, *words: str, text: str | None = None) -> str:
        """Run the command line; it must end well."""
        done = await program(*(sys.executable, "-m", "moorage.cli", *words), env=self.env, text=text)
        assert done.code == 0, done.out + done.err
        return done.out


@asynccontextmanager
async def running(bootstrap: str, prefix: str, folder: Path, each: int) -> AsyncIterator[Fleet]:
    settings = Settings(bootstrap_servers=bootstrap, topic_prefix=prefix, partitions=4)
    await ensure_topics(settings)
    fleet = Fleet(settings, folder, each)
    await fleet.supervisor.start()
    try:
        await fleet.supervisor.until_ready(120)
        yield fleet
    finally:
        await fleet.supervisor.stop()


def documents(host: str) -> list[dict[str, Any]]:
    """A node with three pods: one without toleration, one patient, one that stays; and a replica that can move."""
    exists: dict[str, Any] = {"key": "key1", "operator": "Exists", "effect": "NoExecute"}

    def pod(name: str, *tolerations: dict[str, Any]) -> dict[str, Any]:
        spec = {"nodeSelector": {"host": host}, "containers": [{"name": "c"}], "tolerations": list(tolerations)}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{name}-{host}"}, "spec": spec}

    return [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": host, "labels": {"host": host}}},
        pod("intolerant"),
        pod("patient", {**exists, "tolerationSeconds": int(PATIENCE.total_seconds())}),
        pod("stoic", exists),
    ]


def events(seen: Sequence[Seen], state: EvictionState) -> list[EvictionDecided]:
    return [one.event for one in seen if isinstance(one.event, EvictionDecided) and one.event.state is state]


@pytest.mark.parametrize("each", [1, 2], ids=["one of each", "two of each"])
async def test_killed_at_any_time(broker: Broker, topic_prefix: str, tmp_path: Path, each: int) -> None:
    chance = random.Random(each)  # noqa: S311 - the same moments in each run, as far as machines allow
    hosts = [f"h{number}" for number in range(ROUNDS)]
    prefix = f"{topic_prefix}kill"
    async with running(broker.bootstrap, prefix, tmp_path, each) as fleet:
        await fleet.moorage("apply", "-f", "-", text=yaml.dump_all([one for host in hosts for one in documents(host)]))
        async with TopicReader(broker.bootstrap, prefix, TOPICS, BEGINNING) as reader:
            await collect(reader, lambda seen: sum(one.topic is BINDINGS for one in seen) >= 3 * ROUNDS, 90)
            victims = services.names() * 2
            chance.shuffle(victims)
            for host, victim in zip(hosts, victims, strict=True):
                await fleet.moorage("taint", "node", host, "key1=value1:NoExecute")
                # Nothing to wait for: the moment of the kill is what is drawn, from the wish to beyond the deadline.
                await asyncio.sleep(chance.uniform(0, PATIENCE.total_seconds() / 2))
                fleet.kill(victim, chance.randrange(2))
            await collect(reader, lambda found: len(events(found, EvictionState.COMPLETED)) >= 2 * ROUNDS, 120)
        for host in hosts:
            await until(lambda host=host: _gone(fleet, f"patient-{host}"))  # type: ignore[misc]  # mypy loses the default
        # From the beginning, so that a double that came later is seen as well.
        async with TopicReader(broker.bootstrap, prefix, TOPICS, BEGINNING) as reader:
            every = await reader.to_end()
    assert {child.spec.name.rpartition("-")[0] for child in fleet.supervisor.children if child.crashes} == set(
        services.names()
    )
    _check(every, hosts)


async def _gone(fleet: Fleet, pod: str) -> bool:
    done = await program(sys.executable, "-m", "moorage.cli", "get", "pod", pod, env=fleet.env)
    return done.code == 1 and "not found" in done.err


def _check(seen: list[Seen], hosts: list[str]) -> None:
    added: dict[str, datetime] = {
        one.event.target.name: one.event.taints[0].time_added
        for one in seen
        if isinstance(one.event, TargetTainted) and one.event.taints
    }
    assert set(added) == set(hosts)

    requested = events(seen, EvictionState.REQUESTED)
    expected = {f"{name}-{host}": host for host in hosts for name in ("intolerant", "patient")}
    assert {one.workload.name: one.target.name for one in requested} == expected
    assert Counter(one.workload.name for one in requested).most_common(1)[0][1] == 1, "decided twice"
    assert {one.workload.name for one in events(seen, EvictionState.COMPLETED)} == set(expected)
    assert not events(seen, EvictionState.CANCELLED)
    for one in requested:
        written = next(
            record.meta.time
            for record in seen
            if record.event == one and record.meta is not None and record.meta.time is not None
        )
        wait = PATIENCE if one.workload.name.startswith("patient") else timedelta()
        assert written >= added[one.target.name] + wait, f"{one.workload.name} left early"

    fired = [one.event for one in seen if isinstance(one.event, TimerFired)]
    assert len({(one.id, one.generation) for one in fired}) == len(fired), "a timer fired twice"
    assert all(one.fired_time >= one.deadline for one in fired)

    gone = [one.event for one in seen if isinstance(one.event, WorkloadPlaced) and one.event.state.value == "Evicted"]
    assert Counter(one.workload.name for one in gone) == Counter(expected.keys())
    ids = [one.meta.id for one in seen if one.meta is not None and one.event is not None]
    assert len(set(ids)) == len(ids), "the same event was written twice"
