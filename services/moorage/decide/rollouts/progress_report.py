"""The report of a rollout's progress: numbers by group, and the reason why it goes on or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from moorage.decide.rollouts.evaluation import Groups, RolloutProgress, RolloutState, RolloutStep
from moorage_schemas.placement import RolloutGroupStatus

NO_CLUSTERS: Final = "NoClusters"
PROGRESSING: Final = "Progressing"
COMPLETED: Final = "Completed"
STOPPED: Final = "MaxFailuresExceeded"

_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class ClusterStates:
    """The states of the clusters that have the present version."""

    states: Mapping[str, RolloutState]

    @classmethod
    def of(cls, progress: Iterable[RolloutProgress], step: RolloutStep, released: AbstractSet[str]) -> ClusterStates:
        """Return the states after a step.

        Args:
            progress: the states before it.
            step: the step, in which some clusters may have timed out.
            released: the clusters that have the present version after the step.
        """
        found: dict[str, RolloutState] = {
            one.name: one.state for one in progress if one.state is not RolloutState.TO_APPLY
        }
        found |= {one.name: one.state for one in step.timed_out}
        return cls({name: found.get(name, RolloutState.PROGRESSING) for name in released})

    @property
    def failing(self) -> tuple[str, ...]:
        """The clusters that failed or timed out, sorted."""
        bad = (RolloutState.FAILED, RolloutState.TIMED_OUT)
        return tuple(sorted(name for name, state in self.states.items() if state in bad))


def group_statuses(groups: Groups, states: ClusterStates) -> tuple[RolloutGroupStatus, ...]:
    """Return the numbers of each group."""
    found = []
    for key in sorted(groups):
        mine = [states.states[name] for name in groups[key] if name in states.states]
        found.append(
            RolloutGroupStatus(
                index=key.index,
                name=key.name,
                clusters=len(groups[key]),
                released=len(mine),
                succeeded=mine.count(RolloutState.SUCCEEDED),
                failed=mine.count(RolloutState.FAILED),
                timed_out=mine.count(RolloutState.TIMED_OUT),
            )
        )
    return tuple(found)


def reason_of(
    version: str, groups: tuple[RolloutGroupStatus, ...], states: ClusterStates, *, stopped: bool
) -> tuple[str, str]:
    """Return the reason as one word and as text."""
    total = sum(one.clusters for one in groups)
    if not total:
        return NO_CLUSTERS, "the placement selects no cluster"
    succeeded = sum(one.succeeded for one in groups)
    text = f"{succeeded} of {total} clusters run {version}"
    if stopped:
        failing = states.failing
        named = ", ".join(failing[:_NAMED]) + (", …" if len(failing) > _NAMED else "")
        at = next((_group_text(one) for one in groups if one.failed + one.timed_out), "")
        return STOPPED, f"stopped at {at}: {len(failing)} failed ({named}), which is more than may; {text}"
    return (COMPLETED if succeeded == total else PROGRESSING), text


def _group_text(group: RolloutGroupStatus) -> str:
    return f"group {group.index}" + (f" ({group.name})" if group.name else "")
