"""What may decide for a control plane: upstream's controllers, Moorage, or nobody."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Protocol

from tests.planes.plane import Plane

_MANAGER: Final = "kube-controller-manager"
_MONITORING: Final = "--node-monitor-period=1s --node-monitor-grace-period=12s"
_KUBELETS: Final = {"KWOK_FLAGS": "--node-lease-duration-seconds=8"}  # renewed every 2 s
_ADMISSION: Final = {"APISERVER_FLAGS": "--enable-admission-plugins=PodTolerationRestriction"}  # as upstream's tests
_OFF: Final = "--controllers=*,-taint-eviction-controller,-node-lifecycle-controller"


class Engine(Protocol):
    """Decides for a control plane."""

    name: str

    scheduler: str
    """The `schedulerName` of pods that it places."""

    patience: float
    """Seconds within which it does what it is to do at once."""

    def deciding(self, plane: Plane) -> AbstractAsyncContextManager[None]:
        """It decides for a plane, whose controllers of the same things are off."""


class Upstream:
    """Kubernetes' own controllers."""

    name = "upstream"
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
    scheduler = "moorage"
    patience = 10.0

    @asynccontextmanager
    async def deciding(self, plane: Plane) -> AsyncIterator[None]:
        """See `Engine`."""
        async with controllers(plane, {"KCM_FLAGS": _OFF}):
            yield


@asynccontextmanager
async def controllers(plane: Plane, flags: Mapping[str, str]) -> AsyncIterator[None]:
    """Kubernetes' controllers with these flags. Everything else of the plane stays as it is."""
    await plane.up(flags={**_KUBELETS, **_ADMISSION, **flags})
    try:
        yield
    finally:
        await plane.down(_MANAGER)


def name(engine: Engine) -> str:
    """The name of an engine in the names of tests."""
    return engine.name
