"""The view of rollouts that all partitions of a process share: rollouts, their bindings, and health there.

It is empty, and nothing is read for it, as long as no rollout exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol, TypeVar

from moorage.runtime.service import Input
from moorage.workers.placement.rollouts.rollout_spec import ROLLOUT_PREFIX, DeclaredRollout, declared_rollout_of
from moorage_schemas.condition import HEALTHY, ConditionStatus, WorkloadConditionChanged
from moorage_schemas.envelope import Meta
from moorage_schemas.keys import BindingKey, TargetKey, WorkloadConditionKey
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import BINDINGS, RESOURCES, WORKLOAD_CONDITIONS, Topic

_T = TypeVar("_T")
_HEALTH: Final = f"|{HEALTHY}"


@dataclass(frozen=True, slots=True)
class ReportedHealth:
    """The last report of a deployer about a workload on a cluster."""

    uid: str
    """The uid of the binding; empty if the report named none."""

    generation: int
    """The generation of the binding; 0 if the report named none."""

    status: ConditionStatus
    since: datetime
    """When Moorage first recorded this status."""

    reported: datetime
    """When the last report was accepted."""


class RolloutListener(Protocol):
    """A partition's state, as the view sees it."""

    def notice(self, rollout: str, meta: Meta) -> None:
        """Note a change that concerns a rollout. Rollouts of other partitions are ignored."""


class RolloutView:
    """All rollouts of the fleet."""

    def __init__(self) -> None:
        self.declared: dict[str, DeclaredRollout] = {}
        """The rollouts, by key."""

        self.of_placement: dict[str, set[str]] = {}
        """The keys of rollouts, by that of their placement."""

        self._unreadable: set[str] = set()
        self._health: dict[str, dict[str, ReportedHealth]] = {}
        self._bound: dict[str, dict[str, str]] = {}
        self._listeners: list[RolloutListener] = []

    # Input from the log.

    @staticmethod
    def concerns(topic: Topic, key: str) -> bool:
        """Return whether a record is for this view, by its key."""
        if not key.startswith(ROLLOUT_PREFIX):
            return False
        return topic is not WORKLOAD_CONDITIONS or key.endswith(_HEALTH)

    def apply(self, record: Input) -> None:
        """Fold in a record."""
        event, key = record.event, record.key
        if record.topic is RESOURCES:
            self._declare(key, event if isinstance(event, ResourceDeclared) else None)
        elif record.topic is BINDINGS:
            key, target = BindingKey.parse(key)
            self._put(self._bound, key, TargetKey.parse(target).name, _uid(event))
        elif record.topic is WORKLOAD_CONDITIONS:
            key, target, _ = WorkloadConditionKey.parse(key)
            self._put(self._health, key, TargetKey.parse(target).name, _health(event))
        else:
            return
        for listener in self._listeners:
            listener.notice(key, record.meta)

    def _declare(self, key: str, event: ResourceDeclared | None) -> None:
        known = self.declared.get(key)
        if (
            event is not None
            and known is not None
            and known.uid == event.uid
            and event.version < known.declared_version
        ):
            return
        found = declared_rollout_of(event) if event is not None else None
        if event is not None and found is None:
            self._unreadable.add(key)
            return
        self._unreadable.discard(key)
        if known is not None:
            mine = self.of_placement[known.placement.key]
            mine.discard(key)
            if not mine:
                del self.of_placement[known.placement.key]
            del self.declared[key]
        if found is not None:
            self.declared[key] = found
            self.of_placement.setdefault(found.placement.key, set()).add(key)

    @staticmethod
    def _put(table: dict[str, dict[str, _T]], rollout: str, cluster: str, value: _T | None) -> None:
        if value is not None:
            table.setdefault(rollout, {})[cluster] = value
            return
        mine = table.get(rollout)
        if mine is not None and mine.pop(cluster, None) is not None and not mine:
            del table[rollout]

    # Partitions and queries.

    def attach(self, listener: RolloutListener) -> None:
        """Add a partition."""
        self._listeners.append(listener)

    def detach(self, listener: RolloutListener) -> None:
        """Remove a partition."""
        self._listeners = [one for one in self._listeners if one is not listener]

    def is_kept(self, rollout: str) -> bool:
        """Return whether a rollout keeps its clusters without a decision, because it cannot be read or is ending."""
        return rollout in self._unreadable

    def health(self, rollout: str, cluster: str) -> ReportedHealth | None:
        """Return the last report about a rollout on a cluster."""
        return self._health.get(rollout, {}).get(cluster)

    def is_bound(self, rollout: str, cluster: str) -> bool:
        """Return whether a rollout has a binding to a cluster."""
        return cluster in self._bound.get(rollout, {})

    def is_bound_for_another(self, rollout: str, uid: str) -> bool:
        """Return whether an earlier rollout of the name still has bindings."""
        return any(other != uid for other in self._bound.get(rollout, {}).values())


def _uid(event: object) -> str | None:
    return event.uid if isinstance(event, WorkloadBound) else None


def _health(event: object) -> ReportedHealth | None:
    if not isinstance(event, WorkloadConditionChanged):
        return None
    return ReportedHealth(
        uid=event.workload_uid,
        generation=event.binding_generation,
        status=event.status,
        since=event.status_since or event.last_transition_time,
        reported=event.accepted_time or event.last_heartbeat_time,
    )
