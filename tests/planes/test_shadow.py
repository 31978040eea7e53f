"""Shadow mode beside Kubernetes' own controllers: what Moorage would have done otherwise has a named reason."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio
from tests.conftest import RUN
from tests.planes.bridges import Bridge
from tests.planes.cluster import connected
from tests.planes.kubernetes.engines import controllers
from tests.planes.plane import Plane, started
from tests.planes.shadow import doctored
from tests.planes.shadow.comparison import Comparer, Comparison
from tests.planes.shadow.driver import Driver, Plan
from tests.planes.shadow.history import Histories
from tests.planes.shadow.reasons import Difference
from tests.planes.shadow.recording import ClusterRecord, DecidedRecord, recording
from tests.planes.shadow.usage import Usage, used
from tests.support.brokers import Broker
from tests.support.commands import moorage
from tests.support.live import Live, running
from tests.support.waiting import until

NODES: Final = int(os.environ.get("MOORAGE_SHADOW_NODES", "20"))
PODS: Final = int(os.environ.get("MOORAGE_SHADOW_PODS", "100"))
SECONDS: Final = float(os.environ.get("MOORAGE_SHADOW_SECONDS", "60"))
SEED: Final = os.environ.get("MOORAGE_SEED", RUN)
GRACE: Final = float(os.environ.get("MOORAGE_SHADOW_GRACE", "12"))
"""Seconds without a renewal after which a node is Unknown, on both sides."""

BOUND: Final = dt.timedelta(seconds=float(os.environ.get("MOORAGE_SHADOW_BOUND", "10")))
"""Within which both sides have to do the same. They share a machine with the cluster and with other tests."""

PACE: Final = float(os.environ.get("MOORAGE_SHADOW_PACE", "1"))
"""Seconds from one thing that happens to the next. A cluster of 500 nodes on two cores needs 2 to have any rest."""

REPORT: Final = os.environ.get("MOORAGE_SHADOW_REPORT")
"""A file to which the numbers and all differences are written, as JSON lines."""

_PERIOD: Final = GRACE / 12
_LEASE: Final = round(GRACE * 1.2)  # KWOK renews four times in it
_SETTLES: Final = 600.0  # seconds until everything is as at the beginning

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(int(SECONDS) + 1200)]


@dataclass(frozen=True)
class Shadowed:
    """A run, and what it has shown."""

    both: Histories
    found: Comparison
    explained: list[Difference]
    """All differences since the first pod, which were found in any time."""

    shown: list[dict[str, str]]
    """What `moorage diff cluster` shows at the end."""


class Run:
    """A cluster in which things happen, and a Moorage that only watches it."""

    def __init__(self, plane: Plane, live: Live, bridge: Bridge, driver: Driver) -> None:
        self._plane, self._live, self._bridge, self._driver = plane, live, bridge, driver
        self._shown: list[dict[str, str]] = []

    async def differs(self) -> list[dict[str, str]]:
        """What `moorage diff cluster` shows now."""
        self._bridge.must_run()
        words = ("diff", "cluster", "--kubeconfig", str(self._plane.kubeconfig), "-o", "json")
        done = await moorage(*words, env=self._live.env, seconds=120)
        assert done.code in {0, 1}, done.err
        found: list[dict[str, str]] = json.loads(done.out)
        return found

    async def has_settled(self) -> bool:
        """Whether the two sides differ only in where pods are, which does not pass by itself."""
        self._shown = await self.differs()
        return all(one["moorage"] == _ELSEWHERE for one in self._shown)

    def pids(self) -> dict[str, int]:
        """The processes, by name."""
        there = {file.name: self._plane.pid(file.name) for file in (self._plane.folder / "pid").iterdir()}
        return {
            **there,
            "bridge": self._bridge.pid,
            **{f"moorage {name}": pid for name, pid in self._live.pids.items()},
        }


_ELSEWHERE: Final = "would choose another node"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shadowed(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Shadowed:
    """A run with upstream's controllers, and with a Moorage that only watches."""
    plan = Plan(NODES, PODS, SECONDS, SEED, GRACE, BOUND.total_seconds(), PACE)
    record, decided = ClusterRecord(), DecidedRecord()
    async with AsyncExitStack() as stack:
        folder = tmp_path_factory.mktemp("moorage")
        plane = await stack.enter_async_context(started(tmp_path_factory.mktemp("plane")))
        await stack.enter_async_context(controllers(plane, _flags()))
        started_up = running(broker.bootstrap, f"{RUN}-shadow-", folder, node_monitor_period=_PERIOD)
        live = await stack.enter_async_context(started_up)
        cluster = await stack.enter_async_context(connected(plane.folder))
        await stack.enter_async_context(recording(cluster, live, record, decided))
        bridge = Bridge(plane, live, folder, ("kubernetes", "--node-monitor-grace-period", f"{GRACE:g}"), acts="")
        stack.push_async_callback(bridge.stop)
        driver = Driver(cluster, plane, plan)
        stack.push_async_callback(driver.close)
        record.leaves, record.silent = driver.leaves, driver.speaks
        run = Run(plane, live, bridge, driver)
        await bridge.start()
        first = dt.datetime.now(dt.UTC)
        await driver.set_up()
        await until(lambda: driver.is_placed(record.history), _SETTLES, "the pods were not placed")
        await until(run.has_settled, _SETTLES, "the pods of the beginning were not mirrored")
        begin = dt.datetime.now(dt.UTC)
        before = used(run.pids())
        await driver.run()
        after = used(run.pids())
        await until(run.has_settled, _SETTLES, "the two sides differ in more than where pods are")
        shown = await run.differs()
        end = dt.datetime.now(dt.UTC)
    both = Histories(begin, end, record.history, decided.history)
    found = Comparer(both, BOUND).compare()
    explained = Comparer(replace(both, begin=first), BOUND).compare()  # all pods that are there at the end
    _report(found, driver, plan, {name: (before.get(name), one) for name, one in after.items()})
    return Shadowed(both, found, explained.differences, shown)


