"""The view of clusters, policies, bindings, evictions and workloads' health that all partitions of a process share."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import islice
from typing import Final, Protocol

from pydantic import ValidationError

from moorage.decide.scheduling.karmada.fleet import ClusterFleet, ClusterInfo, FleetChange
from moorage.decide.scheduling.karmada.policy_match import CLUSTER_WIDE, NAMESPACED, Policy, policy_of
from moorage.decide.scheduling.karmada.scheduler import ClusterScheduler
from moorage.runtime.service import Input
from moorage.workers.placement.engine.view_tables import (
    Declaration,
    EvictionTable,
    Overlay,
    TargetTable,
    present_taints,
)
from moorage_schemas.condition import HEALTHY, ConditionStatus, WorkloadConditionChanged
from moorage_schemas.envelope import Meta
from moorage_schemas.keys import BindingKey, TargetKey, workload_condition_key
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetKind
from moorage_schemas.resource import ResourceDeclared, target_of_resource
from moorage_schemas.taint import TargetTainted, Toleration
from moorage_schemas.topics import BINDINGS, EVICTIONS, RESOURCES, TAINTS, WORKLOAD_CONDITIONS, Topic

CLUSTERS: Final = f"{TargetKind.CLUSTER.value}/"
POLICIES: Final = (f"{NAMESPACED}/", f"{CLUSTER_WIDE}/")

Scope = tuple[str, str, str]
"""The scope of a policy: apiVersion, kind and namespace; the namespace is empty for all."""

_CHANGED: Final = 1024
"""The number of changes of policies that are remembered by scope."""

_NONE: Final[list[Policy]] = []


class ClusterListener(Protocol):
    """A partition's state, as the view sees it."""

    def notice(self, workload: str, meta: Meta) -> None:
        """Note a change that concerns a placed workload. Workloads of other partitions are ignored."""

    def healthy(self, workload: str, meta: Meta) -> None:
        """Note that a workload was reported healthy. This has an effect only while it leaves a cluster."""

    def cluster_removed(self, name: str, meta: Meta) -> None:
        """Note that a cluster was deleted, or created again under its name."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a binding. When they change, the binding is written again."""

    tolerations: tuple[Toleration, ...]
    requests: tuple[tuple[str, int], ...]
    replicas: int
    labels: tuple[tuple[str, str], ...]
    purge_mode: str
    deployer: str = ""
    suspended: bool = False
    preserved: bool = False


@dataclass(frozen=True, slots=True)
class ClusterBinding:
    """A binding of a workload to a cluster."""

    generation: int
    revision: int
    bound_time: datetime
    terms: Terms
    kept_time: datetime | None = None

    @property
    def age(self) -> tuple[int, int]:
        """A value that orders the states of one binding."""
        return (self.generation, self.revision)


