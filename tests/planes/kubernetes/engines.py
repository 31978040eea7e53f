"""What may decide about nodes and pods."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Protocol

from tests.planes.bridges import Bridge
from tests.planes.engines import Engine
from tests.planes.plane import Plane
from tests.support.live import running

_MANAGER: Final = "kube-controller-manager"
_MONITORING: Final = "--node-monitor-period=1s --node-monitor-grace-period=12s"
_KUBELETS: Final = {"KWOK_FLAGS": "--node-lease-duration-seconds=8"}  # renewed every 2 s
_ADMISSION: Final = {"APISERVER_FLAGS": "--enable-admission-plugins=PodTolerationRestriction"}  # as upstream's tests
SILENT: Final = ("--node-monitor-grace-period", "12")
OFF: Final = "--controllers=*,-taint-eviction-controller,-node-lifecycle-controller"


class KubernetesEngine(Engine, Protocol):
    """Decides about nodes and pods."""

    scheduler: str
    """The `schedulerName` of pods that it places."""


class Upstream:
    """Kubernetes' own controllers."""

    name = "upstream"
    decides = True
    scheduler = "default-scheduler"
    patience = 60.0

    @asynccontextmanager
    async def deciding(self, plane: Plane) -> AsyncIterator[None]:
        """See `Engine`."""
        async with controllers(plane, {"KCM_FLAGS": _MONITORING}):
            yield


class Nobody:
    """No engine, on a plane whose own controllers are off, so that nothing is decided."""

    name = "nobody"
    decides = False
    scheduler = "moorage"
    patience = 10.0

    @asynccontextmanager
    async def deciding(self, plane: Plane) -> AsyncIterator[None]:
        """See `Engine`."""
        async with controllers(plane, {"KCM_FLAGS": OFF}):
            yield


class Moorage:
    """Moorage, with a bridge to the plane, whose own controllers are off.

    Args:
        bootstrap: the address of a Kafka.
        prefix: of its topics.
        folder: for logs and state.
        access: the options that say how the bridge reaches the plane. By default it is an administrator there.
    """

    name = "moorage"
    scheduler = "moorage"
    decides = True
    patience = 60.0

    def __init__(self, bootstrap: str, prefix: str, folder: Path, access: Sequence[str] = ()) -> None:
        self._bootstrap, self._prefix, self._folder, self._access = bootstrap, prefix, folder, access

    @asynccontextmanager
    async def deciding(self, plane: Plane) -> AsyncIterator[None]:
        """See `Engine`."""
        async with self.bridged(plane) as bridge:
            yield
            bridge.must_run()

    @asynccontextmanager
    async def bridged(self, plane: Plane) -> AsyncIterator[Bridge]:
        """The same, with the bridge, which acts already."""
        async with (
            controllers(plane, {"KCM_FLAGS": OFF}),
            running(self._bootstrap, self._prefix, self._folder, node_monitor_period=1.0) as live,
        ):
            bridge = Bridge(plane, live, self._folder, ("kubernetes", *SILENT), self._access)
            try:
                await bridge.start()
                yield bridge
            finally:
                await bridge.stop()


@asynccontextmanager
async def controllers(plane: Plane, flags: Mapping[str, str]) -> AsyncIterator[None]:
    """Kubernetes' controllers with these flags. Everything else of the plane stays as it is."""
    await plane.up(flags={**_KUBELETS, **_ADMISSION, **flags})
    try:
        yield
    finally:
        await plane.down(_MANAGER)
