"""Which objects others own (`metadata.ownerReferences`), and which of them have to be looked at again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from typing_extensions import override

from moorage.apiserver.kinds.status.index import Groups, Index, Unsettled
from moorage.apiserver.kinds.status.records import ObjectId, Records
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.resource import ResourceDeclared

_WAITING: Final = frozenset({"foregroundDeletion", "orphan"})


def owner_uids(document: Mapping[str, Any]) -> set[str]:
    """Return the uids of an object's owners."""
    references = document["metadata"].get("ownerReferences") or ()
    return {str(reference.get("uid") or "") for reference in references} - {""}


class DependentIndex(Index):
    """The declared objects that each owner has, by its uid. Deleted owners keep theirs."""

    topics = ("resources", "placements")

    def __init__(self) -> None:
        self.dependents = Groups()
        """The record keys of the objects of each owner, by the owner's uid."""

        self.waiting: dict[str, str] = {}
        """The key of each object that is being deleted and waits for those that it owns, by its uid."""

        self.unsettled = Unsettled()
        """The keys of objects that may have to go now."""

    @override
    def changed(self, topic: str, key: str, before: Any, after: Any, records: Records) -> Iterable[ObjectId]:
        if topic == "resources":
            self._declared(key, before, after)
        elif after is None and before is not None:
            self._ended(before)
        return ()

    def _declared(self, key: str, before: ResourceDeclared | None, after: ResourceDeclared | None) -> None:
        old, new = (owner_uids(declared.object) if declared is not None else set() for declared in (before, after))
        self.dependents.move(key, old, new)
        for uid in old:
            if uid in self.waiting:
                self.unsettled.add(self.waiting[uid])
        if before is not None and (after is None or after.uid != before.uid):
            self.waiting.pop(before.uid, None)
            self.unsettled.update(self.dependents.get(before.uid, ()))
        if after is None:
            return
        metadata = after.object["metadata"]
        if metadata.get("deletionTimestamp") and _WAITING & set(metadata.get("finalizers") or ()):
            self.waiting[after.uid] = key
            self.unsettled.add(key)
            self.unsettled.update(self.dependents.get(after.uid, ()))
        else:
            self.waiting.pop(after.uid, None)
        if new:
            self.unsettled.add(key)

    def _ended(self, placed: WorkloadPlaced) -> None:
        """Take in that a workload which is not declared has ended."""
        self.unsettled.update(self.dependents.get(placed.uid, ()))
        if placed.owner_uid in self.waiting:
            self.unsettled.add(self.waiting[placed.owner_uid])
