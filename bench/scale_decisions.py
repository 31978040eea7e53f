"""The processor time of decisions, for `bench/scale.py`: all services in memory, on a virtual clock, without bytes."""

from __future__ import annotations

import gc
import itertools
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

from bench import harness, ocm_objects, scale_fleet, simulate

from moorage.runtime import codec
from moorage.runtime.service import Service
from moorage.simulation.copy.stack import MemoryStack
from moorage_schemas.condition import ConditionReported, ConditionStatus
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.topics import BINDINGS, CONDITION_REPORTS, CONDITIONS, EVICTIONS, RESOURCES, TAINTS, TIMER_FIRED

NODES: Final = 500
"""The number of nodes of the smaller fleet, N. The larger one has four times as many."""

PODS_A_NODE: Final = 4
ZONES: Final = 10
LOST: Final = 20
CLUSTERS: Final = 1000
OCM_PLACEMENTS: Final = 200
_DECIDING: Final = ("process", "catch_up", "wake", "reconcile", "needs", "refreshed")


class DecisionClock:
    """Measures the processor time that services take to decide, and counts what they write."""

    def __init__(self, services: dict[str, Service[Any]]) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.written: Counter[str] = Counter()
        self._inside = False
        for service in services.values():
            for name in _DECIDING:
                setattr(service, name, self._timed(service.name, getattr(service, name)))

    def _timed(self, service: str, decide: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            if self._inside:  # `catch_up` calls `process`
                return decide(*arguments, **named)
            self._inside = True
            began = time.process_time()
            try:
                found = decide(*arguments, **named)
            finally:
                self.seconds[service] += time.process_time() - began
                self._inside = False
            if isinstance(found, list):
                self.written.update(emit.topic.short for emit in found if emit.event is not None)
            return found

        return timed

    @contextmanager
    def phase(self) -> Iterator[None]:
        """Count from zero."""
        self.seconds.clear()
        self.written.clear()
        gc.collect()
        yield


def _report(stack: MemoryStack, number: int, kind: str, status: ConditionStatus) -> None:
    target = TargetRef(kind=TargetKind.NODE, name=f"n{number:05}")
    event = ConditionReported(target=target, type=kind, status=status, observed_time=stack.now)
    stack.produce(CONDITION_REPORTS, target.key, event, source="kubelet")


def fleet(nodes: int) -> dict[str, float]:
    """The microseconds of each decision in a fleet of nodes."""
    stack = simulate.build(nodes, nodes * PODS_A_NODE, ZONES)
    clock = DecisionClock(stack.services)
    found = {}
    with clock.phase():
        for number in range(nodes):
            _report(stack, number, "Ready", ConditionStatus.TRUE)
        stack.run()
    found["heartbeat that changes nothing, condition-ingest"] = clock.seconds["condition-ingest"] / nodes
    with clock.phase():
        for number in range(nodes):
            for kind in scale_fleet.KUBELET[1:]:
                _report(stack, number, kind, ConditionStatus.FALSE)
        stack.run()
    changed = clock.written[CONDITIONS.short]
    found["report that changes a condition, condition-ingest"] = clock.seconds["condition-ingest"] / changed
    found["condition that changes, taint-manager"] = clock.seconds["taint-manager"] / changed
    with clock.phase():
        pods = nodes * PODS_A_NODE // 10
        for number in range(pods // 100):
            simulate.deploy(stack, f"more{number:04}", 100)
        stack.run()
    found["pod placed, placement"] = clock.seconds["placement"] / clock.written[BINDINGS.short]
    with clock.phase():
        for number in range(LOST):
            _report(stack, number * (nodes // LOST), "Ready", ConditionStatus.UNKNOWN)
        stack.advance(timedelta(seconds=120))
    found["set of taints, taint-manager"] = clock.seconds["taint-manager"] / clock.written[TAINTS.short]
    found["eviction scheduled, eviction"] = clock.seconds["eviction"] / clock.written[EVICTIONS.short]
    with clock.phase():
        stack.advance(timedelta(seconds=320))
    found["timer fired, timer"] = clock.seconds["timer"] / clock.written[TIMER_FIRED.short]
    found["eviction requested, eviction"] = clock.seconds["eviction"] / clock.written[EVICTIONS.short]
    found["evicted pod placed again, placement"] = clock.seconds["placement"] / clock.written[BINDINGS.short]
    return {name: round(seconds * 1e6, 1) for name, seconds in found.items()}


def ocm(clusters: int) -> dict[str, float]:
    """The microseconds of each OCM placement among managed clusters, encoding included."""
    process = ocm_objects.Process()
    for topic, key, event in (*ocm_objects.bindings(100), *ocm_objects.clusters(clusters, 20)):
        process.fold(topic, event.key if topic is RESOURCES else key, event)  # type: ignore[attr-defined]  # declared
    events = [next(scale_fleet.ocm_placement(number)).event for number in range(OCM_PLACEMENTS)]
    began = time.process_time()
    emits = list(itertools.chain.from_iterable(process.declare(event) for event in events))  # type: ignore[arg-type]  # declared
    emits += process.settle()
    took = time.process_time() - began
    if not emits:
        raise RuntimeError("no placement was decided")
    return {"OCM placement, placement": round(took / OCM_PLACEMENTS * 1e6, 1)}


def records() -> dict[str, float]:
    """The microseconds to read a record of each unit as aiokafka and the codec do, and to write it, without sockets."""
    units = list(itertools.chain.from_iterable(map(scale_fleet.workload, range(2000))))
    bindings = [record for record in units if record.topic is BINDINGS]
    began = time.process_time()
    payloads = [
        scale_fleet.batch(bindings[at : at + scale_fleet.BATCH], at)
        for at in range(0, len(bindings), scale_fleet.BATCH)
    ]
    write = time.process_time() - began
    began = time.process_time()
    for payload in payloads:
        for record in scale_fleet.consumed(BINDINGS, payload):
            codec.decode(BINDINGS, record)
    read = time.process_time() - began
    return {"read_us": round(read / len(bindings) * 1e6, 1), "write_us": round(write / len(bindings) * 1e6, 1)}


def measure() -> dict[str, Any]:
    """All decisions, in a small and in a large fleet."""
    small, large = fleet(NODES), fleet(4 * NODES)
    few, many = ocm(CLUSTERS), ocm(4 * CLUSTERS)
    both = {**{name: (small[name], large[name]) for name in small}, **{name: (few[name], many[name]) for name in few}}
    return {
        "nodes": [NODES, 4 * NODES],
        "clusters": [CLUSTERS, 4 * CLUSTERS],
        "us": {name: list(pair) for name, pair in both.items()},
        **records(),
    }


def note(found: dict[str, Any]) -> None:
    """Show the result."""
    for name, (small, large) in found["us"].items():
        harness.note(f"{name:52} {small:9.1f} µs {large:9.1f} µs")
    sys.stderr.flush()