class ClusterView:
    """The whole fleet, as the placement of resources on clusters uses it."""

    def __init__(self) -> None:
        self.fleet = ClusterFleet()
        self.scheduler = ClusterScheduler(self.fleet)
        self.policies: dict[str, Policy] = {}
        self.openings = 0
        """A number that grows with every change that may allow another placement: a new cluster, fewer taints."""

        self.rooms = 0
        """A number that grows with `openings`, and with every change that may allow to place a waiting resource: more
        room."""

        self.opened_by: Meta | None = None
        self.policy_version = 0
        """A number that grows with each change of a policy."""

        self._changed: deque[frozenset[Scope]] = deque(maxlen=_CHANGED)
        self.policy_by: Meta | None = None
        self.bindings: Overlay[ClusterBinding] = Overlay(lambda found, assumed: found.age >= assumed.age)
        """The bindings of workloads to clusters, by binding key."""

        self.evictions = EvictionTable()
        self.targets = TargetTable()
        self._of_scope: dict[Scope, list[Policy]] = {}
        self._bound_of: dict[str, set[str]] = {}
        self._healthy: dict[str, datetime] = {}
        self._listeners: list[ClusterListener] = []

    # Input from the log.

    @staticmethod
    def concerns(topic: Topic, key: str) -> bool:
        """Return whether a record is for this view, by its key."""
        if topic is RESOURCES:
            return key.startswith((CLUSTERS, *POLICIES))
        if topic is TAINTS:
            return key.startswith(CLUSTERS)
        about = BindingKey.parse(key).target
        return about.startswith(CLUSTERS) and (topic is not WORKLOAD_CONDITIONS or about.endswith(f"|{HEALTHY}"))

    def apply(self, record: Input) -> None:
        """Fold in a record. A record that is not newer changes nothing."""
        event = record.event
        if record.topic is RESOURCES:
            declared = event if isinstance(event, ResourceDeclared) else None
            if record.key.startswith(CLUSTERS):
                self._cluster(record, declared)
            else:
                self._policy(record, declared)
        elif record.topic is TAINTS:
            self._taints(record, event if isinstance(event, TargetTainted) else None)
        elif record.topic is BINDINGS:
            self._binding(record.key, event if isinstance(event, WorkloadBound) else None)
        elif record.topic is EVICTIONS:
            requested = self.evictions.fold(record)
            if requested is not None:
                self._notify(requested.event.workload.key, record.meta)
        elif record.topic is WORKLOAD_CONDITIONS:
            self._condition(record, event if isinstance(event, WorkloadConditionChanged) else None)

    def _cluster(self, record: Input, event: ResourceDeclared | None) -> None:
        target = target_of_resource(record.key)
        if target is None:
            return
        found = self.targets.declare(target.name, event)
        if found in {Declaration.DELETED, Declaration.REPLACED}:
            self.fleet.remove(target.name)
            self._removed(target.name, record.meta)
        if found not in {Declaration.STALE, Declaration.DELETED}:
            self._fold(target.name, record.meta)

    def _taints(self, record: Input, event: TargetTainted | None) -> None:
        name = TargetKey.parse(record.key).name
        self.targets.taint(name, event)
        self._fold(name, record.meta)

    def _fold(self, name: str, meta: Meta) -> None:
        declared = self.targets.declared(name)
        if declared is None:
            return
        try:
            info = ClusterInfo.of(declared.object, present_taints(declared, self.targets.tainted(name)))
        except ValidationError:
            return  # the gateway accepts only readable objects; the former state is kept
        change = self.fleet.put(info)
        if change >= FleetChange.ROOM:
            self.rooms += 1
            self.openings += change is FleetChange.OPENED
            self.opened_by = meta

    def _removed(self, name: str, meta: Meta) -> None:
        for listener in self._listeners:
            listener.cluster_removed(name, meta)

    def _policy(self, record: Input, event: ResourceDeclared | None) -> None:
        before = self.policies.pop(record.key, None)
        if event is not None:
            try:
                self.policies[record.key] = policy_of(event.object)
            except ValidationError:
                if before is not None:
                    self.policies[record.key] = before
                return
        after = self.policies.get(record.key)
        for scope in _scopes(before) | _scopes(after):
            mine = [policy for policy in self._of_scope.get(scope, ()) if policy is not before]
            if after is not None and scope in _scopes(after):
                mine.append(after)
            if mine:
                self._of_scope[scope] = mine
            else:
                self._of_scope.pop(scope, None)
        self._changed.append(frozenset(_scopes(before) | _scopes(after)))
        self.policy_version += 1
        self.policy_by = record.meta

    def _binding(self, key: str, event: WorkloadBound | None) -> None:
        workload = BindingKey.parse(key).workload
        found = bound_of(event) if event is not None else None
        known = self.bindings.logged.get(key)
        if found is not None and known is not None and found.age < known.age:
            self.bindings.confirm(key, found)
            return
        self.bindings.arrive(key, found)
        if found is not None:
            self._bound_of.setdefault(workload, set()).add(key)
        elif known is not None:
            self._bound_of[workload].discard(key)
            if not self._bound_of[workload]:
                del self._bound_of[workload]

    def _condition(self, record: Input, event: WorkloadConditionChanged | None) -> None:
        if event is not None and event.status is ConditionStatus.TRUE:
            # A report that was accepted late is about an earlier time. A report from a clock that is ahead is about the
            # present.
            heard = event.accepted_time or event.last_heartbeat_time
            self._healthy[record.key] = min(heard, event.last_heartbeat_time)
            for listener in self._listeners:
                listener.healthy(BindingKey.parse(record.key).workload, record.meta)
        else:
            self._healthy.pop(record.key, None)

    def _notify(self, workload: str, meta: Meta) -> None:
        for listener in self._listeners:
            listener.notice(workload, meta)

    # Partitions and queries.

    def attach(self, listener: ClusterListener) -> None:
        """Add a partition."""
        self._listeners.append(listener)

    def detach(self, listener: ClusterListener) -> None:
        """Remove a partition, and undo what it has assumed."""
        for key in self.bindings.assumed_by(listener):
            self.bindings.put_back(key, None)
        self._listeners = [one for one in self._listeners if one is not listener]

    def policies_for(self, api_version: str, kind: str, namespace: str) -> Sequence[Policy]:
        """Return the policies that may claim a resource of a kind in a namespace."""
        mine = self._of_scope.get((api_version, kind, namespace), _NONE)
        return mine + self._of_scope.get((api_version, kind, ""), _NONE) if namespace else mine

    def changed_scopes(self, version: int) -> frozenset[Scope] | None:
        """Return the scopes of the policies that have changed since `policy_version` had a value.

        Returns None if too many have changed since then.
        """
        count = self.policy_version - version
        if count > len(self._changed):
            return None
        return frozenset().union(*islice(self._changed, len(self._changed) - count, None))

    def bindings_of(self, workload: str) -> list[str]:
        """Return the keys of the bindings of a workload that are in the log, sorted."""
        return sorted(self._bound_of.get(workload, ()))

    def healthy_since(self, workload: str, cluster: str, bound: datetime) -> bool:
        """Return whether a workload was reported healthy on a cluster since it was bound there.

        Many deployers report times in whole seconds, so a report from the same second counts.
        """
        reported = self._healthy.get(workload_condition_key(workload, f"{CLUSTERS}{cluster}", HEALTHY))
        return reported is not None and reported >= bound.replace(microsecond=0)


def _scopes(policy: Policy | None) -> set[Scope]:
    return set() if policy is None else {(api, kind, policy.namespace) for api, kind in policy.selects}


def bound_of(event: WorkloadBound) -> ClusterBinding:
    """Return the fields of a binding that the view keeps."""
    terms = Terms(
        tolerations=event.tolerations,
        requests=tuple(sorted(event.requests.items())),
        replicas=event.replicas,
        labels=tuple(sorted(event.labels.items())),
        purge_mode=event.purge_mode,
        deployer=event.deployer,
        suspended=event.suspended,
        preserved=event.preserved,
    )
    return ClusterBinding(event.generation, event.revision, event.bound_time, _shared(terms), event.kept_time)


_shared: Callable[[Terms], Terms] = lru_cache(maxsize=65_536)(lambda terms: terms)
"""Returns the same object for equal terms. Tolerations are frozen, so they have a hash."""
