"""Measures the loss of a zone with all services as separate processes on a real broker. The last line is JSON.

The fleet (nodes in zones, Deployments) is written to `resources` in the same way as by the gateway, and each node
reports that it is ready. The load time ends when every pod is bound. Then the nodes of one zone report Ready=Unknown,
or with `--loss silence` they stop reporting while all others continue. Everything that follows is observed for
`--seconds`. With `--rates default` one node in ten seconds may be tainted, so only a part of the storm is seen. With
`--rates lifted` it ends when nothing changes any more. Pods tolerate the taint for `--tolerate` seconds instead of
Kubernetes' 300, so that evictions come due in that time. Nothing else is scaled.

Then all topics are read from their beginning, and `storm_verdict` checks them: nothing outside the rates, nothing
early, nothing lost. The exit code is 1 if there is a violation. `peak_mb` is the highest memory use of each service's
process (VmHWM), and `cpu_s` its CPU time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that the script runs from any folder
from bench import harness, processes, storm_verdict

from moorage.gateway.admission import defaults
from moorage.kinds import kind as kinds
from moorage.runtime import codec
from moorage.runtime.settings import Settings
from moorage_schemas.condition import ConditionReported, ConditionStatus
from moorage_schemas.envelope import Meta, event_id, to_headers
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared, resource_partition_key
from moorage_schemas.taint import TargetTainted
from moorage_schemas.times import format_time
from moorage_schemas.topics import (
    BINDINGS,
    CONDITION_REPORTS,
    DEAD_LETTERS,
    EVICTIONS,
    PLACEMENTS,
    RESOURCES,
    TAINTS,
    ZONE_GRANTS,
    ZONE_MEMBERS,
    ZONES,
    Topic,
    partition_of,
)
from moorage_schemas.zone import NoExecuteGranted

SERVICES = ("timer", "condition-ingest", "taint-manager", "governor", "placement", "eviction")
JUDGED = (TAINTS, ZONE_MEMBERS, ZONES, ZONE_GRANTS, BINDINGS, PLACEMENTS, EVICTIONS)
REPLICAS = 30
NAMESPACES = 50
SOURCE = "probe/kubelet"
REGION = "region-1"
READY_WITHIN = 120.0
LOADED_WITHIN = 1800.0
QUIET = 6.0
"""Seconds without an event after which no more events are expected."""

SHOWN = 20


@dataclass(frozen=True)
class Plan:
    """The size, the duration and the rules of a run."""

    nodes: int
    zones: int
    pods: int
    seconds: float
    tolerate: int
    monitor_period: float
    lifted: bool
    silence: bool
    heartbeat: float

    @property
    def grace(self) -> float:
        """Seconds without a report after which a node counts as lost. 0 if there are no heartbeats."""
        return self.heartbeat * 4 if self.silence else 0.0

    @property
    def rate(self) -> float:
        """Nodes per second in each zone."""
        return float("inf") if self.lifted else 0.1

    def node(self, number: int) -> TargetRef:
        """A node. The first ones are in the zone that is lost."""
        return TargetRef(kind=TargetKind.NODE, name=f"node-{number:05d}")

    def zone(self, number: int) -> str:
        """The zone of a node."""
        return f"zone-{number * self.zones // self.nodes}"

    @property
    def lost(self) -> list[TargetRef]:
        """The nodes of the first zone."""
        return [self.node(number) for number in range(self.nodes) if self.zone(number) == "zone-0"]

    def environment(self) -> dict[str, str]:
        """The settings of the services that differ from the defaults."""
        found = {
            "MOORAGE_NODE_MONITOR_PERIOD": f"{self.monitor_period}",
            "MOORAGE_NODE_MONITOR_GRACE_PERIOD": f"{self.grace}",
        }
        if self.lifted:
            found |= {"MOORAGE_NODE_EVICTION_RATE": "inf", "MOORAGE_SECONDARY_NODE_EVICTION_RATE": "inf"}
        return found


class Writer:
    """Writes in the same way as the gateway and the probes."""

    def __init__(self, settings: Settings, producer: AIOKafkaProducer) -> None:
        self._settings = settings
        self._producer = producer
        self._count = 0

    async def declare(self, document: dict[str, Any]) -> str:
        """Write a resource, with the defaults of admission, and return its key."""
        now = datetime.now(UTC)
        kind = kinds.named(document["kind"])
        if kind is None:
            raise ValueError(f"{document['kind']} is not a kind")
        prepared = defaults.prepared(document, kind, ())
        made = defaults.created(prepared, uid=event_id("uid", document["metadata"]), now=now)
        event = ResourceDeclared(object=made, version=1)
        await self._send(RESOURCES, event.key, resource_partition_key(event.key), event.model_dump_json(), now)
        return event.key

    async def report(self, target: TargetRef, status: ConditionStatus) -> None:
        """Report whether a node is ready, not ready or unknown."""
        now = datetime.now(UTC)
        reason = "KubeletReady" if status is ConditionStatus.TRUE else "NodeStatusUnknown"
        event = ConditionReported(
            target=target, type="Ready", status=status, reason=reason, observed_time=now, source=SOURCE
        )
        await self._send(CONDITION_REPORTS, target.key, target.key, event.model_dump_json(), now)

    async def flush(self) -> None:
        """Return when everything is written."""
        await self._producer.flush()

    async def _send(self, topic: Topic, key: str, partition_key: str, value: str, now: datetime) -> None:
        self._count += 1
        meta = Meta(id=event_id("storm", self._count), source=SOURCE, type=topic.event_type, time=now)
        await self._producer.send(
            topic.name(self._settings.topic_prefix),
            value.encode(),
            key=key.encode(),
            partition=partition_of(partition_key, self._settings.partitions),
            headers=to_headers(meta),
        )


def node_document(plan: Plan, number: int) -> dict[str, Any]:
    """A node with room for 110 pods."""
    name = plan.node(number).name
    labels = {
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/region": REGION,
        "topology.kubernetes.io/zone": plan.zone(number),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"cpu": "32", "memory": "128Gi", "pods": "110"}},
    }


def deployment_document(plan: Plan, number: int, replicas: int) -> dict[str, Any]:
    """A Deployment whose pods tolerate a lost node for a limited time."""
    name = f"web-{number}"
    tolerations = [
        {
            "key": f"node.kubernetes.io/{key}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": plan.tolerate,
        }
        for key in ("not-ready", "unreachable")
    ]
    resources = {"requests": {"cpu": "100m", "memory": "128Mi"}}
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {
            "containers": [{"name": "web", "image": "web:1", "resources": resources}],
            "tolerations": tolerations,
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": f"team-{number % NAMESPACES}"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


class Watch:
    """Reads from the services' metrics what they have written."""

    def __init__(self, services: Iterable[processes.ServiceProcess]) -> None:
        self._services = list(services)
        self._http = httpx.AsyncClient(timeout=10.0, trust_env=False)

    async def emitted(self) -> Counter[str]:
        """Events written so far, by `service/topic`.

        Raises:
            RuntimeError: a service has ended.
        """
        found: Counter[str] = Counter()
        for service in self._services:
            if service.process.returncode is not None:
                raise RuntimeError(f"{service.name} ended ({service.process.returncode}); its log:\n{service.tail()}")
            with contextlib.suppress(httpx.HTTPError):  # it is busy; try again in the next round
                text = (await self._http.get(f"http://127.0.0.1:{service.port}/metrics")).text
                for family in text_string_to_metric_families(text):
                    for sample in family.samples:
                        if sample.name == "moorage_events_emitted_total":
                            found[f"{service.name}/{sample.labels['topic']}"] += int(sample.value)
        return found

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()


