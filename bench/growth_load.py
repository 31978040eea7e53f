"""The fleet of a growth run, and everything that people, probes, agents and deployers do to it.

Names come and go all the while: nodes, Deployments and bare pods are deleted, and others with new names are created.
The number of objects stays the same, so whatever grows is not needed. Nodes break, by a report or by silence, and heal;
their pods are evicted and placed elsewhere, and a deployer reports the health of what is bound. Around them are a few
clusters of Karmada and of Open Cluster Management, budgets, pauses, a watching client, questions, and a probe that
reports nonsense.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, Self

import httpx
import orjson
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from bench import harness
from bench.growth_times import FASTER

from moorage.cli.api import kinds
from moorage.cli.api.client import MERGE_PATCH, list_path, object_path
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.condition import HEALTHY
from moorage_schemas.topics import BINDINGS, CONDITION_REPORTS, partition_of

NODES: Final = 500
"""The number of nodes for which the numbers and rates below are meant. A smaller fleet has fewer of everything."""

ZONES: Final = 10
DEPLOYMENTS: Final = 50
REPLICAS: Final = 20
PODS: Final = 60
CLUSTERS: Final = 6
MANAGED: Final = 20
LEASE_SECONDS: Final = 60 / FASTER
"""How often an add-on's agent renews its lease."""

IMPATIENT: Final = 2
PATIENT: Final = 300 // FASTER
"""For how many seconds a pod tolerates a node that is not ready."""

_TICK: Final = 0.05
_SOURCE: Final = "probe/kubelet"
_PATIENCE: Final = 60.0
_SMALL_FAULTS: Final = frozenset({404, 409, 410})
"""Answers that others who change the same objects may cause: an evicted pod is gone already, for example."""

Json = dict[str, Any]


