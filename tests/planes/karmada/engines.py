"""What may decide on Karmada's clusters and bindings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from tests.planes.bridges import Bridge
from tests.planes.plane import Plane
from tests.support.live import running

_PART: Final = "karmada"
_MANAGER: Final = "karmada-controller-manager"
_SCHEDULER: Final = "karmada-scheduler"

NO_WORKLOADS: Final = (
    "--controllers=namespace-controller,garbage-collector-controller,serviceaccount-controller,"
    "serviceaccount-token-controller,clusterrole-aggregation-controller"
)
"""Members run the workloads, and the control plane only holds them."""

_FLAGS: Final = "--cluster-monitor-grace-period=24h --resource-eviction-rate=5"  # nobody renews leases of clusters

GATES: Final = {
    "feature_gates": "Failover=true",
    "allow_no_execute_taint_policy": True,
    "enable_no_execute_taint_eviction": True,
    "resource_eviction_rate": 5.0,
}
BRIDGE: Final = ("karmada", "--scheduler-name", "default-scheduler", "--cluster-monitor-grace-period", "86400")


class Upstream:
    """Karmada's own controllers and scheduler."""

    name = "upstream"
    decides = True
    patience = 60.0

    @asynccontextmanager
    async def deciding(self, plane: Plane) -> AsyncIterator[None]:
        """See `Engine`."""
        await plane.up(_PART, flags={"KCM_FLAGS": NO_WORKLOADS, "KARMADA_FLAGS": _FLAGS})
        try:
            yield
        finally:
            await plane.down(_MANAGER, _SCHEDULER)


class Nobody:
    """No engine: bindings are made and carried out, but nobody places them, taints clusters or evicts."""

    name = "nobody"
    decides = False
    patience = 10.0

    @asynccontextmanager
    async def deciding(self, plane: Plane) -> AsyncIterator[None]:
        """See `Engine`."""
        async with _undecided(plane):
            yield


class Moorage:
    """Moorage, with a bridge to the control plane, whose own scheduler and evictions are off.

    Args:
        bootstrap: the address of a Kafka.
        prefix: of its topics.
        folder: for logs and state.
    """

    name = "moorage"
    decides = True
    patience = 60.0

    def __init__(self, bootstrap: str, prefix: str, folder: Path) -> None:
        self._bootstrap, self._prefix, self._folder = bootstrap, prefix, folder

    @asynccontextmanager
    async def deciding(self, plane: Plane) -> AsyncIterator[None]:
        """See `Engine`."""
        async with _undecided(plane), running(self._bootstrap, self._prefix, self._folder, **GATES) as live:
            bridge = Bridge(plane, live, self._folder, BRIDGE)
            try:
                await bridge.start()
                yield
                bridge.must_run()
            finally:
                await bridge.stop()


@asynccontextmanager
async def _undecided(plane: Plane) -> AsyncIterator[None]:
    """Karmada without those that place bindings, taint clusters and evict."""
    flags = f"{_FLAGS} --feature-gates=Failover=false --controllers=*,-gracefulEviction"
    await plane.up(_PART, flags={"KCM_FLAGS": NO_WORKLOADS, "KARMADA_FLAGS": flags})
    await plane.down(_SCHEDULER)
    try:
        yield
    finally:
        await plane.down(_MANAGER)
