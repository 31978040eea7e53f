"""The nodes as columns, so that every test of a pod is one numpy operation over all nodes.

Each node has a row (its slot in the `TaintMatrix`). The row of a removed node is reused, so rows must be masked with
`alive`. Labels are columns of small integers, built when a selector first uses a key.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from moorage.decide.kubernetes.quantities import CPU, MEMORY, PODS
from moorage.decide.scheduling.nodes.bound_pods import BoundPods
from moorage.decide.taints.dialects.kubernetes import KUBERNETES
from moorage.decide.taints.node_taint_matrix import TaintMatrix
from moorage_schemas.taint import Taint, Toleration

Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]
Counts = npt.NDArray[np.int64]
T = TypeVar("T", bound=np.generic)

UNLIMITED: Final = 1 << 55
"""Stands for enough of a resource. A hundred times this value still fits into 64 bits."""

_KEPT: Final = 512
_TOUCHED: Final = 8192
"""The number of columns that are kept up to date, and of row changes that are remembered for that. When either limit is
exceeded, columns are computed again."""

_LABELS: Final = 256
"""The number of label keys whose columns are kept. Also half the number of values that a column may have in any
case."""

_RESOURCES: Final = 64
"""From this number of resources on, those that no node offers and no pod takes are forgotten."""

_WEIGHT: Final = "weight of "
_MOST: Final = UNLIMITED * 2
"""Larger requests count as this much. They fit on no node anyway."""

TAKEN_AS_ENOUGH: Final = (CPU, MEMORY, PODS)
"""Resources of which a node is assumed to have enough if it does not state them."""


COUNTED_AT_LEAST: Final = {CPU: 100, MEMORY: 200 * 1024 * 1024}
"""The amounts that count in scores (but not in filters) for a pod without requests: a tenth of a core and 200 MiB, so
that such pods are spread too."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node as placement sees it."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    allocatable: Mapping[str, int] = field(default_factory=dict)
    """In whole units. A resource that is missing here is not offered, except those of `TAKEN_AS_ENOUGH`."""


class NodeLabelColumn:
    """The values of one label key over all rows, as integers. 0 stands for a node without the label."""

    def __init__(self, size: int) -> None:
        self.codes: npt.NDArray[np.int32] = np.zeros(size, dtype=np.int32)
        self.values: list[str | None] = [None]
        self._code_of: dict[str | None, int] = {None: 0}

    def put(self, row: int, value: str | None) -> None:
        """Set the value of one row."""
        code = self._code_of.get(value)
        if code is None:
            code = self._code_of[value] = len(self.values)
            self.values.append(value)
        self.codes[row] = code

    def grow(self, size: int) -> None:
        """Make room for `size` rows."""
        self.codes = _grown(self.codes, size)

    def holding(self, test: Callable[[str | None], bool], size: int) -> Mask:
        """Return the rows whose value passes the test. Each distinct value is tested once."""
        passed = np.fromiter(map(test, self.values), dtype=np.bool_, count=len(self.values))
        result: Mask = passed[self.codes[:size]]
        return result


@dataclass(slots=True)
class _Kept:
    version: int
    mark: int
    column: Counts


