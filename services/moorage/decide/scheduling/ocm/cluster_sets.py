"""The managed clusters of each ManagedClusterSet, and the sets that a placement may choose from.

See docs/domain.md, "ManagedClusterSets".

An exclusive set contains the clusters that name it in the label `SET_LABEL`, so a cluster is in at most one of them.
Any other set contains the clusters that its label selector selects. `default` and `global` always exist: a cluster that
names no set is in `default`, and `global` contains every cluster.

The permissions on the clusters of a set are those of `stolostron/multicloud-operators-foundation`, which grants them
beside Open Cluster Management.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from moorage.decide.kubernetes.attributes import Attributes
from moorage.decide.scheduling.ocm.selector import LabelTerms, SelectorError
from moorage_schemas.resources.managed import (
    BUILT_IN_SETS,
    DEFAULT_SET,
    EXCLUSIVE,
    GLOBAL_SET,
    LABEL_SELECTOR,
    LEGACY,
    SET_LABEL,
    ManagedClusterSetSpec,
)


def named_set(labels: Mapping[str, str], *, as_upstream: bool = False) -> str:
    """Return the exclusive set of a cluster with these labels: the one that it names, otherwise `default`.

    The set may be absent (`ManagedSets.missing`). With upstream's behaviour, a cluster that names no set is in none
    (empty text): there the webhook adds the label when the cluster is declared.
    """
    return labels.get(SET_LABEL) or ("" if as_upstream else DEFAULT_SET)


@dataclass(frozen=True, slots=True)
class ManagedSet:
    """How one set selects its clusters.

    Attributes:
        exclusive: whether clusters name the set in a label. Otherwise `terms` select them.
        terms: the requirements of the label selector. None selects nothing; no requirements select everything.
        problem: why the set selects nothing at all, in upstream's words. Empty if there is no problem.
    """

    name: str
    exclusive: bool
    terms: LabelTerms | None = None
    problem: str = ""

    @classmethod
    def of(cls, name: str, spec: ManagedClusterSetSpec, *, as_upstream: bool = False) -> ManagedSet:
        """Return the existing sets of a cluster with these labels."""
        if name in BUILT_IN_SETS and not as_upstream:
            return _BUILT_IN[name]
        kind, selector = spec.cluster_selector.selector_type, spec.cluster_selector.label_selector
        if kind in {"", EXCLUSIVE} or (kind == LEGACY and not as_upstream):
            return cls(name, exclusive=True)
        if kind != LABEL_SELECTOR:
            return cls(name, exclusive=False, problem=f"selectorType is not right: {kind}")
        try:
            terms = None if selector is None else LabelTerms.of(selector)
        except SelectorError as error:
            return cls(name, exclusive=False, problem=str(error))
        return cls(name, exclusive=False, terms=terms)

    def has(self, labels: Mapping[str, str]) -> bool:
        """Return whether a cluster with these labels is in the set."""
        if self.exclusive:
            return named_set(labels) == self.name
        return self.terms is not None and self.terms.hold(labels)


_BUILT_IN: Final = {
    DEFAULT_SET: ManagedSet(DEFAULT_SET, exclusive=True),
    GLOBAL_SET: ManagedSet(GLOBAL_SET, exclusive=False, terms=LabelTerms()),
}


class ManagedSets:
    """The existing sets. They always include `default` and `global`, except with upstream's behaviour.

    The sets of a cluster depend only on its labels. A caller that groups clusters by set must call `of` when the labels
    of a cluster change, and for every cluster when `put` or `remove` returns True.
    """

    def __init__(self, *, as_upstream: bool = False) -> None:
        """Start with the built-in sets. Upstream's controllers create them, so `as_upstream` starts without sets."""
        self._upstream = as_upstream
        self._sets: dict[str, ManagedSet] = {} if as_upstream else dict(_BUILT_IN)
        self._selecting = {name: made for name, made in self._sets.items() if not made.exclusive}

    def put(self, name: str, spec: ManagedClusterSetSpec) -> bool:
        """Add or replace a set. Returns whether the set is new or may contain other clusters now."""
        made = ManagedSet.of(name, spec, as_upstream=self._upstream)
        if self._sets.get(name) == made:
            return False
        self._sets[name] = made
        self._selecting.pop(name, None)
        if not made.exclusive:
            self._selecting[name] = made
        return True

    def remove(self, name: str) -> bool:
        """Remove a set. Returns whether it existed. A built-in set stays."""
        if name not in self._sets or (name in BUILT_IN_SETS and not self._upstream):
            return False
        del self._sets[name]
        self._selecting.pop(name, None)
        return True

    def get(self, name: str) -> ManagedSet | None:
        """Return a set by name."""
        return self._sets.get(name)

    def __contains__(self, name: object) -> bool:
        """Return whether there is a set of this name."""
        return name in self._sets

    @property
    def names(self) -> list[str]:
        """The names of all sets, sorted."""
        return sorted(self._sets)

    def of(self, labels: Mapping[str, str]) -> frozenset[str]:
        """Return the existing sets of a cluster with these labels."""
        found = {name for name, made in self._selecting.items() if made.has(labels)}
        exclusive = self._sets.get(named_set(labels, as_upstream=self._upstream))
        if exclusive is not None and exclusive.exclusive:
            found.add(exclusive.name)
        return frozenset(found)

    def missing(self, labels: Mapping[str, str]) -> str:
        """Return the exclusive set that a cluster names and that does not exist. Empty if there is no such set."""
        named = named_set(labels, as_upstream=self._upstream)
        made = self._sets.get(named)
        return "" if made is not None and made.exclusive else named


