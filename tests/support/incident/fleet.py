"""The fleet of the incident: a `moorage up`, two probes, a deployer, and the faults."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml
from tests.support.brokers import Broker
from tests.support.commands import Done, program
from tests.support.incident import story
from tests.support.up import started
from tests.support.waiting import until

from moorage_schemas.placement import WorkloadBound
from moorage_sdk.decisions import Remove, Running
from moorage_sdk.deployer import Deployer
from moorage_sdk.probe import Probe
from moorage_sdk.settings import Connection

HEARTBEAT = 2.0


@dataclass
class IncidentFleet:
    """The fleet as it runs."""

    server: str
    processes: Mapping[str, str]
    """The addresses of the processes that serve metrics, by name."""

    env: Mapping[str, str]
    kubelet: Probe
    disk: Probe
    pods: dict[str, Running] = field(default_factory=dict)
    """What runs, by the key of its binding."""

    async def moorage(self, *words: str, text: str | None = None, colors: bool = False) -> Done:
        """Run the command line."""
        env = {**self.env, "COLUMNS": "120", **({"FORCE_COLOR": "1"} if colors else {})}
        return await program(sys.executable, "-m", "moorage.cli", *words, env=env, text=text)

    async def objects(self, path: str) -> list[dict[str, Any]]:
        """Return the objects of a list of the API."""
        async with httpx.AsyncClient(base_url=self.server, timeout=30) as client:
            items: list[dict[str, Any]] = (await client.get(path)).raise_for_status().json()["items"]
            return items

    async def evictions(self) -> list[dict[str, Any]]:
        """Return the evictions, also those that have ended."""
        return await self.objects("/apis/moorage.io/v1alpha1/evictions")

    async def declare(self) -> None:
        """Declare the fleet. Returns when all its work runs on nodes that are ready."""
        done = await self.moorage("apply", "-f", "-", text=yaml.safe_dump_all(story.fleet(), sort_keys=False))
        if done.code:
            raise RuntimeError(f"moorage apply: {done.err}")
        await self.ready(story.NODES)
        await self.disks(story.NODES)
        await until(lambda: len(self.pods) == story.PODS, 120, "not all pods run")

        async def healthy() -> bool:
            pods = await self.objects("/api/v1/pods")
            return len(pods) == story.PODS and all(one["status"].get("phase") == "Running" for one in pods)

        await until(healthy, 120, "not all pods are reported healthy")

    async def ready(self, names: Iterable[str]) -> None:
        """Report that nodes are ready."""
        for name in names:
            await self.kubelet.report(f"Node/{name}", "Ready", "True", reason="KubeletReady")
        await self.kubelet.flush()

    async def lose_zone(self) -> None:
        """Report that no node of the zone is ready."""
        for name in story.DOWN:
            await self.kubelet.report(
                f"Node/{name}", "Ready", "False", reason="PowerLost", message="the rack of the zone has no power"
            )
        await self.kubelet.flush()

    async def disks(self, names: Iterable[str]) -> None:
        """Report that the disks of nodes have room."""
        for name in names:
            await self.disk.report(f"Node/{name}", "DiskPressure", "False", reason="DiskHasRoom")
        await self.disk.flush()

    def silence(self) -> None:
        """Let the probe of the disks fall silent, as if its process were gone."""
        for name in story.NODES:
            self.disk.forget(f"Node/{name}", "DiskPressure")


def _deployer(connection: Connection, pods: dict[str, Running]) -> Deployer:
    deployer = Deployer(story.DEPLOYER, connection, heartbeat=HEARTBEAT)

    @deployer.inventory
    async def running() -> list[Running]:
        return list(pods.values())

    @deployer.on_placement
    async def start(bound: WorkloadBound) -> None:
        one = Running.of(bound)
        pods[one.key] = one

    @deployer.on_eviction
    async def stop(removal: Remove) -> None:
        pods.pop(removal.running.key, None)

    return deployer


def addresses(said: Iterable[str]) -> dict[str, str]:
    """Return the addresses of processes by name, from what `moorage up` prints."""
    for line in said:
        if line.startswith("health and metrics:"):
            return dict(re.findall(r"([\w-]+) (https?://[\w.:\[\]]+)", line.partition(":")[2]))
    raise ValueError(f"no addresses in {list(said)}")


@asynccontextmanager
async def incident_fleet(
    folder: Path, collector: str, broker: Broker | None = None, prefix: str = "moorage"
) -> AsyncIterator[IncidentFleet]:
    """Run the fleet, with traces to a collector and the state in a folder."""
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector, "OTEL_BSP_SCHEDULE_DELAY": "200"}
    async with contextlib.AsyncExitStack() as stack:
        up = await stack.enter_async_context(started(broker, prefix, folder, *story.SETTINGS, env=env))
        drained = asyncio.create_task(up.drain())
        stack.callback(drained.cancel)
        run = up.running()
        over_http = Connection(server=run["server"], bootstrap_servers="")
        over_kafka = Connection(transport="kafka", bootstrap_servers=run["bootstrap"], topic_prefix=run["topic_prefix"])
        probes = [
            await stack.enter_async_context(Probe(source, over_http, heartbeat=HEARTBEAT))
            for source in (story.KUBELET, story.DISK)
        ]
        fleet = IncidentFleet(
            server=run["server"],
            processes=addresses(up.said),
            env={"MOORAGE_STATE_DIR": str(folder), "MOORAGE_BOOTSTRAP_SERVERS": "", "MOORAGE_SERVER": ""},
            kubelet=probes[0],
            disk=probes[1],
        )
        deployer = asyncio.create_task(_deployer(over_kafka, fleet.pods).run())
        try:
            yield fleet
        finally:
            deployer.cancel()
            await asyncio.gather(deployer, return_exceptions=True)
