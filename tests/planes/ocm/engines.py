"""What may decide on OCM's Placements."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from tests.planes.bridges import Bridge
from tests.planes.plane import Plane
from tests.support.live import running

PART: Final = "ocm"
_CONTROLLER: Final = "ocm-placement"


class Upstream:
    """OCM's own placement controller."""

    name = "upstream"
    decides = True
    patience = 60.0

    @asynccontextmanager
    async def deciding(self, plane: Plane) -> AsyncIterator[None]:
        """See `Engine`."""
        await plane.up(PART)
        try:
            yield
        finally:
            await plane.down(_CONTROLLER)


class Nobody:
    """No engine: the kinds are served, and nobody decides on them."""

    name = "nobody"
    decides = False
    patience = 10.0

    @asynccontextmanager
    async def deciding(self, plane: Plane) -> AsyncIterator[None]:
        """See `Engine`."""
        await plane.up(PART)
        await plane.down(_CONTROLLER)
        yield


class Moorage:
    """Moorage, with a bridge to the hub, whose own placement controller is off.

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
        async with Nobody().deciding(plane), running(self._bootstrap, self._prefix, self._folder) as live:
            bridge = Bridge(plane, live, self._folder, ("ocm",))
            try:
                await bridge.start()
                yield
                bridge.must_run()
            finally:
                await bridge.stop()
