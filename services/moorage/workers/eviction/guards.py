"""The guards that may hold evictions: one view for all partitions of the eviction service in a process."""

from __future__ import annotations

from moorage.decide.disruption.budgets import is_guard
from moorage.decide.disruption.guard_index import Guards
from moorage.runtime.service import Input
from moorage.runtime.settings.configuration import Configuration, ConfiguredView
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import CONFIGURATION, Topic


class GuardView(ConfiguredView):
    """The declared pauses, budgets and disruption budgets, and the configuration. Other resources are ignored.

    A changed guard wakes no partition: the governor releases held evictions, and an eviction that comes due later
    checks the guards then.

    Args:
        configuration: the settings to decide by; None for a view that does not follow them.
    """

    def __init__(self, configuration: Configuration | None = None) -> None:
        super().__init__(configuration)
        self.guards = Guards()

    def apply(self, record: Input) -> None:
        """Fold in a guard, or its deletion, or the configuration.

        Raises:
            ValueError: the guard is not valid. It then holds nothing. Or the configuration is not; the known one stays.
        """
        if record.topic is CONFIGURATION:
            super().apply(record)
            return
        event = record.event if isinstance(record.event, ResourceDeclared) else None
        self.guards.put(record.key, event.object if event is not None else None)

    def wants(self, topic: Topic, key: str) -> bool:
        """Return whether a record is a guard, or the configuration."""
        return super().wants(topic, key) or is_guard(key)