async def load(plan: Plan, writer: Writer, watch: Watch) -> tuple[float, dict[str, int]]:
    """Declare the fleet and wait until every pod is bound. Returns the seconds, and the replicas by owner.

    Raises:
        TimeoutError: pods are still not bound.
    """
    began = time.perf_counter()
    for number in range(plan.nodes):
        await writer.declare(node_document(plan, number))
        await writer.report(plan.node(number), ConditionStatus.TRUE)
    replicas: dict[str, int] = {}
    for number, start in enumerate(range(0, plan.pods, REPLICAS)):
        count = min(REPLICAS, plan.pods - start)
        replicas[await writer.declare(deployment_document(plan, number, count))] = count
    await writer.flush()
    harness.note(f"written: {plan.nodes:,} nodes, {len(replicas):,} Deployments in {time.perf_counter() - began:.1f} s")
    told = 0.0
    async with asyncio.timeout(LOADED_WITHIN):
        while (bound := (await watch.emitted())["placement/bindings"]) < plan.pods:
            if time.perf_counter() - told > 10:
                told = time.perf_counter()
                harness.note(f"bound: {bound:,}")
            await asyncio.sleep(0.5)
    seconds = time.perf_counter() - began
    await quiet(watch, QUIET, within=120.0)
    return seconds, replicas


async def quiet(watch: Watch, seconds: float, *, within: float) -> None:
    """Return when nothing but effects of heartbeats was written for some seconds, or the time is over."""
    ends = time.monotonic() + within
    before, since = Counter[str](), time.monotonic()
    while time.monotonic() < ends:
        now = await watch.emitted()
        for ignored in ("condition-ingest/conditions", "condition-ingest/timers", "timer/timer-fired"):
            now.pop(ignored, None)
        if now != before:
            before, since = now, time.monotonic()
        elif time.monotonic() - since >= seconds:
            return
        await asyncio.sleep(0.5)


