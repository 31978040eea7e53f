"""The election of one bridge: never two lead, and who goes hands over at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.component.bridge.cluster import client_of
from tests.support.kube_api import KubeApi, serve_kube_api
from tests.support.virtual_time import virtual_time
from tests.support.waiting import until

from moorage.bridges.kube.election import Election

DURATION = 4.0


class Candidates:
    """Processes that take part, each with a client of its own."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api
        self.elections: dict[str, Election] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.changes: list[tuple[str, bool]] = []
        self.most = 0
        """The largest number that led at a time."""

    def add(self, name: str) -> Election:
        client = client_of(self._api)
        election = Election(
            client,
            namespace="kube-system",
            name="moorage-bridge-home",
            identity=name,
            duration=DURATION,
            on_change=lambda leads: self.changes.append((name, leads)),
        )
        self.elections[name] = election

        async def run() -> None:
            try:
                await election.run()
            finally:
                await client.close()

        self.tasks[name] = asyncio.create_task(run())
        return election

    async def end(self, name: str) -> None:
        task = self.tasks.pop(name)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    @property
    def leaders(self) -> list[str]:
        return [name for name, one in self.elections.items() if one.leading]

    async def watch(self) -> None:
        while True:
            self.most = max(self.most, len(self.leaders))
            await asyncio.sleep(0.05)


@asynccontextmanager
async def candidates() -> AsyncIterator[tuple[KubeApi, Candidates]]:
    async with serve_kube_api() as api:
        found = Candidates(api)
        watch = asyncio.create_task(found.watch())
        try:
            yield api, found
            assert found.most <= 1, "two have led at a time"
        finally:
            watch.cancel()
            for name in tuple(found.tasks):
                await found.end(name)


@virtual_time
async def test_one_of_several_leads_and_stays() -> None:
    async with candidates() as (api, found):
        for name in ("a", "b", "c"):
            found.add(name)
        await until(lambda: len(found.leaders) == 1)
        await asyncio.sleep(60)
        assert len(found.changes) == 1
        spec = api.store.get("Lease", "moorage-bridge-home", "kube-system")["spec"]
        assert spec["holderIdentity"] == found.leaders[0]
        assert spec["leaseDurationSeconds"] == DURATION
        assert spec["leaseTransitions"] == 0


@virtual_time
async def test_who_waits_takes_the_lease_of_one_that_is_gone_and_not_before_it_has_ended() -> None:
    async with candidates() as (api, found):
        found.add("a")
        await until(lambda: found.leaders == ["a"])
        found.add("b")
        await asyncio.sleep(10)
        await found.end("a")
        renewed = api.store.get("Lease", "moorage-bridge-home", "kube-system")["spec"]["renewTime"]
        began = asyncio.get_running_loop().time()
        await until(lambda: found.leaders == ["b"], seconds=3 * DURATION)
        # It may have seen the last renewal an eighth of the duration late, and each request takes its time.
        assert asyncio.get_running_loop().time() - began <= 1.25 * DURATION
        spec = api.store.get("Lease", "moorage-bridge-home", "kube-system")["spec"]
        assert spec["leaseTransitions"] == 1
        assert spec["renewTime"] > renewed


@virtual_time
async def test_who_releases_hands_over_without_a_wait() -> None:
    async with candidates() as (api, found):
        first = found.add("a")
        await until(lambda: found.leaders == ["a"])
        found.add("b")
        await asyncio.sleep(10)
        await first.release()
        assert found.leaders == []
        assert found.changes[-1] == ("a", False)
        assert api.store.get("Lease", "moorage-bridge-home", "kube-system")["spec"]["holderIdentity"] == ""
        await until(lambda: len(found.leaders) == 1, seconds=DURATION / 2)


@virtual_time
async def test_who_does_not_reach_the_cluster_leads_no_more_before_another_may() -> None:
    async with candidates() as (api, found):
        found.add("a")
        await until(lambda: found.leaders == ["a"])
        found.add("b")
        await asyncio.sleep(10)
        # Its renewals hang, those of the other come through.
        fault = api.fault_of(
            lambda seen: seen.method == "PUT" and seen.body["spec"]["holderIdentity"] == "a",
            times=1000,
            before=asyncio.Event(),
        )
        await fault.reached.wait()
        await until(lambda: found.leaders == ["b"], seconds=3 * DURATION)
        assert found.changes == [("a", True), ("a", False), ("b", True)]


@virtual_time
async def test_nobody_leads_while_the_cluster_is_away() -> None:
    async with candidates() as (api, found):
        for name in ("a", "b"):
            found.add(name)
        await until(lambda: len(found.leaders) == 1)
        api.go_away()
        await until(lambda: found.leaders == [], seconds=DURATION)
        await asyncio.sleep(60)
        assert found.leaders == []
        api.heal()
        await until(lambda: len(found.leaders) == 1)


@virtual_time
@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_an_answer_that_is_lost_loses_no_lease(method: str) -> None:
    async with candidates() as (api, found):
        api.fault_of(lambda seen: seen.method == method, lost=True)
        found.add("a")
        await until(lambda: found.leaders == ["a"])
        await asyncio.sleep(20)
        assert found.changes == [("a", True)]


@virtual_time
async def test_clocks_do_not_matter() -> None:
    """A Lease that was renewed long ago, or in the future, by the clock of its holder, is judged by its changes."""
    async with candidates() as (api, found):
        spec = {"holderIdentity": "other", "leaseDurationSeconds": 15, "leaseTransitions": 4}
        metadata = {"name": "moorage-bridge-home", "namespace": "kube-system"}
        api.store.create("Lease", {"metadata": metadata, "spec": {**spec, "renewTime": "2020-01-01T00:00:00.000000Z"}})
        found.add("a")
        for number in range(10):
            await asyncio.sleep(10)
            renewed = {"spec": {"renewTime": f"2020-01-01T00:00:0{number}.500000Z"}}
            api.store.change("Lease", "moorage-bridge-home", "kube-system", patch=renewed)
            assert found.leaders == []
        await until(lambda: found.leaders == ["a"], seconds=20)
