"""The priority classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from typing_extensions import override

from moorage.apiserver.kinds.status.built_in import PRIORITY_CLASS, SYSTEM_PRIORITIES
from moorage.apiserver.kinds.status.index import Index
from moorage.apiserver.kinds.status.records import ObjectId, Records
from moorage_schemas.resource import ResourceDeclared


class PriorityIndex(Index):
    """The priority classes, as new pods get their priority by them."""

    topics = ("resources",)

    def __init__(self) -> None:
        self.classes: dict[str, Mapping[str, Any]] = {
            name: {"value": value} for name, value in SYSTEM_PRIORITIES.items()
        }
        """By name, with those of the system."""

    @override
    def changed(
        self,
        topic: str,
        key: str,
        before: ResourceDeclared | None,
        after: ResourceDeclared | None,
        records: Records,
    ) -> Iterable[ObjectId]:
        if key.startswith(f"{PRIORITY_CLASS}/") and (name := ObjectId.of(key).name) not in SYSTEM_PRIORITIES:
            self.classes.pop(name, None)
            if after is not None:
                self.classes[name] = after.object
        return ()
