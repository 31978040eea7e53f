"""The view of nodes, reservations, evictions and rules that all partitions of a process share.

Bindings come from the log and, until the log has them, from this process's own decisions (`assume`, `release`). So
partitions that decide one after another do not use the same room twice. Between processes the order of the log decides:
if a node has no room for some bindings, the latest ones must be withdrawn (`is_overcommitted`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, Protocol

import numpy as np

from moorage.decide.kubernetes.quantities import PODS
from moorage.decide.scheduling.nodes.bound_pods import PodFacts
from moorage.decide.scheduling.nodes.fleet import Fleet, Rows
from moorage.decide.scheduling.nodes.scheduler import NodeScheduler
from moorage.runtime.service import Input
from moorage.workers.placement.engine.view_tables import EvictionTable, Overlay, Requested
from moorage.workers.placement.pods.clashes import Clashes
from moorage.workers.placement.pods.nodes import NodeTable
from moorage.workers.placement.pods.reservation import Reservation, reservation_of
from moorage.workers.placement.pods.surroundings import KINDS, Surroundings
from moorage_schemas.envelope import Meta
from moorage_schemas.keys import BindingKey, EvictionKey, ResourceKey, TargetKey
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetKind
from moorage_schemas.resource import ResourceDeclared, target_of_resource
from moorage_schemas.resources.dedicated import DedicatedNodes
from moorage_schemas.taint import TargetTainted
from moorage_schemas.topics import BINDINGS, EVICTIONS, RESOURCES, TAINTS, Topic

_OWNERS: Final = 32
"""The number of owners whose rows are kept. Placement works on one owner of each partition at a time."""


class _Kept:
    def __init__(self, comings: int, rows: list[int]) -> None:
        self.comings = comings
        self.size = len(rows)
        self.rows: Rows = np.zeros(max(16, 2 * self.size), dtype=np.intp)
        self.rows[: self.size] = rows


class ReplicaRows:
    """For each owner, one row for each of its pods on a known node."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._kept: dict[str, _Kept] = {}

    def of(self, owner: str, nodes: Iterable[str]) -> Rows:
        """Return the rows of an owner, in any order. They are valid until the next change.

        Args:
            owner: the owner's key.
            nodes: the nodes of all of its pods, which are read only if its rows are not kept.
        """
        fleet = self._fleet
        kept = self._kept.get(owner)
        if kept is None or kept.comings != fleet.comings:
            if len(self._kept) >= _OWNERS:
                self._kept.clear()
            kept = self._kept[owner] = _Kept(fleet.comings, [fleet.row_of(name) for name in nodes if name in fleet])
        return kept.rows[: kept.size]

    def add(self, owner: str, node: str) -> None:
        """Note a pod of an owner on a node."""
        kept = self._present(owner, node)
        if kept is None:
            return
        if kept.size == kept.rows.size:
            kept.rows = np.concatenate([kept.rows, np.zeros_like(kept.rows)])
        kept.rows[kept.size] = self._fleet.row_of(node)
        kept.size += 1

    def remove(self, owner: str, node: str) -> None:
        """Note that an owner has one pod less on a node."""
        kept = self._present(owner, node)
        if kept is None:
            return
        place = int((kept.rows[: kept.size] == self._fleet.row_of(node)).argmax())
        kept.size -= 1
        kept.rows[place] = kept.rows[kept.size]

    def _present(self, owner: str, node: str) -> _Kept | None:
        """Return the kept rows of an owner, if they are valid and the node is in the fleet."""
        kept = self._kept.get(owner)
        known = kept is not None and kept.comings == self._fleet.comings and node in self._fleet
        return kept if known else None


_RULES: Final = "DedicatedNodes/"
_CHANGED: Final = 1024
"""The number of changes of nodes that are remembered by name."""

_NODES: Final = f"{TargetKind.NODE.value}/"


class PodListener(Protocol):
    """A partition, as the view sees it."""

    def notice(self, owner: str, workload: str, meta: Meta, *, removed: str = "") -> None:
        """Note a change that concerns a bound pod. Pods of other partitions are ignored.

        Args:
            owner: the key of the pod's owner.
            workload: the pod's key.
            meta: the attributes of the event.
            removed: the name of its node, if that was deleted, or created again.
        """