@dataclass(frozen=True, slots=True)
class UsableSets:
    """The sets that one placement may choose from. Names are sorted.

    Attributes:
        bound: the existing sets that are bound to the placement's namespace.
        eligible: those of `bound` that its spec names, or all of them if it names none.
        asked: the sets that its spec names, in its order.
    """

    bound: tuple[str, ...]
    eligible: tuple[str, ...]
    asked: tuple[str, ...] = ()


def usable_sets(bindings: Iterable[str], existing: ManagedSets | Collection[str], asked: Sequence[str]) -> UsableSets:
    """Return the sets that a placement may choose from.

    Args:
        bindings: the names of the ManagedClusterSetBindings in its namespace. A binding binds the set of the same name.
        existing: the existing sets.
        asked: the placement's `spec.clusterSets`. Empty means all bound sets.
    """
    bound = tuple(sorted({name for name in bindings if name in existing}))
    wanted = frozenset(asked)
    eligible = tuple(name for name in bound if name in wanted) if wanted else bound
    return UsableSets(bound, eligible, tuple(asked))


OCM_GROUP: Final = "cluster.open-cluster-management.io"
SETS: Final = "managedclustersets"
CLUSTERS: Final = "managedclusters"

_GET: Final = "get"
_VERBS: Final = {_GET: _GET, "list": _GET, "watch": _GET, "update": "update", "patch": "update", "delete": "update"}
"""The verb on a set that permits a verb on its clusters."""


def of_cluster(asked: Attributes) -> bool:
    """Return whether a request is about one managed cluster, and may be permitted by its set."""
    return (
        asked.resource == CLUSTERS
        and asked.group == OCM_GROUP
        and bool(asked.name)
        and not asked.subresource
        and asked.verb in _VERBS
    )


def set_attributes(asked: Attributes, name: str) -> Iterator[Attributes]:
    """Yield the permissions any of which allows an operation on a managed cluster of a set.

    Args:
        asked: the requested operation on the cluster.
        name: of the exclusive set that the cluster is in.
    """
    yield Attributes(_VERBS[asked.verb], OCM_GROUP, "", SETS, "", "", name)
    if _VERBS[asked.verb] == _GET:
        yield Attributes(_GET, OCM_GROUP, "", SETS, "", "", GLOBAL_SET)
