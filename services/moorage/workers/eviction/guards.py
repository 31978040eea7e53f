"""The guards that may hold evictions: one view for all partitions of the eviction service in a process."""

from __future__ import annotations

from collections.abc import Iterable

from moorage.core.disruption.budgets import GUARD_PREFIXES
from moorage.core.disruption.guard_index import Guards
from moorage.runtime.service import GlobalView, Input
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import Topic


class GuardView(GlobalView):
    """The declared pauses, budgets and disruption budgets. All other records of `resources` are ignored.

    A change wakes no partition: the governor releases held evictions, and an eviction that comes due later checks the
    guards then.
    """

    def __init__(self) -> None:
        self.guards = Guards()

    def apply(self, record: Input) -> None:
        """Fold in a guard, or its deletion.

        Raises:
            ValueError: the guard is not valid. It then holds nothing.
        """
        event = record.event if isinstance(record.event, ResourceDeclared) else None
        self.guards.put(record.key, event.object if event is not None else None)

    def wants(self, topic: Topic, key: str) -> bool:  # noqa: ARG002 - the view reads one topic only
        """Return whether a record is a guard."""
        return key.startswith(GUARD_PREFIXES)

    def changed(self) -> Iterable[int] | None:
        """Return no partitions."""
        return ()
