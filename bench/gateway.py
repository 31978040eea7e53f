"""Measures gateways: changes at 1,000 watchers, writes and reads, and the memory and the start with many objects.

Two gateways run as processes on a Kafka. The watchers are divided between them and run in this process, with sockets of
their own. One configuration after the other is changed at the second gateway, which forwards it. The time from the
request until each watcher has the event is a fan-out. Then clients create objects, and read them, as fast as they can.

The memory is that of processes that only fill a store: the leader's with tables, and a follower's. The start is that of
a gateway with the objects of a fleet in its log, until it serves reads.

Where `MOORAGE_PLANES` names the folder of a real control plane with `up.sh`, `down.sh` and `DIR/kubeconfig`, the
watchers, writes and reads are measured there, too. The last line is JSON. Run: `python bench/gateway.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import os
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that the script runs from any folder
from bench import harness, processes, scale, scale_fleet

from moorage.gateway.kafka.leadership import Leadership
from moorage.gateway.kafka.object_reader import object_partition
from moorage.gateway.object_log import LoggedRecord
from moorage.gateway.store import Store
from moorage.gateway.tables import READ
from moorage.runtime.kafka import clients
from moorage.runtime.kafka.session import broker_times
from moorage.runtime.settings import Settings
from moorage_schemas.envelope import Meta, event_id, to_headers
from moorage_schemas.shown import COMPLETE_KEY
from moorage_schemas.topics import FLEET, OBJECTS, TIMERS, partition_of

PARTITIONS: Final = 6
_PATH: Final = "/api/v1/namespaces/default/configmaps"
_AT_ONCE: Final = 16  # clients that write or read at the same time
_READY: Final = 120.0  # seconds
_COUNTED: Final = 4_000  # units in the smaller of two memories that are compared
_CHUNK: Final = 2_000  # records in a transaction


@dataclass
class Server:
    """An API server, and how it is called."""

    address: str
    headers: dict[str, str] = field(default_factory=dict)
    context: ssl.SSLContext | None = None

    def client(self) -> httpx.AsyncClient:
        """An HTTP client."""
        limits = httpx.Limits(max_connections=_AT_ONCE)
        verify: Any = self.context if self.context is not None else False
        return httpx.AsyncClient(
            base_url=self.address, headers=self.headers, verify=verify, timeout=60, limits=limits, trust_env=False
        )


class Watcher:
    """One watch over a socket of its own, without an HTTP client, which would cost more than the server."""

    def __init__(self, told: Callable[[bytes], None]) -> None:
        self._told = told
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self, server: Server, version: str) -> None:
        """Connect and begin to watch after a version."""
        url = httpx.URL(server.address)
        reader, self._writer = await asyncio.open_connection(url.host, url.port, ssl=server.context)
        lines = [f"GET {_PATH}?watch=true&resourceVersion={version} HTTP/1.1", f"Host: {url.netloc.decode()}"]
        lines += [f"{name}: {value}" for name, value in server.headers.items()]
        self._writer.write(("\r\n".join([*lines, "Accept: application/json", "", ""])).encode())
        status = await reader.readline()
        if b" 200 " not in status:
            raise RuntimeError(f"the watch was refused: {status!r}")
        while (await reader.readline()).strip():
            pass
        self._task = asyncio.create_task(self._read(reader))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            if line.startswith(b"{"):
                self._told(line)

    async def stop(self) -> None:
        """Disconnect."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._writer is not None:
            self._writer.close()


