"""Nodes on which the pod would break a constraint on its spreading (`topologySpreadConstraints`, `DoNotSchedule`).

In each domain the matching pods are counted. With the pod, a domain may have `maxSkew` more of them than the domain
with the fewest. Only nodes count that have all labels of the constraints and that a constraint's policies include.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from typing_extensions import override

from moorage.decide.scheduling.framework.plugins import Basis
from moorage.decide.scheduling.nodes.completed_constraints import spread_of
from moorage.decide.scheduling.nodes.domains import counted_nodes, has_label, in_domain, matching_pods
from moorage.decide.scheduling.nodes.fleet import Counts, Fleet, Mask
from moorage.decide.scheduling.nodes.plugin import NodeFilter, PodRequest
from moorage.decide.scheduling.nodes.pod_constraints import EvenSpread, holds


class _Skew(NamedTuple):
    """A constraint with its counts."""

    constraint: EvenSpread
    present: Mask
    """The nodes that have its label."""

    there: Counts
    """The matching pods in the domain of each node."""

    fewest: int
    itself: int
    """1 if the pod to be placed also matches."""

    @property
    def broken(self) -> Mask:
        """The nodes on which the pod would break it."""
        result: Mask = self.there > self.constraint.max_skew + self.fewest - self.itself
        return result


class PodTopologySpread(NodeFilter):
    """Rules out nodes on which the pod would break a constraint on its spreading that must hold."""

    name = "PodTopologySpread"
    order = 60
    rests_on = Basis.PODS

    @override
    def objections(self, request: PodRequest, fleet: Fleet) -> Iterable[tuple[str, Mask]]:
        skews = list(_skews(request, fleet))
        if not skews:
            return
        left = np.ones(fleet.rows, dtype=np.bool_)
        lacking = np.zeros(fleet.rows, dtype=np.bool_)
        broken = np.zeros(fleet.rows, dtype=np.bool_)
        for one in skews:  # the first that rules a node out gives the reason
            lacking |= left & ~one.present
            left &= one.present
            broken |= left & one.broken
            left &= ~one.broken
        yield "node(s) didn't match pod topology spread constraints (missing required label)", lacking
        yield "node(s) didn't match pod topology spread constraints", broken

    @override
    def details(self, request: PodRequest, fleet: Fleet, target: str) -> Iterable[str]:
        row = fleet.row_of(target)
        for one in _skews(request, fleet):
            key = one.constraint.topology_key
            if not one.present[row]:
                yield f"the node has no label {key}"
                continue
            column = fleet.label(key)
            yield (
                f"{key} {column.values[column.codes[row]]}: {int(one.there[row])} matching, with the pod at most "
                f"{one.constraint.max_skew} more than the fewest, {one.fewest}"
            )


def _skews(request: PodRequest, fleet: Fleet) -> Iterator[_Skew]:
    shape = request.shape
    hard = [one for one in spread_of(shape, request.labels) if one.hard] if shape.spread else []
    if not hard:
        return
    present = [has_label(one.topology_key, fleet) for one in hard]
    complete = fleet.alive.copy()
    for mask in present:
        complete &= mask
    labels = dict(request.labels)
    for one, mask in zip(hard, present, strict=True):
        among = counted_nodes(one, shape, fleet)
        counted = complete if among is None else complete & among
        domains = _domains(one.topology_key, counted, fleet)
        pods = matching_pods(one, request.namespace, fleet, watched=True)
        if pods is None:
            there, fewest = np.zeros(fleet.rows, dtype=np.int64), 0
        else:
            there = in_domain(np.where(counted, pods, 0), one.topology_key, fleet)
            fewest = int(there[counted].min(initial=np.iinfo(np.int64).max)) if domains >= one.min_domains else 0
        yield _Skew(one, mask, there, fewest, int(holds(one.labels, labels)))


def _domains(key: str, counted: Mask, fleet: Fleet) -> int:
    """Return the number of domains that have a node that counts."""
    column = fleet.label(key)
    return int(np.count_nonzero(np.bincount(column.codes[: fleet.rows][counted], minlength=len(column.values))))


PLUGIN = PodTopologySpread()
