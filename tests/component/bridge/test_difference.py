"""What `moorage diff cluster` finds."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.bridges.engine.seen_target import TAINTS_ANNOTATION
from moorage.bridges.kubernetes.difference import ClusterDifference, DecidedState, differences

_TAINT = {"key": "a", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
_NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}


def _node(*taints: dict[str, Any], uid: str = "u1", note: str = "") -> dict[str, Any]:
    annotations = {TAINTS_ANNOTATION: note} if note else {}
    return {
        "kind": "Node",
        "metadata": {"name": "n1", "uid": uid, "annotations": annotations},
        "spec": {"taints": list(taints)},
    }


def _pod(*, node: str = "n1", scheduler: str = "default-scheduler", leaving: bool = False) -> dict[str, Any]:
    metadata = {"namespace": "shop", "name": "web", "uid": "p1"}
    if leaving:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    target = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
    return {
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"schedulerName": scheduler, **({"nodeName": node} if node else {})},
        "status": {"conditions": [target] if leaving else []},
    }


def _eviction(state: str, **more: Any) -> dict[str, Any]:
    return {"status": {"workloadUid": "p1", "generation": 1, "state": state, "taints": [_TAINT], **more}}


def _found(
    nodes: list[dict[str, Any]],
    pods: list[dict[str, Any]],
    *,
    decided: list[dict[str, Any]],
    evictions: list[dict[str, Any]] | None = None,
    placements: list[dict[str, Any]] | None = None,
) -> list[tuple[str, str, str]]:
    if placements is None:
        placements = [{"status": {"uid": one["metadata"]["uid"]}} for one in pods]
    found = differences(nodes, pods, DecidedState(decided, evictions or [], placements))
    assert all(isinstance(one, ClusterDifference) for one in found)
    return [one[:3] for one in found]


def test_nothing_differs() -> None:
    assert _found([_node(_TAINT)], [_pod()], decided=[_node(_TAINT)], evictions=[_eviction("Completed")]) == []


@pytest.mark.parametrize(
    ("phase", "leaving", "evictions", "expected"),
    [
        ("Running", False, [], [("pod/shop/web", "is on n1", "is not mirrored")]),
        ("Running", False, [_eviction("Completed")], []),
        ("Succeeded", False, [], []),
    ],
)
def test_a_pod_that_is_not_mirrored(
    phase: str, *, leaving: bool, evictions: list[dict[str, Any]], expected: list[tuple[str, str, str]]
) -> None:
    pod = _pod(leaving=leaving)
    pod["status"]["phase"] = phase
    assert _found([_node()], [pod], decided=[_node()], evictions=evictions, placements=[]) == expected


def test_a_taint_that_moorage_would_add() -> None:
    taint = "has the taint node.kubernetes.io/not-ready:NoExecute"
    assert _found([_node()], [], decided=[_node(_NOT_READY)]) == [("node/n1", "<none>", taint)]


def test_a_taint_that_moorage_would_remove_and_why_it_is_there() -> None:
    kinds = {
        "it follows from the node's state, which does not demand it here now": _node(_NOT_READY),
        "it was just set, and no bridge has reported it yet": _node(_TAINT),
        "it was removed from Moorage, and is about to be deleted": _node(
            _TAINT, note='[{"key":"a","effect":"NoExecute"}]'
        ),
    }
    for why, node in kinds.items():
        (found,) = differences([node], [], DecidedState([_node()], [], []))
        assert (found.moorage, found.why) == ("<none>", why)


def test_another_value() -> None:
    found = _found([_node({**_TAINT, "value": "1"})], [], decided=[_node({**_TAINT, "value": "2"})])
    assert found == [("node/n1", "has the taint a=1:NoExecute", "has the taint a=2:NoExecute")]


def test_a_node_that_is_not_mirrored_or_is_another_one() -> None:
    assert _found([_node()], [], decided=[]) == [("node/n1", "exists", "is not mirrored")]
    assert _found([_node(uid="u2")], [], decided=[_node()]) == [("node/n1", "exists", "is not mirrored")]
    assert _found([], [], decided=[_node()]) == [("node/n1", "does not exist", "is mirrored")]


def test_a_pod_that_has_to_leave() -> None:
    found = _found([_node()], [_pod()], decided=[_node()], evictions=[_eviction("Requested")])
    assert found == [("pod/shop/web", "is on n1", "has to leave")]
    assert _found([_node()], [_pod(leaving=True)], decided=[_node()], evictions=[_eviction("Requested")]) == []


def test_a_pod_that_the_cluster_evicts_and_moorage_would_not_yet() -> None:
    eviction = _eviction("Scheduled", deadline="2026-01-01T00:05:00Z")
    found = _found([_node()], [_pod(leaving=True)], decided=[_node()], evictions=[eviction])
    assert found == [("pod/shop/web", "is evicted by a taint", "may stay until 2026-01-01T00:05:00Z")]


@pytest.mark.parametrize("scheduler", ["moorage", "default-scheduler"])
def test_a_pod_that_waits_and_would_be_bound(scheduler: str) -> None:
    placed = {"status": {"uid": "p1", "target": {"kind": "Node", "name": "n1"}, "reason": "Scheduled"}}
    found = _found([_node()], [_pod(node="", scheduler=scheduler)], decided=[_node()], placements=[placed])
    assert found == [("pod/shop/web", "waits for a node", "belongs on n1")]


def test_a_pod_that_its_own_scheduler_has_just_bound_does_not_wait() -> None:
    placed = {"status": {"uid": "p1", "target": {"kind": "Node", "name": "n1"}, "reason": "NodeNameSet"}}
    assert _found([_node()], [_pod(node="")], decided=[_node()], placements=[placed]) == []


def test_a_node_that_does_not_pass_the_filters() -> None:
    filters = [{"filter": "TaintToleration", "reason": "node(s) had untolerated taint(s)"}]
    target = {"kind": "Node", "name": "n1"}
    placed = {"status": {"uid": "p1", "target": target, "reason": "NodeNameSet", "filters": filters}}
    found = _found([_node()], [_pod()], decided=[_node()], placements=[placed])
    assert found == [("pod/shop/web", "is on n1", "would choose another node")]
