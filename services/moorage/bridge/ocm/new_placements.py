"""Placements that are new on the hub, while the topics do not know its newest clusters yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

_LOOK: Final = 0.05  # seconds between two questions whether a cluster is known
_PATIENCE: Final = 3.0  # seconds after which a placement is not held any more


class _Held(NamedTuple):
    """The clusters that a placement waits for, and until when."""

    clusters: frozenset[str]
    until: float


class NewPlacements:
    """Holds new placements until the topics know the clusters that were on the hub before them.

    A cluster that is just mirrored counts as unreachable until its condition is reported. A placement that was decided
    then would choose others, and keep them.

    Args:
        is_known: returns whether the topics know a cluster.
        release: called with the key of a placement that is not held any more.
    """

    def __init__(self, is_known: Callable[[str], bool], release: Callable[[str], None]) -> None:
        self._is_known = is_known
        self._release = release
        self._fresh: set[str] = set()
        """Clusters that have changed since they were known. None for which a placement has waited in vain."""

        self._held: dict[str, _Held] = {}
        self._begins = asyncio.Event()

    def cluster_changed(self, name: str) -> None:
        """Note that a cluster is new or different."""
        self._fresh.add(name)

    def holds(self, key: str) -> bool:
        """Return whether a placement is held now."""
        return key in self._held

    def hold(self, key: str) -> bool:
        """Hold a new placement if there is something to wait for. Return whether it is held."""
        self._fresh = {name for name in self._fresh if not self._is_known(name)}
        if self._fresh and key not in self._held:
            self._held[key] = _Held(frozenset(self._fresh), asyncio.get_running_loop().time() + _PATIENCE)
            self._begins.set()
        return key in self._held

    async def run(self) -> None:
        """Release placements until cancelled."""
        while True:
            await self._begins.wait()
            self._begins.clear()
            while self._held:
                now = asyncio.get_running_loop().time()
                for key, held in list(self._held.items()):
                    unknown = {name for name in held.clusters if not self._is_known(name)}
                    if not unknown or now >= held.until:
                        self._fresh -= unknown
                        del self._held[key]
                        self._release(key)
                await asyncio.sleep(_LOOK)
