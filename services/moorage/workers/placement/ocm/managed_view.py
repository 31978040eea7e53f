"""The view of OCM that all partitions of a process share: clusters, taints, scores, sets, bindings, decisions.

The decisions of all placements are counted by cluster, for Balance. They come from the log and, until the log has them,
from this process's own partitions (`assume`). So each placement counts the selections of the placements before it.
Decisions of another scheduler on a real hub count where nothing is decided here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, Generic, TypeVar

import numpy as np
from pydantic import ValidationError

from moorage.decide.scheduling.ocm.cluster_sets import ManagedSet, ManagedSets, UsableSets, usable_sets
from moorage.decide.scheduling.ocm.columns.cluster_facts import ManagedClusterFacts, ScoreFacts
from moorage.decide.scheduling.ocm.columns.column import Aspect, Mask
from moorage.decide.scheduling.ocm.columns.managed_fleet import ManagedFleet, Touched
from moorage.decide.scheduling.ocm.columns.usage import Usage
from moorage.decide.scheduling.ocm.scheduler import PlacementScheduler
from moorage.runtime.service import Input
from moorage.workers.placement.engine.view_tables import Declaration, Overlay, TargetTable, present_taints
from moorage.workers.placement.ocm.equivalence_classes import ClassIndex, ClassMember, EquivalenceClass
from moorage.workers.placement.ocm.spec import PLACEMENT_PREFIX, page_number
from moorage_schemas.envelope import Meta
from moorage_schemas.keys import ResourceKey, TargetKey
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.refs import TargetKind
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.managed import ManagedClusterSet, PlacementDecision
from moorage_schemas.resources.names import PLACEMENT_LABEL
from moorage_schemas.taint import TargetTainted
from moorage_schemas.topics import PLACEMENTS, RESOURCES, TAINTS, Topic

_FIRST: Final = 64
T = TypeVar("T")


class Selections(Generic[T]):
    """The clusters of each placement. With 10,000 placements and 1,000 clusters it always takes about a megabyte.

    Args:
        fleet: gives each name its row.
    """

    def __init__(self, fleet: ManagedFleet) -> None:
        self._fleet = fleet
        self._who: list[T | None] = []
        self._free: list[int] = []
        self._bits = np.zeros((_FIRST, (fleet.capacity + 7) // 8), dtype=np.uint8)

    def enter(self, who: T) -> int:
        """Return a place for a new entry that has no clusters yet."""
        if self._free:
            place = self._free.pop()
            self._who[place] = who
        else:
            place = len(self._who)
            self._who.append(who)
            if place >= len(self._bits):
                self._bits = np.concatenate([self._bits, np.zeros_like(self._bits)])
        return place

    def leave(self, place: int) -> None:
        """Release a place."""
        self._who[place] = None
        self._bits[place] = 0
        self._free.append(place)

    def put(self, place: int, names: Iterable[str]) -> None:
        """Set the clusters of a place. Names outside the fleet are left out."""
        rows = self._fleet.rows_of(names)
        width = (self._fleet.capacity + 7) // 8
        if width > self._bits.shape[1]:
            more = np.zeros((len(self._bits), width - self._bits.shape[1]), dtype=np.uint8)
            self._bits = np.concatenate([self._bits, more], axis=1)
        mask = np.zeros(8 * self._bits.shape[1], dtype=np.bool_)
        mask[rows] = True
        self._bits[place] = np.packbits(mask)

    @property
    def selected(self) -> Mask:
        """The clusters that at least one entry has."""
        bits = np.unpackbits(np.bitwise_or.reduce(self._bits, axis=0))
        found = np.zeros(self._fleet.capacity, dtype=np.bool_)
        found[: bits.size] = bits[: found.size]
        return found

    def having(self, row: int) -> Iterator[T]:
        """Yield the entries that have the cluster of a row."""
        if row // 8 >= self._bits.shape[1]:
            return
        for place in np.flatnonzero(self._bits[:, row // 8] & (128 >> row % 8)).tolist():
            who = self._who[place]
            if who is not None:
                yield who


class Membership:
    """Sets, and bindings by namespace. A cluster's sets follow from its labels."""

    def __init__(self) -> None:
        self.sets = ManagedSets()
        self._bound: dict[str, set[str]] = {}

    def bind(self, namespace: str, name: str) -> bool:
        """Bind a set to a namespace, whether the set exists or not. Return whether it was not bound before."""
        bound = self._bound.setdefault(namespace, set())
        if name in bound:
            return False
        bound.add(name)
        return True

    def unbind(self, namespace: str, name: str) -> bool:
        """Delete a binding. Return whether it existed."""
        bound = self._bound.get(namespace)
        if bound is None or name not in bound:
            return False
        bound.discard(name)
        if not bound:
            del self._bound[namespace]
        return True

    def namespaces(self, name: str) -> list[str]:
        """Return the namespaces that a set is bound to, sorted."""
        return sorted(namespace for namespace, bound in self._bound.items() if name in bound)

    def usable(self, namespace: str, requested: Sequence[str]) -> UsableSets:
        """Return the sets that a placement of a namespace may choose from."""
        return usable_sets(self._bound.get(namespace, ()), self.sets, requested)


