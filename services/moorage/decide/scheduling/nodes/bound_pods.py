"""The pods on the nodes, counted by what constraints ask about: their labels, their ports, and their own demands.

A question is a column: the number of pods on each node that a selector selects, that take a port, or that have a term.
It is counted once, and then follows each pod that comes or goes, so that a decision visits no pods. Pods that are equal
in all of this are one group, which is compared with a selector once.

A fleet without such constraints pays nothing: pods without any are not noted before the first question about labels.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from moorage.decide.scheduling.nodes.pod_constraints import Labels, Requirements, conflicts, holds
from moorage_schemas.placement import HostPort, LabelRequirement, PodConstraints, PodTerm

Counts = npt.NDArray[np.int64]
Hook = tuple[Hashable, ...]

_CELLS: Final = 1 << 22
"""The number of counts that are kept, in all columns together: 32 MiB."""

_COLUMNS: Final = 16_384
"""The number of questions that are kept, with or without their counts."""

_REMEMBERED: Final = 16_384
_ANY: Final[Hook] = ("any",)


class PodFacts(NamedTuple):
    """A pod on a node, as others see it."""

    namespace: str
    labels: Labels
    constraints: PodConstraints | None = None
    terminating: bool = False


class PodSelector(NamedTuple):
    """Selects pods by their namespaces and labels."""

    namespaces: tuple[str, ...]
    labels: Requirements | None
    namespace_selector: Requirements | None = None
    """Further namespaces. None selects none, an empty one all."""


class MatchingPods(NamedTuple):
    """The pods that all of the selectors select."""

    selectors: tuple[PodSelector, ...]
    terminating: bool = True
    """Whether pods that are being deleted count."""


class WithPort(NamedTuple):
    """The pods that take a port which another pod cannot take beside them."""

    port: HostPort


class WithTerm(NamedTuple):
    """The pods that have a term."""

    term: PodTerm


Question = MatchingPods | WithPort | WithTerm


class NodeRows(Protocol):
    """The rows of nodes."""

    comings: int

    @property
    def rows(self) -> int:
        """The number of rows."""

    def __contains__(self, name: object) -> bool:
        """Return whether there is such a node."""

    def row_of(self, name: str) -> int:
        """Return the row of a node."""


class _Group:
    """Equal pods."""

    __slots__ = ("columns", "facts", "labels", "nodes")

    def __init__(self, facts: PodFacts) -> None:
        self.facts = facts
        self.labels = dict(facts.labels)
        self.nodes: dict[str, int] = {}
        self.columns: dict[_Column, int] = {}


class _Column:
    """A question with its counts."""

    __slots__ = ("comings", "counts", "groups", "hook", "question", "watched")

    def __init__(self, question: Question, hook: Hook) -> None:
        self.question = question
        self.hook = hook
        self.groups: dict[_Group, int] = {}
        self.counts: Counts | None = None
        self.comings = -1
        self.watched = False


def selector_of(term: PodTerm) -> PodSelector:
    """Return the selector of a term."""
    return PodSelector(term.namespaces, term.labels, term.namespace_selector)


def _nowhere() -> Iterable[tuple[str, PodFacts]]:
    return ()


def _unknown(_namespace: str) -> Mapping[str, str] | None:
    return None


class BoundPods:
    """The pods on the nodes of a fleet.

    Attributes:
        every: returns all pods, each with its node. It is called once, at the first question about labels.
        namespace_labels: returns the labels of a namespace; None if it does not exist.
    """

    def __init__(self, nodes: NodeRows) -> None:
        self._nodes = nodes
        self.every: Callable[[], Iterable[tuple[str, PodFacts]]] = _nowhere
        self.namespace_labels: Callable[[str], Mapping[str, str] | None] = _unknown
        self.complete = False
        """Whether pods without constraints are noted as well."""

        self.arrivals = 0
        """Grows when a pod arrives that a pod may be waiting for. Departures are not counted."""

        self._groups: dict[str, dict[PodFacts, _Group]] = {}
        self._columns: dict[Question, _Column] = {}
        self._hooked: dict[Hook, dict[_Column, None]] = {}
        self._counted: dict[_Column, None] = {}
        """The columns that have counts, the oldest first."""

        self._terms: dict[PodTerm, int] = {}
        """The terms of pods, each with the number of groups that have it."""

        self._terms_at: dict[Hook, dict[PodTerm, None]] = {}
        self._about: dict[tuple[str, Labels], tuple[PodTerm, ...]] = {}

    def wants(self, facts: PodFacts) -> bool:
        """Return whether a pod must be noted."""
        return self.complete or facts.constraints is not None

    def add(self, node: str, facts: PodFacts) -> None:
        """Note a pod on a node, whether or not the node exists."""
        if self.wants(facts):
            self._add(node, facts)

    def remove(self, node: str, facts: PodFacts) -> None:
        """Note that such a pod is no longer on a node."""
        if not self.wants(facts):
            return
        group = self._groups[facts.namespace][facts]
        self._count(group, node, -1)
        if not group.nodes[node]:
            del group.nodes[node]
        if not group.nodes:
            self._drop(group)

    def nodes_changed(self) -> None:
        """Note that a node has changed or gone, so that domains are smaller, or fewer. Pods may be waiting for that."""
        self.arrivals += self.complete

    def namespaces_changed(self) -> None:
        """Note that a namespace has other labels now."""
        for column in list(self._columns.values()):
            if isinstance(column.question, MatchingPods) and any(
                one.namespace_selector for one in column.question.selectors
            ):
                self._forget(column)
        self._about.clear()

    def counts(self, question: Question, *, watched: bool = False) -> Counts | None:
        """Return how many of the pods in question are on each node. None if there are none at all.

        Args:
            question: selects the pods.
            watched: whether a pod that arrives among them counts in `arrivals`.
        """
        column = self._columns.get(question)
        if column is None:
            column = self._ask(question)
        column.watched |= watched
        if not column.groups:
            return None
        counts = column.counts
        if counts is None or column.comings != self._nodes.comings:
            counts = self._recount(column)
        return counts

    def terms_about(self, namespace: str, labels: Labels) -> tuple[PodTerm, ...]:
        """Return the terms of all pods on nodes that select a pod."""
        if not self._terms:
            return ()
        known = self._about.get((namespace, labels))
        if known is None:
            if len(self._about) >= _REMEMBERED:
                self._about.clear()
            known = self._about[namespace, labels] = tuple(self._find_terms(namespace, dict(labels)))
        return known

    def objecting(self, namespace: str, labels: Labels) -> tuple[PodTerm, ...]:
        """Return the terms of pods on nodes that keep a pod away: their required anti-affinity."""
        return tuple(one for one in self.terms_about(namespace, labels) if one.anti and not one.weight)

    @property
    def has_terms(self) -> bool:
        """Whether a pod on a node demands anything of the labels of others."""
        return bool(self._terms)

    def selects(self, selector: PodSelector, namespace: str, labels: Mapping[str, str]) -> bool:
        """Return whether a selector of a pod to be placed selects a pod."""
        if not holds(selector.labels, labels):
            return False
        if namespace in selector.namespaces:
            return True
        among = selector.namespace_selector
        if among is None:
            return False
        return not among or ((found := self.namespace_labels(namespace)) is not None and holds(among, found))

    def _add(self, node: str, facts: PodFacts) -> None:
        groups = self._groups.setdefault(facts.namespace, {})
        group = groups.get(facts)
        if group is None:
            group = groups[facts] = _Group(facts)
            self._join_columns(group)
        self._count(group, node, 1)

    def _count(self, group: _Group, node: str, sign: int) -> None:
        group.nodes[node] = group.nodes.get(node, 0) + sign
        nodes = self._nodes
        row = nodes.row_of(node) if group.columns and node in nodes else None
        for column, times in group.columns.items():
            if column.counts is not None and row is not None and column.comings == nodes.comings:
                column.counts[row] += sign * times
            if column.watched and sign > 0:
                self.arrivals += 1

    def _drop(self, group: _Group) -> None:
        facts = group.facts
        del self._groups[facts.namespace][facts]
        if not self._groups[facts.namespace]:
            del self._groups[facts.namespace]
        for column in group.columns:
            del column.groups[group]
        for term in facts.constraints.terms if facts.constraints is not None else ():
            self._terms[term] -= 1
            if not self._terms[term]:
                del self._terms[term], self._terms_at[_hook(selector_of(term))][term]
                self._about.clear()

    def _join_columns(self, group: _Group) -> None:
        constraints = group.facts.constraints
        for term in constraints.terms if constraints is not None else ():
            if term not in self._terms:
                self._terms_at.setdefault(_hook(selector_of(term)), {})[term] = None
                self._about.clear()
            self._terms[term] = self._terms.get(term, 0) + 1
        for hook in set(_hooks(group)):
            for column in self._hooked.get(hook, ()):
                self._join(group, column)

    def _join(self, group: _Group, column: _Column) -> None:
        times = self._times(group, column.question)
        if times:
            group.columns[column] = column.groups[group] = times

    def _times(self, group: _Group, question: Question) -> int:
        facts = group.facts
        match question:
            case MatchingPods(selectors, terminating):
                if facts.terminating and not terminating:
                    return 0
                return int(all(self.selects(one, facts.namespace, group.labels) for one in selectors))
            case WithPort(port):
                ports = facts.constraints.host_ports if facts.constraints is not None else ()
                return int(any(conflicts(port, one) for one in ports))
            case WithTerm(term):
                return facts.constraints.terms.count(term) if facts.constraints is not None else 0

    def _ask(self, question: Question) -> _Column:
        if len(self._columns) >= _COLUMNS:
            for column in list(self._columns.values()):
                self._forget(column)
        hook = _hook_of(question)
        column = self._columns[question] = _Column(question, hook)
        self._hooked.setdefault(hook, {})[column] = None
        if isinstance(question, MatchingPods) and not self.complete:
            self.complete = True
            for node, facts in self.every():
                if facts.constraints is None:
                    self._add(node, facts)
        for group in self._candidates(question):
            if column not in group.columns:
                self._join(group, column)
        return column

    def _candidates(self, question: Question) -> Iterator[_Group]:
        if isinstance(question, MatchingPods):
            for selector in question.selectors:
                if selector.namespace_selector is None:
                    for namespace in selector.namespaces:
                        yield from self._groups.get(namespace, {}).values()
                    return
        for groups in self._groups.values():
            yield from groups.values()

    def _recount(self, column: _Column) -> Counts:
        nodes = self._nodes
        counts = np.zeros(nodes.rows, dtype=np.int64)
        for group, times in column.groups.items():
            for node, count in group.nodes.items():
                if node in nodes:
                    counts[nodes.row_of(node)] += times * count
        column.counts, column.comings = counts, nodes.comings
        self._counted.pop(column, None)
        self._counted[column] = None
        while len(self._counted) > max(_CELLS // max(nodes.rows, 1), 1):
            oldest = next(iter(self._counted))
            oldest.counts = None
            del self._counted[oldest]
        return counts

    def _forget(self, column: _Column) -> None:
        """Drop a question. A pod may be waiting for what it watched, so this counts as an arrival."""
        self.arrivals += column.watched
        del self._columns[column.question], self._hooked[column.hook][column]
        self._counted.pop(column, None)
        for group in column.groups:
            del group.columns[column]

    def _find_terms(self, namespace: str, labels: Mapping[str, str]) -> Iterator[PodTerm]:
        own = self.namespace_labels(namespace) or {}
        for hook in (_ANY, *(("label", key, value) for key, value in labels.items())):
            for term in self._terms_at.get(hook, ()):
                among = term.namespace_selector
                if (namespace in term.namespaces or holds(among, own)) and holds(term.labels, labels):
                    yield term


def _hooks(group: _Group) -> Iterator[Hook]:
    """Return where the questions about a group are found."""
    yield _ANY
    yield from (("label", key, value) for key, value in group.facts.labels)
    if group.facts.constraints is not None:
        yield from (("port", one.protocol, one.port) for one in group.facts.constraints.host_ports)
        yield from (("term", one) for one in group.facts.constraints.terms)


def _hook_of(question: Question) -> Hook:
    match question:
        case MatchingPods(selectors):
            return next((hook for hook in map(_hook, selectors) if hook != _ANY), _ANY)
        case WithPort(port):
            return ("port", port.protocol, port.port)
        case WithTerm(term):
            return ("term", term)


def _hook(selector: PodSelector) -> Hook:
    """Return a label that all selected pods have, so that few pods are compared with the selector."""
    one: LabelRequirement
    for one in selector.labels or ():
        if one.operator == "In" and len(one.values) == 1:
            return ("label", one.key, one.values[0])
    return _ANY
