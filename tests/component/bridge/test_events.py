"""Events of a bridge about objects of a cluster: what is told, how often, and what is left out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.component.bridge.cluster import client_of
from tests.support.kube_api import KubeApi, serve_kube_api
from tests.support.virtual_time import virtual_time

from moorage.bridges.engine.cluster_events import NORMAL, WARNING, EventSender, Regarding, event

_CLUSTER = Regarding("cluster.karmada.io/v1alpha1", "Cluster", "", "m1", "u1")


def _event(message: str = "Its taints are none now", about: Regarding = _CLUSTER) -> dict[str, Any]:
    return event(about, NORMAL, "TaintClusterSucceed", message)


@asynccontextmanager
async def _sending(api: KubeApi) -> AsyncIterator[EventSender]:
    sender = EventSender(client_of(api))
    running = asyncio.create_task(sender.run())
    try:
        yield sender
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def _shown(api: KubeApi) -> list[tuple[str, int]]:
    """The events in the cluster: what they say, and how often it happened."""
    return sorted((one["message"], one["count"]) for one in api.store.all("Event"))


@pytest.mark.parametrize(
    ("about", "namespace", "beginning"),
    [
        (_CLUSTER, "default", "m1."),
        (Regarding("v1", "Pod", "shop", "web-0", "u"), "shop", "web-0."),
        (Regarding("rbac.authorization.k8s.io/v1", "ClusterRole", "", "system:Web", "u"), "default", "system-web."),
    ],
    ids=str,
)
def test_an_event_names_its_object(about: Regarding, namespace: str, beginning: str) -> None:
    found = event(about, WARNING, "Reason", "x" * 2000)
    metadata = found["metadata"]
    assert metadata["namespace"] == namespace
    assert metadata["name"].startswith(beginning)
    assert found["involvedObject"] == about.reference
    assert about.reference.get("namespace", "") == about.namespace
    assert (found["type"], found["reason"], len(found["message"])) == ("Warning", "Reason", 1024)
    long = event(Regarding("v1", "Pod", "shop", "a" * 253, "u"), NORMAL, "Reason", "text")
    assert len(long["metadata"]["name"]) <= 253


@virtual_time
async def test_what_happens_again_is_counted_and_what_is_different_is_another_event() -> None:
    async with serve_kube_api() as api:
        async with _sending(api) as sender:
            for message in ("a", "a", "b", "a"):
                sender.tell(_event(message))
                await asyncio.sleep(1)
        assert _shown(api) == [("a", 3), ("b", 1)]
        async with _sending(api) as later:  # another process
            for _ in range(2):
                later.tell(_event("a"))
                await asyncio.sleep(1)
        assert _shown(api) == [("a", 5), ("b", 1)]


@virtual_time
async def test_what_is_told_several_times_before_it_is_sent_is_sent_once() -> None:
    async with serve_kube_api() as api, _sending(api) as sender:
        for _ in range(4):
            sender.tell(_event("a"))
        await asyncio.sleep(1)
        assert _shown(api) == [("a", 4)]
        assert len(api.writes) == 1


@virtual_time
async def test_an_event_that_has_expired_begins_anew() -> None:
    async with serve_kube_api() as api, _sending(api) as sender:
        sender.tell(_event("a"))
        await asyncio.sleep(1)
        (name,) = (one["metadata"]["name"] for one in api.store.all("Event"))
        api.store.delete("Event", name, "default")
        for _ in range(2):
            sender.tell(_event("a"))
            await asyncio.sleep(1)
        assert _shown(api) == [("a", 2)]


@virtual_time
async def test_a_flood_about_one_object_is_left_out_and_others_are_told() -> None:
    async with serve_kube_api() as api, _sending(api) as sender:
        other = Regarding("cluster.karmada.io/v1alpha1", "Cluster", "", "m2", "u2")
        for number in range(100):
            sender.tell(_event(f"{number:02}"))
            await asyncio.sleep(0.1)
        sender.tell(_event("of another", other))
        await asyncio.sleep(1)
        assert _shown(api) == [*((f"{number:02}", 1) for number in range(25)), ("of another", 1)]
        await asyncio.sleep(601)
        for number in range(100, 104):
            sender.tell(_event(str(number)))
        await asyncio.sleep(1)
        assert {message for message, _ in _shown(api)} >= {"100", "101"}
        assert len(_shown(api)) == 28, "two more after ten minutes"


@virtual_time
async def test_no_more_than_a_thousand_wait() -> None:
    async with serve_kube_api() as api:
        api.is_away = True
        async with _sending(api) as sender:
            for number in range(1100):
                about = Regarding("v1", "Pod", "shop", f"p{number}", f"u{number}")
                sender.tell(_event("a", about))
            await asyncio.sleep(1)
            api.heal()
            await asyncio.sleep(600)
        assert len(_shown(api)) == 1000


@virtual_time
async def test_what_is_refused_is_given_up_and_what_the_server_fails_at_is_sent_again() -> None:
    async with serve_kube_api() as api, _sending(api) as sender:
        api.fault("POST", "/events", status=403)
        sender.tell(_event("a"))
        await asyncio.sleep(60)
        assert len(api.seen("POST", "/events")) == 1
        api.fault("POST", "/events", status=500)
        sender.tell(_event("b"))
        await asyncio.sleep(60)
        assert _shown(api) == [("b", 1)]
