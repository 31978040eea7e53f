"""Watches: what they show, from where they resume, and when they cannot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
from tests.services.gateway_double import Fixture, node

from moorage.gateway.kinds import BY_PLURAL
from moorage.gateway.selecting import selector
from moorage.gateway.watching import Watch, events, start

NODES = "/api/v1/nodes"
NODE = BY_PLURAL["", "v1", "nodes"]


def watch(version: int | None = None, labels: str = "", **options: Any) -> Watch:
    return Watch(kind=NODE, namespace="", selected=selector(labels, ""), version=version, **options)


class Seen:
    """The events of a watch, one at a time."""

    def __init__(self, gateway: Fixture, watched: Watch) -> None:
        self._lines: AsyncIterator[bytes] = events(gateway.store, watched, start(gateway.store, watched))
        self._left: list[Any] = []

    async def next(self) -> tuple[str, str]:
        while not self._left:
            async with asyncio.timeout(5):
                chunk = await anext(self._lines)
            self._left = [orjson.loads(line) for line in chunk.splitlines()]
        event = self._left.pop(0)
        return event["type"], event["object"].get("metadata", {}).get("name", "")


async def version(gateway: Fixture) -> int:
    return int((await gateway.ok("GET", NODES))["metadata"]["resourceVersion"])


async def test_a_watch_shows_what_is_there_and_then_what_changes() -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node())
    seen = Seen(gateway, watch())
    assert await seen.next() == ("ADDED", "n1")
    waiting = asyncio.create_task(seen.next())
    await asyncio.sleep(0)
    await gateway.ok("POST", NODES, node("n2"))
    assert await waiting == ("ADDED", "n2")
    await gateway.ok("PATCH", f"{NODES}/n1", {"spec": {"unschedulable": True}})
    await gateway.ok("DELETE", f"{NODES}/n2")
    assert [await seen.next(), await seen.next()] == [("MODIFIED", "n1"), ("DELETED", "n2")]


async def test_a_watch_resumes_after_its_version_without_loss_or_repetition() -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node())
    since = await version(gateway)
    await gateway.ok("POST", NODES, node("n2"))
    await gateway.ok("DELETE", f"{NODES}/n1")
    seen = Seen(gateway, watch(since))
    assert [await seen.next(), await seen.next()] == [("ADDED", "n2"), ("DELETED", "n1")]


async def test_entering_and_leaving_a_selector_is_added_and_deleted() -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node())
    seen = Seen(gateway, watch(await version(gateway), "zone=a"))
    for labels in ({"zone": "b"}, {"zone": "a"}, {"zone": "a", "more": "1"}, {"zone": "b"}):
        await gateway.ok("PATCH", f"{NODES}/n1", {"metadata": {"labels": labels}})
    assert [await seen.next() for _ in range(3)] == [("ADDED", "n1"), ("MODIFIED", "n1"), ("DELETED", "n1")]


async def test_a_version_that_is_forgotten_is_gone() -> None:
    gateway = Fixture(kept=2)
    since = await version(gateway)
    for number in range(4):
        await gateway.ok("POST", NODES, node(f"n{number}"))
    answer = await gateway.call("GET", f"{NODES}?watch=true&resourceVersion={since + 1}")
    assert (answer.status_code, answer.json()["reason"]) == (410, "Expired")


async def test_a_watch_that_falls_behind_ends_with_an_error() -> None:
    gateway = Fixture(kept=2)
    await gateway.ok("POST", NODES, node())
    seen = Seen(gateway, watch())
    assert await seen.next() == ("ADDED", "n1")
    for number in range(4):
        await gateway.ok("POST", NODES, node(f"m{number}"))
    assert (await seen.next())[0] == "ERROR"


async def test_a_version_from_the_future_is_refused() -> None:
    gateway = Fixture()
    answer = await gateway.call("GET", f"{NODES}?watch=true&resourceVersion=999999")
    assert (answer.status_code, answer.json()["reason"]) == (504, "Timeout")


async def test_a_watch_ends_with_its_timeout_and_a_bookmark() -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node())
    query = "watch=true&timeoutSeconds=1&allowWatchBookmarks=true&sendInitialEvents=true"
    answer = await gateway.call("GET", f"{NODES}?{query}")
    lines = [orjson.loads(line) for line in answer.content.splitlines()]
    assert [line["type"] for line in lines] == ["ADDED", "BOOKMARK", "BOOKMARK"]
    assert lines[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(lines[2]["object"]["metadata"]["resourceVersion"]) == await version(gateway)


async def test_one_object_can_be_watched_by_its_path() -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node())
    await gateway.ok("POST", NODES, node("n2"))
    answer = await gateway.call("GET", f"{NODES}/n2?watch=true&timeoutSeconds=1")
    assert [orjson.loads(line)["object"]["metadata"]["name"] for line in answer.content.splitlines()] == ["n2"]


async def test_a_node_that_is_replaced_is_seen_to_go_and_to_come() -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node())
    since = await version(gateway)
    await gateway.ok("DELETE", f"{NODES}/n1")
    await gateway.ok("POST", NODES, node())
    seen = Seen(gateway, watch(since))
    assert [await seen.next(), await seen.next()] == [("DELETED", "n1"), ("ADDED", "n1")]
