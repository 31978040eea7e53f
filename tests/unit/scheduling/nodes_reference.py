"""Placement in plain Python, node by node. The columns must agree with it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from moorage.decide.kubernetes.selectors import matches_node_selector, matches_node_term
from moorage.decide.scheduling.nodes.fleet import COUNTED_AT_LEAST, TAKEN_AS_ENOUGH, NodeFacts
from moorage.decide.scheduling.nodes.pod_shape import PodShape
from moorage.decide.taints.dialects.kubernetes import KUBERNETES, UNSCHEDULABLE_TAINT
from moorage.decide.taints.matching import first_match, normalize_reversed, prefer_count, untolerated

ZONE = "topology.kubernetes.io/zone"


@dataclass(frozen=True)
class Bound:
    """A pod that is on a node already."""

    node: str
    requests: Mapping[str, int]
    mine: bool
    """Whether it is a replica of the owner whose pod is being placed."""


def offered(node: NodeFacts, resource: str) -> int | None:
    """The amount that the node has. None if it counts as enough."""
    if resource in node.allocatable:
        return node.allocatable[resource]
    return None if resource in TAKEN_AS_ENOUGH else 0


def reasons(shape: PodShape, node: NodeFacts, bound: Sequence[Bound]) -> list[str]:
    """Why a node is ruled out, by the first filter that does."""
    here = [one for one in bound if one.node == node.name]
    if node.unschedulable and first_match(UNSCHEDULABLE_TAINT, shape.tolerations) is None:
        return ["node(s) were unschedulable"]
    if untolerated(node.taints, shape.tolerations, KUBERNETES.filtering):
        return ["node(s) had untolerated taint(s)"]
    selected = all(node.labels.get(key) == value for key, value in shape.node_selector)
    if shape.required is not None:
        selected = selected and matches_node_selector(shape.required, node.labels, node.name)
    if not selected:
        return ["node(s) didn't match Pod's node affinity/selector"]
    short = []
    pods = offered(node, "pods")
    if pods is not None and len(here) + 1 > pods:
        short.append("Too many pods")
    for resource, amount in shape.requests:
        has = offered(node, resource)
        if has is not None and sum(one.requests.get(resource, 0) for one in here) + amount > has:
            short.append(f"Insufficient {resource}")
    return short


def left(shape: PodShape, node: NodeFacts, bound: Sequence[Bound]) -> int:
    """The score LeastAllocated of one node."""
    shares = []
    for resource, least in COUNTED_AT_LEAST.items():
        has = offered(node, resource)
        if has is None:
            shares.append(100)
        elif has:
            wanted = dict(shape.requests).get(resource) or least
            taken = sum(one.requests.get(resource) or least for one in bound if one.node == node.name)
            shares.append(max(has - taken - wanted, 0) * 100 // has)
    return sum(shares) // len(shares) if shares else 0


def spread(feasible: Sequence[NodeFacts], nodes: Mapping[str, NodeFacts], bound: Sequence[Bound]) -> list[int]:
    """The scores PodTopologySpread of the feasible nodes."""
    mine = [nodes[one.node] for one in bound if one.mine and one.node in nodes]
    zones = {node.labels[ZONE] for node in feasible if ZONE in node.labels}
    raw = []
    for node in feasible:
        points = sum(one is node for one in mine) * math.log(len(feasible) + 2) + 2
        zone = node.labels.get(ZONE)
        if zone is not None:
            points += sum(one.labels.get(ZONE) == zone for one in mine) * math.log(len(zones) + 2) + 4
        raw.append(round(points))
    return [100 * (max(raw) + min(raw) - points) // max(raw) for points in raw]


def totals(
    shape: PodShape, nodes: Mapping[str, NodeFacts], bound: Sequence[Bound], *, replica: bool
) -> dict[str, dict[str, int]]:
    """Weighted scores of the nodes that fit, by node and prioritizer."""
    feasible = [nodes[name] for name in sorted(nodes) if not reasons(shape, nodes[name], bound)]
    if not feasible:
        return {}
    taints = normalize_reversed([prefer_count(node.taints, shape.tolerations, KUBERNETES.scoring) for node in feasible])
    liked = [
        sum(term.weight for term in shape.preferred if matches_node_term(term.preference, node.labels, node.name))
        for node in feasible
    ]
    most = max(liked)
    spreading = spread(feasible, nodes, bound) if replica else [0 for _ in feasible]
    return {
        node.name: {
            "TaintToleration": 3 * taints[at],
            "NodeAffinity": 2 * (liked[at] * 100 // most if most else 0),
            "PodTopologySpread": 2 * spreading[at],
            "NodeResourcesFit": left(shape, node, bound),
        }
        for at, node in enumerate(feasible)
    }
