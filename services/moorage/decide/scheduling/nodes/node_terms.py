"""Node selectors over all nodes at once. `moorage.decide.kubernetes.selectors` evaluates them for a single node."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from moorage.decide.kubernetes.selectors import IN, NAME_FIELD, NOT_IN, test_of
from moorage.decide.scheduling.nodes.fleet import Fleet, Mask
from moorage.decide.scheduling.nodes.pod_shape import PodShape
from moorage_schemas.resources.meta import SelectorRequirement
from moorage_schemas.resources.pod import NodeSelectorTerm


def nodes_required(shape: PodShape, fleet: Fleet) -> Mask:
    """Return the nodes that a pod's `nodeSelector` and its required node affinity select."""
    passed = nodes_with(shape.node_selector, fleet)
    if shape.required is not None:
        passed &= nodes_of_any(shape.required.node_selector_terms, fleet)
    return passed


def nodes_with(pairs: Iterable[tuple[str, str]], fleet: Fleet) -> Mask:
    """Return the nodes that have all of these labels."""
    passed = np.ones(fleet.rows, dtype=np.bool_)
    for key, value in pairs:
        passed &= fleet.label(key).holding(lambda present, value=value: present == value, fleet.rows)  # type: ignore[misc]  # mypy does not infer a lambda's default
    return passed


def nodes_of_any(terms: Iterable[NodeSelectorTerm], fleet: Fleet) -> Mask:
    """Return the nodes that at least one of the terms selects."""
    passed = np.zeros(fleet.rows, dtype=np.bool_)
    for term in terms:
        passed |= nodes_of(term, fleet)
    return passed


def nodes_of(term: NodeSelectorTerm, fleet: Fleet) -> Mask:
    """Return the nodes that a term selects. An empty term selects none."""
    expressions, fields = term.match_expressions or (), term.match_fields or ()
    if not expressions and not fields:
        return np.zeros(fleet.rows, dtype=np.bool_)
    passed = np.ones(fleet.rows, dtype=np.bool_)
    for requirement in expressions:
        passed &= fleet.label(requirement.key).holding(test_of(requirement, node=True), fleet.rows)
    for requirement in fields:
        passed &= _by_field(requirement, fleet)
    return passed


def _by_field(requirement: SelectorRequirement, fleet: Fleet) -> Mask:
    values = requirement.values or []
    if requirement.key != NAME_FIELD or len(values) != 1 or requirement.operator not in {IN, NOT_IN}:
        return np.zeros(fleet.rows, dtype=np.bool_)
    named = np.zeros(fleet.rows, dtype=np.bool_)
    if values[0] in fleet:
        named[fleet.row_of(values[0])] = True
    return named if requirement.operator == IN else ~named
