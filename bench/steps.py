"""Measures the longest call of each service in a large fleet. The last line is JSON.

    .venv/bin/python bench/steps.py [--nodes 5000] [--daemons 100] [--pool 100] [--resources 10000]
                                    [--replicas 10000] [--requests 10000] [--limit 100]

While a call runs, its process does nothing else, so no call may grow with the fleet. The services run in memory on a
virtual clock, each record through the engine that also runs on Kafka. Every call of a service is timed in processor
time (`ms`), so that other programs on the machine do not count. For each service, kind of call and phase, the longest
call is noted, with the number of records that it was given and the number that it wrote.

The phases: nodes come; DaemonSets, each for a pool of nodes; small Deployments; one Deployment with many replicas; one
node is lost; a zone is lost, and its work is evicted; a round of the reconciler. The governor is also measured alone
with many requests, while pauses, an EvictionBudget and PodDisruptionBudgets come and go. Garbage collection is off,
because the process of the benchmark keeps the topics of all services in memory, which no process of a service does.

`over` lists the calls that took longer than `--limit` milliseconds.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable, Iterator, Sized
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that the script runs from any folder
from bench import harness

from moorage.runtime.service import GlobalView, Service
from moorage.runtime.settings import Settings
from moorage.simulation.copy import run
from moorage.simulation.copy.stack import MemoryStack
from moorage.workers import governor
from moorage_schemas.base import Model
from moorage_schemas.budget import EvictionAsked
from moorage_schemas.condition import ConditionReported, ConditionStatus
from moorage_schemas.keys import binding_key, eviction_key
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.resource import ResourceDeclared, resource_partition_key
from moorage_schemas.topics import BINDINGS, CONDITION_REPORTS, EVICTION_ASKS, FLEET, RESOURCES

PARTITIONS = 24
START = datetime(2026, 1, 1, tzinfo=UTC)
CALLS = ("process", "catch_up", "wake", "reconcile", "needs", "next_wake", "refreshed")
SMALL = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}]}


class Longest:
    """The longest call of each kind in each phase."""

    def __init__(self) -> None:
        self.phase = ""
        self.found: dict[tuple[str, str, str], dict[str, Any]] = {}

    def watch(self, service: Service[Any]) -> None:
        """Time the calls of a service, and those of its global view."""
        for name in CALLS:
            setattr(service, name, self._timed(service.name, name, getattr(service, name)))
        made = service.new_globals

        def new_globals() -> GlobalView | None:
            view = made()
            if view is not None:
                view.apply = self._timed(service.name, "view", view.apply)  # type: ignore[method-assign]  # timed
            return view

        service.new_globals = new_globals  # type: ignore[method-assign]  # timed

    def calls(self) -> list[dict[str, Any]]:
        """The longest calls, the longest first."""
        return sorted(self.found.values(), key=lambda one: -one["ms"])

    def _timed(self, service: str, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **options: Any) -> Any:
            began = time.process_time()
            result = None
            try:
                result = call(*args, **options)
            finally:
                took = (time.process_time() - began) * 1000
                known = self.found.get((service, name, self.phase))
                if known is None or took > known["ms"]:
                    given = args[1] if name in {"process", "catch_up"} else ()
                    self.found[service, name, self.phase] = {
                        "service": service,
                        "call": name,
                        "ms": round(took, 1),
                        "phase": self.phase,
                        "records": len(given),
                        "written": len(result) if isinstance(result, Sized) else 0,
                    }
            return result

        return timed


def declare(stack: MemoryStack, event: ResourceDeclared) -> None:
    """Declare a resource."""
    stack.produce(RESOURCES, event.key, event, partition_key=resource_partition_key(event.key))


def resource(api: str, kind: str, name: str, namespace: str = "", **parts: Any) -> ResourceDeclared:
    """A resource."""
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{kind}-{name}"} | parts.pop("metadata", {})
    return ResourceDeclared(
        object={"apiVersion": api, "kind": kind, "metadata": metadata, **parts}, version=parts.pop("version", 1)
    )


def template(name: str, **spec: Any) -> dict[str, Any]:
    """The spec of a controller."""
    return {
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": SMALL | spec},
    }


def report(stack: MemoryStack, number: int, status: ConditionStatus) -> None:
    """Report whether a node is ready."""
    target = TargetRef(kind=TargetKind.NODE, name=f"n{number:05}")
    event = ConditionReported(target=target, type="Ready", status=status, observed_time=stack.now)
    stack.produce(CONDITION_REPORTS, target.key, event, source="kubelet")


def phases(stack: MemoryStack, options: argparse.Namespace) -> Iterator[str]:
    """What happens in the fleet: each phase by its name, before it is run."""
    pools = max(1, options.nodes // options.pool)
    for number in range(options.nodes):
        labels = {"topology.kubernetes.io/zone": f"z{number % 10}", "pool": f"p{number % pools}"}
        name, amounts = f"n{number:05}", {"cpu": "64", "memory": "256Gi", "pods": "250"}
        declare(stack, resource("v1", "Node", name, metadata={"labels": labels}, status={"allocatable": amounts}))
        report(stack, number, ConditionStatus.TRUE)
    yield "nodes"
    for number in range(options.daemons):
        spec = template(f"agent-{number}", nodeSelector={"pool": f"p{number % pools}"})
        declare(stack, resource("apps/v1", "DaemonSet", f"agent-{number}", "system", spec=spec))
    yield "DaemonSets"
    for number in range(options.resources):
        spec = {"replicas": 1, **template(f"app-{number}")}
        declare(stack, resource("apps/v1", "Deployment", f"app-{number}", f"team-{number % 50}", spec=spec))
    yield "Deployments"
    spec = {"replicas": options.replicas, **template("large")}
    declare(stack, resource("apps/v1", "Deployment", "large", "large", spec=spec))
    yield "one Deployment"
    report(stack, 1, ConditionStatus.FALSE)
    yield "one node is not ready"
    for number in range(0, options.nodes, 10):
        report(stack, number, ConditionStatus.FALSE)
    yield "a zone is not ready"


def fleet(longest: Longest, options: argparse.Namespace) -> None:
    """Run all services through the phases."""
    settings = Settings(partitions=PARTITIONS, node_monitor_grace_period=86_400)
    services = run.services(settings)
    for service in services:
        longest.watch(service)
    stack = MemoryStack(services, partitions=PARTITIONS, start=START)
    began = time.perf_counter()
    for phase in phases(stack, options):
        longest.phase = phase
        stack.run()
        harness.note(f"{phase}: {time.perf_counter() - began:.0f} s")
    longest.phase = "evictions"
    stack.advance(timedelta(minutes=6))
    harness.note(f"evictions: {time.perf_counter() - began:.0f} s")
    longest.phase = "reconcile"
    for service in services:
        for partition in range(PARTITIONS):
            state = stack.state(service.name, partition)
            service.reconcile(state, stack.now)
            for _ in range(10_000):
                if not service.is_reconciling(state):
                    break
                service.reconcile(state, stack.now)
    harness.note(f"reconcile: {time.perf_counter() - began:.0f} s")


def asked(number: int, due: datetime) -> tuple[WorkloadBound, EvictionAsked]:
    """A bound pod, and the request for its eviction."""
    namespace = f"team-{number % 50}"
    pod = WorkloadRef(kind="Pod", namespace=namespace, name=f"p{number}")
    owner = WorkloadRef(kind="Deployment", namespace=namespace, name=f"d{number // 10}")
    target = TargetRef(kind=TargetKind.NODE, name=f"n{number % 500}")
    labels = {"app": f"d{number // 10}"}
    parts: dict[str, Any] = {"workload": pod, "owner": owner, "target": target, "generation": 1, "labels": labels}
    return (
        WorkloadBound(uid=f"uid-{number}", bound_time=START, **parts),
        EvictionAsked(workload_uid=f"uid-{number}", revision=1, zone="r/z", due_time=due, **parts),
    )


def requests(longest: Longest, options: argparse.Namespace) -> None:
    """Run the governor alone, with many requests that guards hold."""
    service = governor.service(Settings(partitions=1))
    longest.watch(service)
    stack = MemoryStack([service], partitions=1, start=START)

    def guard(kind: str, name: str, version: int, namespace: str = "", **spec: Any) -> None:
        api = "policy/v1" if kind == "PodDisruptionBudget" else "moorage.io/v1alpha1"
        event = resource(api, kind, name, namespace, spec=spec)
        declare(stack, event.model_copy(update={"version": version}))

    def settle(phase: str) -> None:
        longest.phase = phase
        stack.run()
        stack.advance(2)

    guard("EvictionPause", "everything", 1, reason="held")
    for number in range(options.requests):
        bound, request = asked(number, START + timedelta(microseconds=number))
        place = binding_key(bound.workload, bound.target)
        stack.produce(BINDINGS, place, bound, partition_key=bound.target.key)
        key = eviction_key(request.workload, request.target, request.generation)
        stack.produce(EVICTION_ASKS, key, request, partition_key=FLEET)
    settle("requests are held by a pause")
    guard("EvictionBudget", "few", 1, maxConcurrent=5)
    settle("an EvictionBudget comes")
    guard("EvictionPause", "other", 1, scope={"namespaces": ["team-1"]}, reason="also held")
    settle("another pause comes")
    for number in range(50):
        guard("PodDisruptionBudget", "all", 1, f"team-{number}", selector={}, maxUnavailable=1)
    settle("PodDisruptionBudgets come")
    declare_gone(stack, "EvictionPause//everything")
    settle("the pause goes")
    declare_gone(stack, "EvictionBudget//few")
    settle("the EvictionBudget goes")
    harness.note("requests done")


def declare_gone(stack: MemoryStack, key: str) -> None:
    """Delete a resource."""
    gone: Model | None = None
    stack.produce(RESOURCES, key, gone, partition_key=resource_partition_key(key))


async def main() -> dict[str, Any]:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--daemons", type=int, default=100, help="number of DaemonSets")
    parser.add_argument("--pool", type=int, default=100, help="number of nodes for which each DaemonSet has pods")
    parser.add_argument("--resources", type=int, default=10_000, help="number of Deployments with one replica")
    parser.add_argument("--replicas", type=int, default=10_000, help="number of replicas of one more Deployment")
    parser.add_argument("--requests", type=int, default=10_000, help="number of requests that wait in the governor")
    parser.add_argument("--limit", type=float, default=100, help="milliseconds that a call should not exceed")
    parser.add_argument("--only", choices=["fleet", "requests"], help="run one part alone")
    options = parser.parse_args()
    gc.disable()
    longest = Longest()
    if options.only != "requests":
        fleet(longest, options)
    alone = Longest()
    if options.only != "fleet":
        requests(alone, options)
    found, asked_for = longest.calls(), alone.calls()
    for one in (*found, *asked_for):
        if one["ms"] >= options.limit / 10:
            harness.note(f"{one['service']:18} {one['call']:10} {one['ms']:8.1f} ms  {one['phase']}")
    return {
        "bench": "steps",
        "what": "the longest call of each service, milliseconds of processor time",
        "nodes": options.nodes,
        "daemons": options.daemons,
        "resources": options.resources,
        "replicas": options.replicas,
        "requests": options.requests,
        "longest_ms": max(one["ms"] for one in (*found, *asked_for)),
        "over": [one for one in (*found, *asked_for) if one["ms"] > options.limit],
        "longest": found[:20],
        "requests_longest": asked_for[:10],
    }


if __name__ == "__main__":
    harness.run(main)