def config_map(name: str, value: str) -> dict[str, Any]:
    """An object of a kilobyte."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"app": name}},
        "data": {"value": value, "text": "x" * 800},
    }


def percentile(values: list[float], part: float) -> float:
    """The value below which that part of the values lies, in milliseconds."""
    return round(sorted(values)[min(len(values) - 1, int(len(values) * part))] * 1000, 1)


async def fan_out(servers: list[Server], writer: Server, watchers: int, changes: int) -> dict[str, float]:
    """The times from a write to its event at each of the watchers."""
    took: list[float] = []
    waiting, began = asyncio.Event(), 0.0
    left = 0

    def told(line: bytes) -> None:
        nonlocal left
        if b'"watched"' not in line:
            return
        took.append(time.perf_counter() - began)
        left -= 1
        if not left:
            waiting.set()

    async with writer.client() as http:
        (await http.post(_PATH, json=config_map("watched", "0"))).raise_for_status()
        version = (await http.get(_PATH)).json()["metadata"]["resourceVersion"]
        watching = [Watcher(told) for _ in range(watchers)]
        try:
            for one, server in zip(watching, itertools.cycle(servers), strict=False):
                await one.start(server, version)
            for number in range(changes):
                left, began = watchers, time.perf_counter()
                waiting.clear()
                found = config_map("watched", str(number + 1))
                (await http.put(f"{_PATH}/watched", json=found)).raise_for_status()
                async with asyncio.timeout(60):
                    await waiting.wait()
        finally:
            await asyncio.gather(*(one.stop() for one in watching))
    return {"p50_ms": percentile(took, 0.5), "p99_ms": percentile(took, 0.99)}


async def rates(server: Server, count: int) -> dict[str, float]:
    """Writes and reads a second by several clients."""
    async with server.client() as http:

        async def each(work: Callable[[int], Any]) -> float:
            numbers = iter(range(count))

            async def one() -> None:
                for number in numbers:
                    (await work(number)).raise_for_status()

            began = time.perf_counter()
            await asyncio.gather(*(one() for _ in range(_AT_ONCE)))
            return round(count / (time.perf_counter() - began), 1)

        writes = await each(lambda number: http.post(_PATH, json=config_map(f"c{number}", "0")))
        reads = await each(lambda number: http.get(f"{_PATH}/c{number}"))
    return {"writes_s": writes, "reads_s": reads}


async def measured(servers: list[Server], writer: Server, options: argparse.Namespace) -> dict[str, float]:
    """Fan-out and rates of a control plane."""
    found = await fan_out(servers, writer, options.watchers, options.changes)
    return {**found, **await rates(writer, options.requests)}


def records_of(unit: str, count: int) -> Iterator[scale_fleet.UnitRecord]:
    """The records of pods, or of evictions that are over, which have no timers any more."""
    one = next(one for one in scale_fleet.UNITS if one.name == unit)
    found = itertools.chain.from_iterable(map(one.records, range(count)))
    return (record for record in found if record.topic is not TIMERS)


def leader_memory(unit: str, count: int) -> int:
    """Bytes of memory that the leading gateway takes for units."""
    before = harness.memory()
    state, fold, finish = scale.gateway().make()
    scale.fill(fold, READ, records_of(unit, count))
    finish()
    gc.collect()
    taken = harness.memory() - before
    del state
    return taken


def shown(unit: str, count: int) -> list[tuple[str, bytes]]:
    """The records of the object log of units."""
    state, fold, finish = scale.gateway().make()
    scale.fill(fold, READ, records_of(unit, count))
    finish()
    pair: Any = state
    store: Store = pair[0]
    return [
        (found.key, b'{"object":%s}' % kept.unversioned) for found in store if (kept := store.get(found)) is not None
    ]


def follower_memory(records: list[tuple[str, bytes]]) -> int:
    """Bytes of memory that a gateway that follows takes for the objects of a log."""
    before = harness.memory()
    store = Store()
    store.history.begin(sys.maxsize)
    for number, (key, value) in enumerate(records):
        store.apply([LoggedRecord(number, key, value)])
    gc.collect()
    return harness.memory() - before


def bytes_each(unit: str, count: int) -> dict[str, int]:
    """The bytes of a unit in the gateway that leads, and in one that follows: from N to 3N units."""
    leads = [scale.in_process(leader_memory, unit, size) for size in (count, 3 * count)]
    follows = [scale.in_process(follower_memory, scale.in_process(shown, unit, size)) for size in (count, 3 * count)]
    return {"leader": (leads[1] - leads[0]) // (2 * count), "follower": (follows[1] - follows[0]) // (2 * count)}


async def fill_log(settings: Settings, records: list[tuple[str, bytes]]) -> None:
    """Write objects to the log of a fleet, as its leader would."""
    producer = clients.transactional_producer(settings, transactional_id=f"{settings.topic_prefix}.gateway")
    await producer.start()
    topic, partition = OBJECTS.name(settings.topic_prefix), partition_of(FLEET, PARTITIONS)
    meta = Meta(id=event_id("bench"), source="bench", type=OBJECTS.event_type)
    try:
        all_records = [*records, (COMPLETE_KEY, b"{}")]
        for first in range(0, len(all_records), _CHUNK):
            await producer.begin_transaction()
            chunk = all_records[first : first + _CHUNK]
            batch = [(partition, key.encode(), value, to_headers(meta)) for key, value in chunk]
            await harness.send_batched(producer, topic, batch)
            await producer.flush()
            await producer.commit_transaction()
    finally:
        await producer.stop()


async def start_seconds(settings: Settings, folder: Path) -> dict[str, float]:
    """Seconds until a gateway with a full log serves reads, the seconds of a whole list, and the process's memory."""
    process, server = await gateway(settings, folder)
    try:
        began = time.perf_counter()
        async with server.client() as http:
            while True:
                answer = await http.get("/api/v1/pods?limit=1")
                if answer.status_code == 200:
                    break
                await asyncio.sleep(0.05)
            reads = time.perf_counter() - began
            began, size = time.perf_counter(), 0
            async with http.stream("GET", "/api/v1/pods") as listing:
                async for part in listing.aiter_bytes():
                    size += len(part)
            listed = time.perf_counter() - began
        peak = process.peak_bytes()
    finally:
        await process.stop()
    return {
        "reads_after_s": round(reads, 1),
        "list_s": round(listed, 1),
        "list_mb": round(size / 1e6, 1),
        "peak_mb": round(peak / 1e6),
    }


