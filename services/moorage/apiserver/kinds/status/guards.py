"""The numbers of budgets and eviction pauses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from typing_extensions import override

from moorage.apiserver.kinds.status.index import Groups, Index
from moorage.apiserver.kinds.status.records import ObjectId, Records
from moorage_schemas.eviction import EvictionDecided

PAUSE: Final = "EvictionPause/"
"""The beginning of a pause's key."""


class BudgetIndex(Index):
    """The budgets whose numbers have changed. The record of a rate names no object."""

    topics = ("budgets",)

    @override
    def changed(self, topic: str, key: str, before: Any, after: Any, records: Records) -> Iterable[ObjectId]:
        return (ObjectId.of(key),) if "/" in key else ()


class MaintenanceIndex(Index):
    """The maintenances whose states have changed."""

    topics = ("maintenances",)

    @override
    def changed(self, topic: str, key: str, before: Any, after: Any, records: Records) -> Iterable[ObjectId]:
        return (ObjectId("Maintenance", "", key),)


class PauseIndex(Index):
    """The evictions that each pause holds."""

    topics = ("evictions",)

    def __init__(self) -> None:
        self.held = Groups()
        """The keys of the evictions that are held, by the key of the pause (`EvictionPause/all`)."""

    @override
    def changed(
        self, topic: str, key: str, before: EvictionDecided | None, after: EvictionDecided | None, records: Records
    ) -> Iterable[ObjectId]:
        old, new = _pauses(before), _pauses(after)
        self.held.move(key, old, new)
        return [ObjectId("EvictionPause", "", pause.removeprefix(PAUSE)) for pause in old ^ new]


def _pauses(eviction: EvictionDecided | None) -> set[str]:
    """Return the keys of the pauses that hold an eviction."""
    if eviction is None or eviction.state != "Held":
        return set()
    return {key for key in eviction.held_by if key.startswith(PAUSE)}
