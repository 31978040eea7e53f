"""When a pod has to leave by the rules of either side, computed again from the taints of its node.

Upstream's rule is that of k8s.io/kubernetes/pkg/controller/tainteviction (`processPodOnNode`), and Moorage's is in
docs/domain.md, "Deadlines".
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from tests.planes.shadow.history import (
    FOREVER,
    NO_EXECUTE,
    ClusterHistory,
    DecidedHistory,
    Identity,
    PodHistory,
    Span,
)

from moorage.decide.taints.matching import first_match
from moorage_schemas.taint import Taint, Toleration

Step = tuple[dt.datetime, Sequence[Taint]]
"""The `NoExecute` taints of a node from a time on, each with the time at which it was added."""

Rule = Callable[[dt.datetime, Sequence[Taint], Sequence[Toleration], dt.datetime | None], dt.datetime | None]
"""Returns when a pod is due. It takes the time, the taints, the toleration of each, and when the pod was due so far."""


def upstream(
    time: dt.datetime, _taints: Sequence[Taint], tolerations: Sequence[Toleration], due: dt.datetime | None
) -> dt.datetime | None:
    """The shortest of the tolerated times counts from now, and what was set first stays."""
    seconds = [one.toleration_seconds for one in tolerations if one.toleration_seconds is not None]
    return due or time + dt.timedelta(seconds=max(0, min(seconds))) if seconds else None


def moorage(
    time: dt.datetime, taints: Sequence[Taint], tolerations: Sequence[Toleration], _due: dt.datetime | None
) -> dt.datetime | None:
    """The earliest end of a tolerated time counts, from when its taint was added."""
    ends = [
        taint.time_added + dt.timedelta(seconds=one.toleration_seconds)
        for taint, one in zip(taints, tolerations, strict=True)
        if one.toleration_seconds is not None and taint.time_added is not None
    ]
    return max(time, min(ends)) if ends else None


def dues(rule: Rule, pod: PodHistory, steps: Iterable[Step], end: dt.datetime = FOREVER) -> list[Span]:
    """When a pod has to leave: from when it is due until the taints do not demand it any more.

    Args:
        rule: whose rule.
        pod: the pod.
        steps: the taints of its node.
        end: when nobody can act on it any more.
    """
    if pod.bound is None:
        return []
    found: list[Span] = []
    due: dt.datetime | None = None
    for time, taints in _while_there(pod.bound, end, steps):
        last = due
        due = _due(rule, pod, time, taints, due)
        if last is not None and last <= time and due is None:
            found.append(Span(last, time))
    if due is not None and due < end:
        found.append(Span(due, end))
    return found


def _due(
    rule: Rule, pod: PodHistory, time: dt.datetime, taints: Sequence[Taint], due: dt.datetime | None
) -> dt.datetime | None:
    if not taints:
        return None
    matches = [first_match(one, pod.tolerations) for one in taints]
    tolerations = [one for one in matches if one is not None]
    if due is not None and due <= time and (len(tolerations) < len(matches) or _limited(tolerations)):
        return due  # it has to leave already
    return time if len(tolerations) < len(matches) else rule(time, taints, tolerations, due)


def _limited(tolerations: Iterable[Toleration]) -> bool:
    return any(one.toleration_seconds is not None for one in tolerations)


def _while_there(bound: dt.datetime, end: dt.datetime, steps: Iterable[Step]) -> list[Step]:
    """The taints of a node from when a pod is bound to it until it is gone."""
    ordered = sorted(steps, key=lambda one: one[0])
    before = [taints for time, taints in ordered if time <= bound]
    first: Step = (bound, before[-1] if before else ())
    return [first, *(one for one in ordered if bound < one[0] < end)]


def steps_there(pod: PodHistory, cluster: ClusterHistory) -> list[Step]:
    """The taints of a pod's node in the cluster. A taint without a time was added when it was seen first."""
    found: list[Step] = []
    for node in cluster.nodes_named(pod.node):
        since: dict[Identity, dt.datetime] = {}
        for version in node.versions:
            since = {one: since.get(one, version.time) for one in version.taints}
            found.append((version.time, _evicting(version.taints, since)))
        if node.gone is not None:
            found.append((node.gone, ()))
    return found


def steps_here(pod: PodHistory, cluster: ClusterHistory, decided: DecidedHistory) -> list[Step]:
    """The taints that Moorage decided for a pod's node."""
    found: list[Step] = []
    for node in cluster.nodes_named(pod.node):
        found += [(one.time, _evicting(one.taints, {})) for one in decided.taints.get(node.uid, ())]
        if node.gone is not None:
            found.append((node.gone, ()))
    return found


class Dues(NamedTuple):
    """When a pod had to leave."""

    there: list[Span]
    """In the cluster, by upstream's rule."""

    ruled: list[Span]
    """By Moorage's rule, with the taints that the cluster had."""

    here: list[Span]
    """In Moorage."""


def dues_of(pod: PodHistory, cluster: ClusterHistory, decided: DecidedHistory, end: dt.datetime = FOREVER) -> Dues:
    """When a pod had to leave on both sides. The arguments are those of `dues` and of the steps."""
    there, here = steps_there(pod, cluster), steps_here(pod, cluster, decided)
    return Dues(dues(upstream, pod, there, end), dues(moorage, pod, there, end), dues(moorage, pod, here, end))


def _evicting(taints: Mapping[Identity, Taint], since: Mapping[Identity, dt.datetime]) -> list[Taint]:
    return [
        one if one.time_added is not None else one.model_copy(update={"time_added": since.get(one.identity)})
        for one in taints.values()
        if one.effect == NO_EXECUTE
    ]