class Node:
    """One place in the fleet. Its node is replaced by one with another name from time to time."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.life = 0
        self.declared = False
        self.ready = True
        self.silent = False
        self.broken_until = 0.0

    @property
    def name(self) -> str:
        """The name of the present node."""
        return f"node-{self.number:05d}-{self.life}"


class Load:
    """Inputs of a run; an async context manager.

    Args:
        server: the gateway's address.
        settings: the settings of the fleet.
        nodes: the number of nodes.
        rate: reports per second, in all.
        seconds: the duration of the run. In a quarter of it every node has broken, and every Deployment and bare pod
            has been replaced; in half of it every node has been replaced.
        chance: decides what happens to which object.
    """

    def __init__(
        self, server: str, settings: Settings, *, nodes: int, rate: float, seconds: float, chance: random.Random
    ) -> None:
        # The servers close connections after five idle seconds, so this client does not use one that is as old.
        limits = httpx.Limits(keepalive_expiry=2.0)
        self._http = httpx.AsyncClient(base_url=server, timeout=30.0, trust_env=False, limits=limits)
        self._settings = settings
        self._topic = CONDITION_REPORTS.name(settings.topic_prefix)
        self._producer = AIOKafkaProducer(
            bootstrap_servers=settings.bootstrap_servers,
            client_id="growth-probes",
            linger_ms=20,
            max_batch_size=200_000,
        )
        self._share = nodes / NODES
        self._rate = rate
        self._seconds = seconds
        self._chance = chance
        self._nodes = [Node(number) for number in range(nodes)]
        self._made = self._breaks = self._replaced = 0
        self._deployments: list[str] = []
        self._pods: list[str] = []
        self._broken_clusters: set[str] = set()
        self.counts: Counter[str] = Counter()
        """What was done, by name."""

        self.problems: list[str] = []
        """Requests that failed, the first of each kind."""

    async def __aenter__(self) -> Self:
        await self._producer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._producer.stop()
        await self._http.aclose()

    async def settle_in(self) -> None:
        """Create the fleet."""
        for namespace in ("apps", "claimed", "picks", *map(_managed, range(self._of(MANAGED)))):
            await self._create(harness.document("v1", "Namespace", namespace))
        for document in (*self._karmada(), *self._ocm(), *self._guards()):
            await self._create(document)
        for start in range(0, len(self._nodes), 20):
            await asyncio.gather(*(self._declare(node) for node in self._nodes[start : start + 20]))
        for _ in range(self._of(DEPLOYMENTS)):
            await self._add_deployment()
        for _ in range(self._of(PODS)):
            await self._add_pod()

    async def run(self) -> None:
        """Do everything for the duration of the run."""
        ends = time.monotonic() + self._seconds
        share, quarter, nodes = self._share, self._seconds / 4, len(self._nodes)
        jobs = [
            self._heartbeats(ends),
            self._deployer(),
            self._watching(),
            self._often(self._break, 1.25 * nodes / quarter),
            self._often(self._heal, 10.0),
            self._often(self._replace_node, 0.5 * nodes / quarter),
            self._often(self._replace_deployment, 1.25 * len(self._deployments) / quarter),
            self._often(self._replace_pod, max(2.0 * share, 1.25 * len(self._pods) / quarter)),
            self._often(self._renew, self._of(MANAGED) / LEASE_SECONDS),
            self._often(self._report_clusters, FASTER / 10),
            self._often(self._break_cluster, 0.1),
            self._often(self._pause, 1 / 30),
            self._often(self._explain, 0.2),
            self._often(self._nonsense, 1.0 * share),
            self._often(self._invent, 0.5 * share),
        ]
        async with contextlib.AsyncExitStack() as stack:
            tasks = [asyncio.create_task(job) for job in jobs]
            stack.callback(lambda: [task.cancel() for task in tasks])
            done, _ = await asyncio.wait(
                tasks, timeout=max(0.0, ends - time.monotonic()), return_when=asyncio.FIRST_EXCEPTION
            )
            for task in done:
                task.result()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Probes and agents.

    async def _heartbeats(self, ends: float) -> None:
        """Report every condition of every node, again and again, spread evenly over time."""
        began, at = time.monotonic(), 0
        while time.monotonic() < ends:
            wanted = int((time.monotonic() - began) * self._rate / len(harness.CONDITIONS))
            # A machine that is too slow loses heartbeats, and does not have to make up for them.
            if wanted - at > self._rate:
                self.counts["late_reports"] += (wanted - at) * len(harness.CONDITIONS)
                at = wanted
            while at < wanted:
                node = self._nodes[at % len(self._nodes)]
                at += 1
                if node.declared and not node.silent:
                    for name, status in harness.CONDITIONS.items():
                        down = name == "Ready" and not node.ready
                        await self._report("Node", node.name, name, "False" if down else status, "Kubelet")
            await asyncio.sleep(_TICK)

    async def _report(  # noqa: PLR0917 - the fields of a report
        self, kind: str, name: str, condition: str, status: str, reason: str, source: str = _SOURCE, **more: Any
    ) -> None:
        self.counts["reports"] += 1
        now, key = datetime.now(UTC).isoformat(), f"{kind}/{name}"
        value = {
            "target": {"kind": kind, "name": name},
            "type": condition,
            "status": status,
            "reason": reason,
            "message": "as the agent of this target sees it",
            "observedTime": now,
            "source": source,
            **more,
        }
        headers = [
            ("ce_specversion", b"1.0"),
            ("ce_id", f"{self.counts['reports']:x}-{self._chance.getrandbits(64):016x}".encode()),
            ("ce_source", source.encode()),
            ("ce_type", CONDITION_REPORTS.event_type.encode()),
            ("ce_time", now.encode()),
            ("content-type", b"application/json"),
        ]
        await self._producer.send(
            self._topic,
            orjson.dumps(value),
            key=key.encode(),
            partition=partition_of(key, self._settings.partitions),
            headers=headers,
        )

    async def _report_clusters(self) -> None:
        for number in range(CLUSTERS):
            name = _cluster(number)
            await self._report("Cluster", name, "Ready", "False" if name in self._broken_clusters else "True", "Agent")
        for number in range(self._of(MANAGED)):
            name = _managed(number)
            status = "False" if name in self._broken_clusters else "True"
            await self._report("ManagedCluster", name, "ManagedClusterConditionAvailable", status, "Agent")

    async def _break_cluster(self) -> None:
        self._broken_clusters = {
            _cluster(self._chance.randrange(CLUSTERS)),
            _managed(self._chance.randrange(self._of(MANAGED))),
        }
        self.counts["clusters_broken"] += 2

    async def _renew(self) -> None:
        """Renew the lease of one add-on."""
        name = _managed(self.counts["renewals"] % self._of(MANAGED))
        self.counts["renewals"] += 1
        patch = {"spec": {"renewTime": _micro_time()}}
        path = object_path(kinds.find("lease"), name, "agent")
        await self._asked("renew", self._http.patch(path, json=patch, headers={"content-type": MERGE_PATCH}))

    async def _nonsense(self) -> None:
        """Report on a node that does not exist. Such reports become dead letters."""
        self._made += 1
        await self._report("Node", f"unheard-of-{self._made}", "Ready", "False", "Wrong", source="probe/wrong")
        self.counts["nonsense"] += 1

    async def _invent(self) -> None:
        """Report a type of condition that is never reported again."""
        node = self._chance.choice(self._nodes)
        self._made += 1
        if node.declared:
            await self._report("Node", node.name, f"Check{self._made}", "True", "Once", source="probe/inventive")
            self.counts["types_invented"] += 1

    # What breaks, and heals.

    async def _break(self) -> None:
        """Break a node: it reports that it is not ready, or is silent."""
        self._breaks += 1
        node = self._nodes[self._breaks % len(self._nodes)]
        if node.broken_until:
            return
        node.broken_until = time.monotonic() + self._chance.choice((8.0, 16.0, 16.0, PATIENT + 15.0))
        if self._chance.random() < 0.25:
            node.silent = True
        else:
            node.ready = False
        self.counts["nodes_broken"] += 1

    async def _heal(self) -> None:
        now = time.monotonic()
        for node in self._nodes:
            if node.broken_until and node.broken_until <= now:
                node.ready, node.silent, node.broken_until = True, False, 0.0

    # Objects that come and go.

    async def _declare(self, node: Node) -> None:
        await self._create(harness.node_document(node.name, f"z{node.number % ZONES}", 16))
        node.declared = True
        self.counts["nodes_declared"] += 1

    async def _replace_node(self) -> None:
        self._replaced += 1
        node = self._nodes[-self._replaced % len(self._nodes)]
        if not node.declared:
            return
        node.declared = False
        await self._delete("Node", "", node.name)
        node.life += 1
        node.ready, node.silent, node.broken_until = True, False, 0.0
        await self._declare(node)

    async def _add_deployment(self) -> None:
        self._made += 1
        name = f"web-{self._made}"
        self._deployments.append(name)
        await self._create(harness.deployment_document(name, "apps", REPLICAS, self._pod_spec()))

    async def _replace_deployment(self) -> None:
        name = self._deployments.pop(0)
        await self._delete("Deployment", "apps", name)
        await self._add_deployment()
        self.counts["deployments_replaced"] += 1

    async def _add_pod(self) -> None:
        self._made += 1
        name = f"job-{self._made}"
        self._pods.append(name)
        parts = {"metadata": {"labels": {"app": "job", "run": name}}, "spec": self._pod_spec()}
        await self._create(harness.document("v1", "Pod", name, "apps", **parts))

    async def _replace_pod(self) -> None:
        await self._delete("Pod", "apps", self._pods.pop(0))  # it may have been evicted, and so be gone
        await self._add_pod()
        self.counts["pods_replaced"] += 1

    async def _pause(self) -> None:
        """Pause evictions for a few seconds."""
        self._made += 1
        name = f"pause-{self._made}"
        await self._create(harness.document("moorage.io/v1alpha1", "EvictionPause", name, spec={}))
        await asyncio.sleep(3)
        await self._delete("EvictionPause", "", name)
        self.counts["pauses"] += 1

    def _pod_spec(self) -> Json:
        return harness.pod_spec(seconds=self._chance.choice((IMPATIENT, PATIENT)), image=f"web:{self._made}")

    def _guards(self) -> Iterator[Json]:
        for per, limit in (("Workload", 5), ("Zone", 20), ("Namespace", 200)):
            spec: Json = {"per": per, "maxInWindow": limit, "windowSeconds": 20, "patienceSeconds": 10}
            yield harness.document("moorage.io/v1alpha1", "EvictionBudget", f"per-{per.lower()}", spec=spec)
        spec = {"maxUnavailable": "20%", "selector": {"matchLabels": {"app": "job"}}}
        yield harness.document("policy/v1", "PodDisruptionBudget", "jobs", "apps", spec=spec)

    def _karmada(self) -> Iterator[Json]:
        allocatable = {"cpu": "100", "memory": "400Gi", "pods": "1000"}
        for number in range(CLUSTERS):
            yield harness.document(
                "cluster.karmada.io/v1alpha1",
                "Cluster",
                _cluster(number),
                spec={"syncMode": "Push", "provider": "acme", "region": "r", "zone": f"z{number}"},
                status={"resourceSummary": {"allocatable": allocatable}},
            )
        spec = {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
            "placement": {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 2, "maxGroups": 3}]},
        }
        yield harness.document("policy.karmada.io/v1alpha1", "PropagationPolicy", "all", "claimed", spec=spec)
        for number in range(10):
            containers = [{"name": "c", "image": "c:1"}]
            yield harness.deployment_document(f"claimed-{number}", "claimed", 4, {"containers": containers})

    def _ocm(self) -> Iterator[Json]:
        group = "cluster.open-cluster-management.io"
        for number in range(self._of(MANAGED)):
            name = _managed(number)
            yield harness.document(
                f"{group}/v1",
                "ManagedCluster",
                name,
                metadata={"labels": {"tier": f"t{number % 3}"}},
                spec={"hubAcceptsClient": True},
                status={"allocatable": {"cpu": "48", "memory": "192Gi"}},
            )
            addon = "addon.open-cluster-management.io/v1alpha1"
            yield harness.document(addon, "ManagedClusterAddOn", "agent", name, spec={})
            lease = {"holderIdentity": "agent", "leaseDurationSeconds": int(LEASE_SECONDS), "renewTime": _micro_time()}
            yield harness.document("coordination.k8s.io/v1", "Lease", "agent", name, spec=lease)
        spec = {"clusterSet": "default"}
        yield harness.document(f"{group}/v1beta2", "ManagedClusterSetBinding", "default", "picks", spec=spec)
        for number in range(5):
            yield harness.document(
                f"{group}/v1beta1", "Placement", f"pick-{number}", "picks", spec={"numberOfClusters": number + 1}
            )

    # Readers.

    async def _deployer(self) -> None:
        """Report of what is bound that it is healthy there."""
        consumer = AIOKafkaConsumer(
            BINDINGS.name(self._settings.topic_prefix),
            bootstrap_servers=self._settings.bootstrap_servers,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        healthy: dict[bytes, int] = {}
        try:
            async for record in consumer:
                if record.value is None:
                    healthy.pop(record.key, None)
                    self.counts["bindings_ended"] += 1
                    continue
                bound = orjson.loads(record.value)
                if healthy.get(record.key, 0) >= bound["generation"]:
                    continue
                healthy[record.key] = bound["generation"]
                self.counts["bindings_made"] += 1
                target = bound["target"]
                if target["kind"] == "Node":
                    fields = {"workload": bound["workload"]}
                    await self._report("Node", target["name"], HEALTHY, "True", "Runs", source="deployer", **fields)
        finally:
            await consumer.stop()

    async def _watching(self) -> None:
        """Follow all pods, as a dashboard does."""
        path = list_path(kinds.find("pod"), None)
        while True:
            with contextlib.suppress(httpx.HTTPError):
                async with self._http.stream("GET", path, params={"watch": "true"}, timeout=None) as answer:
                    async for _ in answer.aiter_lines():
                        self.counts["watched"] += 1
            await asyncio.sleep(1)

    async def _explain(self) -> None:
        name = self._chance.choice(self._pods)
        params = {"kind": "Pod", "namespace": "apps", "name": name}
        await self._asked("explain", self._http.get("/v1/explain", params=params))

    # Helpers.

    def _of(self, number: int) -> int:
        return max(1, round(number * min(1.0, self._share)))

    async def _often(self, job: Callable[[], Awaitable[None]], rate: float) -> None:
        """Do something at a rate, in times a second. What takes too long is not made up for."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            await job()
            await asyncio.sleep(max(0.01, 1 / rate - (loop.time() - began)))

    async def _create(self, document: Json) -> None:
        kind = kinds.of_object(document["apiVersion"], document["kind"])
        if kind is None:
            raise ValueError(f"{document['kind']} is not served")
        path = list_path(kind, document["metadata"].get("namespace", "") if kind.namespaced else "")
        await self._until(f"create {kind.kind}", lambda: self._http.post(path, json=document))

    async def _delete(self, kind: str, namespace: str, name: str) -> None:
        path = object_path(kinds.find(kind), namespace, name)
        await self._until(f"delete {kind}", lambda: self._http.delete(path))

    async def _until(self, what: str, call: Callable[[], Awaitable[httpx.Response]]) -> None:
        """Repeat a request until it is accepted. Otherwise this program and the fleet would differ from then on.

        Raises:
            RuntimeError: it was not accepted within a minute.
        """
        deadline = time.monotonic() + _PATIENCE
        while not await self._asked(what, call()):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{what} was not accepted within {_PATIENCE:g} s: {self.problems}")
            await asyncio.sleep(0.5)

    async def _asked(self, what: str, request: Awaitable[httpx.Response]) -> bool:
        """Count a request, and note the first failure of each kind. Returns whether it was accepted."""
        try:
            answer = await request
        except httpx.HTTPError as error:
            self._failed(what, repr(error))
            return False
        self.counts[what] += 1
        if answer.is_error and answer.status_code not in _SMALL_FAULTS:
            self._failed(what, f"{answer.status_code} {answer.text[:300]}")
            return False
        return True

    def _failed(self, what: str, why: str) -> None:
        self.counts[f"failed {what}"] += 1
        if self.counts[f"failed {what}"] == 1:
            self.problems.append(f"{what}: {why}")


def _cluster(number: int) -> str:
    return f"member-{number}"


def _managed(number: int) -> str:
    return f"managed-{number:03d}"


def _micro_time() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
