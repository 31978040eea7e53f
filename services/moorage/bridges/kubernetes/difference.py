"""Differences between a cluster and Moorage's decisions: the present state of both, side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from moorage.bridges.engine.seen_target import follows_from_state, identity_of, own_taints, taints_of
from moorage.bridges.kubernetes.reduced import SeenPod

JsonObject = Mapping[str, Any]

_NAMED: Final = "NodeNameSet"
"""Why a pod is on a node that the cluster has chosen."""


class ClusterDifference(NamedTuple):
    """Something that is otherwise in the cluster than Moorage has decided."""

    object: str
    """Such as `node/n1` or `pod/shop/web-0`."""

    cluster: str
    """How it is in the cluster."""

    moorage: str
    """Moorage's decision."""

    why: str


class DecidedState(NamedTuple):
    """Moorage's decisions on a cluster, as the gateway shows them."""

    nodes: Sequence[JsonObject]
    evictions: Sequence[JsonObject]
    placements: Sequence[JsonObject]


def differences(
    nodes: Iterable[JsonObject], pods: Iterable[JsonObject], decided: DecidedState
) -> list[ClusterDifference]:
    """Return where a cluster and Moorage differ, nodes first."""
    there = {str(one["metadata"]["name"]): one for one in decided.nodes}
    found: list[ClusterDifference] = []
    for node in sorted(nodes, key=lambda one: str(one["metadata"]["name"])):
        found += _of_node(node, there.pop(str(node["metadata"]["name"]), None))
    found += [
        ClusterDifference(f"node/{name}", "does not exist", "is mirrored", "no bridge has reported it yet")
        for name in sorted(there)
    ]
    evictions = {str(one["status"].get("workloadUid")): one["status"] for one in _latest(decided.evictions)}
    placements = {str(one["status"].get("uid")): one["status"] for one in decided.placements}
    for pod in sorted(pods, key=lambda one: (str(one["metadata"].get("namespace")), str(one["metadata"]["name"]))):
        uid = str(pod["metadata"].get("uid"))
        found += _of_pod(pod, evictions.get(uid), placements.get(uid))
    return found


def _latest(evictions: Iterable[JsonObject]) -> list[JsonObject]:
    return sorted(evictions, key=lambda one: int(one["status"].get("generation") or 0))


def _of_node(node: JsonObject, mirrored: JsonObject | None) -> Iterator[ClusterDifference]:
    name = f"node/{node['metadata']['name']}"
    if mirrored is None or mirrored["metadata"].get("uid") != node["metadata"].get("uid"):
        yield ClusterDifference(name, "exists", "is not mirrored", "no bridge has reported it yet")
        return
    has = {identity_of(one): one for one in taints_of(node)}
    wants = {identity_of(one): one for one in taints_of(mirrored)}
    own = own_taints(node)
    for identity in sorted({*has, *wants}):
        mine, theirs = wants.get(identity), has.get(identity)
        if mine is not None and theirs is None:
            yield ClusterDifference(name, "<none>", f"has the taint {_taint(mine)}", f"since {_since(mine)}")
        elif theirs is not None and mine is None:
            if identity in own:
                why = "it was removed from Moorage, and is about to be deleted"
            elif follows_from_state(node, theirs):
                why = "it follows from the node's state, which does not demand it here now"
            else:
                why = "it was just set, and no bridge has reported it yet"
            yield ClusterDifference(name, f"has the taint {_taint(theirs)}", "<none>", why)
        elif mine is not None and theirs is not None and (mine.get("value") or "") != (theirs.get("value") or ""):
            yield ClusterDifference(
                name, f"has the taint {_taint(theirs)}", f"has the taint {_taint(mine)}", "another value"
            )


def _of_pod(found: JsonObject, eviction: JsonObject | None, placed: JsonObject | None) -> Iterator[ClusterDifference]:
    pod = SeenPod.of(found)
    name = f"pod/{pod.namespace}/{pod.name}"
    state = eviction.get("state") if eviction is not None else None
    on = f"is on {pod.node}" if pod.node else "waits for a node"
    if eviction is not None and state == "Requested" and not pod.leaving:
        causes = ", ".join(_taint(one) for one in eviction.get("taints") or ())
        since = eviction.get("requestedTime") or eviction.get("decidedTime")
        yield ClusterDifference(name, on, "has to leave", f"{causes or eviction.get('message')} since {since}")
    elif pod.leaving and _evicted_by_taint(found) and state not in {"Requested", "Completed"}:
        until = f" until {eviction.get('deadline')}" if eviction is not None and state == "Scheduled" else ""
        held = ", ".join(eviction.get("heldBy") or ()) if eviction is not None else ""
        yield ClusterDifference(name, "is evicted by a taint", f"may stay{until}", f"held by {held}" if held else "")
    if placed is None:
        if eviction is None and not (pod.leaving or pod.finished):
            why = "no bridge has mirrored it yet, or none can; then an event of it gives the reason"
            yield ClusterDifference(name, on, "is not mirrored", why)
        return
    target = (placed.get("target") or {}).get("name") or ""
    if pod.node:
        for one in placed.get("filters") or ():
            if placed.get("reason") == _NAMED and target == pod.node:
                yield ClusterDifference(
                    name, on, "would choose another node", f"{one.get('filter')}: {one.get('reason')}"
                )
    elif target and placed.get("reason") != _NAMED and not pod.leaving:
        yield ClusterDifference(name, on, f"belongs on {target}", f"decided at {placed.get('decidedTime')}")


def _evicted_by_taint(pod: JsonObject) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(
        one.get("type") == "DisruptionTarget" and one.get("reason") == "DeletionByTaintManager" for one in conditions
    )


def _taint(taint: JsonObject) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key')}{value}:{taint.get('effect')}"


def _since(taint: JsonObject) -> str:
    return str(taint.get("timeAdded") or "an unknown time")
