"""Several gateways on a real broker: the same versions everywhere, one writer, and nothing lost when it is."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import pytest
from tests.support.brokers import Broker
from tests.support.forks import Forked, fork
from tests.support.gateways import running_gateway
from tests.support.waiting import until

from moorage.apiserver.http import forwarding
from moorage.apiserver.http.forwarding import FORWARDED
from moorage.apiserver.server import serve
from moorage.runtime.app import run_async
from moorage.runtime.settings.process_settings import Settings

pytestmark = pytest.mark.kafka

NODES = "/api/v1/nodes"
PARTITIONS = 3
Json = dict[str, Any]


def settings_of(broker: Broker, topic_prefix: str) -> Settings:
    return Settings(
        bootstrap_servers=broker.bootstrap, topic_prefix=topic_prefix, partitions=PARTITIONS, gateway_port=0
    )


def node(name: str = "n1", **metadata: Any) -> Json:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, **metadata}}


async def ok(answer: httpx.Response) -> Json:
    assert answer.status_code in {200, 201, 202}, answer.text
    document: Json = answer.json()
    return document


async def seen(client: httpx.AsyncClient, since: str, last: str) -> list[tuple[str, str, str]]:
    """The events of a watch of nodes until a node of that name comes: type, name, version."""
    found: list[tuple[str, str, str]] = []
    query = {"watch": "true", "resourceVersion": since, "timeoutSeconds": "30"}
    async with client.stream("GET", NODES, params=query) as answer:
        async for line in answer.aiter_lines():
            event = json.loads(line)
            metadata = event["object"]["metadata"]
            found.append((event["type"], metadata.get("name", ""), metadata.get("resourceVersion", "")))
            if metadata.get("name") == last:
                return found
    raise AssertionError(f"{last} never came: {found}")


async def test_all_gateways_show_the_same_and_take_writes(broker: Broker, topic_prefix: str) -> None:
    settings = settings_of(broker, topic_prefix)
    async with running_gateway(settings) as first, running_gateway(settings) as second:
        since = (await ok(await second.get(NODES)))["metadata"]["resourceVersion"]
        made = await ok(await second.post(f"{NODES}?fieldManager=ann", json=node("a b".replace(" ", "-"))))
        assert await ok(await second.get(f"{NODES}/a-b")) == made, "a client reads its own writes where it wrote them"
        assert await ok(await first.get(f"{NODES}/a-b")) == made
        await ok(await first.post(NODES, json=node("n2")))
        await ok(await second.delete(f"{NODES}/n2"))
        assert (await second.get(f"{NODES}/n2")).status_code == 404
        taken = await second.post(NODES, json=node("a-b"))
        assert (taken.status_code, taken.json()["reason"]) == (409, "AlreadyExists")
        await ok(await second.post(NODES, json=node("last")))
        assert await seen(first, since, "last") == await seen(second, since, "last")
        for gateway in (first, second):
            assert (await gateway.get("/readyz")).status_code == 200


async def test_of_concurrent_updates_at_two_gateways_exactly_one_wins(broker: Broker, topic_prefix: str) -> None:
    settings = settings_of(broker, topic_prefix)
    async with running_gateway(settings) as first, running_gateway(settings) as second:
        made = await ok(await first.post(NODES, json=node()))
        attempts = [
            gateway.put(f"{NODES}/n1", json=made | {"metadata": {**made["metadata"], "labels": {"by": str(number)}}})
            for number, gateway in enumerate((first, second) * 8)
        ]
        codes = sorted(answer.status_code for answer in await asyncio.gather(*attempts))
        assert codes == [200] + [409] * 15


async def test_a_request_is_forwarded_once(broker: Broker, topic_prefix: str) -> None:
    settings = settings_of(broker, topic_prefix)
    async with running_gateway(settings), running_gateway(settings) as second:
        refused = await second.post(NODES, json=node(), headers={FORWARDED: "another"})
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        foreign = await second.post(NODES, json=node(), headers={"origin": "http://elsewhere.example"})
        assert foreign.status_code == 403


async def test_a_leader_that_stops_hands_over_and_watches_go_on_elsewhere(broker: Broker, topic_prefix: str) -> None:
    settings = settings_of(broker, topic_prefix)
    async with running_gateway(settings) as second_to_be:
        assert (await second_to_be.get("/readyz")).status_code == 200
        stack = contextlib.AsyncExitStack()
        other = await stack.enter_async_context(running_gateway(settings))
        since = (await ok(await second_to_be.get(NODES)))["metadata"]["resourceVersion"]
        await ok(await other.post(NODES, json=node("n1")))
        before = await ok(await other.get(NODES))
        await stack.aclose()
        await written(second_to_be, "n2")
        after = await ok(await second_to_be.get(NODES))
        assert after["items"][0] == before["items"][0], "nothing that nobody changed has another version"
        assert [name for _, name, _ in await seen(second_to_be, since, "n2")] == ["n1", "n2"]


async def written(client: httpx.AsyncClient, name: str) -> Json:
    """Create a node, again and again until it is there. A refusal says when to come back."""
    made: list[Json] = []

    async def asked() -> bool:
        answer = await client.post(NODES, json=node(name))
        if answer.status_code == 503:
            assert answer.headers["retry-after"]
            return False
        if answer.status_code == 504:
            return False
        if answer.status_code == 409:
            made.append((await client.get(f"{NODES}/{name}")).json())
        else:
            made.append(await ok(answer))
        return True

    await until(asked, message=f"{name} could not be written")
    return made[0]


def serving(path: str, number: int) -> None:
    """Run a gateway. Call it only in a forked process."""

    def ready(address: str) -> None:
        with open(f"{path}/{number}", "w", encoding="ascii") as file:  # noqa: PTH123 - a process of its own
            file.write(address)

    run_async(serve(Settings(), ready=ready))


class Gateways:
    """Gateways in processes of their own."""

    def __init__(self, settings: Settings, folder: str) -> None:
        self._environment = {
            "MOORAGE_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
            "MOORAGE_TOPIC_PREFIX": settings.topic_prefix,
            "MOORAGE_PARTITIONS": str(PARTITIONS),
            "MOORAGE_GATEWAY_PORT": "0",
            "MOORAGE_TRANSACTION_TIMEOUT_MS": "3000",
        }
        self._folder = folder
        self._numbers = itertools.count()
        self.processes: list[Forked] = []

    async def start(self) -> tuple[Forked, httpx.AsyncClient]:
        """A process whose gateway is ready, and a client of it."""
        number = next(self._numbers)
        process = await fork(serving, self._folder, number, environment=self._environment)
        self.processes.append(process)
        file = f"{self._folder}/{number}"
        await until(lambda: os.path.exists(file), message="the gateway is not ready")  # noqa: PTH110 - as above

        def address() -> str:
            with open(file, encoding="ascii") as found:  # noqa: PTH123 - as above
                return found.read()

        await until(lambda: bool(address()), message="no address")
        return process, httpx.AsyncClient(base_url=address(), timeout=120)


@contextlib.asynccontextmanager
async def gateways(settings: Settings, folder: str) -> AsyncIterator[Gateways]:
    found = Gateways(settings, folder)
    try:
        yield found
    finally:
        for process in found.processes:
            process.send_signal(signal.SIGCONT)
            process.kill()
        await asyncio.gather(*(process.wait() for process in found.processes))


async def test_a_leader_that_is_killed_again_and_again_loses_nothing_and_no_watch_misses_or_doubles_an_event(
    broker: Broker, topic_prefix: str, tmp_path: Any
) -> None:
    settings = settings_of(broker, topic_prefix)
    answered: list[str] = []
    versions: dict[str, str] = {}
    async with gateways(settings, str(tmp_path)) as made:
        living = [await made.start() for _ in range(2)]
        since = (await ok(await living[0][1].get(NODES)))["metadata"]["resourceVersion"]
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(followed(lambda: [client for _, client in living], since, "last"))
            for turn in range(3):
                # The first of the two leads: it was there before the other, or has been for longer.
                (leader, _), (_, client) = living
                writers = [asyncio.ensure_future(burst(client, f"r{turn}-{one}", answered)) for one in range(4)]
                enough = len(answered) + 8
                await until(lambda count=enough: len(answered) >= count, message="nothing is written")  # type: ignore[misc]  # mypy does not infer the default
                leader.kill()
                await leader.wait()
                await asyncio.gather(*writers)
                living = [living[1], await made.start()]
            client = living[1][1]
            await written(client, "last")
            listed = await ok(await client.get(NODES))
            versions = {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in listed["items"]}
            assert set(answered) <= set(versions)
        events = watching.result()
    added = [name for word, name, _ in events if word == "ADDED"]
    assert sorted(added) == sorted(versions), "every node once"
    assert {name: version for _, name, version in events} == versions
    numbers = [int(version) for _, _, version in events]
    assert numbers == sorted(set(numbers))


async def burst(client: httpx.AsyncClient, prefix: str, answered: list[str]) -> None:
    """Create ten nodes one after the other, each until it is there."""
    for number in range(10):
        await written(client, f"{prefix}-{number}")
        answered.append(f"{prefix}-{number}")


async def followed(clients: Any, since: str, last: str) -> list[tuple[str, str, str]]:
    """The events of watches that follow each other, each at another gateway, where the one before has ended."""
    found: list[tuple[str, str, str]] = []
    for turn in itertools.count():
        living: Sequence[httpx.AsyncClient] = clients()
        client = living[turn % len(living)]
        query = {"watch": "true", "resourceVersion": since, "timeoutSeconds": "2", "allowWatchBookmarks": "true"}
        try:
            async with client.stream("GET", NODES, params=query) as answer:
                if answer.status_code in {503, 504}:
                    continue
                assert answer.status_code == 200, await answer.aread()
                async for line in answer.aiter_lines():
                    event = json.loads(line)
                    metadata = event["object"]["metadata"]
                    since = metadata["resourceVersion"]
                    if event["type"] == "BOOKMARK":
                        continue
                    found.append((event["type"], metadata["name"], since))
                    if metadata["name"] == last:
                        return found
        except httpx.TransportError:
            continue
    raise AssertionError


async def test_a_leader_that_was_paused_writes_nothing_after_it_was_replaced(
    broker: Broker, topic_prefix: str, tmp_path: Any
) -> None:
    settings = settings_of(broker, topic_prefix)
    async with gateways(settings, str(tmp_path)) as made:
        first, paused = await made.start()
        _, other = await made.start()
        before = await ok(await paused.post(NODES, json=node("n1")))
        first.send_signal(signal.SIGSTOP)
        later = await written(other, "n2")
        changed = await ok(
            await other.put(f"{NODES}/n1", json=before | {"metadata": {**before["metadata"], "labels": {"a": "b"}}})
        )
        first.send_signal(signal.SIGCONT)
        # It was the leader a moment ago, and its tables still have the older state.
        stale = await paused.put(f"{NODES}/n1", json=before)
        assert stale.status_code in {409, 503, 504}, stale.text

        async def same() -> bool:
            return bool((await paused.get(f"{NODES}/n1")).json() == changed)

        await until(same, message="the paused gateway did not catch up")
        assert (await ok(await paused.get(f"{NODES}/n2"))) == later
        await written(paused, "n3")
        assert (await other.get(f"{NODES}/n1")).json() == changed


async def test_a_write_waits_for_the_next_leader(
    broker: Broker, topic_prefix: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarding, "PATIENCE", 60.0)  # so that a busy machine changes nothing
    settings = settings_of(broker, topic_prefix)
    async with gateways(settings, str(tmp_path)) as made:
        leader, _ = await made.start()
        async with running_gateway(settings) as client:
            before = await ok(await client.post(NODES, json=node("n1")))
            leader.kill()
            await leader.wait()
            answers = await asyncio.gather(
                *(client.post(NODES, json=node(f"m{number}")) for number in range(4)),
                client.patch(
                    f"{NODES}/n1",
                    json={"metadata": {"labels": {"a": "b"}}},
                    headers={"content-type": "application/merge-patch+json"},
                ),
            )
            assert [answer.status_code for answer in answers] == [201] * 4 + [200], [one.text for one in answers]
            after = await ok(await client.get(f"{NODES}/n1"))
            assert (after["metadata"]["uid"], after["metadata"]["labels"]) == (before["metadata"]["uid"], {"a": "b"})
            assert (await client.get("/readyz")).status_code == 200


async def test_a_gateway_is_ready_when_it_takes_writes(broker: Broker, topic_prefix: str, tmp_path: Any) -> None:
    settings = settings_of(broker, topic_prefix)
    async with gateways(settings, str(tmp_path)) as made:
        gone, _ = await made.start()
        gone.kill()
        await gone.wait()
        _, client = await made.start()
        assert (await client.get("/readyz")).status_code == 200
        await ok(await client.post(NODES, json=node("n1")))