async def heartbeats(plan: Plan, writer: Writer, silent: set[str]) -> None:
    """Report regularly that every node is ready, except the silent ones."""
    while True:
        began = time.monotonic()
        for number in range(plan.nodes):
            target = plan.node(number)
            if target.key not in silent:
                await writer.report(target, ConditionStatus.TRUE)
            # Spread over the interval, like those of real nodes.
            if number % 50 == 49:
                await asyncio.sleep(max(0.0, began + plan.heartbeat * (number + 1) / plan.nodes - time.monotonic()))


async def storm(plan: Plan, writer: Writer, watch: Watch, silent: set[str]) -> datetime:
    """Lose a zone, and wait. Returns when it was lost."""
    lost, lost_at = plan.lost, datetime.now(UTC)
    if plan.silence:
        silent.update(target.key for target in lost)
    else:
        for target in lost:
            await writer.report(target, ConditionStatus.UNKNOWN)
        await writer.flush()
    harness.note(f"lost: {len(lost)} nodes")
    began = time.monotonic()
    first_due = plan.grace * 2 + plan.monitor_period + plan.tolerate + 5
    while (passed := time.monotonic() - began) < plan.seconds:
        done = await watch.emitted()
        harness.note(
            f"{passed:5.0f} s: {done['governor/zone-grants']:,} grants, {done['eviction/evictions']:,} eviction "
            f"records, {done['placement/placements']:,} placements"
        )
        if plan.lifted and passed > first_due:
            await quiet(watch, QUIET, within=plan.seconds - passed)
            break
        await asyncio.sleep(min(10.0, max(0.1, plan.seconds - passed)))
    return lost_at


async def read(settings: Settings, topics: Iterable[Topic]) -> tuple[list[storm_verdict.Seen], int]:
    """All records of some topics, and the number of dead letters."""
    by_name = {topic.name(settings.topic_prefix): topic for topic in (*topics, DEAD_LETTERS)}
    places = [TopicPartition(name, number) for name in by_name for number in range(settings.partitions)]
    consumer = AIOKafkaConsumer(
        bootstrap_servers=settings.bootstrap_servers, isolation_level="read_committed", enable_auto_commit=False
    )
    await consumer.start()
    consumer.assign(places)
    await consumer.seek_to_beginning(*places)
    found, dead = [], 0
    ends = await consumer.end_offsets(places)
    while any([await consumer.position(place) < end for place, end in ends.items()]):
        for place, records in (await consumer.getmany(timeout_ms=500, max_records=20_000)).items():
            topic = by_name[place.topic]
            if topic is DEAD_LETTERS:
                dead += len(records)
                continue
            found += [_seen(topic, record) for record in records]
    await consumer.stop()
    return found, dead


def _seen(topic: Topic, record: Any) -> storm_verdict.Seen:
    key, event = codec.decode_table(topic, record)
    written = datetime.fromtimestamp(record.timestamp / 1000, UTC)
    time_ = dict(record.headers).get("ce_time")
    decided = datetime.fromisoformat(time_.decode()) if time_ else written
    return storm_verdict.Seen(topic.short, key, event, written, decided)


def milestones(records: Iterable[storm_verdict.Seen], lost_at: datetime) -> dict[str, Any]:
    """The times of events, in seconds after the loss."""
    last: dict[str, datetime] = {}
    counts: Counter[str] = Counter()
    for seen in records:
        event, what = seen.event, ""
        if isinstance(event, NoExecuteGranted) and event.granted:
            what = "granted"
        elif isinstance(event, TargetTainted) and any(taint.effect == "NoExecute" for taint in event.taints):
            what = "tainted"
        elif isinstance(event, EvictionDecided):
            what = "requested" if event.state is EvictionState.REQUESTED else event.state.value.lower()
        elif isinstance(event, WorkloadPlaced) and event.replaces:
            what = f"replaced_{event.state.value.lower()}"
        if what and seen.written >= lost_at:
            counts[what] += 1
            last[what] = max(seen.written, last.get(what, seen.written))
    return {
        what: {"count": counts[what], "last_s": round((last[what] - lost_at).total_seconds(), 1)}
        for what in sorted(counts)
    }


def eviction_rate(records: Iterable[storm_verdict.Seen]) -> float:
    """Evictions requested per second between the first and the last one. 0 if there are too few."""
    times = sorted(
        seen.written
        for seen in records
        if isinstance(seen.event, EvictionDecided) and seen.event.state is EvictionState.REQUESTED
    )
    span = (times[-1] - times[0]).total_seconds() if len(times) > 1 else 0.0
    return len(times) / span if span else 0.0


