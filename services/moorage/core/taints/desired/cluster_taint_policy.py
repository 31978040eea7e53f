"""What Karmada's `ClusterTaintPolicy` asks for: which taints a cluster gets and loses, and when.

See docs/domain.md, "ClusterTaintPolicy".

Pure evaluation: policies in order of creation, then name; of each what it adds comes before what it removes, so
removal wins. Who owns the taints applies what comes out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self

from moorage.core.apimachinery.selectors import IN, NOT_IN
from moorage.core.taints.desired.cluster_affinity import ClusterFacts, selects
from moorage.core.taints.desired.hold import parse_hold
from moorage_schemas.resources.policies import ClusterAffinity, ClusterTaintPolicy, MatchCondition
from moorage_schemas.taint import Taint

KIND: Final = "ClusterTaintPolicy"
ADD_HOLD: Final = "moorage.io/taint-add-hold"
"""Annotation of a policy: for how long its `addOnConditions` must hold, such as `30s`; the setting when absent."""

REMOVE_HOLD: Final = "moorage.io/taint-remove-hold"
"""The same of its `removeOnConditions`."""

_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TaintPolicy:
    """A ClusterTaintPolicy as it is evaluated.

    Attributes:
        name: its name.
        created: `creationTimestamp`; one without was created before all others.
        affinity: which clusters; None selects every one.
        add: the conditions that add the taints, ANDed; none adds nothing.
        remove: the conditions that remove them, ANDed; none removes nothing.
        taints: with distinct (key, effect), which admission sees to; `time_added` means nothing.
        add_hold: for how long `add` must hold; None takes the setting.
        remove_hold: for how long `remove` must hold; None takes the setting.
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
        """A policy from its object. An annotation that is no duration counts as absent; admission refuses it.

        Raises:
            ValueError: the object is no ClusterTaintPolicy (pydantic's ValidationError, which names the field).
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
        """Its place among policies: by creation, then by name."""
        return (self.created or _EARLIEST, self.name)


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that a policy does to a cluster now.

    Attributes:
        policy: whose.
        adds: True adds `policy.taints` that are not there, False removes those that are.
    """

    policy: TaintPolicy
    adds: bool

    @property
    def conditions(self) -> tuple[MatchCondition, ...]:
        """The conditions that matched."""
        return self.policy.add if self.adds else self.policy.remove


def in_order(policies: Iterable[TaintPolicy]) -> tuple[TaintPolicy, ...]:
    """Policies in the order in which they are evaluated."""
    return tuple(sorted(policies, key=lambda policy: policy.order))


def matches(requirements: Sequence[MatchCondition], statuses: Mapping[str, Sequence[str]]) -> bool:
    """Whether all requirements hold; an empty list never does.

    Args:
        requirements: ANDed. One with an operator other than In and NotIn never holds.
        statuses: of each condition that the cluster has, by type. A condition that it lacks matches neither
            operator. More than one status a type is only in requests for upstream's own answer: In is content with
            any of them, NotIn looks at the last.
    """
    return bool(requirements) and all(_matches(wish, statuses.get(wish.condition_type, ())) for wish in requirements)


def _matches(wish: MatchCondition, statuses: Sequence[str]) -> bool:
    if wish.operator == IN:
        return any(status in wish.status_values for status in statuses)
    return wish.operator == NOT_IN and bool(statuses) and statuses[-1] not in wish.status_values


def acts(
    policies: Sequence[TaintPolicy], cluster: ClusterFacts, statuses: Mapping[str, Sequence[str]]
) -> Iterator[Act]:
    """What the policies do to a cluster whose conditions have these statuses, in order.

    Args:
        policies: in their order, see `in_order`.
        cluster: whose.
        statuses: see `matches`.
    """
    for policy in policies:
        if not selects(policy.affinity, cluster):
            continue
        if matches(policy.add, statuses):
            yield Act(policy, adds=True)
        if matches(policy.remove, statuses):
            yield Act(policy, adds=False)
