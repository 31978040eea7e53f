"""A complete Moorage on the broker of the run, and its command line."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml
from tests.support import commands, forks
from tests.support.commands import Done
from tests.support.waiting import until
from typer.testing import CliRunner, Result

from moorage.cli.api.topics import Seen, TopicReader
from moorage.cli.app import app
from moorage.cli.local.services import GATEWAY
from moorage.cli.local.stack import Stack
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import Topic


class Live:
    """A running Moorage, used through the command line."""

    def __init__(self, stack: Stack, prefix: str) -> None:
        self._stack = stack
        self.server, self.bootstrap, self.prefix = stack.server, stack.bootstrap, prefix
        self.env = {
            "MOORAGE_SERVER": stack.server,
            "MOORAGE_BOOTSTRAP_SERVERS": stack.bootstrap,
            "MOORAGE_TOPIC_PREFIX": prefix,
        }

    async def moorage(self, *words: str, text: str | None = None, code: int = 0, seconds: float = 240.0) -> Done:
        """Run the command line as a process. It must end with `code`."""
        done = await commands.moorage(*words, env=self.env, text=text, seconds=seconds)
        assert done.code == code, f"moorage {' '.join(words)} ended with {done.code}: {done.out}{done.err}"
        return done

    async def here(self, *words: str, text: str | None = None, code: int = 0) -> Done:
        """Run the command line in this process. It must end with `code`."""

        def call() -> Result:
            return CliRunner().invoke(app, ["--server", self.server, *words], input=text, env=self.env)

        result = await asyncio.to_thread(call)
        done = Done(result.exit_code, result.stdout, result.stderr)
        assert done.code == code, f"moorage {' '.join(words)} ended with {done.code}: {done.out}{done.err}"
        return done

    async def namespaces(self, *names: str) -> None:
        """Declare namespaces that are not there."""
        documents = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in sorted(names)]
        await self.here("apply", "-f", "-", text=yaml.safe_dump_all(documents))

    @property
    def pids(self) -> dict[str, int]:
        """The processes of services and gateways, by name. 0 for one that does not run."""
        return {child.spec.name: child.pid for child in self._stack.supervisor.children}

    @property
    def gateways(self) -> dict[str, str]:
        """The addresses of the gateways, by the names of their processes."""
        return {name: address for name, address in self._stack.health.items() if name.startswith(GATEWAY)}

    async def kill_gateway(self, name: str) -> None:
        """Kill one of several gateways. Returns when its replacement serves what the others do."""
        before = self.pids[name]
        os.kill(before, signal.SIGKILL)

        async def answers() -> bool:
            if self.pids[name] in {0, before}:
                return False
            try:
                async with httpx.AsyncClient(base_url=self.gateways[name]) as client:
                    return bool((await client.get("/readyz")).status_code == httpx.codes.OK)
            except httpx.TransportError:
                return False

        await until(answers, 120, f"{name} did not come back")

    async def restart_gateway(self) -> None:
        """Kill the gateway. Returns when its replacement serves reads and writes."""
        gateway = next(child for child in self._stack.supervisor.children if child.spec.name == GATEWAY)
        before = gateway.pid
        os.kill(before, signal.SIGKILL)

        async def answers() -> bool:
            if gateway.pid in {0, before}:
                return False
            mark = f"restarted-gateway={gateway.pid}"
            done = await commands.moorage("annotate", "namespace", "default", mark, "--overwrite", env=self.env)
            return done.code == 0

        await until(answers)

    async def shown(self, *words: str, text: str | None = None) -> str:
        """The output of the command line including errors, with any exit code."""

        def call() -> str:
            return CliRunner().invoke(app, ["--server", self.server, *words], input=text, env=self.env).output

        return await asyncio.to_thread(call)

    def reader(self, *topics: Topic) -> TopicReader:
        """A reader of new records in topics."""
        return TopicReader(self.bootstrap, self.prefix, topics)

    async def node_of(self, pod: str) -> str:
        """The node of a pod of the default namespace. Empty while it waits."""
        done = await self.here("get", "pod", pod, "-o", "json")
        return str(done.json["spec"].get("nodeName", ""))

    async def running(self, *pods: str) -> None:
        """Return when these pods are placed."""

        async def placed() -> bool:
            listed = (await self.here("get", "pods", "-o", "json")).json["items"]
            there = {one["metadata"]["name"] for one in listed if one["spec"].get("nodeName")}
            return set(pods) <= there

        await until(placed)


async def collect(reader: TopicReader, enough: Callable[[list[Seen]], bool], seconds: float = 120.0) -> list[Seen]:
    """Read until the records are sufficient."""
    found: list[Seen] = []
    async with asyncio.timeout(seconds):
        async for batch in reader.batches():
            found += batch
            if enough(found):
                break
    return found


@asynccontextmanager
async def running(bootstrap: str, prefix: str, folder: Path, **given: Any) -> AsyncIterator[Live]:
    """Services and gateways on an existing broker, with these settings, and as many gateways as `gateways` says."""
    gateways = given.pop("gateways", 1)
    settings = Settings(bootstrap_servers=bootstrap, topic_prefix=prefix, partitions=6, gateway_port=0, **given)
    told: list[str] = []
    async with Stack(settings, folder, told.append, together=True, gateways=gateways, launch=forks.launch) as stack:
        yield Live(stack, prefix)