class PodView:
    """The whole fleet, as the placement of pods uses it. Each cluster that is mirrored under a name has its own.

    Args:
        cluster: the name of the cluster; empty for the home fleet.
    """

    def __init__(self, cluster: str = "") -> None:
        self.cluster = cluster
        before = f"{cluster}:" if cluster else ""
        self._node_prefix = before + _NODES
        self._rule_prefix = before + _RULES
        self._surrounding = tuple(before + kind for kind in KINDS)
        self._declared = (self._node_prefix, self._rule_prefix, *self._surrounding)
        self.fleet = Fleet()
        self.nodes = NodeTable(self.fleet)
        self.scheduler = NodeScheduler(self.fleet)
        self.surroundings = Surroundings()
        self.fleet.pods.namespace_labels = self.surroundings.labels_of
        self.fleet.pods.every = self._every_pod
        self.rules: tuple[DedicatedNodes, ...] = ()
        self.rules_version = 0
        self.openings = 0
        """A number that grows with every change that may let a pending pod fit: a node, room, fewer taints, rules."""

        self.opened_by: Meta | None = None
        self.arrived_by: Meta | None = None
        """The cause of the last arrival of a pod that `BoundPods.arrivals` counts."""

        self.changes = 0
        """A number that grows with every change of a node. DaemonSets are checked there after each change."""

        self.changed_by: Meta | None = None
        self._changed: deque[str] = deque(maxlen=_CHANGED)
        self.evictions = EvictionTable()
        self._bindings: Overlay[Reservation] = Overlay(lambda found, assumed: found.age >= assumed.age)
        self._at_node: dict[str, set[str]] = {}
        self._leaving: set[str] = set()
        """The bindings whose end an eviction requests. They take their room until then."""

        self.clashes = Clashes(self.fleet, self.nodes, self._bindings.logged, self._at_node)
        self._of_owner: dict[str, dict[str, str]] = {}
        self._replicas = ReplicaRows(self.fleet)
        self._rules: dict[str, DedicatedNodes] = {}
        self._listeners: list[PodListener] = []

    # Input from the log.

    def concerns(self, topic: Topic, key: str) -> bool:
        """Return whether a record is for this view, by its key."""
        if topic is RESOURCES:
            return key.startswith(self._declared)
        if topic is TAINTS:
            return key.startswith(self._node_prefix)
        about_pods = topic is BINDINGS or topic is EVICTIONS
        return about_pods and BindingKey.parse(key).target.startswith(self._node_prefix)

    def apply(self, record: Input) -> None:
        """Fold in a record. A record that is not newer changes nothing."""
        if record.topic is RESOURCES:
            self._resource(record)
        elif record.topic is TAINTS:
            name = TargetKey.parse(record.key).name
            event = record.event if isinstance(record.event, TargetTainted) else None
            self._node_changed(name, self.nodes.taint(name, event), record.meta)
        elif record.topic is BINDINGS:
            self._binding(record)
        elif record.topic is EVICTIONS:
            requested = self.evictions.fold(record)
            self._follow_eviction(EvictionKey.parse(record.key).binding, record.meta)
            if requested is not None:
                for listener in self._listeners:
                    listener.notice(requested.event.owner.key, requested.event.workload.key, record.meta)

    def _resource(self, record: Input) -> None:
        event = record.event if isinstance(record.event, ResourceDeclared) else None
        if record.key.startswith(self._rule_prefix):
            if event is None:
                self._rules.pop(record.key, None)
            else:
                self._rules[record.key] = DedicatedNodes.model_validate(event.object)
            self.rules = tuple(self._rules[key] for key in sorted(self._rules))
            self.rules_version += 1
            self._opened(record.meta)
            return
        if record.key.startswith(self._surrounding):
            if self.surroundings.fold(record.key, event):
                self.fleet.pods.namespaces_changed()
                self._opened(record.meta)
            return
        target = target_of_resource(record.key)
        if target is None or target.kind is not TargetKind.NODE:
            return
        before = self.nodes.targets.uid(target.name)
        opened = self.nodes.declare(target.name, event, record.meta.time)
        removed = event is None or before not in {None, event.uid}
        self._node_changed(target.name, opened, record.meta)
        if removed:
            for key in sorted(self._at_node.get(target.name, ())):
                self._notify(key, record.meta, removed=target.name)

    def _node_changed(self, name: str, opened: bool | None, meta: Meta) -> None:  # noqa: FBT001 - a value that states what happened, not a switch
        """Note a change of a node: None for no change, True when more may fit now."""
        if opened is None:
            return
        self.changes += 1
        self.changed_by = meta
        self._changed.append(name)
        if opened:
            self._opened(meta)
        else:
            self.fleet.pods.nodes_changed()
            self.arrived_by = meta

    def _opened(self, meta: Meta | None) -> None:
        self.openings += 1
        self.opened_by = meta

    def _binding(self, record: Input) -> None:
        key = record.key
        logged, before = self._bindings.logged.get(key), self._bindings.get(key)
        arrived: Reservation | None = None
        if isinstance(record.event, WorkloadBound):
            arrived = reservation_of(record.event, place=(record.partition, record.offset))
            if logged is not None:
                if arrived.age < logged.age:
                    return
                if arrived.generation == logged.generation:
                    arrived.place = logged.place  # an edited binding keeps its place in the order
        confirmed = self._bindings.arrive(key, arrived)
        now = self._bindings.get(key)
        self._account(key, before, now, record.meta)
        if now is None:
            if record.event is None and (before is not None or confirmed):
                self._opened(record.meta)
        else:
            self._bound(key, logged, now, record.meta)

    def _bound(self, key: str, logged: Reservation | None, now: Reservation, meta: Meta) -> None:
        """Note the effects of a new or edited binding on others."""
        if logged is not None and _releases(logged, now):
            self._opened(meta)
        if self._is_full(now.node):
            self._notify_overcommitted(now.node, meta)
        if logged is None or logged.generation != now.generation:
            for loser in self.clashes.losers(key):
                self._notify(loser, meta)

    def _notify_overcommitted(self, node: str, meta: Meta) -> None:
        for key in sorted(self._at_node.get(node, ())):
            if self.is_overcommitted(key):
                self._notify(key, meta)

    def _notify(self, key: str, meta: Meta, *, removed: str = "") -> None:
        reservation = self._bindings.get(key)
        if reservation is not None:
            for listener in self._listeners:
                listener.notice(reservation.decided_under, reservation.workload, meta, removed=removed)

    # Input from this process's own decisions.

    def attach(self, listener: PodListener) -> None:
        """Add a partition."""
        self._listeners.append(listener)

    def detach(self, listener: PodListener) -> None:
        """Remove a partition, and undo what it has assumed.

        Because of these assumptions other partitions may have found no room, and no record will report that there is
        room again.
        """
        self._listeners = [one for one in self._listeners if one is not listener]
        freed = False
        for key in self._bindings.assumed_by(listener):
            before = self._bindings.get(key)
            self._bindings.put_back(key, None)
            now = self._bindings.get(key)
            self._account(key, before, now)
            freed |= before is not None and (now is None or _releases(before, now))
        if freed:
            self._opened(None)

    def assume(self, listener: PodListener, key: str, bound: WorkloadBound, cause: Meta | None = None) -> None:
        """Count a binding that is about to be written, because of an event."""
        self._assume(listener, key, reservation_of(bound), cause)

    def release(self, listener: PodListener, key: str) -> None:
        """Stop counting a binding whose tombstone is about to be written."""
        self._assume(listener, key, None)

    def set_aside(self, listener: PodListener, key: str) -> Callable[[], None]:
        """Remove a binding for a query. Return a function that restores it."""
        known, before = self._bindings.assumption(key), self._bindings.get(key)
        self._assume(listener, key, None)

        def restore() -> None:
            arrivals = self.fleet.pods.arrivals
            self._bindings.put_back(key, known)
            self._account(key, None, before)
            self.fleet.pods.arrivals = arrivals  # nothing has arrived

        return restore

    def _assume(
        self, listener: PodListener, key: str, reservation: Reservation | None, cause: Meta | None = None
    ) -> None:
        before = self._bindings.get(key)
        self._bindings.assume(key, reservation, by=listener)
        self._account(key, before, reservation, cause)

    def _account(
        self, key: str, before: Reservation | None, now: Reservation | None, cause: Meta | None = None
    ) -> None:
        if before is now or (before is not None and now is not None and before.takes_as(now)):
            return
        arrivals = self.fleet.pods.arrivals
        if before is not None:
            self._remove(key, before)
        if now is not None:
            self._add(key, now)
        if self.fleet.pods.arrivals != arrivals:
            self.arrived_by = cause

    def _remove(self, key: str, one: Reservation) -> None:
        _drop(self._at_node, one.node, key)
        self._disown(one.decided_under, key)
        if one.takes_room:
            self.fleet.take(one.node, one.requests, -1)
            if one.owner != one.decided_under:
                self._disown(one.owner, key)
            self._replicas.remove(one.owner, one.node)
            if self._is_noted(one):
                self.fleet.pods.remove(one.node, self._facts(key, one))
        self._leaving.discard(key)

    def _add(self, key: str, one: Reservation) -> None:
        self._at_node.setdefault(one.node, set()).add(key)
        self._of_owner.setdefault(one.decided_under, {})[key] = one.node
        if self.evictions.ends(one.workload, one.node, one.generation):
            self._leaving.add(key)
        if one.takes_room:
            self.fleet.take(one.node, one.requests)
            if one.owner != one.decided_under:
                self._of_owner.setdefault(one.owner, {})[key] = one.node
            self._replicas.add(one.owner, one.node)
            if self._is_noted(one):
                self.fleet.pods.add(one.node, self._facts(key, one))

    def _is_noted(self, one: Reservation) -> bool:
        """Return whether constraints of other pods may concern a pod."""
        return self.fleet.pods.complete or one.constraints is not None

    def _facts(self, key: str, one: Reservation) -> PodFacts:
        """Return a pod as constraints of others see it."""
        namespace = ResourceKey.parse(one.workload).namespace
        return PodFacts(namespace, one.labels, one.constraints, one.terminating or key in self._leaving)

    def _every_pod(self) -> Iterator[tuple[str, PodFacts]]:
        for node, keys in self._at_node.items():
            for key in keys:
                one = self._bindings.get(key)
                if one is not None and one.takes_room:
                    yield node, self._facts(key, one)

    def _follow_eviction(self, key: str, meta: Meta) -> None:
        """Note that an eviction has begun or ended. A pod that is being evicted does not count for spreading."""
        one = self._bindings.get(key)
        if one is None or not one.takes_room:
            return
        ends = self.evictions.ends(one.workload, one.node, one.generation)
        if ends is (key in self._leaving):
            return
        before = self._facts(key, one)
        if ends:
            self._leaving.add(key)
        else:
            self._leaving.discard(key)
        if self._is_noted(one):
            self.fleet.pods.remove(one.node, before)
            self.fleet.pods.add(one.node, self._facts(key, one))
            self._opened(meta)

    def _disown(self, owner: str, key: str) -> None:
        owned = self._of_owner[owner]
        del owned[key]
        if not owned:
            del self._of_owner[owner]

    # Queries.

    def reservation(self, key: str) -> Reservation | None:
        """Return the reservation of the present binding, written or about to be written; None when there is none."""
        return self._bindings.get(key)

    def bindings_of(self, owner: str) -> dict[str, str]:
        """Return the keys of the present bindings of an owner's pods, each with its node.

        Mirrored pods are decided on by themselves, so they are not those of their controller.
        """
        return {
            key: node
            for key, node in self._of_owner.get(owner, {}).items()
            if (found := self._bindings.get(key)) is not None and found.decided_under == owner
        }

    def replica_rows(self, owner: str) -> Rows:
        """Return the rows of the nodes on which an owner has pods, one entry for each pod."""
        return self._replicas.of(owner, self._of_owner.get(owner, {}).values())

    def changed_since(self, changes: int) -> list[str] | None:
        """Return the names of the nodes that have changed since `changes` had a value; None if too many have."""
        count = self.changes - changes
        if count > len(self._changed):
            return None
        return list(dict.fromkeys(islice(self._changed, len(self._changed) - count, None)))

    def requested(self, workload: str, uid: str, node: str, generation: int) -> Requested | None:
        """Return the eviction that requests the end of exactly this binding; None when there is none."""
        return self.evictions.requested(workload, uid, node, generation)

    def conflict_of(self, key: str) -> str:
        """Return why a binding must be withdrawn for earlier ones. Empty if it need not be."""
        if self.is_overcommitted(key):
            return "had no room left"
        return "has a pod near it beside which this one cannot be" if self.clashes.loses(key) else ""

    def is_overcommitted(self, key: str) -> bool:
        """Return whether a binding must be withdrawn, because earlier ones leave no room for it on its node.

        Every worker gets the same result: the bindings of a node are in one partition, so their offsets give the order.
        Bindings that were made before the node declared its present resources stay, as in Kubernetes, where shrinking a
        node moves no pod.
        """
        mine = self._bindings.logged.get(key)
        if mine is None or mine.bypassed or not self._is_full(mine.node):
            return False
        since = self.nodes.declared_at(mine.node)
        if since is not None and mine.bound_time < since:
            return False
        left = self.nodes.room(mine.node)
        held = [
            one for other in self._at_node.get(mine.node, ()) if (one := self._bindings.logged.get(other)) is not None
        ]
        for reservation in sorted(held, key=lambda one: (not one.runs, one.place)):
            requested = {PODS: 1, **dict(reservation.requests)}
            lasting = reservation.bypassed or (since is not None and reservation.bound_time < since)
            fits = lasting or all(amount <= left.get(resource, 0) for resource, amount in requested.items())
            if reservation is mine:
                return not fits
            if fits:
                for resource, amount in requested.items():
                    left[resource] = left.get(resource, 0) - amount
        return False

    def _is_full(self, node: str) -> bool:
        """Return whether the reservations on a node exceed its resources."""
        fleet = self.fleet
        if node not in fleet:
            return False
        row = fleet.row_of(node)
        return any(fleet.taken(resource)[row] > fleet.offered(resource)[row] for resource in fleet.resources)


def _releases(before: Reservation, now: Reservation) -> bool:
    """Return whether a reservation releases some of its former resources."""
    if now.node != before.node or (before.takes_room and not now.takes_room):
        return True
    if before.labels != now.labels or before.terminating != now.terminating:
        return True  # constraints of others select it no longer, or it does not count for them
    requested = dict(now.requests)
    return any(amount > requested.get(resource, 0) for resource, amount in before.requests)


def _drop(index: dict[str, set[str]], name: str, key: str) -> None:
    index[name].discard(key)
    if not index[name]:
        del index[name]
