"""The state that explanations rest on: the last record of each key, and placement's view."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, Protocol

from typing_extensions import override

from moorage.decide.scheduling.nodes.pod_controllers import controller_key
from moorage.insight.copy.snapshot import Snapshot
from moorage.insight.explain.chain import Chained, EventRecord, Listed
from moorage.runtime.settings.process_settings import Settings
from moorage.workers.placement.fleet_view import FleetView
from moorage.workers.placement.service import PlacementService
from moorage.workers.placement.state import PlacementPartition
from moorage_schemas.eviction import EvictionDecided
from moorage_schemas.keys import ConditionKey, EvictionKey
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import CONDITIONS, EVICTIONS, PLACEMENTS, RESOURCES, ZONE_GRANTS, ZONES, Topic

_OF_TARGETS: Final = (CONDITIONS, ZONES, ZONE_GRANTS)
"""The topics that only explanations of targets rest on. With grants, the chain of an incident has a record as long as
the node has its taint, whatever has happened to its taints since."""

TOPICS: Final[tuple[Topic, ...]] = tuple(dict.fromkeys((PLACEMENTS, *PlacementService.globals, *_OF_TARGETS)))
"""The topics whose last records explanations rest on."""


class Grounds(Protocol):
    """The state that an explanation rests on. It does not change while an explanation is made."""

    settings: Settings
    """The settings of the services while there is no configuration. Placement's view has those that are in force."""

    taken: datetime
    """The time of the state."""

    @property
    def records(self) -> Chained:
        """The last record of each key, for following chains."""

    def last(self, topic: Topic, key: str) -> EventRecord | None:
        """Return the last record of a key. It may be a tombstone."""

    def about(self, topic: Topic, target: str) -> Iterable[EventRecord]:
        """Return the last records of the keys about a target, in any order. Some may be tombstones.

        Args:
            topic: `conditions` or `evictions`.
            target: the key of the target.
        """

    def decisions_for(self, owner: str) -> Mapping[str, WorkloadPlaced]:
        """Return the decisions on the workloads of an owner, by workload."""

    def mirrored_of(self, owner: str) -> Iterable[str]:
        """Return the keys of the mirrored objects whose controller in their cluster this is."""

    def placement(self) -> tuple[PlacementService, FleetView]:
        """Return placement's view of everything."""


def target_in(topic: Topic, key: str) -> str:
    """Return the target that the key of a condition or an eviction names. Empty for records of other topics."""
    if topic is CONDITIONS:
        return ConditionKey.parse(key).target
    return EvictionKey.parse(key).target if topic is EVICTIONS else ""


class SnapshotGrounds(Grounds):
    """The state in a copy of the topics.

    Args:
        snapshot: the copy, with the records of at least `TOPICS`.
    """

    def __init__(self, snapshot: Snapshot, settings: Settings) -> None:
        self.settings = settings
        self.taken = snapshot.taken
        self._snapshot = snapshot
        self._records: Listed | None = None

    @property
    @override
    def records(self) -> Listed:
        if self._records is None:
            self._records = Listed(self._snapshot.all())
        return self._records

    @override
    def last(self, topic: Topic, key: str) -> EventRecord | None:
        return self._snapshot.last(topic, key)

    @override
    def about(self, topic: Topic, target: str) -> Iterable[EventRecord]:
        keys = dict.fromkeys(record.key for record in self._snapshot.records(topic))
        mine = (self._snapshot.last(topic, key) for key in keys if target_in(topic, key) == target)
        return [record for record in mine if record is not None]

    @override
    def decisions_for(self, owner: str) -> Mapping[str, WorkloadPlaced]:
        return {
            key: event
            for key, event in self._snapshot.table(PLACEMENTS).items()
            if isinstance(event, WorkloadPlaced) and event.owner.key == owner
        }

    @override
    def mirrored_of(self, owner: str) -> Iterable[str]:
        records = self._snapshot.table(RESOURCES).items()
        return [key for key, event in records if isinstance(event, ResourceDeclared) and controller_key(event) == owner]

    @override
    def placement(self) -> tuple[PlacementService, FleetView]:
        # The view is built from the topics each time, as placement builds it.
        service = PlacementService(self.settings)
        view = service.new_globals()
        for topic in service.globals:
            for kept in self._snapshot.records(topic):
                if view.wants(topic, kept.key):
                    view.apply(kept.input)
        return service, view


@contextmanager
def partition_with(grounds: Grounds, owner: str, placed: Iterable[WorkloadPlaced]) -> Iterator[PlacementPartition]:
    """Provide a partition of placement that has one resource and the decisions on it.

    What it assumes in the global view is undone at the end of the context.
    """
    service, view = grounds.placement()
    state = service.new_state(0)
    service.use_globals(state, view)
    try:
        declared = declared_as(grounds, owner)
        if declared is not None:
            service.apply(state, RESOURCES, owner, declared)
        for event in placed:
            service.apply(state, PLACEMENTS, event.workload.key, event)
        yield state
    finally:
        service.drop(state)


def declared_as(grounds: Grounds, key: str) -> ResourceDeclared | None:
    """Return a declared resource. None if it is not declared."""
    kept = grounds.last(RESOURCES, key)
    return kept.event if kept is not None and isinstance(kept.event, ResourceDeclared) else None


def decision_on(grounds: Grounds, workload: str) -> tuple[WorkloadPlaced, EventRecord] | None:
    """Return the recorded decision on a workload, with its record. None if there is none."""
    kept = grounds.last(PLACEMENTS, workload)
    return (kept.event, kept) if kept is not None and isinstance(kept.event, WorkloadPlaced) else None


def evictions_of(
    grounds: Grounds, workload: str, generations: dict[str, int]
) -> list[tuple[EvictionDecided, EventRecord]]:
    """Return the evictions of a workload's present bindings.

    Args:
        grounds: the present state.
        workload: the key of the workload.
        generations: the generations of the present bindings, by the target's key.
    """
    found = []
    for target, generation in generations.items():
        kept: Any = grounds.last(EVICTIONS, f"{workload}|{target}|{generation}")
        if kept is not None and isinstance(kept.event, EvictionDecided):
            found.append((kept.event, kept))
    return found
