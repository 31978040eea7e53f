"""The mirrored clusters among which one can choose, as the API lists them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from moorage.console import api
from moorage.console.api import ApiClient
from moorage_schemas.refs import HOME

_FRESH: Final = 5.0
"""Seconds for which a list of clusters counts. Only the gateway that leads has it, and another one asks that one."""

_PATIENCE: Final = 1.0
"""Seconds for which a page waits for the list. Then it shows those that were known before."""


class ClusterChoice:
    """The names of mirrored clusters.

    Args:
        client: the API of the home fleet, as the console itself calls it.
    """

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._names: Sequence[str] = ()
        self._read_at: float | None = None
        self._reading: asyncio.Task[None] | None = None

    async def names(self) -> Sequence[str]:
        """Return the names of the clusters, as they were a few seconds ago at the latest, if the API answers."""
        now = asyncio.get_running_loop().time()
        if self._read_at is None or now - self._read_at > _FRESH:
            if self._reading is None or self._reading.done():
                self._reading = asyncio.create_task(self._read(), name="console-clusters")
            await asyncio.wait({self._reading}, timeout=_PATIENCE)
        return self._names

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """What is being read."""
        return [self._reading] if self._reading is not None else []

    async def _read(self) -> None:
        answer = await self._client.call("GET", api.CLUSTERS)
        self._read_at = asyncio.get_running_loop().time()
        if not answer.failed:
            found = {str(one["name"]) for one in answer.document.get("items") or ()}
            self._names = sorted(found - {HOME})
