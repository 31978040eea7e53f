"""The global view of placement: one part for each of the controllers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from typing_extensions import override

from moorage.runtime.service import Input
from moorage.runtime.settings.moorage_configuration import Configuration, ConfiguredView
from moorage.workers.placement.karmada.cluster_view import ClusterView
from moorage.workers.placement.ocm.managed_view import ManagedView
from moorage.workers.placement.pods.pod_view import PodView
from moorage.workers.placement.rollouts.rollout_view import RolloutView
from moorage_schemas.eviction import GenerationFloor
from moorage_schemas.keys import BindingKey, split_cluster
from moorage_schemas.topics import BINDINGS, CONFIGURATION, EVICTIONS, GENERATION_FLOORS, PLACEMENTS, Topic

_OF_BINDINGS: Final = (BINDINGS, EVICTIONS)


class AttachedPartition(Protocol):
    """A partition's state, as the view uses it."""

    partition: int

    def due(self) -> bool:
        """Return whether there is something to do."""


class FleetView(ConfiguredView):
    """The whole fleet, as placement uses it. Each record belongs to one part.

    Args:
        configuration: the settings to decide by; None for a view that does not follow them.
    """

    def __init__(self, configuration: Configuration | None = None) -> None:
        super().__init__(configuration)
        self.pods = PodView()
        self.karmada = ClusterView()
        self.ocm = ManagedView()
        self.rollouts = RolloutView()
        self._clusters: dict[str, PodView] = {}
        self._floor = 0
        self._partitions: list[AttachedPartition] = []

    @override
    def wants(self, topic: Topic, key: str) -> bool:
        if topic is PLACEMENTS:  # nearly all of them are about pods, which only their partitions read
            return self.ocm.concerns(topic, key)
        if topic in (CONFIGURATION, GENERATION_FLOORS) or any(
            part.concerns(topic, key) for part in (self.pods, self.karmada, self.ocm, self.rollouts)
        ):
            return True
        if ":" not in key:
            return False
        cluster, rest = split_cluster(BindingKey.parse(key).target or key)
        return bool(cluster) and self.pods.concerns(topic, f"|{rest}" if topic in _OF_BINDINGS else rest)

    @override
    def apply(self, record: Input) -> None:
        super().apply(record)
        if isinstance(record.event, GenerationFloor):
            self._floor = max(self._floor, record.event.generation)
            for view in (self.pods, *self._clusters.values()):
                view.evictions.raise_floor(self._floor)
            self.karmada.evictions.raise_floor(self._floor)
            return
        for part in (self.pods, self.karmada, self.ocm, self.rollouts):
            if part.concerns(record.topic, record.key):
                part.apply(record)
                return
        if cluster := split_cluster(BindingKey.parse(record.key).target or record.key)[0]:
            self.pods_of(cluster).apply(record)

    def pods_of(self, cluster: str) -> PodView:
        """Return the view of the pods and nodes of a cluster; the home fleet has the empty name."""
        if not cluster:
            return self.pods
        view = self._clusters.get(cluster)
        if view is None:
            view = self._clusters[cluster] = PodView(cluster)
            view.evictions.raise_floor(self._floor)
        return view

    @override
    def changed(self) -> Iterable[int] | None:
        return [partition.partition for partition in self._partitions if partition.due()]

    def attach(self, partition: AttachedPartition) -> None:
        """Add a partition."""
        self._partitions.append(partition)

    def detach(self, partition: AttachedPartition) -> None:
        """Remove a partition."""
        self._partitions = [one for one in self._partitions if one is not partition]
