"""Nodes that are too far from pods that the pod requires near it, or too near to pods that must be far from it.

It works in both directions: the required anti-affinity of a pod that is placed keeps away pods that come later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from typing_extensions import override

from moorage.decide.scheduling.framework.plugins import Basis
from moorage.decide.scheduling.nodes.bound_pods import MatchingPods, WithTerm, selector_of
from moorage.decide.scheduling.nodes.completed_constraints import constraints_of
from moorage.decide.scheduling.nodes.domains import has_label, in_domain, near
from moorage.decide.scheduling.nodes.fleet import Fleet, Mask
from moorage.decide.scheduling.nodes.plugin import NodeFilter, PodRequest
from moorage.decide.scheduling.nodes.pod_constraints import text_of
from moorage_schemas.placement import PodTerm


class InterPodAffinity(NodeFilter):
    """Rules out nodes by the required affinity and anti-affinity of the pod, and by the anti-affinity of other pods."""

    name = "InterPodAffinity"
    order = 70
    rests_on = Basis.PODS

    @override
    def objections(self, request: PodRequest, fleet: Fleet) -> Iterable[tuple[str, Mask]]:
        if not request.shape.terms and not fleet.pods.has_terms:
            return
        affinity, anti = _required(request, anti=False), _required(request, anti=True)
        gone = np.zeros(fleet.rows, dtype=np.bool_)
        if affinity:
            far = ~_near_all(affinity, request, fleet)
            yield "node(s) didn't match pod affinity rules", far
            gone |= far
        if anti:
            beside = _near_any([(one, MatchingPods((selector_of(one),))) for one in anti], fleet)
            yield "node(s) didn't match pod anti-affinity rules", beside & ~gone
            gone |= beside
        if objecting := fleet.pods.objecting(request.namespace, request.labels):
            kept = _near_any([(one, WithTerm(one)) for one in objecting], fleet)
            yield "node(s) didn't satisfy existing pods anti-affinity rules", kept & ~gone

    @override
    def details(self, request: PodRequest, fleet: Fleet, target: str) -> Iterable[str]:
        row = fleet.row_of(target)
        for term in (*_required(request, anti=False), *_required(request, anti=True)):
            pods = near(MatchingPods((selector_of(term),)), term.topology_key, fleet)
            count = 0 if pods is None else int(pods[row])
            wanted = "anti-affinity to" if term.anti else "affinity to"
            yield f"{wanted} {text_of(term.labels)} by {term.topology_key}: {count} there"
        for term in fleet.pods.objecting(request.namespace, request.labels):
            pods = near(WithTerm(term), term.topology_key, fleet)
            if pods is not None and pods[row]:
                yield f"{int(pods[row])} there with anti-affinity to {text_of(term.labels)} by {term.topology_key}"


def _required(request: PodRequest, *, anti: bool) -> list[PodTerm]:
    terms = constraints_of(request.shape, request.namespace, request.labels).terms if request.shape.terms else ()
    return [one for one in terms if one.anti is anti and not one.weight]


def _near_all(terms: Sequence[PodTerm], request: PodRequest, fleet: Fleet) -> Mask:
    """Return the nodes that are near pods which all terms select, by each term.

    Without any such pod, the pod may be the first of its group: if its own terms select it, each node with the labels
    will do.
    """
    selectors = tuple(map(selector_of, terms))
    passed = fleet.alive.copy()
    for term in terms:
        passed &= has_label(term.topology_key, fleet)
    pods = fleet.pods.counts(MatchingPods(selectors), watched=True)
    found = np.zeros(fleet.rows, dtype=np.bool_)
    if pods is not None:
        found = np.ones(fleet.rows, dtype=np.bool_)
        anywhere = False
        for term in terms:
            there = in_domain(pods, term.topology_key, fleet) > 0
            anywhere |= bool(there[fleet.alive].any())
            found &= there
        if anywhere:
            return passed & found
    labels = dict(request.labels)
    first = all(fleet.pods.selects(one, request.namespace, labels) for one in selectors)
    return passed if first else passed & found


def _near_any(asked: Iterable[tuple[PodTerm, MatchingPods | WithTerm]], fleet: Fleet) -> Mask:
    """Return the nodes that are near any of the pods in question, by the labels of the terms."""
    against = np.zeros(fleet.rows, dtype=np.bool_)
    for term, question in asked:
        pods = near(question, term.topology_key, fleet)
        if pods is not None:
            against |= pods > 0
    return against


PLUGIN = InterPodAffinity()
