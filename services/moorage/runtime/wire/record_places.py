"""Where records belong: whether a record has the key of its event, and is in the partition of its key.

Services trust both. A state under a wrong key is never found again, and what follows from a state in another partition
than its own must not be written there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from moorage_schemas.keys import (
    BindingKey,
    ConditionKey,
    EvictionKey,
    LeaveKey,
    ResourceKey,
    WorkloadConditionKey,
    binding_key,
    condition_key,
    eviction_key,
    leave_key,
    workload_condition_key,
)
from moorage_schemas.refs import TargetRef, WorkloadRef
from moorage_schemas.resource import resource_partition_key
from moorage_schemas.topics import (
    BINDINGS,
    BUDGETS,
    CONDITIONS,
    CONFIGURATION,
    EVICTION_ANSWERS,
    EVICTION_ASKS,
    EVICTION_REQUESTS,
    EVICTION_SLOTS,
    EVICTIONS,
    FLEET,
    GENERATION_FLOORS,
    MAINTENANCES,
    PLACEMENTS,
    PROBE_GRANTS,
    RESOURCES,
    TAINTS,
    TIMER_FIRED,
    TIMERS,
    WORKLOAD_CONDITIONS,
    ZONE_GRANTS,
    ZONE_MEMBERS,
    ZONES,
    Topic,
    partition_of,
)

_LONGEST: Final = 253
_CLUSTER: Final = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?")


def _resource(event: Any) -> str:
    """Return the key of a declared object."""
    metadata = event.object.get("metadata")
    if not isinstance(metadata, dict):
        raise ValueError("object.metadata: invalid value: must be an object")  # noqa: TRY004 - the record is wrong
    return str(event.key)


_KEYS: Final[Mapping[str, Callable[[Any], str]]] = {
    CONDITIONS.short: lambda event: condition_key(event.target.key, event.type),
    RESOURCES.short: _resource,
    TAINTS.short: lambda event: event.target.key,
    BINDINGS.short: lambda event: binding_key(event.workload.key, event.target.key),
    PLACEMENTS.short: lambda event: event.workload.key,
    TIMERS.short: lambda event: event.id,
    TIMER_FIRED.short: lambda event: event.id,
    EVICTIONS.short: lambda event: eviction_key(event.workload.key, event.target.key, event.generation),
    EVICTION_REQUESTS.short: lambda event: leave_key(event.workload.key, event.target.key, event.requester.key),
    GENERATION_FLOORS.short: lambda event: str(event.partition),
    WORKLOAD_CONDITIONS.short: lambda event: workload_condition_key(event.workload.key, event.target.key, event.type),
    ZONE_MEMBERS.short: lambda event: event.target.key,
    ZONES.short: lambda event: event.zone,
    ZONE_GRANTS.short: lambda event: event.target.key,
    EVICTION_ASKS.short: lambda event: eviction_key(event.workload.key, event.target.key, event.generation),
    EVICTION_ANSWERS.short: lambda event: eviction_key(event.workload.key, event.target.key, event.generation),
    EVICTION_SLOTS.short: lambda event: eviction_key(event.workload.key, event.target.key, event.generation),
    BUDGETS.short: lambda event: event.budget,
    MAINTENANCES.short: lambda event: event.name,
}
"""Returns the key of an event, by its topic. In the other topics of the contract an event does not have its key."""


def _fleet(_key: str, _event: Any) -> str:
    return FLEET


_PLACES: Final[Mapping[str, Callable[[str, Any], str | None]]] = {
    CONDITIONS.short: lambda key, _: ConditionKey.parse(key).target,
    RESOURCES.short: lambda key, _: resource_partition_key(key),
    TAINTS.short: lambda key, _: key,
    BINDINGS.short: lambda key, _: BindingKey.parse(key).target,
    PLACEMENTS.short: lambda _, event: None if event is None else event.owner.key,
    TIMERS.short: lambda _, event: None if event is None else event.target.key,
    TIMER_FIRED.short: lambda _, event: None if event is None else event.target.key,
    EVICTIONS.short: lambda key, _: EvictionKey.parse(key).target,
    EVICTION_REQUESTS.short: lambda key, _: LeaveKey.parse(key).target,
    WORKLOAD_CONDITIONS.short: lambda key, _: WorkloadConditionKey.parse(key).target,
    ZONE_GRANTS.short: lambda key, _: key,
    EVICTION_ANSWERS.short: lambda key, _: EvictionKey.parse(key).target,
    **{
        topic.short: _fleet
        for topic in (
            ZONE_MEMBERS,
            ZONES,
            EVICTION_ASKS,
            EVICTION_SLOTS,
            BUDGETS,
            MAINTENANCES,
            CONFIGURATION,
            PROBE_GRANTS,
        )
    },
}
"""Returns what determines the partition of a record, by its topic; None for a tombstone whose key does not show it."""


def partition_key(topic: Topic, key: str, event: Any) -> str | None:
    """Return the text that determines the partition of a record.

    Args:
        topic: its topic.
        key: its key.
        event: its event; None for a tombstone.

    Returns:
        None for a tombstone whose key does not show it, and for a topic with another rule.

    Raises:
        ValueError: the key is none of the topic.
    """
    place = _PLACES.get(topic.short)
    return None if place is None else place(key, event)


_OF_TARGETS: Final = frozenset({CONDITIONS.short, TAINTS.short, ZONE_GRANTS.short, ZONE_MEMBERS.short})
_OF_WORKLOADS: Final = frozenset(
    {
        BINDINGS.short,
        EVICTIONS.short,
        EVICTION_REQUESTS.short,
        WORKLOAD_CONDITIONS.short,
        EVICTION_ASKS.short,
        EVICTION_ANSWERS.short,
        EVICTION_SLOTS.short,
    }
)


@lru_cache(maxsize=4096)
def _is_target(key: str) -> bool:
    try:
        return TargetRef.parse(key).key == key
    except ValueError:
        return False


def _is_workload(key: str) -> bool:
    try:
        return WorkloadRef.parse(key).key == key
    except ValueError:
        return False


def _key_flaw(topic: Topic, key: str) -> str:
    """Return why a text cannot be a key of a topic."""
    short = topic.short
    if short == RESOURCES.short:
        parts = ResourceKey.parse(key)
        has_parts = bool(parts.kind) and 0 < len(parts.name) <= _LONGEST
        is_whole = str(parts) == key and _CLUSTER.fullmatch(parts.cluster) is not None
        return "" if has_parts and is_whole else f"must be {topic.key}"
    workload, _, rest = key.partition("|")
    if short in _OF_TARGETS:
        return "" if _is_target(workload) else "must begin with a target"
    if short in _OF_WORKLOADS:
        is_sound = _is_workload(workload) and _is_target(rest.partition("|")[0])
        return "" if is_sound else "must name a workload and a target"
    return ""


class RecordPlaces:
    """Checks the records of one partition of all topics."""

    def __init__(self, partition: int, partitions: int) -> None:
        self._partition = partition
        self._partitions = partitions

    def flaw(self, topic: Topic, key: str, event: Any) -> str:
        """Return the rule of keys that a record breaks. Empty if it is sound, or its topic has no such rule.

        Args:
            topic: its topic.
            key: its key.
            event: its event or the row of it; None for a tombstone.
        """
        short = topic.short
        if event is not None and (key_of := _KEYS.get(short)) is not None:
            try:
                expected = key_of(event)
            except (ValueError, AttributeError, TypeError) as error:
                return f"must be that of its event: {error}"
            if expected != key:
                return f"must be that of its event, {expected[:_LONGEST]!r}"
            if short == RESOURCES.short and (flaw := _key_flaw(topic, key)):
                return flaw
        elif event is None and (flaw := _key_flaw(topic, key)):
            return flaw
        decides = partition_key(topic, key, event)
        if decides is not None and partition_of(decides, self._partitions) != self._partition:
            return f"must be in partition {partition_of(decides, self._partitions)}, not in {self._partition}"
        return ""
