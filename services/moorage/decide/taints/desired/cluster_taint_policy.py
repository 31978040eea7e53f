"""Evaluation of Karmada's `ClusterTaintPolicy`: which taints a cluster gets and loses, and when.

See docs/domain.md, "ClusterTaintPolicy".

The evaluation is pure. Policies are in order of creation, then by name. Within a policy, additions come before
removals, so removals take precedence. The owner of the taints applies the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self

from moorage.decide.kubernetes.selectors import IN, NOT_IN
from moorage.decide.taints.desired.cluster_affinity import ClusterFacts, selects
from moorage.decide.taints.desired.from_conditions import parse_hold
from moorage_schemas.resources.policies import ClusterAffinity, ClusterTaintPolicy, MatchCondition
from moorage_schemas.taint import Taint

KIND: Final = "ClusterTaintPolicy"
ADD_HOLD: Final = "moorage.io/taint-add-hold"
"""The annotation of a policy that states how long its `addOnConditions` must hold, such as `30s`. If absent, the
setting applies."""

REMOVE_HOLD: Final = "moorage.io/taint-remove-hold"
"""The same for its `removeOnConditions`."""

_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TaintPolicy:
    """A ClusterTaintPolicy in the form in which it is evaluated.

    Attributes:
        created: its `creationTimestamp`. A policy without one comes before all others.
        affinity: selects clusters. None selects every cluster.
        add: the conditions that add the taints, ANDed. If empty, nothing is added.
        remove: the conditions that remove the taints, ANDed. If empty, nothing is removed.
        taints: the taints, with distinct (key, effect), which admission ensures. `time_added` is ignored.
        add_hold: how long `add` must hold. None means the setting.
        remove_hold: how long `remove` must hold. None means the setting.
    """

    name: str
    created: datetime | None = None
    affinity: ClusterAffinity | None = None
    add: tuple[MatchCondition, ...] = ()
    remove: tuple[MatchCondition, ...] = ()
    taints: tuple[Taint, ...] = ()
    add_hold: timedelta | None = None
    remove_hold: timedelta | None = None

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Return the policy of an object. An annotation that is not a duration counts as absent; admission refuses it.

        Raises:
            ValueError: the object is not a ClusterTaintPolicy (pydantic's ValidationError, which names the field).
        """
        policy = ClusterTaintPolicy.model_validate(document)
        spec, notes = policy.spec, policy.metadata.annotations or {}
        return cls(
            name=policy.metadata.name,
            created=policy.metadata.creation_timestamp,
            affinity=spec.target_clusters,
            add=tuple(spec.add_on_conditions or ()),
            remove=tuple(spec.remove_on_conditions or ()),
            taints=tuple(Taint(key=taint.key, value=taint.value, effect=taint.effect) for taint in spec.taints),
            add_hold=parse_hold(notes.get(ADD_HOLD, "")),
            remove_hold=parse_hold(notes.get(REMOVE_HOLD, "")),
        )

    @property
    def order(self) -> tuple[datetime, str]:
        """The sort key of the policy: by creation, then by name."""
        return (self.created or _EARLIEST, self.name)


@dataclass(frozen=True, slots=True)
class Act:
    """One action of a policy on a cluster.

    Attributes:
        adds: True adds those of `policy.taints` that are missing. False removes the existing ones.
    """

    policy: TaintPolicy
    adds: bool

    @property
    def conditions(self) -> tuple[MatchCondition, ...]:
        """The conditions that matched."""
        return self.policy.add if self.adds else self.policy.remove


def in_order(policies: Iterable[TaintPolicy]) -> tuple[TaintPolicy, ...]:
    """Return the policies in their order of evaluation."""
    return tuple(sorted(policies, key=lambda policy: policy.order))


def matches(requirements: Sequence[MatchCondition], statuses: Mapping[str, Sequence[str]]) -> bool:
    """Return whether all requirements match. An empty list never matches.

    Args:
        requirements: the requirements, ANDed. One with an operator other than `In` and `NotIn` never matches.
        statuses: the statuses of each condition that the cluster has, by type. A condition that the cluster lacks
            matches neither operator. Only requests that are compared with upstream have more than one status for a
            type: `In` then matches any of them, and `NotIn` considers the last.
    """
    return bool(requirements) and all(
        _matches(requirement, statuses.get(requirement.condition_type, ())) for requirement in requirements
    )


def _matches(requirement: MatchCondition, statuses: Sequence[str]) -> bool:
    if requirement.operator == IN:
        return any(status in requirement.status_values for status in statuses)
    return requirement.operator == NOT_IN and bool(statuses) and statuses[-1] not in requirement.status_values


def acts(
    policies: Sequence[TaintPolicy], cluster: ClusterFacts, statuses: Mapping[str, Sequence[str]]
) -> Iterator[Act]:
    """Yield the actions of the policies on a cluster, in order.

    Args:
        policies: the policies in the order of `in_order`.
        cluster: the cluster.
        statuses: as for `matches`.
    """
    for policy in policies:
        if not selects(policy.affinity, cluster):
            continue
        if matches(policy.add, statuses):
            yield Act(policy, adds=True)
        if matches(policy.remove, statuses):
            yield Act(policy, adds=False)
