"""Placements that are new on the hub, while the topics do not know what has just changed before them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from moorage.bridges.engine.mirror import MirroredState

_PATIENCE: Final = 10.0
"""Seconds after which nobody waits for an object any more. Many that are made at once take some seconds; one that the
gateway refuses is never known."""


class HubContent(NamedTuple):
    """What decisions rest on, of an object of the hub."""

    state: MirroredState
    available: str = ""
    """The status of a cluster's condition that says whether it is available. It is reported, and not mirrored."""


class NewPlacements:
    """Holds new placements until the topics know what has changed on the hub before them.

    A cluster that is just mirrored counts as unreachable until its condition is reported. A placement that was decided
    then would choose others, and keep them.

    Args:
        is_known: returns whether the topics know an object, by its key and its content. That is None if it is gone.
        release: called with the key of a placement that is not held any more.
    """

    def __init__(self, is_known: Callable[[str, HubContent | None], bool], release: Callable[[str], None]) -> None:
        self._is_known = is_known
        self._release = release
        self._contents: dict[str, HubContent] = {}
        self._fresh: dict[str, asyncio.TimerHandle] = {}
        """Objects that have changed and are not known yet, and what ends the waiting for each."""

        self._held: dict[str, set[str]] = {}
        """The objects that each placement waits for."""

    def changed(self, key: str, content: HubContent | None) -> None:
        """Note the content of an object. None if it is gone."""
        if content == self._contents.get(key):
            return
        if content is None:
            del self._contents[key]
        else:
            self._contents[key] = content
        if (end := self._fresh.pop(key, None)) is not None:
            end.cancel()
        self._fresh[key] = asyncio.get_running_loop().call_later(_PATIENCE, self._settled, key)

    def look(self, key: str) -> None:
        """Let placements go on that have waited for an object, if it is known now."""
        if key in self._fresh and self._is_known(key, self._contents.get(key)):
            self._settled(key)

    def holds(self, key: str) -> bool:
        """Return whether a placement is held now."""
        return key in self._held

    def hold(self, key: str) -> bool:
        """Hold a new placement if there is something to wait for. Return whether it is held."""
        for one in list(self._fresh):
            self.look(one)
        if self._fresh and key not in self._held:
            self._held[key] = set(self._fresh)
        return key in self._held

    def _settled(self, key: str) -> None:
        """Wait no longer for an object."""
        self._fresh.pop(key).cancel()
        for placement, waits_for in list(self._held.items()):
            waits_for.discard(key)
            if not waits_for:
                del self._held[placement]
                self._release(placement)