class Fleet:
    """All nodes, the resources that they offer, and how much of them is taken."""

    def __init__(self) -> None:
        self.taints = TaintMatrix()
        self.version = 0
        """Increases when a node is added, removed or changed. It does not change when pods take or release
        resources."""

        self.comings = 0
        """Increases when a node is added or removed. Only this changes the rows of nodes and the order of names."""

        self.pods = BoundPods(self)
        self.evicting: dict[str, tuple[Taint, ...]] = {}
        """The `NoExecute` taints of each node that has some."""

        self._facts: dict[str, NodeFacts] = {}
        self._names: list[str] = []
        self._room = 64
        self._alive: Mask = np.zeros(self._room, dtype=np.bool_)
        self._unschedulable: Mask = np.zeros(self._room, dtype=np.bool_)
        self._offered: dict[str, Counts] = {}
        self._taken: dict[str, Counts] = {}
        self._weight = {resource: np.zeros(self._room, dtype=np.int64) for resource in COUNTED_AT_LEAST}
        self._taken_of: dict[str, dict[str, int]] = {}
        self._free: dict[str, Counts] = {}
        self._memo: dict[Hashable, Counts] = {}
        self._memo_version = -1
        self._kept: dict[Hashable, _Kept] = {}
        self._touched: list[int] = []
        self._touched_base = 0
        self._columns: dict[str, NodeLabelColumn] = {}
        self._ranks: tuple[int, npt.NDArray[np.int64]] = (-1, np.zeros(0, dtype=np.int64))
        for resource in TAKEN_AS_ENOUGH:
            self._resource(resource)

    def __len__(self) -> int:
        return len(self._facts)

    def __contains__(self, name: object) -> bool:
        return name in self._facts

    @property
    def rows(self) -> int:
        """The length of every column."""
        return self.taints.slots

    @property
    def alive(self) -> Mask:
        """The rows that contain a node."""
        return self._alive[: self.rows]

    @property
    def unschedulable(self) -> Mask:
        """The nodes whose `spec.unschedulable` is set."""
        return self._unschedulable[: self.rows]

    @property
    def pod_counts(self) -> Counts:
        """The number of pods bound to each node."""
        return self.taken(PODS)

    @property
    def resources(self) -> Iterable[str]:
        """Every resource that a node offers or that a pod takes."""
        return self._offered.keys()

    def facts(self, name: str) -> NodeFacts | None:
        """Return the facts about a node. None if there is no such node."""
        return self._facts.get(name)

    def names(self) -> Iterable[str]:
        """Return the names of the nodes."""
        return self._facts.keys()

    def name_at(self, row: int) -> str:
        """Return the name of the node in a row."""
        return self._names[row]

    def row_of(self, name: str) -> int:
        """Return the row of a node. Raises KeyError if there is no such node."""
        return self.taints.slot_of(name)

    def offered(self, resource: str) -> Counts:
        """Return how much of a resource each node offers to pods."""
        self._ensure_column(resource)
        return self._offered[resource][: self.rows]

    def taken(self, resource: str) -> Counts:
        """Return how much of a resource the bound pods take on each node."""
        self._ensure_column(resource)
        return self._taken[resource][: self.rows]

    def free(self, resource: str) -> Counts:
        """Return how much of a resource is free on each node. Negative if more is taken than offered."""
        self._ensure_column(resource)
        return self._free[resource][: self.rows]

    def weight(self, resource: str) -> Counts:
        """Return the amounts that bound pods count for in scores, at least `COUNTED_AT_LEAST`."""
        return self._weight[resource][: self.rows]

    def remembered(self, key: Hashable, compute: Callable[[], Counts]) -> Counts:
        """Return a cached column that depends only on the nodes. It is computed once for each version of the fleet."""
        if self._memo_version != self.version:
            self._memo.clear()
            self._memo_version = self.version
        column = self._memo.get(key)
        if column is None:
            if len(self._memo) >= _KEPT:
                self._memo.clear()
            column = self._memo[key] = compute()
        return column

    def kept_up(self, key: Hashable, compute: Callable[[Rows], Counts]) -> Counts:
        """Return a cached column that also depends on the taken resources. Only changed rows are computed again.

        Args:
            key: the key in the cache.
            compute: returns the values of the given rows. Each value may depend only on its own row.
        """
        known = self._kept.get(key)
        end = self.usage_mark
        rows = None if known is None or known.version != self.version else self.used_since(known.mark)
        if known is None or rows is None:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            known = self._kept[key] = _Kept(self.version, end, compute(np.arange(self.rows)))
        elif known.mark < end:
            known.column[rows] = compute(rows)
            known.mark = end
        return known.column

    @property
    def usage_mark(self) -> int:
        """A number that grows with each added or removed pod, for `used_since`."""
        return self._touched_base + len(self._touched)

    def used_since(self, mark: int) -> Rows | None:
        """Return the rows to which pods were added, or from which they were removed, since `usage_mark` had a value.

        None if there were too many of them.
        """
        if mark < self._touched_base:
            return None
        touched = self._touched[mark - self._touched_base :]
        return np.array(touched if len(touched) == 1 else sorted(set(touched)), dtype=np.intp)

    def fits_taints(self, tolerations: Iterable[Toleration]) -> Mask:
        """Return the nodes without an untolerated taint that filters."""
        return self.taints.fits(tolerations)

    def prefer_counts(self, tolerations: Iterable[Toleration]) -> Counts:
        """Return the number of untolerated `PreferNoSchedule` taints of each node."""
        return self.taints.prefer_counts(tolerations)

    def label(self, key: str) -> NodeLabelColumn:
        """Return the column of one label key."""
        column = self._columns.get(key)
        if column is None:
            if len(self._columns) >= _LABELS:
                del self._columns[next(iter(self._columns))]
            column = self._columns[key] = NodeLabelColumn(self._room)
            for facts in self._facts.values():
                column.put(self.row_of(facts.name), facts.labels.get(key))
        return column

    def ranks(self) -> npt.NDArray[np.int64]:
        """Return the position of each row in the order of the nodes' names."""
        if self._ranks[0] != self.comings:
            order = sorted(range(self.rows), key=self._names.__getitem__)
            ranks = np.empty(self.rows, dtype=np.int64)
            ranks[order] = np.arange(self.rows)
            self._ranks = (self.comings, ranks)
        return self._ranks[1]

    def put(self, facts: NodeFacts) -> bool:
        """Add or replace a node. Returns False if nothing has changed."""
        before = self._facts.get(facts.name)
        if before == facts:
            return False
        self.taints.set_node(facts.name, facts.taints)
        if evicting := tuple(taint for taint in facts.taints if taint.effect in KUBERNETES.evicting):
            self.evicting[facts.name] = evicting
        else:
            self.evicting.pop(facts.name, None)
        row = self.row_of(facts.name)
        self._make_room()
        if row == len(self._names):
            self._names.append(facts.name)
        self._names[row] = facts.name
        self._facts[facts.name] = facts
        self._alive[row] = True
        self._unschedulable[row] = facts.unschedulable
        for key, column in list(self._columns.items()):
            column.put(row, facts.labels.get(key))
            if len(column.values) > 2 * (len(self) + _LABELS):
                del self._columns[key]  # most of its values are those of earlier nodes; it is made again on demand
        for resource in facts.allocatable:
            self._ensure_column(resource)
        for resource in facts.allocatable:
            self._resource(resource)
        for resource, offered in self._offered.items():
            offered[row] = min(facts.allocatable.get(resource, _default_amount(resource)), UNLIMITED)
            self._free[resource][row] = offered[row] - self._taken[resource][row]
        if before is None:
            self.comings += 1
            self._recount(facts.name, row)
        self.version += 1
        return True

    def remove(self, name: str) -> None:
        """Remove a node. The resources that pods take there are kept in case the node returns.

        Raises:
            KeyError: there is no such node.
        """
        row = self.row_of(name)
        self.taints.remove_node(name)
        del self._facts[name]
        self.evicting.pop(name, None)
        self._alive[row] = False
        self.comings += 1
        self.version += 1

    def take(self, name: str, requests: Iterable[tuple[str, int]], sign: int = 1) -> None:
        """Add the requests of a pod to a node, whether or not the node exists. With `sign` -1 they are released."""
        amounts = _amounts(tuple(requests))
        taken = self._taken_of.setdefault(name, {})
        row = self.row_of(name) if name in self._facts else None
        for resource, key, counted in amounts.weights:
            taken[key] = taken.get(key, 0) + sign * counted
            if row is not None:
                self._weight[resource][row] += sign * counted
        for resource, amount in amounts.taken:
            taken[resource] = taken.get(resource, 0) + sign * amount
            if row is not None:
                self._resource(resource)
                self._taken[resource][row] += sign * amount
                self._free[resource][row] -= sign * amount
        if row is not None:
            self._touch(row)
        if not taken[PODS]:
            del self._taken_of[name]

    def _recount(self, name: str, row: int) -> None:
        taken = self._taken_of.get(name, {})
        for resource, column in self._weight.items():
            column[row] = taken.get(_WEIGHT + resource, 0)
        for resource in taken:
            if not resource.startswith(_WEIGHT):
                self._resource(resource)
        for resource, column in self._taken.items():
            column[row] = taken.get(resource, 0)
            self._free[resource][row] = self._offered[resource][row] - column[row]

    def _touch(self, row: int) -> None:
        self._touched.append(row)
        if len(self._touched) > _TOUCHED:
            self._touched_base += len(self._touched) // 2
            del self._touched[: len(self._touched) // 2]

    def _resource(self, resource: str) -> Counts:
        offered = self._offered.get(resource)
        if offered is None:
            offered = self._offered[resource] = np.zeros(self._room, dtype=np.int64)
            self._taken[resource] = np.zeros(self._room, dtype=np.int64)
            for facts in self._facts.values():
                row = self.row_of(facts.name)
                offered[row] = min(facts.allocatable.get(resource, _default_amount(resource)), UNLIMITED)
            self._free[resource] = offered.copy()
        return offered

    def _ensure_column(self, resource: str) -> None:
        """Make sure that a resource has columns. Before a new one gets some, unused ones are dropped."""
        if resource in self._offered:
            return
        if len(self._offered) >= _RESOURCES:
            self._forget_resources()
        self._resource(resource)

    def _forget_resources(self) -> None:
        """Drop the columns of resources that no node offers and no pod takes."""
        alive = self.alive
        for resource in [one for one in self._offered if one not in TAKEN_AS_ENOUGH]:
            if not (self._offered[resource][: self.rows] + self._taken[resource][: self.rows])[alive].any():
                del self._offered[resource], self._taken[resource], self._free[resource]

    def _make_room(self) -> None:
        if self.rows <= self._room:
            return
        self._room = max(self.rows, self._room * 2)
        self._alive = _grown(self._alive, self._room)
        self._unschedulable = _grown(self._unschedulable, self._room)
        for table in (self._offered, self._taken, self._free, self._weight):
            for resource, column in table.items():
                table[resource] = _grown(column, self._room)
        for labels in self._columns.values():
            labels.grow(self._room)


@dataclass(frozen=True, slots=True)
class _Amounts:
    """The resources that a pod takes of its node."""

    taken: tuple[tuple[str, int], ...]
    weights: tuple[tuple[str, str, int], ...]
    """Resources, each with its key in the counts of a node, and with the amount that counts in scores."""


@lru_cache(maxsize=4096)
def _amounts(requests: tuple[tuple[str, int], ...]) -> _Amounts:
    requested = {resource: min(amount, _MOST) for resource, amount in requests}
    weights = tuple(
        (resource, _WEIGHT + resource, min(requested.get(resource) or least, UNLIMITED))
        for resource, least in COUNTED_AT_LEAST.items()
    )
    return _Amounts(tuple({**requested, PODS: 1}.items()), weights)


def _default_amount(resource: str) -> int:
    return UNLIMITED if resource in TAKEN_AS_ENOUGH else 0


def _grown(column: npt.NDArray[T], size: int) -> npt.NDArray[T]:
    wider = np.zeros(size, dtype=column.dtype)
    wider[: column.size] = column
    return wider
