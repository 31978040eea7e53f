"""A seeded history of inputs: objects through the gateway, reports through Kafka, and a deployer that answers."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Self

import httpx
from aiokafka import AIOKafkaProducer
from tests.chaos.faults.record import Told
from tests.chaos.seeded.history import Acknowledged

from moorage.cli.api import kinds
from moorage.cli.api.client import MERGE_PATCH, list_path, object_path
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.condition import HEALTHY, ConditionReported, ConditionStatus
from moorage_schemas.envelope import Meta, event_id, to_headers
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import resource_key
from moorage_schemas.topics import BINDINGS, CONDITION_REPORTS, RESOURCES, partition_of

NODES = 6
ZONES = ("a", "b")
MAINTENANCE = "maint"
NOT_READY = "node.kubernetes.io/not-ready"

_PATIENCE = 60.0
"""Seconds for which a write is tried again while a fault lasts."""

_RETRY = 0.2
_CONFLICT, _NOT_FOUND, _SERVER_ERROR, _OK = 409, 404, 500, 300
_NAMESPACE = "default"

Json = dict[str, Any]


def node(number: int) -> str:
    return f"n{number}"


def _toleration(key: str, seconds: int | None) -> Json:
    wanted: Json = {"key": key, "operator": "Exists", "effect": "NoExecute"}
    return wanted if seconds is None else {**wanted, "tolerationSeconds": seconds}


def _pod_spec(chance: random.Random) -> Json:
    """What a pod puts up with: maintenance not at all, for a moment or forever, and a node that is not ready."""
    tolerations = [_toleration(NOT_READY, chance.choice([0, 1, 2]))] if chance.random() < 0.7 else []
    patience = chance.choice([(), (1,), (2,), (3,), (None,)])
    return {
        "containers": [{"name": "c", "image": "c:1"}],
        "tolerations": [*tolerations, *(_toleration(MAINTENANCE, seconds) for seconds in patience)],
    }


class Load:
    """Inputs of one round; an async context manager.

    Args:
        servers: the addresses of the gateways, each of which gets a request in turn.
        bootstrap: Kafka's addresses, which nothing harms: reports are written by others than services.
        prefix: the topics' first part.
        partitions: how many each topic has.
        chance: decides on everything.
    """

    def __init__(
        self, servers: Sequence[str], bootstrap: str, prefix: str, partitions: int, chance: random.Random
    ) -> None:
        self._clients = [httpx.AsyncClient(base_url=server, timeout=10.0, trust_env=False) for server in servers]
        self._turns = itertools.cycle(self._clients)
        self._producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap.split(","), client_id="tests-load", acks="all", enable_idempotence=True
        )
        self._topic = CONDITION_REPORTS.name(prefix)
        self._partitions = partitions
        self._chance = chance
        self._last = random.Random(chance.random())  # noqa: S311 - however many inputs there were before
        self._pods: set[str] = set()
        self._made = 0
        self._tainted: set[str] = set()
        self._not_ready: set[str] = set()
        self._paused = False
        self._budget = False
        self._protected = False
        self._healthy: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.acknowledged: list[Acknowledged] = []
        """Of reports."""

        self.told: list[Told] = []
        """Of objects."""

        self.lost: list[str] = []
        """Inputs that were never accepted, in words."""

    async def __aenter__(self) -> Self:
        await self._producer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._producer.stop()
        await asyncio.gather(*(client.aclose() for client in self._clients))

    @property
    def _http(self) -> httpx.AsyncClient:
        """The gateway whose turn it is."""
        return next(self._turns)

    # The whole.

    async def settle_in(self) -> None:
        """Nodes in two zones, deployments and pods."""
        for number in range(NODES):
            labels = {"topology.kubernetes.io/zone": ZONES[number % len(ZONES)]}
            await self.create(
                {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node(number), "labels": labels}}
            )
        for name, replicas in (("web", 4), ("api", 3)):
            labels = {"app": name}
            template = {"metadata": {"labels": labels}, "spec": _pod_spec(self._chance)}
            spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
            await self.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec})
        for _ in range(5):
            await self._make_pod()

    async def go_on(self, seconds: float) -> None:
        """Inputs one after another for some time; a seed draws the same ones, as many as there is time for."""
        steps: list[tuple[Callable[[], Awaitable[None]], int]] = [
            (self._taint, 24),
            (self._untaint, 18),
            (self._fail, 14),
            (self._recover, 14),
            (self._black_out, 3),
            (self._pause, 5),
            (self._resume, 9),
            (self._limit, 5),
            (self._protect, 4),
            (self._make_pod, 7),
            (self._delete_pod, 4),
        ]
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            (step,) = self._chance.choices([one for one, _ in steps], [weight for _, weight in steps])
            await step()
            await asyncio.sleep(self._chance.uniform(0.02, 0.4))

    async def settle(self) -> None:
        """Take away what holds, heal most: what is left is decided on soon, and then nothing moves any more."""
        await self._resume()
        if self._budget:
            await self._limit()
        if self._protected:
            await self._protect()
        for name in sorted(self._not_ready):
            await self.report(name, ConditionStatus.TRUE)
        self._not_ready.clear()
        for name in sorted(self._tainted):
            if self._last.random() < 0.6:
                await self._set_taint(name, present=False)
        await self.until_told()

    async def until_told(self) -> None:
        """Return when every report that is on its way is accepted, or given up."""
        while self._tasks:
            await asyncio.gather(*list(self._tasks), return_exceptions=True)

    def heard(self, topic: str, record: Any) -> None:
        """Be the deployer: say of what is bound that it is healthy there."""
        if topic != BINDINGS.short or record.value is None:
            return
        bound = WorkloadBound.model_validate_json(record.value)
        key = f"{bound.workload}|{bound.target}"
        if bound.target.kind is TargetKind.NODE and self._healthy.get(key, 0) < bound.generation:
            self._healthy[key] = bound.generation
            self._later(
                ConditionReported(
                    target=bound.target,
                    workload=bound.workload,
                    type=HEALTHY,
                    status=ConditionStatus.TRUE,
                    observed_time=datetime.now(UTC),
                    source="tests/deployer",
                )
            )

    # Single inputs.

    async def _taint(self) -> None:
        name = node(self._chance.randrange(NODES))
        await self._set_taint(name, present=True)

    async def _untaint(self) -> None:
        if self._tainted:
            await self._set_taint(self._chance.choice(sorted(self._tainted)), present=False)

    async def _fail(self) -> None:
        name = node(self._chance.randrange(NODES))
        self._not_ready.add(name)
        await self.report(name, self._chance.choice([ConditionStatus.FALSE, ConditionStatus.UNKNOWN]))

    async def _recover(self) -> None:
        if self._not_ready:
            name = self._chance.choice(sorted(self._not_ready))
            self._not_ready.discard(name)
            await self.report(name, ConditionStatus.TRUE)

    async def _black_out(self) -> None:
        """Every node fails at once, or every one that had failed is back."""
        failed = sorted(self._not_ready)
        if len(failed) > NODES // 2:
            self._not_ready.clear()
            for name in failed:
                await self.report(name, ConditionStatus.TRUE)
            return
        for name in map(node, range(NODES)):
            self._not_ready.add(name)
            await self.report(name, ConditionStatus.UNKNOWN)

    async def _pause(self) -> None:
        if not self._paused:
            self._paused = True
            pause = {
                "apiVersion": "moorage.io/v1alpha1",
                "kind": "EvictionPause",
                "metadata": {"name": "all"},
                "spec": {},
            }
            await self.create(pause)

    async def _resume(self) -> None:
        if self._paused:
            self._paused = False
            await self.delete("EvictionPause", "", "all")

    async def _limit(self) -> None:
        """Put a budget, or take it away."""
        self._budget = not self._budget
        if not self._budget:
            await self.delete("EvictionBudget", "", "slowly")
            return
        spec = {"per": "Zone", "maxConcurrent": 1}
        metadata = {"name": "slowly"}
        await self.create(
            {"apiVersion": "moorage.io/v1alpha1", "kind": "EvictionBudget", "metadata": metadata, "spec": spec}
        )

    async def _protect(self) -> None:
        """Put a PodDisruptionBudget over a deployment, or take it away."""
        self._protected = not self._protected
        if not self._protected:
            await self.delete("PodDisruptionBudget", _NAMESPACE, "web")
            return
        spec = {"minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}}
        await self.create(
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": spec}
        )

    async def _make_pod(self) -> None:
        self._made += 1
        name = f"p{self._made}"
        self._pods.add(name)
        metadata = {"name": name, "labels": {"app": "bare"}}
        await self.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": _pod_spec(self._chance)})

    async def _delete_pod(self) -> None:
        if self._pods:
            name = self._chance.choice(sorted(self._pods))
            self._pods.discard(name)
            await self.delete("Pod", _NAMESPACE, name)

    async def _set_taint(self, name: str, *, present: bool) -> None:
        """Put the maintenance taint on a node or take it away, as the command line does it."""
        kind = kinds.find("node")

        async def change() -> httpx.Response:
            found = await self._http.get(object_path(kind, "", name))
            if found.is_error:
                return found
            shown = found.json()
            taints = [one for one in shown["spec"].get("taints") or [] if one["key"] != MAINTENANCE]
            if present:
                taints.append({"key": MAINTENANCE, "effect": "NoExecute"})
            patch = {"metadata": {"resourceVersion": shown["metadata"]["resourceVersion"]}, "spec": {"taints": taints}}
            return await self._http.patch(
                object_path(kind, "", name), json=patch, headers={"content-type": MERGE_PATCH}
            )

        (self._tainted.add if present else self._tainted.discard)(name)
        await self._write(resource_key("Node", "", name), change, f"taint {name} {present}")

    async def create(self, document: Json) -> None:
        """Create an object; one that is there already has been created by a try whose answer was lost."""
        kind = kinds.of_object(document["apiVersion"], document["kind"])
        assert kind is not None
        namespace = _NAMESPACE if kind.namespaced else ""
        name = document["metadata"]["name"]
        await self._write(
            resource_key(kind.kind, namespace, name),
            lambda: self._http.post(list_path(kind, namespace), json=document),
            f"create {kind.kind} {name}",
            done=_CONFLICT,
        )

    async def delete(self, word: str, namespace: str, name: str) -> None:
        """Delete an object; one that is gone already has been deleted, or evicted."""
        kind = kinds.find(word)
        await self._write(
            resource_key(kind.kind, namespace, name),
            lambda: self._http.delete(object_path(kind, namespace, name)),
            f"delete {kind.kind} {name}",
            done=_NOT_FOUND,
        )

    async def _write(
        self, key: str, call: Callable[[], Awaitable[httpx.Response]], what: str, *, done: int = 0
    ) -> None:
        """Ask until it is accepted.

        Args:
            key: the object's record key.
            call: makes one try.
            what: it in words.
            done: an error that shows that it is done already; nobody was told so.
        """
        deadline = time.monotonic() + _PATIENCE
        last = ""
        while time.monotonic() < deadline:
            try:
                answer = await call()
            except httpx.HTTPError as error:
                last = repr(error)
            else:
                if answer.status_code < _OK:
                    self.told.append(Told(time.time(), RESOURCES.short, key))
                    return
                if answer.status_code == done:
                    return
                last = answer.text
                if answer.status_code < _SERVER_ERROR and answer.status_code != _CONFLICT:
                    raise AssertionError(f"{what}: {last}")
            await asyncio.sleep(_RETRY)
        self.lost.append(f"{what}: {last[:200]}")

    async def report(self, name: str, status: ConditionStatus, condition: str = "Ready") -> None:
        """Report a condition of a node, by default whether it is ready, and do not wait for the answer."""
        target = TargetRef(kind=TargetKind.NODE, name=name)
        now = datetime.now(UTC)
        self._later(
            ConditionReported(target=target, type=condition, status=status, observed_time=now, source="kubelet")
        )

    def _later(self, event: ConditionReported) -> None:
        task = asyncio.create_task(self._send(event))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, event: ConditionReported) -> None:
        key = event.target.key
        identity = event_id("load", key, str(event.workload), event.type, event.observed_time.isoformat())
        meta = Meta(id=identity, source=event.source, type=event.event_type, time=event.observed_time)
        partition = partition_of(key, self._partitions)
        # One that is given up may be there all the same; a second try has the same id.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                place = await self._producer.send_and_wait(
                    self._topic,
                    event.model_dump_json().encode(),
                    key=key.encode(),
                    partition=partition,
                    headers=to_headers(meta),
                )
            self.acknowledged.append(Acknowledged(time.time(), CONDITION_REPORTS.short, place.partition, place.offset))
            return
        self.lost.append(f"report {key} {event.type}={event.status}")


def differing(environment: Mapping[str, str]) -> dict[str, object]:
    """The settings that these environment variables make, by the fields' names, as the services take them."""
    fields = {name.removeprefix("MOORAGE_").lower(): value for name, value in environment.items()}
    return Settings.model_validate(fields).model_dump(include=set(fields))
