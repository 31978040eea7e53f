"""Evictions as placement needs them: those that are requested, and the generations that they have used."""

from __future__ import annotations

from dataclasses import dataclass

from moorage.runtime.service import Input
from moorage_schemas.envelope import Meta
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import EvictionKey


@dataclass(frozen=True, slots=True)
class Requested:
    """An eviction that is requested."""

    event: EvictionDecided
    meta: Meta

    @property
    def waits(self) -> bool:
        """Whether the deployer has still to acknowledge it, so that the binding has to stay."""
        return bool(self.event.deployer) and self.event.acknowledged is None


class EvictionTable:
    """The evictions from the targets of one kind."""

    def __init__(self) -> None:
        self._requested: dict[str, dict[str, Requested]] = {}
        self._highest: dict[str, int] = {}
        """The highest generation of the evictions of each workload that has any."""

        self._floor = 0
        """The highest generation of all evictions that were removed."""

    def fold(self, record: Input) -> Requested | None:
        """Fold in a record of `evictions`. Return the eviction if it is requested."""
        workload, _, generation = EvictionKey.parse(record.key)
        event = record.event if isinstance(record.event, EvictionDecided) else None
        if event is not None:
            self._highest[workload] = max(self._highest.get(workload, 0), generation)
        else:
            # The record of the floor is in the same transaction, but in another topic, and may be read later.
            self.raise_floor(generation)
            if self._highest.get(workload, 0) <= generation:
                self._highest.pop(workload, None)
        if event is not None and event.state is EvictionState.REQUESTED:
            found = Requested(event, record.meta)
            self._requested.setdefault(workload, {})[record.key] = found
            return found
        mine = self._requested.get(workload, {})
        if mine.pop(record.key, None) is not None and not mine:
            del self._requested[workload]
        return None

    def of(self, workload: str) -> list[Requested]:
        """Return the requested evictions of a workload."""
        return list(self._requested.get(workload, {}).values())

    def requested(self, workload: str, uid: str, target: str, generation: int) -> Requested | None:
        """Return the eviction that requests the end of exactly this binding; None when there is none."""
        for one in self._requested.get(workload, {}).values():
            event = one.event
            same_life = not event.workload_uid or event.workload_uid == uid
            if same_life and event.target.name == target and event.generation == generation:
                return one
        return None

    def raise_floor(self, generation: int) -> None:
        """Note the highest generation of evictions that were removed."""
        self._floor = max(self._floor, generation)

    def next_generation(self, workload: str, known: int | None) -> int:
        """Return the generation of the next decision on a workload, which its next binding has, too.

        It is above that of every binding that the workload has had, and of every eviction of one. What is no longer
        known is below the floor.

        Args:
            workload: the key of the workload.
            known: the generation of the last decision; None when none is known.
        """
        return max(self._highest.get(workload, 0), self._floor if known is None else known) + 1
