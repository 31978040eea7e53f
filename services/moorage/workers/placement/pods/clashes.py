"""Bindings that cannot be beside each other. Each was decided by a worker that had not read the other one yet.

Two pods with one host port on a node, or two of which one has a required anti-affinity to the other. Every worker finds
the same ones, and the same one of two loses: on one node the later in the log, else the one that was bound later.

What changes after both were bound moves no pod, as in Kubernetes: labels of a pod, of a namespace, or of a node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

import numpy as np

from moorage.decide.scheduling.nodes.bound_pods import MatchingPods, WithTerm, selector_of
from moorage.decide.scheduling.nodes.fleet import Fleet
from moorage.decide.scheduling.nodes.pod_constraints import conflicts
from moorage.workers.placement.pods.nodes import NodeTable
from moorage.workers.placement.pods.reservation import Reservation
from moorage_schemas.keys import ResourceKey
from moorage_schemas.placement import PodTerm


class Clashes:
    """Finds the bindings that clash.

    Args:
        fleet: the nodes and their pods.
        nodes: the declarations of the nodes.
        logged: the bindings in the log.
        at_node: the keys of the bindings of each node.
    """

    def __init__(
        self, fleet: Fleet, nodes: NodeTable, logged: Mapping[str, Reservation], at_node: Mapping[str, set[str]]
    ) -> None:
        self._fleet = fleet
        self._nodes = nodes
        self._logged = logged
        self._at_node = at_node

    def loses(self, key: str) -> bool:
        """Return whether a binding must be withdrawn for another one."""
        mine = self._logged.get(key)
        if mine is None or mine.bypassed or not self._can_clash(mine):
            return False
        return any(self._comes_first(self._logged[other], mine) for other in self._rivals(key, mine))

    def losers(self, key: str) -> list[str]:
        """Return the bindings that must be withdrawn because of a new one, which may be one of them."""
        mine = self._logged.get(key)
        if mine is None or not self._can_clash(mine):
            return []
        rivals = set(self._rivals(key, mine))
        return sorted(one for one in (key, *rivals) if self.loses(one)) if rivals else []

    def _can_clash(self, one: Reservation) -> bool:
        return one.constraints is not None or self._fleet.pods.has_terms

    def _comes_first(self, other: Reservation, mine: Reservation) -> bool:
        return _order(other, mine) < _order(mine, other)

    def _rivals(self, key: str, mine: Reservation) -> Iterator[str]:
        """Return the bindings that cannot be beside a binding."""
        if mine.constraints is not None and mine.constraints.host_ports:
            for other in self._at_node.get(mine.node, ()):
                theirs = self._logged.get(other)
                if other != key and theirs is not None and _share_port(mine, theirs):
                    yield other
        for term in mine.constraints.terms if mine.constraints is not None else ():
            if term.anti and not term.weight:
                yield from self._rivals_by(key, mine, term, MatchingPods((selector_of(term),)))
        for term in self._fleet.pods.objecting(_namespace(mine), mine.labels):
            yield from self._rivals_by(key, mine, term, WithTerm(term))

    def _rivals_by(
        self, key: str, mine: Reservation, term: PodTerm, question: MatchingPods | WithTerm
    ) -> Iterator[str]:
        """Return the bindings that cannot be near a binding by a term, which it has or which is about it."""
        for other in self._near(mine, term, question):
            theirs = self._logged.get(other)
            if (
                other != key
                and theirs is not None
                and self._is_in(theirs, question)
                and self._unaware(mine, theirs, term)
            ):
                yield other

    def _is_in(self, one: Reservation, question: MatchingPods | WithTerm) -> bool:
        """Return whether a pod is among the pods in question."""
        if isinstance(question, WithTerm):
            return one.constraints is not None and question.term in one.constraints.terms
        labels = dict(one.labels)
        return all(self._fleet.pods.selects(selector, _namespace(one), labels) for selector in question.selectors)

    def _near(self, mine: Reservation, term: PodTerm, question: MatchingPods | WithTerm) -> Iterator[str]:
        """Return the bindings of the nodes in the domain of a binding that have pods in question."""
        fleet = self._fleet
        counts = fleet.pods.counts(question)
        if counts is None or mine.node not in fleet:
            return
        codes = fleet.label(term.topology_key).codes[: fleet.rows]
        domain = codes[fleet.row_of(mine.node)]
        if not domain:
            return
        rows = np.flatnonzero((codes == domain) & (counts > 0) & fleet.alive)
        if rows.size == 1 and counts[rows[0]] == 1 and self._is_in(mine, question):
            return  # it is the pod itself
        for row in rows.tolist():
            yield from self._at_node.get(fleet.name_at(row), ())

    def _unaware(self, mine: Reservation, other: Reservation, term: PodTerm) -> bool:
        """Return whether the later one of two was decided as things are now, so that the other one was not read."""
        later, earlier = (other, mine) if _order(mine, other) < _order(other, mine) else (mine, other)
        if later.revision > 1 or (earlier.revision > 1 and not earlier.runs) or term.namespace_selector:
            return False
        since = (self._nodes.labelled_at(mine.node), self._nodes.labelled_at(other.node))
        return all(one is None or later.bound_time >= one for one in since)


def _order(one: Reservation, other: Reservation) -> tuple[bool, bool, tuple[int, int] | datetime, str]:
    """Return a value that orders two bindings. A pod that runs, or whose node a person named, comes first."""
    first = one.place if one.node == other.node else one.bound_time
    return (not one.runs, not one.bypassed, first, one.workload)


def _namespace(one: Reservation) -> str:
    return ResourceKey.parse(one.workload).namespace


def _share_port(one: Reservation, other: Reservation) -> bool:
    theirs = other.constraints.host_ports if other.constraints is not None else ()
    mine = one.constraints.host_ports if one.constraints is not None else ()
    return any(conflicts(port, taken) for port in mine for taken in theirs)
