"""Domains of a topology: the nodes with an equal value of a label. Everything is computed for all nodes at once."""

from __future__ import annotations

from typing import Final

import numpy as np

from moorage.decide.scheduling.nodes.bound_pods import MatchingPods, PodSelector, Question
from moorage.decide.scheduling.nodes.fleet import Counts, Fleet, Mask
from moorage.decide.scheduling.nodes.node_terms import nodes_required
from moorage.decide.scheduling.nodes.pod_constraints import EvenSpread
from moorage.decide.scheduling.nodes.pod_shape import PodShape

HOSTNAME: Final = "kubernetes.io/hostname"


def has_label(key: str, fleet: Fleet) -> Mask:
    """Return the nodes that have a label, so that they are in one of its domains."""
    result: Mask = fleet.label(key).codes[: fleet.rows] > 0
    return result


def in_domain(counts: Counts, key: str, fleet: Fleet) -> Counts:
    """Return for each node the sum over the nodes of its domain. 0 for a node without the label."""
    column = fleet.label(key)
    codes = column.codes[: fleet.rows]
    totals = np.bincount(codes, weights=counts, minlength=len(column.values)).astype(np.int64)
    totals[0] = 0
    result: Counts = totals[codes]
    return result


def near(question: Question, key: str, fleet: Fleet, *, watched: bool = False) -> Counts | None:
    """Return for each node how many of the pods in question are in its domain. None if there are none at all."""
    counts = fleet.pods.counts(question, watched=watched)
    return None if counts is None else in_domain(counts, key, fleet)


def counted_nodes(one: EvenSpread, shape: PodShape, fleet: Fleet) -> Mask | None:
    """Return the nodes whose pods count for a constraint on spreading. None for all nodes."""
    counted: Mask | None = None
    if one.honors_affinity and (shape.node_selector or shape.required is not None):
        counted = nodes_required(shape, fleet)
    if one.honors_taints:
        fits = fleet.fits_taints(shape.tolerations)
        counted = fits if counted is None else counted & fits
    return counted


def matching_pods(one: EvenSpread, namespace: str, fleet: Fleet, *, watched: bool = False) -> Counts | None:
    """Return how many pods on each node count for a constraint on spreading. None if there are none at all.

    Pods that are being deleted do not count, nor does an empty selector select any.
    """
    if not one.labels:
        return None
    return fleet.pods.counts(MatchingPods((PodSelector((namespace,), one.labels),), terminating=False), watched=watched)
