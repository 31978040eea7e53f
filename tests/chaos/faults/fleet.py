"""Every service as processes of its own, to be killed and paused, and what must hold whatever happens to them."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.support import commands, forks

from moorage.cli.api.topics import Seen
from moorage.cli.local import services
from moorage.cli.local.stack import free_ports
from moorage.cli.local.supervisor import Child, ChildSpec, Supervisor
from moorage.runtime.chains import CHAINS, grouped
from moorage.runtime.kafka.admin.topics_admin import ensure_topics
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.taint import TargetTainted
from moorage_schemas.timer import TimerFired
from moorage_schemas.topics import BINDINGS, EVICTIONS, PLACEMENTS, TAINTS, TIMER_FIRED

PATIENCE = timedelta(seconds=3)
"""How long the patient pod tolerates the taint."""

TOPICS = (TAINTS, BINDINGS, EVICTIONS, PLACEMENTS, TIMER_FIRED)
"""What `check_decisions` looks at."""

SESSION_TIMEOUT = 3.0
TRANSACTION_TIMEOUT = 5.0
"""Seconds after which the group forgets a member that is silent, and Kafka its transaction."""


class Fleet:
    """Some processes of each service or chain, and a gateway; a killed process is started again by the supervisor."""

    def __init__(self, settings: Settings, folder: Path, copies: Mapping[str, int], given: Mapping[str, str]) -> None:
        self.settings = settings
        names = [(name, copy) for name in copies for copy in range(copies[name])]
        *ports, gateway, health = free_ports(len(names) + 2)
        self.server = f"http://127.0.0.1:{gateway}"
        self.env = {
            "MOORAGE_SERVER": self.server,
            "MOORAGE_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
            "MOORAGE_TOPIC_PREFIX": settings.topic_prefix,
            "MOORAGE_PARTITIONS": str(settings.partitions),
            "MOORAGE_SESSION_TIMEOUT_MS": str(int(SESSION_TIMEOUT * 1000)),
            "MOORAGE_HEARTBEAT_INTERVAL_MS": "500",
            "MOORAGE_TRANSACTION_TIMEOUT_MS": str(int(TRANSACTION_TIMEOUT * 1000)),
            **given,
        }

        def spec(name: str, copy: int, port: int) -> ChildSpec:
            environment = {**self.env, "MOORAGE_HTTP_PORT": str(port), "MOORAGE_GATEWAY_PORT": str(gateway)}
            ready = gateway if name == services.GATEWAY else port
            return ChildSpec(
                name=f"{name}-{copy}",
                arguments=("run", "--with-parent", *CHAINS.get(name, (name,))),
                environment=environment,
                log=folder / f"{name}-{copy}.log",
                ready_url=f"http://127.0.0.1:{ready}/readyz",
            )

        specs: dict[str, list[ChildSpec]] = {}
        for (name, copy), port in zip(names, ports, strict=True):
            specs.setdefault(name, []).append(spec(name, copy, port))
        specs[services.GATEWAY] = [spec(services.GATEWAY, 0, health)]
        self._supervisors = {
            name: Supervisor(of_one, lambda _: None, launch=forks.launch) for name, of_one in specs.items()
        }

    @property
    def children(self) -> list[Child]:
        """All processes."""
        return [child for one in self._supervisors.values() for child in one.children]

    async def start(self) -> None:
        """Start all processes, and return when they are ready."""
        for one in self._supervisors.values():
            await one.start()
        await self.until_ready(120)

    async def stop(self) -> None:
        """Stop all processes, the gateway first."""
        for one in reversed(self._supervisors.values()):
            await one.stop()

    async def until_ready(self, seconds: float) -> None:
        """Return when every process says that it is ready."""
        async with asyncio.TaskGroup() as group:
            for one in self._supervisors.values():
                group.create_task(one.until_ready(seconds))

    def members(self, service: str) -> list[Child]:
        """The processes of one service that run now."""
        return [one for one in self._supervisors[service].children if one.pid]

    async def take_away(self, service: str) -> None:
        """Kill all processes of a service, and start none again until `bring_back`."""
        supervisor = self._supervisors[service]
        supervisor.kill()
        await supervisor.stop()

    async def bring_back(self, service: str, *, wait: bool = True) -> None:
        """Start the processes of a service that was taken away."""
        specs = [child.spec for child in self._supervisors[service].children]
        supervisor = self._supervisors[service] = Supervisor(specs, lambda _: None, launch=forks.launch)
        await supervisor.start()
        if wait:
            await supervisor.until_ready(120)

    def kill(self, service: str, which: int) -> None:
        """Kill one process of a service, if one runs."""
        if members := self.members(service):
            os.kill(members[which % len(members)].pid, signal.SIGKILL)

    @property
    def crashes(self) -> dict[str, int]:
        """How often processes ended that were not asked to, by their names; only those that did."""
        return {child.spec.name: child.crashes for child in self.children if child.crashes}

    async def ready_again(self, seconds: float) -> None:
        """Return when every process says anew that it is ready."""
        for child in self.children:
            child.ready = False
        await self.until_ready(seconds)

    async def moorage(self, *words: str, text: str | None = None) -> str:
        """Run the command line; it must end well."""
        done = await commands.moorage(*words, env=self.env, text=text)
        assert done.code == 0, done.out + done.err
        return done.out

    async def is_gone(self, pod: str) -> bool:
        """Whether the gateway knows no pod of that name."""
        done = await commands.moorage("get", "pod", pod, env=self.env)
        return done.code == 1 and "not found" in done.err


def copies_of_each(number: int) -> dict[str, int]:
    """As many processes of every service."""
    return dict.fromkeys(services.names(), number)


def copies_of_each_chain(number: int) -> dict[str, int]:
    """As many processes of every chain, and of the services that are in none."""
    return dict.fromkeys(grouped(services.names()), number)


@asynccontextmanager
async def running(
    bootstrap: str, prefix: str, folder: Path, copies: Mapping[str, int], **given: str
) -> AsyncIterator[Fleet]:
    """A fleet that is ready, on a broker that is there, with these settings as environment variables."""
    settings = Settings(bootstrap_servers=bootstrap, topic_prefix=prefix, partitions=4)
    await ensure_topics(settings)
    fleet = Fleet(settings, folder, copies, given)
    try:
        await fleet.start()
        yield fleet
    finally:
        for child in fleet.children:
            if child.pid:
                os.kill(child.pid, signal.SIGCONT)  # a process that stands still could not stop in order
        await fleet.stop()


def documents(host: str, patience: timedelta = PATIENCE) -> list[dict[str, Any]]:
    """A node with three pods: one without toleration, one patient, one that stays."""
    exists: dict[str, Any] = {"key": "key1", "operator": "Exists", "effect": "NoExecute"}

    def pod(name: str, *tolerations: dict[str, Any]) -> dict[str, Any]:
        spec = {
            "nodeSelector": {"host": host},
            "containers": [{"name": "c", "image": "c:1"}],
            "tolerations": list(tolerations),
        }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{name}-{host}"}, "spec": spec}

    return [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": host, "labels": {"host": host}}},
        pod("intolerant"),
        pod("patient", {**exists, "tolerationSeconds": int(patience.total_seconds())}),
        pod("stoic", exists),
    ]


def events(seen: Sequence[Seen], state: EvictionState) -> list[EvictionDecided]:
    """The evictions that came to a state."""
    return [one.event for one in seen if isinstance(one.event, EvictionDecided) and one.event.state is state]


def check_decisions(seen: Sequence[Seen], hosts: Sequence[str], patience: timedelta = PATIENCE) -> None:
    """The same decisions as without any fault: none lost, none double, none early."""
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
        wait = patience if one.workload.name.startswith("patient") else timedelta()
        assert written >= added[one.target.name] + wait, f"{one.workload.name} left early"

    fired = [one.event for one in seen if isinstance(one.event, TimerFired)]
    assert len({(one.id, one.generation) for one in fired}) == len(fired), "a timer fired twice"
    assert all(one.fired_time >= one.deadline for one in fired)

    gone = [one.event for one in seen if isinstance(one.event, WorkloadPlaced) and one.event.state.value == "Evicted"]
    assert Counter(one.workload.name for one in gone) == Counter(expected.keys())
    ids = [one.meta.id for one in seen if one.meta is not None and one.event is not None]
    assert len(set(ids)) == len(ids), "the same event was written twice"
