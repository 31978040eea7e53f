"""Upstream's test/integration/scheduler/taint/taint_test.go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tests.planes.cluster import Document
from tests.planes.kubernetes.world import World, tolerated
from tests.planes.scenarios import Suite

SUITE: Final = Suite[World]("TestTaintNodeByCondition")

_SIZE: Final = {"cpu": "100m", "memory": "100Mi"}
_CLASSES: Final[Mapping[str, Document]] = {
    "besteffort": {},
    "burstable": {"requests": _SIZE},
    "guarantee": {"requests": _SIZE, "limits": _SIZE},
}
"""What pods of each quality of service ask for."""


def _taint(name: str) -> str:
    return f"node.kubernetes.io/{name}"


@dataclass(frozen=True)
class _Pod:
    quality: str
    fits: bool
    tolerates: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Table:
    conditions: tuple[tuple[str, str], ...]
    taints: tuple[str, ...]
    pods: tuple[_Pod, ...] = ()
    unschedulable: bool = False


_NONE: Final = tuple(_Pod(quality, fits=False) for quality in _CLASSES)
_READY: Final = ("Ready", "True")

_TABLE: Final = {
    "not-ready node": _Table(
        (("Ready", "False"),), ("not-ready",), (*_NONE, _Pod("besteffort", fits=True, tolerates=("not-ready",)))
    ),
    "unschedulable node": _Table(
        (_READY,),
        ("unschedulable",),
        (*_NONE, _Pod("besteffort", fits=True, tolerates=("unschedulable",))),
        unschedulable=True,
    ),
    "memory pressure node": _Table(
        (("MemoryPressure", "True"), _READY),
        ("memory-pressure",),
        (
            _Pod("besteffort", fits=False),
            _Pod("besteffort", fits=True, tolerates=("memory-pressure",)),
            _Pod("besteffort", fits=False, tolerates=("disk-pressure",)),
            _Pod("burstable", fits=True),
            _Pod("guarantee", fits=True),
        ),
    ),
    "disk pressure node": _Table(
        (("DiskPressure", "True"), _READY),
        ("disk-pressure",),
        (
            *_NONE,
            _Pod("besteffort", fits=True, tolerates=("disk-pressure",)),
            _Pod("besteffort", fits=False, tolerates=("memory-pressure",)),
        ),
    ),
    "network unavailable and node is ready": _Table(
        (("NetworkUnavailable", "True"), _READY),
        ("network-unavailable",),
        (*_NONE, _Pod("burstable", fits=True, tolerates=("network-unavailable",))),
    ),
    "network unavailable and node is not ready": _Table(
        (("NetworkUnavailable", "True"), ("Ready", "False")),
        ("network-unavailable", "not-ready"),
        (
            *_NONE,
            _Pod("burstable", fits=False, tolerates=("network-unavailable",)),
            _Pod("burstable", fits=True, tolerates=("network-unavailable", "not-ready")),
        ),
    ),
    "pid pressure node": _Table(
        (("PIDPressure", "True"), _READY),
        ("pid-pressure",),
        (*_NONE, _Pod("besteffort", fits=True, tolerates=("pid-pressure",))),
    ),
    "multi taints on node": _Table(
        (("PIDPressure", "True"), ("MemoryPressure", "True"), ("DiskPressure", "True"), _READY),
        ("disk-pressure", "memory-pressure", "pid-pressure"),
    ),
}


def _add(name: str, row: _Table) -> None:
    async def run(world: World) -> None:
        node = await world.new_node(unschedulable=row.unschedulable)
        # The API server gives every new node the taint not-ready, and the engine takes it off one that is ready.
        await world.tainted(node, *((_taint("unschedulable"), "NoSchedule") for _ in range(row.unschedulable)))
        for type_, status in row.conditions:
            await world.condition(node, type_, status)
        for taint in row.taints:
            await world.has_taint(node, _taint(taint), "NoSchedule")
        if _READY in row.conditions:
            await world.tainted(node, *((_taint(taint), "NoSchedule") for taint in row.taints))
        for number, pod in enumerate(row.pods):
            full = f"{pod.quality}-pod-{number}"
            tolerations = [tolerated(_taint(key), effect="NoSchedule") for key in pod.tolerates]
            given = _CLASSES[pod.quality]
            await world.start_pod(full, scheduler=world.engine.scheduler, tolerations=tolerations, **given)
        for number, pod in enumerate(row.pods):
            full = f"{pod.quality}-pod-{number}"
            if pod.fits:
                assert await world.bound(full) == node
            else:
                await world.unschedulable(full)
                found = world.pod(full)
                assert found is not None
                assert "nodeName" not in found["spec"]

    SUITE.add(name, run)


for _name, _row in _TABLE.items():
    _add(_name, _row)