async def gateway(settings: Settings, folder: Path) -> tuple[processes.ServiceProcess, Server]:
    """A process with a gateway that answers, though it need not be ready, and how to call it."""
    process = await processes.start_service("gateway", settings, folder)
    async with asyncio.timeout(_READY):
        while True:
            try:
                (await asyncio.open_connection("127.0.0.1", process.port))[1].close()
            except OSError:
                await asyncio.sleep(0.05)
            else:
                return process, Server(f"http://127.0.0.1:{process.port}")


@asynccontextmanager
async def leading(settings: Settings) -> AsyncIterator[None]:
    """Be chosen to lead within the context, so that a gateway follows and appends nothing."""
    tp = object_partition(settings, PARTITIONS)
    member = Leadership(settings, await broker_times(settings), tp, lambda: 1)
    task = asyncio.create_task(member.run())
    try:
        await member.until(chosen=True)
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def plane(folder: Path) -> AsyncIterator[Server]:
    """A real control plane in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="moorage-plane-") as data:
        await asyncio.to_thread(_run, folder / "up.sh", data)
        try:
            yield from_kubeconfig(Path(data) / "kubeconfig")
        finally:
            await asyncio.to_thread(_run, folder / "down.sh", data)


def _run(script: Path, folder: str) -> None:
    subprocess.run([script, folder], check=True, stdout=sys.stderr)


def from_kubeconfig(path: Path) -> Server:
    """The server of a kubeconfig, with a client certificate or a token."""
    found = yaml.safe_load(path.read_text("utf-8"))
    cluster, user = found["clusters"][0]["cluster"], found["users"][0]["user"]
    context = ssl.create_default_context(cafile=cluster.get("certificate-authority"))
    if "certificate-authority-data" in cluster or cluster.get("insecure-skip-tls-verify"):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if "client-certificate" in user:
        context.load_cert_chain(user["client-certificate"], user["client-key"])
    headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
    return Server(cluster["server"], headers, context)


async def main(options: argparse.Namespace) -> dict[str, Any]:
    """Run everything."""
    result: dict[str, Any] = {
        "bench": "gateway",
        "what": "changes at watchers of two gateways, writes and reads, memory of each pod, start with many pods",
        "watchers": options.watchers,
        "pods": options.pods,
    }
    for unit, name in (("workload", "pod"), ("eviction", "past_eviction")):
        result[f"bytes_{name}"] = bytes_each(unit, min(options.pods, _COUNTED))
        harness.note(f"{name}: {result[f'bytes_{name}']}")
    records = scale.in_process(shown, "workload", options.pods)
    async with harness.kafka() as bootstrap:
        with tempfile.TemporaryDirectory(prefix="moorage-bench-") as folder:
            settings = await harness.fleet(bootstrap, partitions=PARTITIONS)
            first, one = await gateway(settings, Path(folder))
            await first.ready(_READY)
            second, other = await gateway(settings, Path(folder))
            await second.ready(_READY)
            try:
                result["moorage"] = await measured([one, other], other, options)
                result["moorage"]["peak_mb"] = round(max(first.peak_bytes(), second.peak_bytes()) / 1e6)
            finally:
                await second.stop()
                await first.stop()
            harness.note(str(result["moorage"]))
            full = await harness.fleet(bootstrap, partitions=PARTITIONS)
            await fill_log(full, records)
            async with leading(full):
                result["start"] = await start_seconds(full, Path(folder))
            harness.note(str(result["start"]))
    if planes := os.environ.get("MOORAGE_PLANES"):
        async with plane(Path(planes)) as server:
            result["kubernetes"] = await measured([server], server, options)
            harness.note(str(result["kubernetes"]))
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--watchers", type=int, default=1_000)
    parser.add_argument("--changes", type=int, default=20)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--pods", type=int, default=100_000)
    chosen = parser.parse_args()
    harness.run(lambda: main(chosen))
