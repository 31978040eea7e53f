"""The content of the topics about one cluster: the last record of each key, reduced to what a bridge needs."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import orjson
from typing_extensions import override

from moorage.bridges.engine.reports import Report
from moorage.runtime.service import GlobalView, Input
from moorage_schemas.condition import HEALTHY, ConditionChanged, WorkloadConditionChanged
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import BindingKey, ConditionKey, EvictionKey, ResourceKey, TargetKey, WorkloadConditionKey
from moorage_schemas.placement import WorkloadBound, WorkloadPlaced
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.taint import Taint, TaintOrigin, TaintRecord, TargetTainted
from moorage_schemas.topics import (
    BINDINGS,
    CONDITIONS,
    EVICTIONS,
    PLACEMENTS,
    RESOURCES,
    TAINTS,
    WORKLOAD_CONDITIONS,
    Topic,
)

Decision = TypeVar("Decision")
Eviction = TypeVar("Eviction")
Touched = Callable[[str, str], None]
"""Called with the kind and the key of an object about which something has changed: a pod's, or a node's name."""


def digest_of(found: Mapping[str, Any], taints: Iterable[Taint], *, keeps_taints: bool = False) -> bytes:
    """Return a digest of an object without its version, its taints, and what the record does not keep.

    Args:
        found: the object.
        taints: those that others have set in the cluster. Their times do not count.
        keeps_taints: whether it is a target whose cluster decides on its taints.
    """
    metadata, spec = found.get("metadata") or {}, found.get("spec")
    kept = {
        **{name: value for name, value in found.items() if name != "status" or value},  # an empty one is not kept
        "metadata": {name: value for name, value in metadata.items() if name != "resourceVersion"},
        "spec": {name: value for name, value in spec.items() if name != "taints"} if spec else {},
    }
    whose = [(one.key, one.value, one.effect) for one in taints]
    return hashlib.blake2b(
        orjson.dumps((kept, whose, keeps_taints), option=orjson.OPT_SORT_KEYS), digest_size=16
    ).digest()


class MirroredRecord(NamedTuple):
    """A mirrored object as `resources` has it."""

    uid: str
    source: str
    digest: bytes
    """The value of `digest_of`."""

    cluster_uid: str
    """Of its cluster. Empty if it was not stated."""

    wished: frozenset[tuple[str, str]]
    """The taints that are requested at the gateway, by key and effect. Those of the cluster are not among them."""


class Health(NamedTuple):
    """The last report of a workload."""

    uid: str
    generation: int
    status: str


class TargetTables(GlobalView):
    """The content of the topics about the targets of one cluster, and which of its objects are mirrored.

    Args:
        kind: of the targets, such as `Node`.
        cluster: the name of the cluster in references. Empty for the home fleet.
        touched: called for each change, with the kind and the name of a target.
    """

    def __init__(self, kind: str, cluster: str, touched: Touched) -> None:
        self.resources: dict[str, MirroredRecord] = {}
        """By key."""

        self.taints: dict[str, TargetTainted] = {}
        """By the name of the target."""

        self.conditions: dict[str, dict[str, ConditionChanged]] = {}
        """By the name of the target, by type."""

        self._target = kind
        self._prefix = f"{cluster}:" if cluster else ""
        self._touched = touched
        self._fold: dict[Topic, Callable[[Input], None]] = {
            RESOURCES: self._resource,
            TAINTS: self._tainted,
            CONDITIONS: self._condition,
        }

    @property
    def topics(self) -> tuple[Topic, ...]:
        """Those that are read."""
        return tuple(self._fold)

    @override
    def wants(self, topic: Topic, key: str) -> bool:
        head, _, _ = key.partition("/")
        cluster, _, kind = head.rpartition(":")
        if (f"{cluster}:" if cluster else "") != self._prefix:
            return False
        if topic is TAINTS or topic is CONDITIONS:
            return kind == self._target
        return topic is RESOURCES or self._wants(topic, kind, key)

    def _wants(self, topic: Topic, kind: str, key: str) -> bool:  # noqa: ARG002 - for those that read more topics
        """Return whether a record of another topic is needed."""
        return False

    @override
    def apply(self, record: Input) -> None:
        self._fold[record.topic](record)

    @override
    def changed(self) -> Iterable[int] | None:
        return ()  # what has changed was told while it was folded in

    def own_taints(self, target: str, uid: str) -> tuple[TaintRecord, ...] | None:
        """Return the taints of a target that Moorage or a user of the gateway gives it. None if nothing is known of it.

        Those that were set in the cluster are not among them, also while the record of one that was just
        removed there is still older.
        """
        found = self.taints.get(target)
        record = self.resources.get(str(ResourceKey(self._target, "", target, self._cluster)))
        if found is None or record is None or record.uid != uid or found.target_uid not in {"", uid}:
            return None
        return tuple(
            taint
            for taint in found.taints
            if any(origin is not TaintOrigin.EXPLICIT for origin in taint.origins) or taint.identity in record.wished
        )

    def condition_of(self, target: str, uid: str, kind: str) -> ConditionChanged | None:
        """Return a condition of the target with this uid. None if nothing is known of it."""
        found = self.conditions.get(target, {}).get(kind)
        return found if found is not None and found.target_uid in {"", uid} else None

    def is_said(self, report: Report, uid: str, source: str) -> bool:
        """Return whether a condition of the target with this uid is what a source reports of it."""
        found = self.condition_of(report.target.name, uid, report.type)
        if found is None:
            return False
        said = (found.status.value, found.reason, found.message, found.source)
        return said == (report.status, report.reason, report.message, source)

    def is_taken_over(self, target: str, kind: str, source: str) -> bool:
        """Return whether another source than this one has reported a condition of a target last."""
        found = self.conditions.get(target, {}).get(kind)
        return found is not None and found.source != source

    def was_said_last(self, target: str, uid: str, kind: str, *, source: str, reason: str) -> bool:
        """Return whether a source has given a condition of the target with this uid its present reason."""
        found = self.condition_of(target, uid, kind)
        return found is not None and (found.source, found.reason) == (source, reason)

    @property
    def _cluster(self) -> str:
        return self._prefix.removesuffix(":")

    def _resource(self, record: Input) -> None:
        event = record.event
        if isinstance(event, ResourceDeclared) and event.mirrored is not None:
            source = event.mirrored.source
            wished = frozenset((one.key, one.effect) for one in event.wishes if one.present and one.actor != source)
            digest = digest_of(event.object, event.mirrored.taints, keeps_taints=event.mirrored.keeps_taints)
            uid = event.mirrored.cluster_uid
            self.resources[record.key] = MirroredRecord(event.uid, source, digest, uid, wished)
        elif self.resources.pop(record.key, None) is None:
            return
        key = ResourceKey.parse(record.key)
        if key.kind == self._target:
            self._touched(self._target, key.name)

    def _tainted(self, record: Input) -> None:
        target, event = TargetKey.parse(record.key).name, record.event
        if isinstance(event, TargetTainted):
            self.taints[target] = event
        else:
            self.taints.pop(target, None)
        self._touched(self._target, target)

    def _condition(self, record: Input) -> None:
        key, event = ConditionKey.parse(record.key), record.event
        target = TargetKey.parse(key.target).name
        if isinstance(event, ConditionChanged):
            self.conditions.setdefault(target, {})[key.type] = event
        else:
            drop(self.conditions, target, key.type)
        self._touched(self._target, target)


class Bound(NamedTuple):
    """A binding of a workload to a target."""

    uid: str
    generation: int
    target: str


class WorkTables(TargetTables, Generic[Decision, Eviction]):
    """Tables that also contain the decisions on the workloads on the targets, and their health."""

    def __init__(self, kind: str, cluster: str, touched: Touched) -> None:
        super().__init__(kind, cluster, touched)
        self.health: dict[str, dict[str, Health]] = {}
        """By the key of the workload, by the key of the target."""

        self.placed: dict[str, Decision] = {}
        """The last decision, by the key of the workload."""

        self.bound: dict[str, dict[str, Bound]] = {}
        """By the key of the workload, by the name of the target."""

        self.evictions: dict[str, dict[str, Eviction]] = {}
        """By the key of the workload, by that of the eviction: those that are requested."""

        self._fold |= {
            BINDINGS: self._binding,
            PLACEMENTS: self._placement,
            EVICTIONS: self._eviction,
            WORKLOAD_CONDITIONS: self._workload_condition,
        }

    @override
    def _wants(self, topic: Topic, kind: str, key: str) -> bool:
        return kind in self._work and (topic is not WORKLOAD_CONDITIONS or key.endswith(f"|{HEALTHY}"))

    @property
    @abstractmethod
    def _work(self) -> Collection[str]:
        """The kinds of the workloads."""

    @abstractmethod
    def _kept_decision(self, event: WorkloadPlaced) -> Decision:
        """Return what is kept of a decision."""

    @abstractmethod
    def _kept_eviction(self, event: EvictionDecided) -> Eviction:
        """Return what is kept of a requested eviction."""

    def _binding(self, record: Input) -> None:
        key, event = BindingKey.parse(record.key), record.event
        name = key.target.rpartition("/")[2]
        if isinstance(event, WorkloadBound):
            self.bound.setdefault(key.workload, {})[name] = Bound(event.uid, event.generation, name)
        else:
            drop(self.bound, key.workload, name)
        self._touch(key.workload)

    def _placement(self, record: Input) -> None:
        if isinstance(record.event, WorkloadPlaced):
            self.placed[record.key] = self._kept_decision(record.event)
        else:
            self.placed.pop(record.key, None)
        self._touch(record.key)

    def _eviction(self, record: Input) -> None:
        key, event = EvictionKey.parse(record.key), record.event
        if isinstance(event, EvictionDecided) and event.state is EvictionState.REQUESTED:
            self.evictions.setdefault(key.workload, {})[record.key] = self._kept_eviction(event)
        else:
            drop(self.evictions, key.workload, record.key)
        self._touch(key.workload)

    def _touch(self, workload: str) -> None:
        self._touched(ResourceKey.parse(workload).kind, workload)

    def is_health_said(self, report: Report) -> bool:
        """Return whether a workload has the health of a report."""
        workload = report.workload.key if report.workload is not None else ""
        known = self.health.get(workload, {}).get(report.target.key)
        return known == (report.workload_uid, report.binding_generation, report.status)

    def _workload_condition(self, record: Input) -> None:
        key, event = WorkloadConditionKey.parse(record.key), record.event
        if isinstance(event, WorkloadConditionChanged):
            found = Health(event.workload_uid, event.binding_generation, event.status.value)
            self.health.setdefault(key.workload, {})[key.target] = found
        else:
            drop(self.health, key.workload, key.target)


def drop(table: dict[str, dict[str, Any]], outer: str, inner: str) -> None:
    """Remove an entry of a table of tables, and the inner table with the last of its entries."""
    known = table.get(outer)
    if known is not None:
        known.pop(inner, None)
        if not known:
            del table[outer]
