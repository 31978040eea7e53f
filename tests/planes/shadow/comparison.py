"""Compares what Moorage decided in a shadow run with what Kubernetes' own controllers did.

A taint agrees if a node has it on both sides, except for at most a bound of time after each change. An eviction agrees
if it begins on both sides within the bound. A placement agrees if the node that the scheduler chose passes Moorage's
filters. Everything else is a difference.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from tests.planes.shadow import evictions
from tests.planes.shadow.history import (
    FOREVER,
    NO_EXECUTE,
    NOT_READY,
    OF_READY,
    UNREACHABLE,
    Histories,
    Identity,
    NodeHistory,
    PodHistory,
    Span,
    Steps,
    apart,
    spans_of,
)
from tests.planes.shadow.placements import FilterReasons
from tests.planes.shadow.reasons import Difference, Reason
from tests.planes.shadow.zones import ZoneClock

_REQUESTED: Final = "Requested"
_NAMED: Final = "NodeNameSet"


@dataclass
class Comparison:
    """What a run has shown."""

    differences: list[Difference] = field(default_factory=list)
    compared: Counter[str] = field(default_factory=Counter)
    """How many changes of taints, evictions and placements there were."""

    lags: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """By what was compared: how many seconds Moorage was behind the cluster. Negative where it was first."""

    @property
    def unexplained(self) -> list[Difference]:
        """The differences without a reason."""
        return [one for one in self.differences if one.reason is None]

    @property
    def reasons(self) -> Counter[str]:
        """How often each reason was found."""
        return Counter(f"{one.about}: {one.reason.value if one.reason else 'UNEXPLAINED'}" for one in self.differences)


class Comparer:
    """Compares the two sides of a run.

    Args:
        histories: both sides.
        bound: within which both have to do the same.
    """

    def __init__(self, histories: Histories, bound: dt.timedelta) -> None:
        self._both, self._bound = histories, bound
        self._cluster, self._decided = histories.cluster, histories.decided
        self._filters = FilterReasons(histories, bound)
        self._clock = ZoneClock(histories.cluster)
        self._found = Comparison()
        self._spans = {uid: self._node_spans(uid, node) for uid, node in self._cluster.nodes.items()}
        self._grants = self._count_grants()
        self._unknown = sorted(
            (one.time, node.name)
            for node in self._cluster.nodes.values()
            for last, one in pairwise([None, *node.versions])
            if one is not None and one.ready == "Unknown" and (last is None or last.ready != "Unknown")
        )
        """When nodes became Unknown in the cluster, and which."""

        self._other_taints: dict[str, list[tuple[Span, Reason | None]]] = defaultdict(list)
        """By the name of a node: when it had a `NoExecute` taint on one side alone, and why."""

    def compare(self) -> Comparison:
        """Compare everything."""
        for uid, node in self._cluster.nodes.items():
            self._taints(uid, node)
        for uid, pod in self._cluster.pods.items():
            self._eviction(uid, pod)
            self._placement(uid, pod)
        return self._found

    # Taints.

    def _node_spans(self, uid: str, node: NodeHistory) -> tuple[dict[Identity, list[Span]], dict[Identity, list[Span]]]:
        end = min(self._both.end, node.gone or self._both.end)
        theirs: Steps = [(one.time, frozenset(one.taints)) for one in node.versions]
        ours: Steps = [(one.time, frozenset(one.taints)) for one in self._decided.taints.get(uid, ())]
        return _spans(theirs, end), _spans(ours, end)

    def _taints(self, uid: str, node: NodeHistory) -> None:
        theirs, ours = self._spans[uid]
        within = Span(max(self._both.begin, node.versions[0].time), min(self._both.end, node.gone or self._both.end))
        if within.begin >= within.end:
            return
        for taint in sorted({*theirs, *ours}):
            their_spans, our_spans = theirs.get(taint, []), ours.get(taint, [])
            self._found.compared["taint"] += sum(
                within.begin < time < within.end for one in their_spans for time in (one.begin, one.end)
            )
            for span, there in apart(their_spans, our_spans, within):
                if span.length <= self._bound:
                    continue
                reason, why = self._reason_of_taint(node, taint, span, there=there)
                if taint[1] == NO_EXECUTE:
                    self._other_taints[node.name].append((span, reason))
                has, lacks = f"has {taint[0]}:{taint[1]} {_shown(span)}", "does not"
                sides = (has, lacks) if there else (lacks, has)
                self._found.differences.append(Difference("taint", f"node/{node.name}", *sides, reason, why))
            self._lag(their_spans, our_spans, within)

    def _lag(self, theirs: Iterable[Span], ours: Iterable[Span], within: Span) -> None:
        for edge in ("begin", "end"):
            times = [getattr(one, edge) for one in ours]
            for one in theirs:
                time = getattr(one, edge)
                near = [other for other in times if abs(other - time) <= self._bound]
                if within.begin < time < within.end and near:
                    first = min(near, key=lambda other: abs(other - time))
                    self._found.lags["taint"].append((first - time).total_seconds())

    def _reason_of_taint(
        self, node: NodeHistory, taint: Identity, span: Span, *, there: bool
    ) -> tuple[Reason | None, str]:
        if taint[0] in OF_READY and taint[1] == NO_EXECUTE:
            if (why := self._token_was_elsewhere(node, span, there=there)) is not None:
                return Reason.ZONE_ORDER, why
        elif there and taint[0] == NOT_READY and all(one.ready is None for one in node.between(span.begin, span.end)):
            return Reason.SILENT_NODE_IS_READY, "it has no condition Ready"
        elif not there and taint[0] == UNREACHABLE and (why := self._was_still_looking(node, span)) is not None:
            return Reason.STILL_LOOKING, why
        return None, ""

    def _was_still_looking(self, node: NodeHistory, span: Span) -> str | None:
        """Return how many nodes became Unknown in the cluster while one had not yet. None if it had its turn."""
        within = Span(span.begin, span.end - self._bound)  # it comes at the end of the span, or was ready again then
        if any(one.ready == "Unknown" for one in node.between(within.begin, within.end)):
            return None
        others = [name for time, name in self._unknown if within.end <= time <= span.end and name != node.name]
        return f"{len(others)} other nodes became Unknown in the last {self._bound.seconds} s of it" if others else None

    def _count_grants(self) -> dict[tuple[str, bool], list[tuple[dt.datetime, str]]]:
        """When nodes of a zone began to have a `NoExecute` taint of Ready, by zone, and whether in the cluster."""
        found: dict[tuple[str, bool], list[tuple[dt.datetime, str]]] = defaultdict(list)
        for uid, node in self._cluster.nodes.items():
            for there, spans in zip((True, False), self._spans[uid], strict=True):
                begins = sorted(
                    (one for key in OF_READY for one in spans.get((key, NO_EXECUTE), ())), key=lambda one: one.begin
                )
                last: Span | None = None
                for span in begins:
                    if last is None or span.begin - last.end > self._bound:  # else one has replaced the other
                        found[_zone(node, span.begin), there].append((span.begin, node.name))
                    last = span
        for times in found.values():
            times.sort()
        return found

    def _token_was_elsewhere(self, node: NodeHistory, span: Span, *, there: bool) -> str | None:
        """Return which nodes got the tokens of the zone while this one waited. None if some token was unused.

        Args:
            node: the node that has the taint on one side alone.
            span: when.
            there: whether that is the cluster's side.
        """
        zone = _zone(node, span.begin)
        granted = self._grants.get((zone, not there), [])
        before = [one for one in granted if one[0] <= span.begin + self._bound]
        meanwhile = [one for one in granted if span.begin + self._bound < one[0] < span.end]
        moments = [before[-1][0] if before else span.begin, *(time for time, _ in meanwhile), span.end]
        for begin, end in pairwise(moments):
            # The last token of an idle zone is kept until it is used.
            unused = self._clock.tokens(zone, begin, end - self._bound)
            # Upstream uses a token again for the node that it has just tainted, if it looks at all nodes in that moment
            # and does not see the taint yet: it puts that node at the front of the queue (`markNodeForTainting`).
            again = 1 if not there and (before or begin != span.begin) else 0
            if unused > 1 + again or (not before and begin == span.begin and unused > 0):
                return None
        return f"{zone} gave its tokens to {', '.join(sorted({name for _, name in (*before[-1:], *meanwhile)}))}"

    # Evictions.

    def _eviction(self, uid: str, pod: PodHistory) -> None:
        records = self._decided.evictions.get(uid, [])
        requests = [
            one.time
            for last, one in pairwise([None, *records])
            if one is not None and one.state == _REQUESTED and (last is None or last.state != _REQUESTED)
        ]
        within = Span(self._both.begin, self._both.end - self._bound)
        theirs = pod.evicted if pod.evicted is not None and within.covers(pod.evicted) else None
        ours = [one for one in requests if within.covers(one)]
        if theirs is None and (pod.evicted is not None or not ours):
            return
        self._found.compared["eviction"] += 1
        # It may be decided on until the pod's end is heard of.
        end = pod.gone + self._bound if pod.gone is not None else FOREVER
        due = evictions.dues_of(pod, self._cluster, self._decided, end)
        if theirs is not None and requests:
            lag = min((one - theirs for one in requests), key=abs)
            if abs(lag) <= self._bound or (ours and self._is_each_in_time(due, theirs, ours)):
                self._found.lags["eviction"].append(lag.total_seconds())
                return
        reason, why = self._reason_of_eviction(uid, pod, ours, due)
        self._found.differences.append(
            Difference(
                "eviction",
                f"pod/{pod.namespace}/{pod.name}",
                f"evicted at {_time(theirs)}" if theirs is not None else "not evicted",
                f"requested at {', '.join(map(_time, ours))}" if ours else "not requested",
                reason,
                why,
            )
        )

    def _is_each_in_time(self, due: evictions.Dues, theirs: dt.datetime, ours: list[dt.datetime]) -> bool:
        """Whether both sides had the taint within the bound, and each then did what follows within the bound."""
        pairs = [
            (there, here)
            for there, here in itertools.product(due.there, due.here)
            if abs(there.begin - here.begin) <= self._bound
        ]
        return any(
            self._near(theirs, [there]) and all(self._near(one, [here]) for one in ours) for there, here in pairs
        )

    def _reason_of_eviction(
        self, uid: str, pod: PodHistory, ours: list[dt.datetime], dues: evictions.Dues
    ) -> tuple[Reason | None, str]:
        theirs, bound = pod.evicted, self._bound
        held = [
            one
            for one in self._decided.evictions.get(uid, ())
            if any(by.startswith("PodDisruptionBudget/") for by in one.held_by)
            and (theirs is None or one.time <= theirs + bound)
        ]
        if held:
            return (
                Reason.BUDGETS_HOLD_TAINT_EVICTIONS,
                f"held by {', '.join(held[-1].held_by)} at {_time(held[-1].time)}",
            )
        by_them, by_us = dues.there, dues.here
        due = f"due there at {_times(by_them)}, here at {_times(by_us)}"
        if not self._follows(by_them, [theirs] if theirs else [], pod) or not self._follows(by_us, ours, pod):
            return None, due
        acted = [*ours, *([theirs] if theirs else [])]
        if any(self._near(time, by_them) != self._near(time, dues.ruled) for time in acted):
            return Reason.DEADLINE_FROM_TIME_ADDED, due
        if self._alike(by_them, by_us, pod):
            return self._no_time_to_act([*by_them, *by_us], pod, due)
        span = Span(
            min(one.begin for one in (*by_them, *by_us)) - bound, max(one.begin for one in (*by_them, *by_us)) + bound
        )
        for other, reason in self._other_taints.get(pod.node, ()):
            if other.begin <= span.end and span.begin <= other.end:
                return reason, f"its node had the taint at another time: {due}"
        return None, due

    def _no_time_to_act(self, spans: list[Span], pod: PodHistory, due: str) -> tuple[Reason | None, str]:
        if pod.gone is not None and any(pod.gone - one.begin <= self._bound for one in spans):
            return Reason.GONE_MEANWHILE, f"{due}, and it was gone at {_time(pod.gone)}"
        ended = [one.end for one in spans if one.length <= self._bound]
        return (Reason.TAINT_ENDED, f"{due}, and the taint ended at {_time(ended[0])}") if ended else (None, due)

    def _follows(self, due: list[Span], acted: list[dt.datetime], pod: PodHistory) -> bool:
        """Whether a side did what followed from its taints, and nothing else."""
        done = [one for one in due if any(self._near(time, [one]) for time in acted)]
        return all(self._near(time, due) for time in acted) and all(
            one in done or self._is_over(one, pod) for one in due
        )

    def _near(self, time: dt.datetime, due: list[Span]) -> bool:
        return any(abs(time - one.begin) <= self._bound for one in due)

    def _alike(self, first: list[Span], second: list[Span], pod: PodHistory) -> bool:
        """Whether pods are due at the same times, as far as there was time to act."""
        return all(
            self._is_over(one, pod) or self._near(one.begin, others)
            for ones, others in ((first, second), (second, first))
            for one in ones
        )

    def _is_over(self, due: Span, pod: PodHistory) -> bool:
        """Whether there was no time to act: the taint ended, or the pod or the run."""
        last = min(one for one in (pod.gone, self._both.end, due.end) if one is not None)
        return last - due.begin <= self._bound

    # Placements.

    def _placement(self, uid: str, pod: PodHistory) -> None:
        if pod.bound is None or not Span(self._both.begin, self._both.end - self._bound).covers(pod.bound):
            return
        self._found.compared["placement"] += 1
        decided = next((one for one in self._decided.placements.get(uid, ()) if one.node == pod.node), None)
        if decided is None:
            self._missing(pod)
            return
        self._found.lags["placement"].append((decided.time - pod.bound).total_seconds())
        if decided.time - pod.bound > self._bound:
            self._late(pod, pod.bound, decided.time)
        if decided.reason != _NAMED:
            self._differs(pod, f"placed by itself: {decided.reason}", None, "")
        for result in decided.filters:
            reason, why = self._filters.reason(pod, decided, result.filter)
            self._differs(pod, f"{result.filter}: {result.reason}", reason, why)

    def _late(self, pod: PodHistory, bound: dt.datetime, told: dt.datetime) -> None:
        """A pod can be told only when its node is there."""
        came = [one.versions[0].time for one in self._cluster.nodes_named(pod.node) if one.versions]
        again = max((time for time in came if bound <= time <= told), default=bound)
        is_explained = again > bound and told - again <= self._bound
        reason = Reason.NODE_CAME_LATER if is_explained else None
        self._differs(
            pod, f"is told {told - bound} later", reason, f"its node came at {_time(again)}" if reason else ""
        )

    def _missing(self, pod: PodHistory) -> None:
        assert pod.bound is not None
        gone = [one.gone for one in self._cluster.nodes_named(pod.node) if one.gone is not None]
        ends = min([pod.ends, *(time for time in gone if time >= pod.bound)])
        if ends - pod.bound <= self._bound:
            self._differs(pod, "has not heard of it", Reason.GONE_MEANWHILE, f"it left at {_time(ends)}")
        else:
            self._differs(pod, "has not heard of it", None, "")

    def _differs(self, pod: PodHistory, moorage: str, reason: Reason | None, why: str) -> None:
        at = f"is on {pod.node} since {_time(pod.bound)}"
        self._found.differences.append(
            Difference("placement", f"pod/{pod.namespace}/{pod.name}", at, moorage, reason, why)
        )


def _spans(steps: Steps, end: dt.datetime) -> dict[Identity, list[Span]]:
    return {taint: spans_of(steps, taint, end) for taint in {one for _, taints in steps for one in taints}}


def _zone(node: NodeHistory, time: dt.datetime) -> str:
    return (node.at(time) or node.versions[0]).zone


def _shown(span: Span) -> str:
    return f"from {_time(span.begin)} to {_time(span.end)}"


def _times(due: Iterable[Span]) -> str:
    return ", ".join(_time(one.begin) for one in due) or "no time"


def _time(time: dt.datetime | None) -> str:
    return time.strftime("%H:%M:%S.%f")[:-3] if time is not None else "no time"