CLUSTERS: Final = f"{TargetKind.MANAGED_CLUSTER.value}/"
SETS: Final = "ManagedClusterSet/"
BINDINGS: Final = "ManagedClusterSetBinding/"
SCORES: Final = "AddOnPlacementScore/"
DECISIONS: Final = "PlacementDecision/"

_DECLARED: Final = (CLUSTERS, SETS, BINDINGS, SCORES, DECISIONS)

_LEFT_BEHIND: Final = 256
"""The number of deleted clusters that may be kept in any case."""

Clusters = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SelectedClusters:
    """The clusters of one PlacementDecision, as in its record."""

    uid: str
    """The uid of its placement."""

    generation: int
    clusters: Clusters


@dataclass(frozen=True, slots=True)
class FoundDecision:
    """A PlacementDecision of another scheduler on a real hub."""

    placement: str
    """The key of its placement."""

    clusters: Clusters


class ManagedView:
    """The whole fleet, as OCM placements use it."""

    def __init__(self) -> None:
        self.fleet = ManagedFleet()
        self.scheduler = PlacementScheduler(self.fleet)
        self.usage = Usage(self.fleet)
        self.members = Membership()
        self._targets = TargetTable()
        self._pages: Overlay[SelectedClusters] = Overlay(_reaches)
        self._found: dict[str, FoundDecision] = {}
        self._found_of: dict[str, list[str]] = {}
        """The keys of found decisions in the order of their numbers, by placement."""

        self._index = ClassIndex()
        self._spaces: dict[str, dict[str, ClassMember]] = {}
        self._left_behind = 0
        """Twice the number of deleted clusters that still had decisions after the last clean-up."""

        self._selections: Selections[ClassMember] = Selections(self.fleet)

    # Input from the log.

    @staticmethod
    def concerns(topic: Topic, key: str) -> bool:
        """Return whether a record is for this view, by its key."""
        if topic is RESOURCES:
            return key.startswith(_DECLARED)
        if topic is TAINTS:
            return key.startswith(CLUSTERS)
        return topic is PLACEMENTS and key.startswith(DECISIONS)

    def apply(self, record: Input) -> None:
        """Fold in a record. A record that is not newer changes nothing."""
        event = record.event
        if record.topic is TAINTS:
            self._taints(record, event if isinstance(event, TargetTainted) else None)
        elif record.topic is PLACEMENTS:
            self._decision(record.key, event if isinstance(event, WorkloadPlaced) else None)
        else:
            declared = event if isinstance(event, ResourceDeclared) else None
            _, namespace, name, _ = ResourceKey.parse(record.key)
            try:
                self._resource(record, namespace, name, declared)
            except ValidationError:
                return  # the gateway accepts only readable objects; the former state is kept

    def _resource(self, record: Input, namespace: str, name: str, event: ResourceDeclared | None) -> None:
        if record.key.startswith(CLUSTERS):
            self._cluster(sys.intern(name), event, record.meta)
        elif record.key.startswith(SETS):
            self._set(name, event, record.meta)
        elif record.key.startswith(BINDINGS):
            changed = self.members.unbind if event is None else self.members.bind
            if changed(namespace, name):
                self._regroup([namespace], record.meta)
        elif record.key.startswith(DECISIONS):
            self._find(record.key, event)
        elif event is None:
            self._changed(self.fleet.remove_score(namespace, name), record.meta)
            self._tidy()
        else:
            self._changed(self.fleet.put_score(ScoreFacts.of(event.object)), record.meta)

    def _cluster(self, name: str, event: ResourceDeclared | None, meta: Meta) -> None:
        # This comes first, because a declaration that cannot be read changes nothing.
        facts = None if event is None else self._facts(name, event)
        if self._targets.declare(name, event) is Declaration.STALE:
            return
        if facts is None:
            self._changed(self.fleet.remove(name), meta)
            self._tidy()
        else:
            self._changed(self.fleet.put(facts), meta)

    def _tidy(self) -> None:
        """Drop deleted clusters without decisions when there are many of them."""
        fleet = self.fleet
        if fleet.left_behind > max(self._left_behind, len(fleet), _LEFT_BEHIND):
            fleet.forget((self.usage.counts > 0) | self._selections.selected)
            self._left_behind = 2 * fleet.left_behind

    def _taints(self, record: Input, event: TargetTainted | None) -> None:
        name = sys.intern(TargetKey.parse(record.key).name)
        self._targets.taint(name, event)
        declared = self._targets.declared(name)
        if declared is not None:
            self._changed(self.fleet.put(self._facts(name, declared)), record.meta)

    def _facts(self, name: str, declared: ResourceDeclared) -> ManagedClusterFacts:
        """Return the facts of a cluster. Taints of an earlier cluster of the same name do not count."""
        tainted = self._targets.tainted(name)
        if tainted is not None and tainted.target_uid not in {"", declared.uid}:
            tainted = None
        labels = tainted.labels if tainted is not None else {}
        return ManagedClusterFacts.of(declared.object, taints=present_taints(declared, tainted), labels=labels)

    def _set(self, name: str, event: ResourceDeclared | None, meta: Meta) -> None:
        if event is None:
            changed = self.members.sets.remove(name)
        else:
            found = ManagedClusterSet.model_validate(event.object)
            changed = self.members.sets.put(name, found.spec)
        if changed:
            self._regroup(self.members.namespaces(name), meta)

    # The effects of a change on placements.

    def _changed(self, touched: Touched, meta: Meta) -> None:
        """Notify the placements that the change of a cluster can concern."""
        if not touched:
            return
        having = {member.key: member for member in self._selections.having(touched.row)}
        index = self._index
        # When a cluster is added or removed, all its values change; when it is about to be removed, none need change.
        leaves = touched.before != touched.after and Aspect.SCORES not in touched.aspects
        for one in index.classes.values() if leaves else index.resting_on(touched.columns):
            for member in one.touched(touched.row, touched.columns, having):
                member.partition.notice(member, meta)
        aspects = touched.aspects.value
        for member in having.values():
            if aspects & member.grouped:
                member.partition.notice(member, meta)

    def _regroup(self, namespaces: list[str], meta: Meta) -> None:
        """Decide again on the placements of namespaces whose sets, or the clusters of whose sets, have changed."""
        found = [member for namespace in namespaces for member in self._spaces.get(namespace, {}).values()]
        for member in found:
            self._leave_class(member)
        for member in found:
            self._join_class(member)
            member.partition.notice(member, meta)

    def join(self, member: ClassMember) -> None:
        """Notify a placement of changes from now on."""
        self._spaces.setdefault(member.namespace, {})[member.key] = member
        member.place = self._selections.enter(member)
        self._join_class(member)

    def leave(self, member: ClassMember) -> None:
        """Stop notifying a placement."""
        mine = self._spaces.get(member.namespace, {})
        if mine.get(member.key) is member:
            del mine[member.key]
            if not mine:
                del self._spaces[member.namespace]
        self._selections.leave(member.place)
        self._leave_class(member)

    def selects(self, member: ClassMember, clusters: tuple[Clusters, ...]) -> None:
        """Set the present clusters of a placement."""
        member.clusters = clusters
        member.selected = sum(map(len, clusters))
        self._selections.put(member.place, chain.from_iterable(clusters))

    def _join_class(self, member: ClassMember) -> None:
        key = (self.candidates(self.sets_of(member)), member.terms.key)
        one = self._index.classes.get(key)
        if one is None:
            one = EquivalenceClass(key, member.terms, self.fleet, self.usage)
            self.fleet.hold(one.columns)
            self._index.add(one)
        one.members[member.key] = member
        member.of = one

    def _leave_class(self, member: ClassMember) -> None:
        one, member.of = member.of, None
        if one is None or one.members.get(member.key) is not member:
            return
        del one.members[member.key]
        if not one.members:
            self._index.remove(one)
            self.fleet.release(one.columns)

    def sets_of(self, member: ClassMember) -> UsableSets:
        """Return the sets that a placement may choose from."""
        return self.members.usable(member.namespace, member.terms.sets)

    def candidates(self, sets: UsableSets) -> frozenset[ManagedSet]:
        """Return the sets themselves."""
        found = (self.members.sets.get(name) for name in sets.eligible)
        return frozenset(one for one in found if one is not None)

    # Decisions.

    def _decision(self, key: str, event: WorkloadPlaced | None) -> None:
        found = None
        if event is not None:
            found = SelectedClusters(event.uid, event.generation, self.shared(key, event.clusters))
        before = self.clusters_of(key)
        self._pages.arrive(key, found)
        self._count(before, self.clusters_of(key))

    def assume(self, partition: object, decided: Mapping[str, SelectedClusters | None]) -> None:
        """Count PlacementDecisions of one placement that are about to be written; None for a tombstone.

        All pages are counted together, so that a cluster that only moves between pages causes no change.
        """
        before = tuple(chain.from_iterable(map(self.clusters_of, decided)))
        for key, one in decided.items():
            self._pages.assume(key, one, by=partition)
        self._count(before, tuple(chain.from_iterable(map(self.clusters_of, decided))))

    def drop(self, partition: object) -> None:
        """Undo what a partition has assumed, because it is taken away."""
        for key in self._pages.assumed_by(partition):
            before = self.clusters_of(key)
            self._pages.put_back(key, None)
            self._count(before, self.clusters_of(key))

    def clusters_of(self, key: str) -> Clusters:
        """Return the clusters of a PlacementDecision, written or about to be written, or found on a real hub."""
        page = self._pages.get(key)
        if page is not None:
            return page.clusters
        found = self._found.get(key)
        return found.clusters if found is not None else ()

    def found(self, placement: str) -> Clusters:
        """Return the clusters that another scheduler has selected for a placement on a real hub."""
        return tuple(chain.from_iterable(self._found[key].clusters for key in self._found_of.get(placement, ())))

    def _find(self, key: str, event: ResourceDeclared | None) -> None:
        """Fold in a PlacementDecision of another scheduler; None when it is deleted."""
        found = _found_decision(event) if event is not None else None
        before = self.clusters_of(key)
        if (known := self._found.pop(key, None)) is not None:
            self._found_of[known.placement].remove(key)
            if not self._found_of[known.placement]:
                del self._found_of[known.placement]
        if found is not None:
            self._found[key] = found
            keys = self._found_of.setdefault(found.placement, [])
            keys.append(key)
            keys.sort(key=page_number)
        self._count(before, self.clusters_of(key))

    def shared(self, key: str, clusters: Clusters) -> Clusters:
        """Return the existing object with the same clusters, if there is one."""
        for held in (self._pages.logged.get(key), self._pages.get(key)):
            if held is not None and held.clusters == clusters:
                return held.clusters
        return tuple(map(sys.intern, clusters))

    def _count(self, before: Clusters, after: Clusters) -> None:
        if before is after or before == after:
            return
        was, now = set(before), set(after)
        if len(was) == len(before) and len(now) == len(after):
            self.usage.remove(was - now)
            self.usage.add(now - was)
        else:  # after a crash the log may be behind, and still have a cluster in the page that it has left
            self.usage.remove(before)
            self.usage.add(after)


def _found_decision(event: ResourceDeclared) -> FoundDecision:
    """Read a PlacementDecision of another scheduler."""
    decision = PlacementDecision.model_validate(event.object)
    placement = (decision.metadata.labels or {}).get(PLACEMENT_LABEL, "")
    clusters = (sys.intern(one.cluster_name) for one in decision.status.decisions or () if one.cluster_name)
    return FoundDecision(f"{PLACEMENT_PREFIX}{event.namespace}/{placement}", tuple(dict.fromkeys(clusters)))


def _reaches(found: SelectedClusters, assumed: SelectedClusters) -> bool:
    return found.uid == assumed.uid and found.generation >= assumed.generation
