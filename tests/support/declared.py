"""Objects as the gateway keeps them for its records: with their versions and the edits of their taints."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from moorage_schemas.resource import ResourceDeclared, TaintWish


class DeclaredObjects:
    """What is declared now, by record key."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.versions: dict[str, int] = {}
        self.wishes: dict[str, dict[tuple[str, str], TaintWish]] = {}

    def edit_taint(
        self, where: str, key: str, effect: str, value: str, *, present: bool, time: datetime, actor: str
    ) -> None:
        """Note that a person wants a taint on a target, or away from it."""
        wishes = self.wishes.setdefault(where, {})
        generation = max((wish.generation for wish in wishes.values()), default=0) + 1
        wishes[key, effect] = TaintWish(
            key=key, effect=effect, value=value, present=present, generation=generation, time=time, actor=actor
        )

    def next(self, key: str) -> ResourceDeclared:
        """The next version of an object, to be written."""
        self.versions[key] = self.versions.get(key, 0) + 1
        return ResourceDeclared(
            object=self.objects[key],
            version=self.versions[key],
            wishes=tuple(self.wishes.get(key, {}).values()),
        )
