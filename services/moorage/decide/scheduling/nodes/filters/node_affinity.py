"""Nodes that the pod's `nodeSelector` or required node affinity does not select."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from typing_extensions import override

from moorage.decide.kubernetes.selectors import field_holds, matches_node_term, requirement_text, test_of
from moorage.decide.scheduling.nodes.fleet import Fleet, Mask
from moorage.decide.scheduling.nodes.node_terms import nodes_required
from moorage.decide.scheduling.nodes.plugin import NodeFilter, PodRequest
from moorage_schemas.resources.pod import NodeSelectorTerm


class NodeAffinity(NodeFilter):
    """Rules out nodes that the pod's `nodeSelector` or its required node affinity does not select."""

    name = "NodeAffinity"
    order = 30
    lasting = True

    @override
    def objections(self, request: PodRequest, fleet: Fleet) -> Iterable[tuple[str, Mask]]:
        shape = request.shape
        if not shape.node_selector and shape.required is None:
            return
        yield "node(s) didn't match Pod's node affinity/selector", ~nodes_required(shape, fleet)

    @override
    def details(self, request: PodRequest, fleet: Fleet, target: str) -> Iterable[str]:
        shape = request.shape
        facts = fleet.facts(target)
        labels = facts.labels if facts is not None else {}
        for key, value in shape.node_selector:
            if (present := labels.get(key)) == value:
                yield f"nodeSelector {key}={value} matches"
            else:
                yield f"nodeSelector {key}={value} fails: {_present(present)}"
        terms = shape.required.node_selector_terms if shape.required is not None else ()
        for number, term in enumerate(terms):
            if matches_node_term(term, labels, target):
                yield f"required node affinity: term {number} matches"
                return
        for number, term in enumerate(terms):
            yield f"required node affinity: term {number} fails: {', '.join(_failing(term, labels, target))}"
        if shape.required is not None and not terms:
            yield "required node affinity: it has no terms, so it selects no node"


def _failing(term: NodeSelectorTerm, labels: Mapping[str, str], name: str) -> Iterable[str]:
    """Return the requirements of a term that a node does not meet."""
    if not term.match_expressions and not term.match_fields:
        yield "it is empty, so it selects no node"
    for requirement in term.match_expressions or ():
        present = labels.get(requirement.key)
        if not test_of(requirement, node=True)(present):
            yield f"{requirement_text(requirement)} ({_present(present)})"
    for requirement in term.match_fields or ():
        if not field_holds(requirement, name):
            yield f"{requirement_text(requirement)} (it is {name!r})"


def _present(value: str | None) -> str:
    return "the label is missing" if value is None else f"it is {value!r}"


PLUGIN = NodeAffinity()
