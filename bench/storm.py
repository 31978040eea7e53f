"""Measures the loss of a zone with all services as separate processes on a real broker. The last line is JSON.

The fleet (nodes in zones, Deployments) is written to `resources` in the same way as by the gateway, and each node
reports that it is ready. The load time ends when every pod is bound. Then the nodes of one zone report Ready=Unknown,
or with `--loss silence` they stop reporting while all others continue. Everything that follows is observed for
`--seconds`. With `--rates default` one node in ten seconds may be tainted, so only a part of the storm is seen. With
`--rates lifted` it ends when nothing changes any more. Pods tolerate the taint for `--tolerate` seconds instead of
Kubernetes' 300, so that evictions come due in that time. Nothing else is scaled. A node waits for `--monitor-period`
before its taint; with `--loss silence` it sends a heartbeat every `--heartbeat` seconds.

Then all topics are read from their beginning, and `storm_verdict` checks them: nothing outside the rates, nothing
early, nothing lost. The exit code is 1 if there is a violation. `peak_mb` is the highest memory use of each service's
process (VmHWM), and `cpu_s` its CPU time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that the script runs from any folder
from bench import harness, storm_verdict

from moorage.apiserver.admission import mutation
from moorage.apiserver.kinds import kind as kinds
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire import codec
from moorage_schemas.condition import ConditionReported, ConditionStatus
from moorage_schemas.envelope import event_id
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.refs import TargetRef
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
)
from moorage_schemas.zone import NoExecuteGranted

SERVICES = ("timer", "condition-ingest", "taint-manager", "governor", "placement", "eviction")
JUDGED = (TAINTS, ZONE_MEMBERS, ZONES, ZONE_GRANTS, BINDINGS, PLACEMENTS, EVICTIONS)
REPLICAS = 30
NAMESPACES = 50
SOURCE = "probe/kubelet"
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
        return harness.node_ref(f"node-{number:05d}")

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


async def declare(writer: harness.Writer, document: dict[str, Any]) -> str:
    """Write a resource, with the defaults of admission, and return its key."""
    now = datetime.now(UTC)
    kind = kinds.named(document["kind"])
    if kind is None:
        raise ValueError(f"{document['kind']} is not a kind")
    prepared = mutation.prepared(document, kind, ())
    made = mutation.created(prepared, uid=event_id("uid", document["metadata"]), now=now)
    event = ResourceDeclared(object=made, version=1)
    await writer.send(RESOURCES, event.key, event, partition_key=resource_partition_key(event.key), time=now)
    return event.key


async def report(writer: harness.Writer, target: TargetRef, status: ConditionStatus) -> None:
    """Report whether a node is ready, not ready or unknown."""
    now = datetime.now(UTC)
    reason = "KubeletReady" if status is ConditionStatus.TRUE else "NodeStatusUnknown"
    event = ConditionReported(
        target=target, type="Ready", status=status, reason=reason, observed_time=now, source=SOURCE
    )
    await writer.send(CONDITION_REPORTS, target.key, event, time=now)


Services = Sequence[harness.ServiceProcess]


async def emitted(services: Services) -> Counter[str]:
    """Return from the metrics of services the events that they have written so far, by `service/topic`.

    Raises:
        RuntimeError: a service has ended.
    """
    found: Counter[str] = Counter()
    for service in services:
        if service.process.returncode is not None:
            raise RuntimeError(f"{service.name} ended ({service.process.returncode}); its log:\n{service.tail()}")
        with contextlib.suppress(httpx.HTTPError):  # it is busy; try again in the next round
            for family in text_string_to_metric_families((await service.get("metrics")).text):
                for sample in family.samples:
                    if sample.name == "moorage_events_emitted_total":
                        found[f"{service.name}/{sample.labels['topic']}"] += int(sample.value)
    return found


async def load(
    plan: Plan, writer: harness.Writer, services: Services, settings: Settings
) -> tuple[float, dict[str, int]]:
    """Declare the fleet and wait until every pod is bound. Return the seconds, and the replicas by owner.

    Raises:
        TimeoutError: pods are still not bound.
    """
    began = time.perf_counter()
    for number in range(plan.nodes):
        await declare(writer, harness.node_document(plan.node(number).name, plan.zone(number)))
        await report(writer, plan.node(number), ConditionStatus.TRUE)
    replicas: dict[str, int] = {}
    for number, start in enumerate(range(0, plan.pods, REPLICAS)):
        count = min(REPLICAS, plan.pods - start)
        spec = harness.pod_spec(seconds=plan.tolerate)
        owner = harness.deployment_document(f"web-{number}", f"team-{number % NAMESPACES}", count, spec)
        replicas[await declare(writer, owner)] = count
    await writer.flush()
    harness.note(f"written: {plan.nodes:,} nodes, {len(replicas):,} Deployments in {time.perf_counter() - began:.1f} s")
    told = 0.0
    async with asyncio.timeout(LOADED_WITHIN):
        while (bound := (await emitted(services))["placement/bindings"]) < plan.pods:
            if time.perf_counter() - told > 10:
                told = time.perf_counter()
                # On a busy machine the answer to a commit can be lost. What it wrote is then not counted as emitted.
                bound = len({one.key async for _, many in harness.read(settings, BINDINGS) for one in many})
                harness.note(f"bound: {bound:,}")
                if bound >= plan.pods:
                    break
            await asyncio.sleep(0.5)
    seconds = time.perf_counter() - began
    await quiet(services, QUIET, within=120.0)
    return seconds, replicas


async def quiet(services: Services, seconds: float, *, within: float) -> None:
    """Return when nothing but effects of heartbeats was written for some seconds, or the time is over."""
    ends = time.monotonic() + within
    before, since = Counter[str](), time.monotonic()
    while time.monotonic() < ends:
        now = await emitted(services)
        for ignored in ("condition-ingest/conditions", "condition-ingest/timers", "timer/timer-fired"):
            now.pop(ignored, None)
        if now != before:
            before, since = now, time.monotonic()
        elif time.monotonic() - since >= seconds:
            return
        await asyncio.sleep(0.5)


async def heartbeats(plan: Plan, writer: harness.Writer, silent: set[str]) -> None:
    """Report regularly that every node is ready, except the silent ones."""
    while True:
        began = time.monotonic()
        for number in range(plan.nodes):
            target = plan.node(number)
            if target.key not in silent:
                await report(writer, target, ConditionStatus.TRUE)
            # Spread over the interval, like those of real nodes.
            if number % 50 == 49:
                await asyncio.sleep(max(0.0, began + plan.heartbeat * (number + 1) / plan.nodes - time.monotonic()))


async def storm(plan: Plan, writer: harness.Writer, services: Services, silent: set[str]) -> datetime:
    """Lose a zone, and wait. Return when it was lost."""
    lost, lost_at = plan.lost, datetime.now(UTC)
    if plan.silence:
        silent.update(target.key for target in lost)
    else:
        for target in lost:
            await report(writer, target, ConditionStatus.UNKNOWN)
        await writer.flush()
    harness.note(f"lost: {len(lost)} nodes")
    began = time.monotonic()
    first_due = plan.grace * 2 + plan.monitor_period + plan.tolerate + 5
    while (passed := time.monotonic() - began) < plan.seconds:
        done = await emitted(services)
        harness.note(
            f"{passed:5.0f} s: {done['governor/zone-grants']:,} grants, {done['eviction/evictions']:,} eviction "
            f"records, {done['placement/placements']:,} placements"
        )
        if plan.lifted and passed > first_due:
            await quiet(services, QUIET, within=plan.seconds - passed)
            break
        await asyncio.sleep(min(10.0, max(0.1, plan.seconds - passed)))
    return lost_at


async def read(settings: Settings) -> tuple[list[storm_verdict.Seen], int]:
    """Return all records of the judged topics, and the number of dead letters."""
    found, dead = [], 0
    async for topic, records in harness.read(settings, *JUDGED, DEAD_LETTERS):
        if topic is DEAD_LETTERS:
            dead += len(records)
        else:
            found += [_seen(topic, record) for record in records]
    return found, dead


def _seen(topic: Topic, record: Any) -> storm_verdict.Seen:
    key, event = codec.decode_table(topic, record)
    written = datetime.fromtimestamp(record.timestamp / 1000, UTC)
    time_ = dict(record.headers).get("ce_time")
    decided = datetime.fromisoformat(time_.decode()) if time_ else written
    return storm_verdict.Seen(topic.short, key, event, written, decided)


def milestones(records: Iterable[storm_verdict.Seen], lost_at: datetime) -> dict[str, Any]:
    """Return the times of events, in seconds after the loss."""
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
    """Return evictions requested per second between the first and the last one. 0 if there are too few."""
    times = sorted(
        seen.written
        for seen in records
        if isinstance(seen.event, EvictionDecided) and seen.event.state is EvictionState.REQUESTED
    )
    span = (times[-1] - times[0]).total_seconds() if len(times) > 1 else 0.0
    return len(times) / span if span else 0.0


@asynccontextmanager
async def running(settings: Settings, plan: Plan, folder: Path) -> AsyncIterator[Services]:
    """Run all services, each in a process, until they are ready."""
    services: list[harness.ServiceProcess] = []
    try:
        for name in SERVICES:
            one = await harness.ServiceProcess.start(name, settings, folder, **plan.environment())
            services.append(one)
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
            harness.Writer(settings, SOURCE) as writer,
        ):
            harness.note(f"ready: {', '.join(service.name for service in services)}")
            try:
                if plan.silence:
                    beating = asyncio.create_task(heartbeats(plan, writer, silent))
                loaded, replicas = await load(plan, writer, services, settings)
                harness.note(f"loaded in {loaded:.1f} s")
                lost_at = await storm(plan, writer, services, silent)
            finally:
                if beating is not None:
                    beating.cancel()
            usage = {
                service.name: {
                    "peak_mb": round(service.peak_bytes() / 1e6),
                    "cpu_s": round(service.cpu_seconds(), 1),
                }
                for service in services
            }
            end = datetime.now(UTC)
        records, dead = await read(settings)
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
    sizes = {"nodes": 5_000, "zones": 10, "pods": 150_000, "tolerate": 20, "partitions": 24}
    parser = harness.parser(__doc__, **sizes, seconds=180.0, monitor_period=5.0, heartbeat=10.0)
    parser.add_argument("--rates", choices=("default", "lifted"), default="default")
    parser.add_argument("--loss", choices=("report", "silence"), default="report")
    options = parser.parse_args()
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
