"""The reflector against an API server that fails in every way that it may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.component.bridge.cluster import client_of, node
from tests.support.kube_api import KubeApi, serve_kube_api
from tests.support.virtual_time import virtual_time
from tests.support.waiting import until

from moorage.bridges.kube.reflector import Reflector


class Taken:
    """A sink that keeps what is there now, and what it was told."""

    def __init__(self) -> None:
        self.there: dict[str, dict[str, Any]] = {}
        self.lists: list[list[str]] = []
        self.gone: list[str] = []

    def replaced(self, objects: Sequence[dict[str, Any]]) -> None:
        self.there = {one["metadata"]["name"]: one for one in objects}
        self.lists.append(sorted(self.there))

    def changed(self, found: dict[str, Any]) -> None:
        self.there[found["metadata"]["name"]] = found

    def deleted(self, found: dict[str, Any]) -> None:
        self.gone.append(found["metadata"]["name"])
        self.there.pop(found["metadata"]["name"], None)

    def is_like(self, api: KubeApi) -> bool:
        """Whether everything is known as it is."""
        wanted = {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in api.store.all("Node")}
        return {name: one["metadata"]["resourceVersion"] for name, one in self.there.items()} == wanted


@asynccontextmanager
async def following(api: KubeApi) -> AsyncIterator[tuple[Reflector, Taken]]:
    """A reflector that follows the nodes."""
    client, sink = client_of(api), Taken()
    reflector = Reflector(client, "/api/v1/nodes", sink)
    task = asyncio.create_task(reflector.run())
    try:
        yield reflector, sink
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.close()


def watched_from(api: KubeApi) -> list[int]:
    """The versions from which the watches began."""
    return [int(one.params["resourceVersion"]) for one in api.requests if one.is_watch]


def lists(api: KubeApi) -> int:
    """How many requests were lists."""
    return sum(one.method == "GET" and not one.is_watch for one in api.requests)


@virtual_time
async def test_a_list_is_followed_by_a_watch_from_its_version() -> None:
    async with serve_kube_api() as api:
        api.store.create("Node", node("n1"))
        version = api.store.version
        async with following(api) as (reflector, sink):
            await reflector.synced.wait()
            assert sink.lists == [["n1"]]
            assert sink.there["n1"]["kind"] == "Node"
            assert sink.there["n1"]["apiVersion"] == "v1"
            await until(lambda: bool(api.watches))
            api.store.create("Node", node("n2"))
            api.store.change("Node", "n1", patch={"metadata": {"labels": {"a": "b"}}})
            await until(lambda: sink.is_like(api))
            api.store.delete("Node", "n2")
            await until(lambda: sink.is_like(api))
            assert sink.gone == ["n2"]
            assert watched_from(api) == [version]
            assert api.requests[-1].params["allowWatchBookmarks"] == "true"


@virtual_time
async def test_pages_are_read_to_the_end_and_are_of_one_version() -> None:
    async with serve_kube_api() as api:
        for number in range(7):
            api.store.create("Node", node(f"n{number}"))
        api.page = 3
        version = api.store.version
        names = ["n8", "n7"]

        def add() -> None:
            api.store.create("Node", node(names.pop()))

        api.between_pages = add
        async with following(api) as (reflector, sink):
            await reflector.synced.wait()
            assert sink.lists == [[f"n{number}" for number in range(7)]]
            await until(lambda: sink.is_like(api))
            assert len(sink.there) == 9, "what came between the pages is seen by the watch"
            assert watched_from(api) == [version]
            assert len(sink.lists) == 1


@virtual_time
async def test_pages_that_expire_are_read_anew() -> None:
    async with serve_kube_api() as api:
        for number in range(5):
            api.store.create("Node", node(f"n{number}"))
        api.page = 2
        expirations = [api.expire_pages]

        def expire_once() -> None:
            if expirations:
                expirations.pop()()

        api.between_pages = expire_once
        async with following(api) as (reflector, sink):
            await reflector.synced.wait()
            assert sink.lists == [[f"n{number}" for number in range(5)]]


@virtual_time
@pytest.mark.parametrize("how", ["cut", "ended"])
async def test_a_watch_goes_on_where_the_last_one_stopped(how: str) -> None:
    async with serve_kube_api() as api:
        api.store.create("Node", node("n1"))
        async with following(api) as (reflector, sink):
            await reflector.synced.wait()
            await until(lambda: bool(api.watches))
            api.store.create("Node", node("n2"))
            await until(lambda: sink.is_like(api))
            version = api.store.version
            (api.cut if how == "cut" else api.end_watches)()
            api.store.delete("Node", "n1")
            api.store.create("Node", node("n3"))
            await until(lambda: sink.is_like(api))
            assert watched_from(api)[-1] == version
            assert sink.gone == ["n1"]
            assert lists(api) == 1


@virtual_time
async def test_a_bookmark_moves_the_version() -> None:
    async with serve_kube_api() as api, following(api) as (reflector, sink):
        await reflector.synced.wait()
        await until(lambda: bool(api.watches))
        api.store.create("Pod", {"metadata": {"name": "p", "namespace": "default"}})
        api.bookmark()
        api.store.compact()
        api.end_watches()
        await until(lambda: len(watched_from(api)) > 1)
        assert watched_from(api)[1] > watched_from(api)[0]
        assert set(sink.there) == set(), "a bookmark is no object"


@virtual_time
async def test_what_was_deleted_while_the_past_was_forgotten_is_found_by_a_new_list() -> None:
    async with serve_kube_api() as api:
        api.store.create("Node", node("n1"))
        api.store.create("Node", node("n2"))
        async with following(api) as (reflector, sink):
            await reflector.synced.wait()
            await until(lambda: bool(api.watches))
            api.cut()
            api.store.delete("Node", "n1")
            api.store.compact()
            await until(lambda: sink.is_like(api))
            assert sink.lists == [["n1", "n2"], ["n2"]]
            assert lists(api) == 2


@virtual_time
async def test_a_watch_that_is_refused_as_expired_begins_with_a_list() -> None:
    async with serve_kube_api() as api:
        api.store.create("Node", node("n1"))
        api.fault("GET", "/nodes", watches=True, status=410)
        async with following(api) as (reflector, sink):
            await until(lambda: bool(api.watches))
            assert reflector.watching
            assert sink.lists == [["n1"], ["n1"]]


@virtual_time
async def test_an_error_in_a_watch_that_is_no_expiry_goes_on_from_the_version() -> None:
    async with serve_kube_api() as api, following(api) as (_, sink):
        await until(lambda: bool(api.watches))
        status = {"kind": "Status", "code": 500, "message": "etcdserver: request timed out"}
        api.tell("Node", {"type": "ERROR", "object": status})
        await until(lambda: len(watched_from(api)) == 2)
        api.store.create("Node", node("n1"))
        await until(lambda: sink.is_like(api))
        assert lists(api) == 1


@virtual_time
async def test_a_version_of_the_future_begins_with_a_list() -> None:
    """Such as after the server's data were restored from a backup."""
    async with serve_kube_api() as api:
        causes = ({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"},)
        api.fault("GET", "/nodes", watches=True, status=504, causes=causes)
        async with following(api) as (_, sink):
            await until(lambda: bool(api.watches))
            assert len(sink.lists) == 2


@virtual_time
async def test_a_server_that_ends_watches_at_once_is_not_asked_in_a_loop() -> None:
    async with serve_kube_api() as api:
        api.ends_watches_at_once = True
        async with following(api) as (reflector, _):
            await reflector.synced.wait()
            await asyncio.sleep(120)
            assert 6 <= len(watched_from(api)) <= 16
            api.ends_watches_at_once = False
            await until(lambda: reflector.watching)


@virtual_time
@pytest.mark.parametrize("status", [403, 404, 500, 429])
async def test_a_list_that_is_refused_is_tried_again(status: int) -> None:
    async with serve_kube_api() as api:
        api.store.create("Node", node("n1"))
        api.fault("GET", "/nodes", status=status, times=12)
        async with following(api) as (reflector, sink):
            await asyncio.wait_for(reflector.synced.wait(), 600)
            assert sink.is_like(api)
            assert lists(api) == 13


@virtual_time
async def test_a_watch_in_which_nothing_comes_begins_anew_without_a_gap() -> None:
    """A connection may be dead and not say so. But a resource may also be one on which nothing happens for hours.

    While a watch is missing nothing is concluded from the silence of a node.
    """
    async with serve_kube_api() as api, following(api) as (reflector, sink):
        await until(lambda: bool(api.watches))
        missing = 0
        for _ in range(2000):
            await asyncio.sleep(1.7)
            missing += not reflector.watching
        assert missing == 0
        assert len(watched_from(api)) >= 3400 / 91
        assert len(sink.lists) == 1


@virtual_time
async def test_a_watch_that_is_cut_after_a_while_begins_anew_at_once_each_time() -> None:
    async with serve_kube_api() as api, following(api) as (reflector, _):
        for _ in range(12):
            await until(lambda: bool(api.watches))
            await asyncio.sleep(60)
            api.cut()
            await until(lambda: not reflector.watching)
            await until(lambda: reflector.watching, seconds=0.5)


@virtual_time
async def test_a_cluster_that_is_away_is_found_again() -> None:
    async with serve_kube_api() as api:
        api.store.create("Node", node("n1"))
        async with following(api) as (reflector, sink):
            await until(lambda: bool(api.watches))
            api.go_away()
            await until(lambda: not reflector.watching)
            api.store.delete("Node", "n1")
            await asyncio.sleep(300)
            assert not sink.gone
            api.heal()
            await until(lambda: sink.is_like(api))
            assert sink.gone == ["n1"]


@virtual_time
@pytest.mark.parametrize("what", ["lists", "watches"])
async def test_a_server_that_takes_none_of_its_versions_is_not_asked_in_a_loop(what: str) -> None:
    async with serve_kube_api() as api:
        api.store.create("Node", node("n1"))
        fault = api.fault("GET", "/nodes", watches=what == "watches", status=410, times=50)
        async with following(api) as (reflector, sink):
            await asyncio.sleep(120)
            assert 6 <= 50 - fault.times <= 16
            api.heal()
            await until(lambda: reflector.watching and sink.is_like(api))
