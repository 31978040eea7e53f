"""What was decided for resources that are not there, as far as is known after a restore."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

PATIENCE: Final = timedelta(seconds=60)
"""For so long after a restore, or after the last record that is older than it, decisions for nobody stay.

A restored table lacks what was compacted away: of a resource that was changed while nobody was there, the record that
was decided on is gone, and the next one is yet to be read. To end what it has meanwhile would be wrong.
"""


@dataclass(slots=True, eq=False)
class Strays:
    """Keys of resources for which there are decisions, and which nothing that was read since the restore names."""

    _keys: dict[str, None] = field(default_factory=dict)
    _since: datetime | None = None
    _end: datetime | None = None
    _heard: set[str] = field(default_factory=set)
    """Keys of what was read before `begin`: if they are not there now, they are gone."""

    def begin(self, keys: Iterable[str], now: datetime) -> None:
        """Everything is looked at first: these are not there."""
        self._keys, self._since = dict.fromkeys(key for key in keys if key not in self._heard), now
        self._heard.clear()
        self._end = now + PATIENCE if self._keys else None

    def read(self, key: str, time: datetime | None, now: datetime) -> None:
        """A resource's record of that time has come, or its tombstone: what it says counts from now on."""
        if self._since is None:
            self._heard.add(key)
        if self._end is None:
            return
        self._keys.pop(key, None)
        if not self._keys:
            self._end = None
        elif time is not None and self._since is not None and time <= self._since:
            self._end = now + PATIENCE

    def over(self, now: datetime) -> list[str]:
        """Those whose time is over: they are gone. Each is told once, sorted."""
        if self._end is None or self._end > now:
            return []
        keys, self._keys, self._end = sorted(self._keys), {}, None
        return keys

    def next_end(self) -> datetime | None:
        """When their time is over; None when there are none."""
        return self._end

    def __contains__(self, key: object) -> bool:
        return key in self._keys
