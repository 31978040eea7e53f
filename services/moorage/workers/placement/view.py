"""The global view of placement: one part for each of the three controllers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from moorage.runtime.configuration import Configuration, ConfiguredView
from moorage.runtime.service import Input
from moorage.workers.placement.karmada.view import ClusterView
from moorage.workers.placement.ocm.view import ManagedView
from moorage.workers.placement.pods.view import PodView
from moorage_schemas.eviction import GenerationFloor
from moorage_schemas.topics import CONFIGURATION, GENERATION_FLOORS, PLACEMENTS, Topic


class AttachedPartition(Protocol):
    """A partition's state, as the view sees it."""

    partition: int

    def due(self) -> bool:
        """Return whether there is something to do."""


class FleetView(ConfiguredView):
    """The whole fleet, as placement sees it. Each record belongs to one part.

    Args:
        configuration: the settings to decide by; None for a view that does not follow them.
    """

    def __init__(self, configuration: Configuration | None = None) -> None:
        super().__init__(configuration)
        self.pods = PodView()
        self.karmada = ClusterView()
        self.ocm = ManagedView()
        self._partitions: list[AttachedPartition] = []

    def wants(self, topic: Topic, key: str) -> bool:
        """Return whether one of the parts uses a record."""
        if topic is PLACEMENTS:  # nearly all of them are about pods, which only their partitions read
            return self.ocm.concerns(topic, key)
        return topic in (CONFIGURATION, GENERATION_FLOORS) or any(
            part.concerns(topic, key) for part in (self.pods, self.karmada, self.ocm)
        )

    def apply(self, record: Input) -> None:
        """Fold in a record. A record that is not newer changes nothing."""
        super().apply(record)
        if isinstance(record.event, GenerationFloor):
            for evictions in (self.pods.evictions, self.karmada.evictions):
                evictions.raise_floor(record.event.generation)
            return
        for part in (self.pods, self.karmada, self.ocm):
            if part.concerns(record.topic, record.key):
                part.apply(record)
                return

    def changed(self) -> Iterable[int] | None:
        """Return the partitions that have something to do."""
        return [partition.partition for partition in self._partitions if partition.due()]

    def attach(self, partition: AttachedPartition) -> None:
        """Add a partition."""
        self._partitions.append(partition)

    def detach(self, partition: AttachedPartition) -> None:
        """Remove a partition."""
        self._partitions = [one for one in self._partitions if one is not partition]
