"""Why the node that the scheduler chose did not pass a filter of Moorage's."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from itertools import pairwise
from typing import Final

from tests.planes.shadow.history import (
    NO_EXECUTE,
    NO_SCHEDULE,
    DecidedPlacement,
    Histories,
    PodHistory,
)
from tests.planes.shadow.reasons import Reason

from moorage.decide.taints.matching import first_match
from moorage_schemas.taint import Taint

_PREVENTING: Final = frozenset({NO_SCHEDULE, NO_EXECUTE})
_CLOCKS: Final = dt.timedelta(milliseconds=100)  # between the time of a decision and that of its record


class FilterReasons:
    """Finds out why nodes did not pass.

    Args:
        both: the histories.
        bound: how long ago the scheduler may have seen a node, when it chose it.
    """

    def __init__(self, both: Histories, bound: dt.timedelta) -> None:
        self._cluster, self._decided, self._bound = both.cluster, both.decided, bound
        self._on: dict[str, list[PodHistory]] = defaultdict(list)
        for pod in both.cluster.pods.values():
            self._on[pod.node].append(pod)

    def reason(self, pod: PodHistory, decided: DecidedPlacement, name: str) -> tuple[Reason | None, str]:
        """Return why the node of a pod did not pass a filter, and what shows it.

        Args:
            pod: the pod.
            decided: what Moorage said when it heard of it.
            name: of the filter.
        """
        assert pod.bound is not None
        if name == "TolerationOver":
            return self._over(pod, decided, pod.bound - self._bound)
        begin = pod.bound - self._bound
        # Of pods Moorage has only heard. Its own taints may come before those there.
        until = decided.time if name == "NodeResourcesFit" else decided.time + self._bound
        passed = [time for time in self._moments(pod, begin, pod.bound) if self._passes(pod, name, time)]
        failed = [
            time
            for time in self._moments(pod, begin, until)
            if self._cluster.node_at(pod.node, time) is not None and not self._passes(pod, name, time, since=begin)
        ]
        if passed and failed:
            why = f"it passed at {passed[-1]:%H:%M:%S.%f}, and did not at {failed[-1]:%H:%M:%S.%f}"
            return Reason.DECIDED_LATER, why
        return None, ""

    def _moments(self, pod: PodHistory, begin: dt.datetime, end: dt.datetime) -> list[dt.datetime]:
        """Moments between which nothing has changed on the node of a pod."""
        found = {
            begin,
            end,
            *(version.time for node in self._cluster.nodes_named(pod.node) for version in node.versions),
        }
        for other in self._on[pod.node]:
            found |= {time for time in (other.bound, other.gone) if time is not None}
        return sorted(time for time in found if begin <= time <= end)

    def _passes(self, pod: PodHistory, name: str, time: dt.datetime, since: dt.datetime | None = None) -> bool:
        """Whether its node passed a filter at a time.

        Args:
            pod: the pod.
            name: of the filter.
            time: when.
            since: the pods that have gone since then are counted, because their deletion may be heard of later.
        """
        node = self._cluster.node_at(pod.node, time)
        if node is None:
            return False
        if name == "NodeUnschedulable":
            return not node.unschedulable
        if name == "TaintToleration":
            preventing = [one for one in node.taints.values() if one.effect in _PREVENTING]
            return all(first_match(one, pod.tolerations) is not None for one in preventing)
        if name == "NodeResourcesFit":
            taken: Counter[str] = Counter({"pods": 1, **pod.requests})
            for other in self._on[pod.node]:
                if other is not pod and (other.on(time) or _was_on(other, since, time)):
                    taken.update({"pods": 1, **other.requests})
            return all(taken[one] <= room for one, room in node.room.items())
        return True

    def _over(self, pod: PodHistory, decided: DecidedPlacement, begin: dt.datetime) -> tuple[Reason | None, str]:
        """Whether there was a taint whose tolerated time was over, there or by what Moorage had decided."""
        for taint in self._taints(pod.node, begin, decided.time + self._bound):
            match = first_match(taint, pod.tolerations)
            if taint.effect != NO_EXECUTE or match is None or match.toleration_seconds is None:
                continue
            if taint.time_added is None:
                continue
            until = taint.time_added + dt.timedelta(seconds=match.toleration_seconds)
            if until <= decided.time + _CLOCKS:
                return Reason.EXPIRED_TOLERATION_KEEPS_AWAY, f"{taint.key} was tolerated until {until:%H:%M:%S.%f}"
        return None, ""

    def _taints(self, name: str, begin: dt.datetime, end: dt.datetime) -> list[Taint]:
        """The taints that the nodes of a name had in a span, on either side."""
        found: list[Taint] = []
        for node in self._cluster.nodes_named(name):
            found += [taint for version in node.between(begin, end) for taint in version.taints.values()]
            for one, following in pairwise([*self._decided.taints.get(node.uid, ()), None]):
                if one is not None and one.time <= end and (following is None or following.time >= begin):
                    found += one.taints.values()
        return found


def _was_on(pod: PodHistory, since: dt.datetime | None, time: dt.datetime) -> bool:
    return since is not None and pod.bound is not None and pod.bound <= time and (pod.gone is None or pod.gone > since)
