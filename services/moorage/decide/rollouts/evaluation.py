"""The next step of a rollout: the clusters that get the workload now, those that ran out of time, and the next instant.

The evaluation is level-triggered. It gets the states of all clusters and the time, and keeps nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from moorage.decide.rollouts.strategy import Amount, GroupKey, RolloutTerms, RolloutType

Groups = Mapping[GroupKey, frozenset[str]]
"""The clusters of each decision group."""

_NO_GROUP: Final = GroupKey()
_NO_FAILURES: Final = Amount()


class RolloutState(StrEnum):
    """The state of the workload on a cluster."""

    TO_APPLY = "ToApply"
    """The present version was not released to the cluster."""

    PROGRESSING = "Progressing"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    TIMED_OUT = "TimeOut"
    """It progressed or stayed failed for longer than the deadline."""

    SKIPPED = "Skip"


_FAILURES: Final = frozenset({RolloutState.FAILED, RolloutState.TIMED_OUT})


@dataclass(frozen=True, slots=True)
class RolloutProgress:
    """A cluster in a rollout.

    Attributes:
        name: the cluster.
        state: its state.
        group: its decision group.
        since: when the state began. Without it, its deadline is always ahead.
        recheck: when the soak time or the deadline ends, if one applies.
    """

    name: str
    state: RolloutState = RolloutState.TO_APPLY
    group: GroupKey = _NO_GROUP
    since: datetime | None = None
    recheck: datetime | None = None


@dataclass(frozen=True, slots=True)
class RolloutStep:
    """The outcome of an evaluation.

    Attributes:
        roll_out: the clusters that have the workload, or get it now, and have not finished.
        timed_out: those whose deadline has passed now.
        removed: those that the placement no longer selects.
        breached: whether more clusters failed than may, so that no others follow.
        next_time: when to evaluate again even if nothing changes. None means never.
    """

    roll_out: tuple[RolloutProgress, ...] = ()
    timed_out: tuple[RolloutProgress, ...] = ()
    removed: tuple[RolloutProgress, ...] = ()
    breached: bool = False
    next_time: datetime | None = None


def evaluate_rollout(
    terms: RolloutTerms, groups: Groups, progress: Iterable[RolloutProgress], now: datetime
) -> RolloutStep:
    """Return the next step of a rollout.

    Args:
        terms: the strategy.
        groups: the decision groups of the placement. Their indexes begin at 0 and have no gaps: as in OCM, the
            evaluation ends at the first gap.
        progress: the clusters whose state is known. All others are to get the workload.
        now: the present time.
    """
    tracked = _Groups(groups)
    everything = tracked.besides(())
    selected = frozenset[str]().union(*everything.values())
    listed = list(progress)
    current = [one for one in listed if one.name in selected]
    removed = tuple(one for one in listed if one.name not in selected)
    run = _Run(terms, now)
    if terms.type is RolloutType.ALL:
        step = run.per_cluster(everything, len(selected), len(selected), current)
        return replace(step, removed=removed)
    mandatory = tracked.listed(terms.mandatory)
    if mandatory:
        step = run.per_group(mandatory, _NO_FAILURES, current)
        if step.roll_out or step.timed_out:
            return replace(step, removed=removed)
    rest = tracked.besides(terms.mandatory)
    if terms.type is RolloutType.PROGRESSIVE_PER_GROUP:
        return replace(run.per_group(rest, terms.max_failures, current), removed=removed)
    remaining = len(frozenset[str]().union(*rest.values()))
    size = terms.max_concurrency.of_total(remaining, remaining)
    failures = terms.max_failures.of_total(len(selected), 0)
    return replace(run.per_cluster(rest, size, failures, current), removed=removed)


class _Groups:
    """The decision groups by name and by index."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._names = {key.index: key.name for key in groups}

    def _resolved(self, wanted: Iterable[GroupKey]) -> list[GroupKey]:
        """Return the groups that references stand for."""
        found: list[GroupKey] = []
        for one in wanted:
            if one.name:
                found += sorted(key for key in self._groups if key.name == one.name)
            elif one.index in self._names:
                found.append(GroupKey(one.index, self._names[one.index]))
        return found

    def listed(self, wanted: Iterable[GroupKey]) -> Groups:
        """Return the groups that are referred to."""
        return {key: self._groups[key] for key in self._resolved(wanted) if key in self._groups}

    def besides(self, wanted: Iterable[GroupKey]) -> Groups:
        """Return all other groups."""
        excluded = frozenset(self._resolved(wanted))
        keys = (GroupKey(index, self._names.get(index, "")) for index in range(len(self._names)))
        return {key: self._groups[key] for key in keys if key in self._groups and key not in excluded}