async def test_every_difference_has_a_reason(shadowed: Shadowed) -> None:
    found = shadowed.found
    assert not found.unexplained, "\n".join(json.dumps(one.document()) for one in found.unexplained[:50])


async def test_everything_has_happened(shadowed: Shadowed) -> None:
    assert set(shadowed.found.compared) == {"taint", "eviction", "placement"}
    agreed = {about: len(lags) for about, lags in shadowed.found.lags.items()}
    assert min(agreed.values()) > 0
    assert set(agreed) == set(shadowed.found.compared)


async def test_what_is_shown_at_the_end_has_a_reason(shadowed: Shadowed) -> None:
    explained = {(one.object, one.moorage) for one in shadowed.explained if one.reason is not None}
    assert [one for one in shadowed.shown if (one["object"], one["why"]) not in explained] == []


@pytest.mark.parametrize("lie", doctored.LIES)
async def test_a_record_that_was_changed_is_found(shadowed: Shadowed, lie: doctored.Lie) -> None:
    told, of = lie(shadowed.both, BOUND)
    assert of not in {one.object for one in shadowed.found.unexplained}
    assert of in {one.object for one in Comparer(told, BOUND).compare().unexplained}


def _flags() -> Mapping[str, str]:
    """Flags of the control plane, whose clients are not limited: what is compared is decisions, not requests."""
    unlimited = "--kube-api-qps=1000 --kube-api-burst=2000"
    monitoring = f"--node-monitor-period={_PERIOD:g}s --node-monitor-grace-period={GRACE:g}s"
    return {
        "KCM_FLAGS": f"{monitoring} {unlimited}",
        "SCHEDULER_FLAGS": unlimited,
        "KWOK_FLAGS": f"--node-lease-duration-seconds={_LEASE}",
    }


def _report(found: Comparison, driver: Driver, plan: Plan, usage: Mapping[str, tuple[Usage | None, Usage]]) -> None:
    if not REPORT:
        return
    behind = {about: _spread(sorted(lags)) for about, lags in found.lags.items()}
    processes = {
        name: {
            "cpu": round((after.cpu_seconds - (before.cpu_seconds if before else 0)) / plan.seconds, 2),
            "most MB": round(after.most_mb),
        }
        for name, (before, after) in usage.items()
    }
    summary: dict[str, Any] = {
        "plan": asdict(plan),
        "load": os.getloadavg(),
        "done": dict(driver.done),
        "compared": dict(found.compared),
        "differences": dict(found.reasons),
        "seconds behind": behind,
        "processes": processes,
    }
    lines = [summary, *(one.document() for one in found.differences)]
    Path(REPORT).write_text("".join(f"{json.dumps(one)}\n" for one in lines), "utf-8")


def _spread(values: list[float]) -> dict[str, float]:
    """Some values of a sorted list."""
    places = {"least": 0.0, "p50": 0.5, "p99": 0.99, "most": 1.0}
    return {name: round(values[int(place * (len(values) - 1))], 3) for name, place in places.items()}
