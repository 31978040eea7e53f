"""Why the node that the scheduler chose did not pass a filter of Moorage's."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from itertools import pairwise
from typing import Final

from tests.planes.shadow.history import (
    NO_EXECUTE,
    NO_SCHEDULE,
    ClusterHistory,
    DecidedPlacement,
    Histories,
    PodHistory,
)
from tests.planes.shadow.reasons import Reason

from moorage.core.taints.matching import first_match

_PREVENTING: Final = frozenset({NO_SCHEDULE, NO_EXECUTE})
_CLOCKS: Final = dt.timedelta(milliseconds=100)  # between the time of a decision and that of its record


def reason_of_filter(
    pod: PodHistory, decided: DecidedPlacement, name: str, both: Histories, bound: dt.timedelta
) -> tuple[Reason | None, str]:
    """Return why the node of a pod did not pass a filter, and what shows it.

    Args:
        pod: the pod.
        decided: what Moorage said when it heard of it.
        name: of the filter.
        both: the histories.
        bound: how long ago the scheduler may have seen the node, when it chose it.
    """
    assert pod.bound is not None
    if name == "TolerationOver":
        return _over(pod, decided, both, bound)
    begin = pod.bound - bound
    passed = [time for time in _moments(pod, both.cluster, begin, pod.bound) if _passes(pod, name, both.cluster, time)]
    # Of pods Moorage has only heard. Its own taints may come before those there.
    until = decided.time if name == "NodeResourcesFit" else decided.time + bound
    failed = [
        time
        for time in _moments(pod, both.cluster, begin, until)
        if not _passes(pod, name, both.cluster, time, since=begin)
    ]
    if passed and failed:
        return Reason.DECIDED_LATER, f"it passed at {passed[-1]:%H:%M:%S.%f}, and did not at {failed[-1]:%H:%M:%S.%f}"
    return None, ""


def _moments(pod: PodHistory, cluster: ClusterHistory, begin: dt.datetime, end: dt.datetime) -> list[dt.datetime]:
    """Moments between which nothing has changed on the node of a pod."""
    nodes = cluster.nodes_named(pod.node)
    found = {end, *(version.time for node in nodes for version in node.versions)}
    for other in cluster.pods.values():
        if other.node == pod.node:
            found |= {time for time in (other.bound, other.gone) if time is not None}
    return sorted(time for time in found if begin <= time <= end)


def _passes(
    pod: PodHistory, name: str, cluster: ClusterHistory, time: dt.datetime, since: dt.datetime | None = None
) -> bool:
    """Whether its node passed a filter at a time.

    Args:
        pod: the pod.
        name: of the filter.
        cluster: what was there.
        time: when.
        since: the pods that have gone since then are counted, because their deletion may be heard of later.
    """
    node = cluster.node_at(pod.node, time)
    if node is None:
        return False
    if name == "NodeUnschedulable":
        return not node.unschedulable
    if name == "TaintToleration":
        preventing = [one for one in node.taints.values() if one.effect in _PREVENTING]
        return all(first_match(one, pod.tolerations) is not None for one in preventing)
    if name == "NodeResourcesFit":
        taken: Counter[str] = Counter({"pods": 1, **pod.requests})
        for other in cluster.pods.values():
            if other.node == pod.node and other is not pod and (other.on(time) or _was_on(other, since, time)):
                taken.update({"pods": 1, **other.requests})
        return all(taken[one] <= room for one, room in node.room.items())
    return True


def _was_on(pod: PodHistory, since: dt.datetime | None, time: dt.datetime) -> bool:
    return since is not None and pod.bound is not None and pod.bound <= time and (pod.gone is None or pod.gone > since)


def _over(
    pod: PodHistory, decided: DecidedPlacement, both: Histories, bound: dt.timedelta
) -> tuple[Reason | None, str]:
    """Whether there was a taint whose tolerated time was over, there or by what Moorage had decided."""
    assert pod.bound is not None
    begin, end = pod.bound - bound, decided.time + bound
    uids = [uid for uid, node in both.cluster.nodes.items() if node.name == pod.node]
    records = [one for uid in uids for one in both.decided.taints.get(uid, ())]
    taints = [
        *(
            taint
            for uid in uids
            for version in both.cluster.nodes[uid].between(begin, end)
            for taint in version.taints.values()
        ),
        *(
            taint
            for one, following in pairwise([*records, None])
            if one is not None and one.time <= end and (following is None or following.time >= begin)
            for taint in one.taints.values()
        ),
    ]
    for taint in taints:
        match = first_match(taint, pod.tolerations)
        if taint.effect != NO_EXECUTE or match is None or match.toleration_seconds is None or taint.time_added is None:
            continue
        until = taint.time_added + dt.timedelta(seconds=match.toleration_seconds)
        if until <= decided.time + _CLOCKS:
            return Reason.EXPIRED_TOLERATION_KEEPS_AWAY, f"{taint.key} was tolerated until {until:%H:%M:%S.%f}"
    return None, ""
