"""The rules for dedicated nodes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from pydantic import ValidationError
from typing_extensions import override

from moorage.apiserver.kinds.status.index import Index
from moorage.apiserver.kinds.status.records import ObjectId, Records
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.dedicated import DedicatedNodes


class DedicatedIndex(Index):
    """The rules for dedicated nodes, as pods are given defaults by them."""

    topics = ("resources",)

    def __init__(self) -> None:
        self.rules: dict[str, DedicatedNodes] = {}
        """By record key."""

    @override
    def changed(
        self,
        topic: str,
        key: str,
        before: ResourceDeclared | None,
        after: ResourceDeclared | None,
        records: Records,
    ) -> Iterable[ObjectId]:
        if key.startswith("DedicatedNodes/"):
            self.rules.pop(key, None)
            with contextlib.suppress(ValidationError):  # it was checked when it was declared
                if after is not None:
                    self.rules[key] = DedicatedNodes.model_validate(after.object)
        return ()
