"""Records of a run that were changed, so that a comparison has to find it."""

from __future__ import annotations

import copy
import datetime as dt
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tests.planes.shadow.evictions import dues_of
from tests.planes.shadow.history import DecidedEviction, Histories, PodHistory, Span

from moorage_schemas.placement import FilterResult

Lie = Callable[[Histories, dt.timedelta], tuple[Histories, str]]
"""Returns the record with one change, and the object of which it is."""


def an_eviction_was_forgotten(both: Histories, bound: dt.timedelta) -> tuple[Histories, str]:
    """A pod that both evict, by either rule, and that had to leave for long enough to be evicted later."""
    told = copy.deepcopy(both)
    long = bound + dt.timedelta(seconds=1)
    for uid, pod in told.cluster.pods.items():
        requests = [one.time for one in told.decided.evictions.get(uid, ()) if one.state == "Requested"]
        if (
            pod.evicted is not None
            and told.begin <= pod.evicted <= told.end - bound
            and any(abs(one - pod.evicted) <= bound for one in requests)
            and (pod.gone is None or pod.gone - pod.evicted > long)
            and all(
                any(abs(span.begin - pod.evicted) <= bound and span.length > long for span in found)
                for found in dues_of(pod, told.cluster, told.decided)
            )
        ):
            del told.decided.evictions[uid]
            return told, _pod(pod)
    raise AssertionError("no pod was evicted on both sides, and there for a while")


def a_pod_was_evicted_without_a_taint(both: Histories, bound: dt.timedelta) -> tuple[Histories, str]:
    """A pod that no taint evicts for as long as it is there."""
    told = copy.deepcopy(both)
    for uid, pod in told.cluster.pods.items():
        if pod.bound is None or pod.evicted is not None or pod.gone is not None or uid in told.decided.evictions:
            continue
        due = dues_of(pod, told.cluster, told.decided)
        time = max(pod.bound, told.begin) + bound
        if time < told.end - bound and not due.there and not due.here:
            told.decided.evictions[uid] = [DecidedEviction(time, pod.node, "Requested")]
            return told, _pod(pod)
    raise AssertionError("each pod had to leave")


def a_taint_was_forgotten(both: Histories, bound: dt.timedelta) -> tuple[Histories, str]:
    """A node that had somebody's taint for a while."""
    told = copy.deepcopy(both)
    for uid, records in told.decided.taints.items():
        for taint in {one for record in records for one in record.taints if one[0].startswith("example.com/")}:
            node = told.cluster.nodes[uid]
            since = next((one.time for one in node.versions if taint in one.taints and one.time > told.begin), None)
            if since is None or any(taint not in one.taints for one in node.between(since, since + 2 * bound)):
                continue
            told.decided.taints[uid] = [
                replace(one, taints={key: value for key, value in one.taints.items() if key != taint})
                for one in records
            ]
            return told, f"node/{node.name}"
    raise AssertionError("no node had a taint for a while")


def a_full_node_was_chosen(both: Histories, bound: dt.timedelta) -> tuple[Histories, str]:
    """A pod of which Moorage says that its node had no room, where there was plenty."""
    return _against(both, bound, FilterResult(filter="NodeResourcesFit", reason="Insufficient cpu", count=1))


def a_node_of_another_name_was_chosen(both: Histories, bound: dt.timedelta) -> tuple[Histories, str]:
    """A pod of which Moorage says that its node was not selected, where it selects nothing."""
    return _against(both, bound, FilterResult(filter="NodeAffinity", reason="node(s) didn't match", count=1))


def a_pod_was_not_mirrored(both: Histories, bound: dt.timedelta) -> tuple[Histories, str]:
    """A pod of which Moorage has not heard."""
    told = copy.deepcopy(both)
    uid, pod = _first(told, bound)
    del told.decided.placements[uid]
    return told, _pod(pod)


def _against(both: Histories, bound: dt.timedelta, result: FilterResult) -> tuple[Histories, str]:
    told = copy.deepcopy(both)
    uid, pod = _first(told, bound)
    told.decided.placements[uid] = [
        replace(one, filters=(*one.filters, result)) for one in told.decided.placements[uid]
    ]
    return told, _pod(pod)


def _first(told: Histories, bound: dt.timedelta) -> tuple[str, PodHistory]:
    """The first pod that is there for a while, on a node with room for all pods that come and go about that time."""
    for uid, pod in told.cluster.pods.items():
        if pod.bound is None or pod.ends - pod.bound <= 2 * bound or uid not in told.decided.placements:
            continue
        node = told.cluster.node_at(pod.node, pod.bound)
        if node is None or not told.begin <= pod.bound <= told.end - bound:
            continue
        about = Span(pod.bound - 2 * bound, pod.bound + 2 * bound)
        taken: Counter[str] = Counter()
        for other in told.cluster.pods.values():
            was_there = other.bound is not None and other.bound <= about.end
            if other.node == pod.node and was_there and (other.gone is None or other.gone >= about.begin):
                taken.update({"pods": 1, **other.requests})
        if all(taken[one] <= room for one, room in node.room.items()):
            return uid, pod
    raise AssertionError("no pod came to a node with room")


def _pod(pod: PodHistory) -> str:
    return f"pod/{pod.namespace}/{pod.name}"


LIES: Final[list[Lie]] = [
    an_eviction_was_forgotten,
    a_pod_was_evicted_without_a_taint,
    a_taint_was_forgotten,
    a_full_node_was_chosen,
    a_node_of_another_name_was_chosen,
    a_pod_was_not_mirrored,
]
