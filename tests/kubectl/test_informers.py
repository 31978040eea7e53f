"""Informers that stay while gateways go: they resume at another gateway, and miss or double nothing."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from tests.conftest import RUN
from tests.kubectl import informer, programs
from tests.kubectl.balancer import balancing
from tests.kubectl.client_informers import AsyncInformer, TypedInformer
from tests.kubectl.servers import Server, kubeconfig
from tests.kubectl.test_clients import SECONDS
from tests.support.brokers import Broker
from tests.support.commands import program
from tests.support.live import Live, running
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(SECONDS + 600)]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def live(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Live]:
    """A Moorage with two gateways."""
    folder = tmp_path_factory.mktemp("informers")
    async with running(broker.bootstrap, f"{RUN}-informers-", folder, gateways=2) as found:
        yield found


async def _killed_in_turn(live: Live, end: float) -> int:
    """Kill one gateway after the other until a time, at least one. Each is back before the other goes.

    Returns how many were killed.
    """
    killed = 0
    for name in itertools.cycle(live.gateways):
        await live.kill_gateway(name)
        killed += 1
        if time.monotonic() >= end:
            break
    return killed


async def _client_go(server: Server, namespace: str) -> dict[str, object]:
    """What an informer of client-go was told, where its program is."""
    built = programs.clientgo()
    if not built.exists():
        return {}
    words = ("--kubeconfig", str(server.kubeconfig), "--seconds", str(SECONDS), "--namespace", namespace)
    done = await program(str(built), *words, seconds=SECONDS + 300)
    assert done.code == 0, done.err
    found: dict[str, object] = done.json
    return found


async def test_informers_resume_at_another_gateway_and_miss_and_double_nothing(
    live: Live, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await live.namespaces("followed", "followed-by-go")
    async with balancing(lambda: [*live.gateways.values()]) as address:
        server = kubeconfig(address, tmp_path / "kubeconfig")

        def connect() -> httpx.AsyncClient:
            return httpx.AsyncClient(base_url=address, timeout=120)

        typed = TypedInformer(connect, "followed", kubeconfig=server.kubeconfig)
        copies = {
            "httpx": informer.Informer(connect, "followed"),
            "kubernetes": typed,
            "kubernetes_asyncio": AsyncInformer(connect, "followed", kubeconfig=server.kubeconfig),
        }
        followers = [asyncio.create_task(one.run()) for one in copies.values()]
        by_go = asyncio.create_task(_client_go(server, "followed-by-go"))
        writers = [informer.Writer(connect, "followed", f"told-{n}", 10, seed=n) for n in range(2)]
        try:
            await asyncio.gather(*(one.synced.wait() for one in copies.values()))
            end = time.monotonic() + SECONDS
            writing = [asyncio.create_task(one.run(lambda: time.monotonic() > end)) for one in writers]
            killed = await _killed_in_turn(live, end - SECONDS / 4)
            await asyncio.gather(*writing)
            told_to_go = await by_go
            async with httpx.AsyncClient(base_url=live.server) as client:
                final = await informer.listed(client, "followed")

            def caught_up() -> bool:
                return all(
                    {name: informer.marks(found) for name, found in one.seen.items()} == final
                    for one in copies.values()
                )

            await until(caught_up, message="an informer's copy is not what a list shows")
        finally:
            typed.end()
            by_go.cancel()
            for task in followers:
                task.cancel()
            await asyncio.gather(*followers, by_go, return_exceptions=True)
    writes = sum(one.writes for one in writers)
    figures = {
        "seconds": SECONDS,
        "gateways killed": killed,
        "writes": writes,
        "repeated requests of writers": sum(one.retries for one in writers),
        "informers": {name: vars(one.counts) for name, one in copies.items()},
        "client-go": told_to_go,
    }
    with capsys.disabled():
        print(f"\n{json.dumps(figures)}")  # noqa: T201 - the figures of the long run
    assert killed >= 1
    assert writes > 0
    for name, one in copies.items():
        assert (one.counts.missed, one.counts.doubled, one.counts.relists) == ([], [], 0), name
        assert one.counts.events > 0
    assert not any(told_to_go.get(name) for name in ("missed", "doubled", "differs")), told_to_go
