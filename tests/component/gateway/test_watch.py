"""Watches: what they show, where they resume, and when they cannot resume."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from tests.component.gateway.double import Fixture, node

from moorage.apiserver.http.messages.selectors import selector
from moorage.apiserver.http.verbs.watch import Watch, events, start
from moorage.apiserver.kinds import managed_clusters, views
from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.kinds.node import KIND as NODE_KIND
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import RESOURCES

NODES = "/api/v1/nodes"
NODE = ServedKind(NODE_KIND, "v1")


def watch(version: int | None = None, labels: str = "", **options: Any) -> Watch:
    return Watch(kind=NODE, namespace="", selected=selector(labels, ""), version=version, **options)


def seen_all(gateway: Fixture, kind: ServedKind, since: int) -> list[tuple[str, str, int]]:
    """The changes of a kind after a version: type, name, and the version to resume from."""
    watched = Watch(kind=kind, namespace="", selected=selector("", ""), version=since)
    changes = gateway.store.history.since(start(gateway.store, watched))
    return [
        (change.object_id.name, "gone" if change.after is None else "there", _version_of(change.last.document))
        for change in changes
        if change.object_id.kind == kind.kind
    ]


def _version_of(document: Any) -> int:
    return int(document["metadata"]["resourceVersion"])


class Seen:
    """The events of a watch, one at a time."""

    def __init__(self, gateway: Fixture, watched: Watch) -> None:
        self._lines: AsyncIterator[bytes] = events(gateway.store, watched, start(gateway.store, watched))
        self._left: list[Any] = []

    async def event(self) -> Any:
        while not self._left:
            async with asyncio.timeout(60):
                chunk = await anext(self._lines)
            self._left = [orjson.loads(line) for line in chunk.splitlines()]
        return self._left.pop(0)

    async def next(self) -> tuple[str, str]:
        event = await self.event()
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
    assert answer.status_code == 200
    assert (answer.json()["type"], answer.json()["object"]["reason"]) == ("ERROR", "Expired")


async def test_a_watch_that_falls_behind_ends_with_an_error() -> None:
    gateway = Fixture(kept=2)
    await gateway.ok("POST", NODES, node())
    seen = Seen(gateway, watch())
    assert await seen.next() == ("ADDED", "n1")
    for number in range(4):
        await gateway.ok("POST", NODES, node(f"m{number}"))
    assert (await seen.next())[0] == "ERROR"


async def test_a_version_from_the_future_is_refused() -> None:
    gateway = Fixture(namespaces=())
    answer = await gateway.call("GET", f"{NODES}?watch=true&resourceVersion=999999")
    assert (answer.status_code, answer.json()["reason"]) == (504, "Timeout")


async def test_a_watch_ends_with_its_timeout_and_a_bookmark() -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node())
    query = (
        "watch=true&timeoutSeconds=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    )
    answer = await gateway.call("GET", f"{NODES}?{query}")
    lines = [orjson.loads(line) for line in answer.content.splitlines()]
    assert [line["type"] for line in lines] == ["ADDED", "BOOKMARK", "BOOKMARK"]
    assert lines[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert lines[2]["object"]["metadata"] == {"resourceVersion": str(await version(gateway))}


async def test_no_bookmark_is_sent_to_a_client_that_does_not_take_them() -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node())
    query = "watch=true&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    answer = await gateway.call("GET", f"{NODES}?{query}")
    assert [orjson.loads(line)["type"] for line in answer.content.splitlines()] == ["ADDED"]


async def test_one_object_can_be_watched_by_its_path() -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node())
    await gateway.ok("POST", NODES, node("n2"))
    answer = await gateway.call("GET", "/api/v1/watch/nodes/n2?timeoutSeconds=1")
    assert [orjson.loads(line)["object"]["metadata"]["name"] for line in answer.content.splitlines()] == ["n2"]


async def test_a_node_that_is_replaced_is_seen_to_go_and_to_come() -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node())
    since = await version(gateway)
    await gateway.ok("DELETE", f"{NODES}/n1")
    await gateway.ok("POST", NODES, node())
    seen = Seen(gateway, watch(since))
    assert [await seen.next(), await seen.next()] == [("DELETED", "n1"), ("ADDED", "n1")]


# Every event has its own version


SETS = "/apis/cluster.open-cluster-management.io/v1beta2/managedclustersets"
CLUSTERS = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
SET = ServedKind(managed_clusters.CLUSTER_SET, "v1beta2")
TAINT = ServedKind(views.TAINT, "v1alpha1")
GROUP = "cluster.open-cluster-management.io"


async def _two_sets_change_by_one_record(gateway: Fixture) -> int:
    """A cluster moves from one set to another. Returns the version before."""
    for name in ("coastal", "inland"):
        await gateway.ok("POST", SETS, {"metadata": {"name": name}})
    labels = {f"{GROUP}/clusterset": "coastal"}
    cluster = {"metadata": {"name": "anvil", "labels": labels}, "spec": {"hubAcceptsClient": True}}
    await gateway.ok("POST", CLUSTERS, cluster)
    since = await version(gateway)
    await gateway.ok("PATCH", f"{CLUSTERS}/anvil", {"metadata": {"labels": {f"{GROUP}/clusterset": "inland"}}})
    return since


async def test_a_watch_that_is_cut_off_between_two_that_are_counted_together_misses_none() -> None:
    gateway = Fixture()
    since = await _two_sets_change_by_one_record(gateway)
    changes = seen_all(gateway, SET, since)
    assert [(name, what) for name, what, _ in changes] == [("coastal", "there"), ("inland", "there")]
    for index, (_, _, place) in enumerate(changes):
        assert seen_all(gateway, SET, place) == changes[index + 1 :]
    assert seen_all(gateway, SET, await version(gateway)) == []


async def test_a_watch_that_is_cut_off_between_two_taints_of_one_record_misses_none() -> None:
    gateway = Fixture()
    uid = (await gateway.ok("POST", NODES, node()))["metadata"]["uid"]
    since = await version(gateway)
    gateway.tainted("n1", [("a", "", "NoSchedule"), ("b", "", "NoSchedule")], uid=uid, generation=1)
    gateway.tainted("n1", [], uid=uid, generation=2)
    changes = seen_all(gateway, TAINT, since)
    assert [what for _, what, _ in changes] == ["there", "there", "gone", "gone"]
    for index, (_, _, place) in enumerate(changes):
        assert seen_all(gateway, TAINT, place) == changes[index + 1 :]


async def test_a_node_that_is_replaced_in_one_batch_is_seen_to_go_and_to_come_also_when_cut_off_between() -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node())
    since = await version(gateway)
    await gateway.ok("POST", NODES, node("n2"))
    first = gateway.declared[0]
    assert isinstance(first.event, ResourceDeclared)
    replaced = first.event.model_copy(update={"uid": "another", "object": _with_uid(first.event.object, "another")})
    gateway.log.append(RESOURCES, first.key, first.partition_key, replaced)
    changes = seen_all(gateway, NODE, since)
    assert [(name, what) for name, what, _ in changes] == [("n2", "there"), ("n1", "gone"), ("n1", "there")]
    assert seen_all(gateway, NODE, changes[1][2]) == changes[2:]


def _with_uid(document: Any, uid: str) -> Any:
    return {**document, "metadata": {**document["metadata"], "uid": uid}}


async def test_another_gateway_that_reads_the_log_has_the_same_versions_and_goes_on_where_a_watch_was_cut_off() -> None:
    gateway = Fixture()
    since = await _two_sets_change_by_one_record(gateway)
    await gateway.ok("DELETE", f"{SETS}/coastal")
    again = Fixture(ready=False)
    again.store.apply(gateway.log.objects)
    assert again.store.complete
    again.store.caught_up = True
    for path in (SETS, CLUSTERS, NODES):
        assert await again.ok("GET", path) == await gateway.ok("GET", path)
    changes = seen_all(gateway, SET, since)
    assert [what for _, what, _ in changes] == ["there", "there", "gone"]
    for place in (since, *(place for _, _, place in changes)):
        assert seen_all(again, SET, place) == seen_all(gateway, SET, place)


async def test_what_was_before_the_recorded_changes_is_gone() -> None:
    gateway = Fixture()
    since = await _two_sets_change_by_one_record(gateway)
    again = Fixture(ready=False)
    again.store.history.begin(since + 1)
    again.store.apply(gateway.log.objects)
    again.store.caught_up = True
    assert await again.ok("GET", SETS) == await gateway.ok("GET", SETS)
    assert seen_all(again, SET, since + 1) == seen_all(gateway, SET, since + 1)
    answer = await again.call("GET", f"{SETS}?watch=true&timeoutSeconds=1&resourceVersion={since}")
    assert answer.status_code == 200
    assert (answer.json()["type"], answer.json()["object"]["code"]) == ("ERROR", 410)


async def test_records_that_were_applied_are_passed_over() -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node())
    count, before = gateway.store.history.count, await gateway.ok("GET", NODES)
    gateway.store.apply(gateway.log.objects)
    assert (gateway.store.history.count, await gateway.ok("GET", NODES)) == (count, before)


async def test_a_new_leader_appends_only_what_looks_different() -> None:
    gateway = Fixture()
    await _two_sets_change_by_one_record(gateway)
    await gateway.ok("POST", NODES, node())
    again = Fixture(ready=False)
    again.store.apply(gateway.log.objects)
    for write in gateway.log.written:
        if write.key != "Node//n1":  # as if the log had an object that nobody has declared
            again.log.append(write.topic, write.key, write.partition_key, write.event, write.meta)
    again.log.derivation.begin()
    assert [(change.object_id.key, change.json) for change in again.log.derivation.take(seconds=60)] == [
        ("Node//n1", None)
    ]


async def test_a_bookmark_is_never_ahead_of_what_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node())
    seen = Seen(gateway, watch(await version(gateway), bookmarks=True))
    (write,) = gateway.declared
    waited = 0

    async def wait(*_: str) -> None:
        # The wait for a bookmark ends at the moment when a change comes.
        nonlocal waited
        waited += 1
        gateway.log.append(write.topic, "Node//n2", "Node//n2", _named(write.event, "n2"))
        raise TimeoutError

    monkeypatch.setattr(gateway.store.history, "wait", wait)
    bookmark = await seen.event()
    assert (bookmark["type"], waited) == ("BOOKMARK", 1)
    event = await seen.event()
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "n2")
    assert _version_of(bookmark["object"]) < _version_of(event["object"])


def _named(event: Any, name: str) -> Any:
    document = {**event.object, "metadata": {**event.object["metadata"], "name": name}}
    return event.model_copy(update={"name": name, "object": document})