@asynccontextmanager
async def running(settings: Settings, plan: Plan, folder: Path) -> AsyncIterator[list[processes.ServiceProcess]]:
    """Run all services, each in a process, until they are ready."""
    services: list[processes.ServiceProcess] = []
    try:
        for name in SERVICES:
            service = await processes.start_service(name, settings, folder, environment=plan.environment())
            services.append(service)
        for service in services:
            await service.ready(READY_WITHIN)
        yield services
    finally:
        for service in reversed(services):
            await service.stop()


async def run(plan: Plan, bootstrap: str, partitions: int) -> dict[str, Any]:
    """Load the fleet, lose a zone, observe, and check the records."""
    settings = await harness.fleet(bootstrap, partitions=partitions)
    silent: set[str] = set()
    beating: asyncio.Task[None] | None = None
    with tempfile.TemporaryDirectory(prefix="moorage-storm-") as name:
        async with (
            running(settings, plan, Path(name)) as services,
            AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=5, max_batch_size=200_000) as producer,
        ):
            harness.note(f"ready: {', '.join(service.name for service in services)}")
            writer, watch = Writer(settings, producer), Watch(services)
            try:
                if plan.silence:
                    beating = asyncio.create_task(heartbeats(plan, writer, silent))
                loaded, replicas = await load(plan, writer, watch)
                harness.note(f"loaded in {loaded:.1f} s")
                lost_at = await storm(plan, writer, watch, silent)
            finally:
                if beating is not None:
                    beating.cancel()
                await watch.close()
            usage = {
                service.name: {
                    "peak_mb": round(service.peak_bytes() / 1e6),
                    "cpu_s": round(service.cpu_seconds(), 1),
                }
                for service in services
            }
            end = datetime.now(UTC)
        records, dead = await read(settings, JUDGED)
    rules = storm_verdict.Rules(
        end=end,
        rate=plan.rate,
        secondary_rate=plan.rate if plan.lifted else 0.01,
        monitor_period=plan.monitor_period,
        replicas=replicas,
        slack=max(5.0, plan.tolerate / 2),
    )
    harness.note(f"checking {len(records):,} records")
    wrong = storm_verdict.violations(records, rules)
    if dead:
        wrong.append(f"{dead} records were refused")
    for text in wrong[:SHOWN]:
        harness.note(f"WRONG: {text}")
    return {
        "bench": "storm",
        "what": "one zone lost; wall time, memory, and violations of the rules",
        "nodes": plan.nodes,
        "zones": plan.zones,
        "pods": plan.pods,
        "lost_nodes": len(plan.lost),
        "rates": "lifted" if plan.lifted else "default",
        "loss": "silence" if plan.silence else "report",
        "toleration_s": plan.tolerate,
        "loaded_s": round(loaded, 1),
        "pods_bound_per_s": round(plan.pods / loaded),
        "lost_at": format_time(lost_at),
        "watched_s": round((end - lost_at) / timedelta(seconds=1), 1),
        "events": milestones(records, lost_at),
        "evictions_per_s": round(eviction_rate(records)),
        "services": usage,
        "records": len(records),
        "violations": len(wrong),
        "first_violations": wrong[:3],
    }


async def main() -> dict[str, Any]:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--zones", type=int, default=10)
    parser.add_argument("--pods", type=int, default=150_000)
    parser.add_argument("--seconds", type=float, default=180.0, help="maximum time for which the storm is observed")
    parser.add_argument("--tolerate", type=int, default=20, help="seconds for which pods tolerate a lost node")
    parser.add_argument("--monitor-period", type=float, default=5.0, help="seconds that a node waits before its taint")
    parser.add_argument("--rates", choices=("default", "lifted"), default="default")
    parser.add_argument("--loss", choices=("report", "silence"), default="report")
    parser.add_argument(
        "--heartbeat", type=float, default=10.0, help="seconds between two heartbeats, with --loss silence"
    )
    parser.add_argument("--partitions", type=int, default=24)
    options = parser.parse_args()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    plan = Plan(
        nodes=options.nodes,
        zones=options.zones,
        pods=options.pods,
        seconds=options.seconds,
        tolerate=options.tolerate,
        monitor_period=options.monitor_period,
        lifted=options.rates == "lifted",
        silence=options.loss == "silence",
        heartbeat=options.heartbeat,
    )
    async with harness.kafka() as bootstrap:
        return await run(plan, bootstrap, options.partitions)


if __name__ == "__main__":
    sys.exit(1 if harness.run(main)["violations"] else os.EX_OK)