class _Run:
    """One evaluation of a strategy at a time."""

    def __init__(self, terms: RolloutTerms, now: datetime) -> None:
        self._terms, self._now = terms, now

    def per_cluster(self, groups: Groups, size: int, failures: int, current: Sequence[RolloutProgress]) -> RolloutStep:
        """Roll out to a number of clusters at a time."""
        roll_out: list[RolloutProgress] = []
        timed_out: list[RolloutProgress] = []
        failed, breached = 0, False
        known = set()
        for one in sorted(current, key=lambda each: each.name):
            if not one.name:
                continue
            known.add(one.name)
            state = one.state
            # After too many failures, only the clusters that have the workload already are looked after.
            if not breached or state is not RolloutState.TO_APPLY:
                state = self._sort(one, roll_out, timed_out)
            if state in _FAILURES:
                failed += 1
                breached = failed > failures
            if len(roll_out) >= size:
                return self._step(roll_out, timed_out, breached=breached)
        if breached:
            return self._step(roll_out, timed_out, breached=True)
        group_of = {name: key for key, names in groups.items() for name in names}
        for name in sorted(group_of):
            if name not in known:
                roll_out.append(RolloutProgress(name, group=group_of[name]))
                if len(roll_out) >= size:
                    break
        return self._step(roll_out, timed_out, breached=False)

    def per_group(self, groups: Groups, failures: Amount, current: Sequence[RolloutProgress]) -> RolloutStep:
        """Roll out to one group after the other."""
        roll_out: list[RolloutProgress] = []
        timed_out: list[RolloutProgress] = []
        known: dict[str, RolloutState] = {}
        for one in current:
            if one.name and one.state is not RolloutState.TO_APPLY:
                known[one.name] = self._sort(one, roll_out, timed_out)
        failed, breached = 0, False
        for key in sorted(groups):
            allowed = failures.of_total(len(groups[key]), 0)
            failed_here = 0
            for name in sorted(groups[key]):
                state = known.get(name)
                if state is None:
                    roll_out.append(RolloutProgress(name, group=key))
                elif state in _FAILURES:
                    failed_here += 1
                    breached = failed_here > allowed
            failed += failed_here
            # Failed clusters within the limit do not hold back the next group.
            if len(roll_out) - failed > 0 or breached:
                break
        return self._step(roll_out, timed_out, breached=breached)

    def _sort(
        self, one: RolloutProgress, roll_out: list[RolloutProgress], timed_out: list[RolloutProgress]
    ) -> RolloutState:
        """Add a cluster to the list in which it belongs, if any. Return its state."""
        match one.state:
            case RolloutState.TO_APPLY:
                roll_out.append(one)
            case RolloutState.SUCCEEDED:
                until = self._until(one.since, self._terms.min_success)
                if until is not None and self._now < until:
                    roll_out.append(replace(one, recheck=until))
            case RolloutState.PROGRESSING | RolloutState.FAILED:
                until = self._until(one.since, self._terms.deadline)
                if until is not None and self._now >= until:
                    timed_out.append(replace(one, state=RolloutState.TIMED_OUT, recheck=until))
                    return RolloutState.TIMED_OUT
                roll_out.append(replace(one, recheck=until))
            case RolloutState.TIMED_OUT | RolloutState.SKIPPED:
                pass
        return one.state

    def _until(self, since: datetime | None, duration: timedelta | None) -> datetime | None:
        if duration is None:
            return None
        try:
            return (self._now if since is None else since) + duration
        except OverflowError:  # later than any time
            return None

    def _step(
        self, roll_out: list[RolloutProgress], timed_out: list[RolloutProgress], *, breached: bool
    ) -> RolloutStep:
        ahead = (one.recheck for one in roll_out if one.recheck is not None and one.recheck > self._now)
        return RolloutStep(tuple(roll_out), tuple(timed_out), breached=breached, next_time=min(ahead, default=None))
