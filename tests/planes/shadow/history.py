"""What happened on both sides of a shadow run: in the cluster, and in what Moorage decided."""

from __future__ import annotations

import datetime as dt
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from moorage_schemas.placement import FilterResult
from moorage_schemas.taint import Taint, Toleration

Identity = tuple[str, str]
"""The key and the effect of a taint."""

NO_EXECUTE: Final = "NoExecute"
NO_SCHEDULE: Final = "NoSchedule"
NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
OF_READY: Final = frozenset({NOT_READY, UNREACHABLE})

FOREVER: Final = dt.datetime.max.replace(tzinfo=dt.UTC)


@dataclass(frozen=True)
class NodeVersion:
    """A node of the cluster from a moment on."""

    time: dt.datetime
    taints: Mapping[Identity, Taint]
    unschedulable: bool = False
    ready: str | None = "True"
    """The status of its condition Ready. None if it has none."""

    zone: str = ""
    room: Mapping[str, int] = field(default_factory=dict)
    """What it can take: cpu in millicores, memory in bytes, pods."""


@dataclass
class NodeHistory:
    """A node of the cluster, from its creation to its deletion. Another one of its name has its own history."""

    uid: str
    name: str
    versions: list[NodeVersion]
    gone: dt.datetime | None = None

    def at(self, time: dt.datetime) -> NodeVersion | None:
        """The node as it was. None before its creation and after its deletion."""
        if self.gone is not None and time >= self.gone:
            return None
        place = bisect_right(self.versions, time, key=lambda one: one.time)
        return self.versions[place - 1] if place else None

    def between(self, begin: dt.datetime, end: dt.datetime) -> list[NodeVersion]:
        """The versions that were there at some time of a span, the one at its beginning first."""
        first = self.at(begin)
        later = [one for one in self.versions if begin < one.time <= end]
        return [first, *later] if first is not None else later


@dataclass
class PodHistory:
    """A pod of the cluster."""

    namespace: str
    name: str
    created: dt.datetime
    scheduler: str = "default-scheduler"
    tolerations: tuple[Toleration, ...] = ()
    requests: Mapping[str, int] = field(default_factory=dict)
    node: str = ""
    bound: dt.datetime | None = None
    """When its node was seen first."""

    evicted: dt.datetime | None = None
    """When it was seen first that a taint had evicted it."""

    leaving: dt.datetime | None = None
    """When it was seen first to be deleted, by whomever."""

    gone: dt.datetime | None = None

    @property
    def ends(self) -> dt.datetime:
        """When its deletion began. The end of time if it did not."""
        return min((one for one in (self.leaving, self.gone) if one is not None), default=FOREVER)

    def on(self, time: dt.datetime) -> bool:
        """Whether it took room on its node at a time."""
        return self.bound is not None and self.bound <= time and (self.gone is None or time < self.gone)


@dataclass
class ClusterHistory:
    """What happened in the cluster, by uid."""

    nodes: dict[str, NodeHistory] = field(default_factory=dict)
    pods: dict[str, PodHistory] = field(default_factory=dict)
    _named: dict[str, list[NodeHistory]] = field(default_factory=lambda: defaultdict(list))

    def add(self, node: NodeHistory) -> None:
        """Note a node that is new."""
        self.nodes[node.uid] = node
        self._named[node.name].append(node)

    def nodes_named(self, name: str) -> Sequence[NodeHistory]:
        """The nodes that had this name, one after the other."""
        return self._named.get(name, ())

    def node_at(self, name: str, time: dt.datetime) -> NodeVersion | None:
        """The node of this name as it was at a time."""
        return next((found for one in self.nodes_named(name) if (found := one.at(time)) is not None), None)


@dataclass(frozen=True)
class DecidedTaints:
    """The taints of a node as Moorage decided them at a time."""

    time: dt.datetime
    node: str
    uid: str
    taints: Mapping[Identity, Taint]


@dataclass(frozen=True)
class DecidedEviction:
    """The state of the eviction of a pod from a time on."""

    time: dt.datetime
    node: str
    state: str
    deadline: dt.datetime | None = None
    held_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class DecidedPlacement:
    """A decision about the place of a pod."""

    time: dt.datetime
    node: str
    reason: str
    filters: tuple[FilterResult, ...] = ()
    """Those that the node did not pass."""


@dataclass
class DecidedHistory:
    """What Moorage decided: by the uid of the node or the pod, oldest first."""

    taints: dict[str, list[DecidedTaints]] = field(default_factory=dict)
    evictions: dict[str, list[DecidedEviction]] = field(default_factory=dict)
    placements: dict[str, list[DecidedPlacement]] = field(default_factory=dict)


@dataclass
class Histories:
    """Both sides of a run, and the span in which they are compared."""

    begin: dt.datetime
    end: dt.datetime
    cluster: ClusterHistory = field(default_factory=ClusterHistory)
    decided: DecidedHistory = field(default_factory=DecidedHistory)


@dataclass(frozen=True)
class Span:
    """A time from a moment to another one."""

    begin: dt.datetime
    end: dt.datetime

    @property
    def length(self) -> dt.timedelta:
        """How long it is."""
        return self.end - self.begin

    def covers(self, time: dt.datetime, slack: dt.timedelta = dt.timedelta(0)) -> bool:
        """Whether a time is in it, or not further away than `slack`."""
        return self.begin - slack <= time <= self.end + slack


Steps = Sequence[tuple[dt.datetime, frozenset[Identity]]]
"""The taints of a node from each of these times on."""


def spans_of(steps: Steps, taint: Identity, end: dt.datetime) -> list[Span]:
    """When a node had a taint."""
    found: list[Span] = []
    since: dt.datetime | None = None
    for time, taints in steps:
        if taint in taints and since is None:
            since = time
        elif taint not in taints and since is not None:
            found.append(Span(since, time))
            since = None
    if since is not None and since < end:
        found.append(Span(since, end))
    return found


def apart(first: Sequence[Span], second: Sequence[Span], within: Span) -> list[tuple[Span, bool]]:
    """When only one of two had something, and whether that was the first one."""
    moments = sorted({within.begin, within.end, *(time for one in (*first, *second) for time in (one.begin, one.end))})
    found: list[tuple[Span, bool]] = []
    for begin, end in pairwise(one for one in moments if within.begin <= one <= within.end):
        one, other = _has(first, begin), _has(second, begin)
        if one == other:
            continue
        if found and found[-1][0].end == begin and found[-1][1] == one:
            found[-1] = (Span(found[-1][0].begin, end), one)
        else:
            found.append((Span(begin, end), one))
    return found


def _has(spans: Sequence[Span], time: dt.datetime) -> bool:
    return any(one.begin <= time < one.end for one in spans)
