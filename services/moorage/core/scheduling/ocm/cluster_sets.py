"""Which managed clusters a ManagedClusterSet has, and which sets a placement may choose from.

See docs/domain.md, "ManagedClusterSets".

A set of the exclusive kind has the clusters that name it in the label `SET_LABEL`, so that a cluster is in one of
them at most; a set of the other kind has those that its label selector selects. `default` and `global` are always
there: a cluster that names no set is in `default`, and `global` has every cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from moorage.core.scheduling.ocm.selector import LabelTerms, SelectorError
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
    """The exclusive set that a cluster of these labels is in: the one that it names, else `default`.

    Whether a set of that name exists is another question: see `ManagedSets.missing`. As upstream, a cluster that names
    none is in none (empty): there the webhook gives it the label when it is declared.
    """
    return labels.get(SET_LABEL) or ("" if as_upstream else DEFAULT_SET)


@dataclass(frozen=True, slots=True)
class ManagedSet:
    """How one set finds its clusters.

    Attributes:
        name: the set's name.
        exclusive: whether clusters name it; else `terms` select them.
        terms: of the label selector; selects nothing when None, everything when it has no requirement.
        problem: why it selects nothing at all, in upstream's words; empty when nothing is wrong.
    """

    name: str
    exclusive: bool
    terms: LabelTerms | None = None
    problem: str = ""

    @classmethod
    def of(cls, name: str, spec: ManagedClusterSetSpec, *, as_upstream: bool = False) -> ManagedSet:
        """Read a set. `default` and `global` are what they are, whatever `spec` says, unless as upstream."""
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
        """Whether a cluster of these labels is in the set."""
        if self.exclusive:
            return named_set(labels) == self.name
        return self.terms is not None and self.terms.hold(labels)


_BUILT_IN: Final = {
    DEFAULT_SET: ManagedSet(DEFAULT_SET, exclusive=True),
    GLOBAL_SET: ManagedSet(GLOBAL_SET, exclusive=False, terms=LabelTerms()),
}


class ManagedSets:
    """The sets that there are, `default` and `global` always among them unless as upstream.

    A cluster's sets follow from its labels alone, so whoever keeps clusters by set asks `of` when a cluster's labels
    change, and asks `of` for every cluster when `put` or `remove` says that a set is another one now.
    """

    def __init__(self, *, as_upstream: bool = False) -> None:
        """With the built-in sets only; as upstream, without any, for its controllers have to make them."""
        self._upstream = as_upstream
        self._sets: dict[str, ManagedSet] = {} if as_upstream else dict(_BUILT_IN)
        self._selecting = {name: made for name, made in self._sets.items() if not made.exclusive}

    def put(self, name: str, spec: ManagedClusterSetSpec) -> bool:
        """A set is declared. Returns whether that can change which clusters it has, or that it exists."""
        made = ManagedSet.of(name, spec, as_upstream=self._upstream)
        if self._sets.get(name) == made:
            return False
        self._sets[name] = made
        self._selecting.pop(name, None)
        if not made.exclusive:
            self._selecting[name] = made
        return True

    def remove(self, name: str) -> bool:
        """A set is deleted. Returns whether it was there; a built-in one stays."""
        if name not in self._sets or (name in BUILT_IN_SETS and not self._upstream):
            return False
        del self._sets[name]
        self._selecting.pop(name, None)
        return True

    def get(self, name: str) -> ManagedSet | None:
        """A set by name."""
        return self._sets.get(name)

    def __contains__(self, name: object) -> bool:
        """Whether there is a set of this name."""
        return name in self._sets

    @property
    def names(self) -> list[str]:
        """The names of all sets, sorted."""
        return sorted(self._sets)

    def of(self, labels: Mapping[str, str]) -> frozenset[str]:
        """The sets that a cluster of these labels is in; one that it names and that is not there is none of them."""
        found = {name for name, made in self._selecting.items() if made.has(labels)}
        exclusive = self._sets.get(named_set(labels, as_upstream=self._upstream))
        if exclusive is not None and exclusive.exclusive:
            found.add(exclusive.name)
        return frozenset(found)

    def missing(self, labels: Mapping[str, str]) -> str:
        """The exclusive set that a cluster names and that is not there; empty when nothing is missing."""
        named = named_set(labels, as_upstream=self._upstream)
        made = self._sets.get(named)
        return "" if made is not None and made.exclusive else named


@dataclass(frozen=True, slots=True)
class UsableSets:
    """The sets that one placement may choose from; names, sorted.

    Attributes:
        bound: those that are bound to its namespace and exist.
        eligible: those of them that its spec asks for; all of them when it asks for none.
        asked: what its spec asks for, in its order.
    """

    bound: tuple[str, ...]
    eligible: tuple[str, ...]
    asked: tuple[str, ...] = ()


def usable_sets(bindings: Iterable[str], existing: ManagedSets | Collection[str], asked: Sequence[str]) -> UsableSets:
    """Which sets a placement may choose from.

    Args:
        bindings: names of the ManagedClusterSetBindings of its namespace; a binding binds the set of its own name.
        existing: the sets that there are.
        asked: the placement's `spec.clusterSets`; empty means all that are bound.
    """
    bound = tuple(sorted({name for name in bindings if name in existing}))
    wanted = frozenset(asked)
    eligible = tuple(name for name in bound if name in wanted) if wanted else bound
    return UsableSets(bound, eligible, tuple(asked))
