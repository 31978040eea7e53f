"""What may decide on OCM's Placements."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from tests.planes.plane import Plane

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
