"""What may decide on Karmada's clusters and bindings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from tests.planes.plane import Plane

_PART: Final = "karmada"
_MANAGER: Final = "karmada-controller-manager"
_SCHEDULER: Final = "karmada-scheduler"

_NO_WORKLOADS: Final = (
    "--controllers=namespace-controller,garbage-collector-controller,serviceaccount-controller,"
    "serviceaccount-token-controller,clusterrole-aggregation-controller"
)
"""Members run the workloads, and the control plane only holds them."""

_FLAGS: Final = "--cluster-monitor-grace-period=24h --resource-eviction-rate=5"  # nobody renews leases of clusters


class Upstream:
    """Karmada's own controllers and scheduler."""

    name = "upstream"
    decides = True
    patience = 60.0

    @asynccontextmanager
    async def deciding(self, plane: Plane) -> AsyncIterator[None]:
        """See `Engine`."""
        await plane.up(_PART, flags={"KCM_FLAGS": _NO_WORKLOADS, "KARMADA_FLAGS": _FLAGS})
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
        flags = f"{_FLAGS} --feature-gates=Failover=false --controllers=*,-gracefulEviction"
        await plane.up(_PART, flags={"KCM_FLAGS": _NO_WORKLOADS, "KARMADA_FLAGS": flags})
        await plane.down(_SCHEDULER)
        try:
            yield
        finally:
            await plane.down(_MANAGER)
