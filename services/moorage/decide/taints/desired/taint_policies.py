"""Evaluation of policies: which taints a target gets and loses by its conditions, and when.

There are two kinds: Karmada's `ClusterTaintPolicy`, for clusters, and `TaintPolicy`, for targets of any kind. See
docs/domain.md, "ClusterTaintPolicy" and "TaintPolicy".

The evaluation is pure. Policies of both kinds are in order of creation, then by name. Within a policy, additions come
before removals, so removals take precedence. The owner of the taints applies the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self

from moorage.decide.kubernetes.selectors import IN, NOT_IN, matches_labels
from moorage.decide.taints.desired.cluster_affinity import ClusterFacts, selects
from moorage.decide.taints.desired.from_conditions import parse_hold
from moorage_schemas.refs import TargetKind
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.node import OpenTaint
from moorage_schemas.resources.policies import ClusterAffinity, ClusterTaintPolicy, MatchCondition
from moorage_schemas.resources.taint_policies import PolicyTargets, TaintPolicy
from moorage_schemas.taint import Taint

CLUSTER_TAINT_POLICY: Final = "ClusterTaintPolicy"
TAINT_POLICY: Final = "TaintPolicy"
KINDS: Final = (CLUSTER_TAINT_POLICY, TAINT_POLICY)
"""The kinds of policies."""

ADD_HOLD: Final = "moorage.io/taint-add-hold"
"""The annotation of a ClusterTaintPolicy that states how long its `addOnConditions` must hold, such as `30s`. If
absent, the setting applies."""

REMOVE_HOLD: Final = "moorage.io/taint-remove-hold"
"""The same for its `removeOnConditions`."""

EVERY_CLUSTER: Final = "*"
"""The `cluster` of a TaintPolicy's targets that means the home fleet and all real clusters."""

_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """The facts about a target that policies consider.

    Attributes:
        kind: its kind, a `TargetKind`.
        facts: its name and labels, and the place of a Karmada cluster.
        cluster: the real cluster that it is in. Empty for the home fleet.
    """

    kind: str
    facts: ClusterFacts
    cluster: str = ""

    @classmethod
    def of(cls, resource: ResourceDeclared) -> Self:
        """Return the facts of a declared target."""
        return cls(resource.kind, ClusterFacts.of(resource.object), resource.cluster)


@dataclass(frozen=True, slots=True)
class TaintingPolicy:
    """A policy in the form in which it is evaluated.

    Attributes:
        created: its `creationTimestamp`. A policy without one comes before all others.
        affinity: for a ClusterTaintPolicy, selects clusters. None selects every cluster.
        add: the conditions that add the taints, ANDed. If empty, nothing is added.
        remove: the conditions that remove the taints, ANDed. If empty, nothing is removed.
        taints: the taints, with distinct (key, effect), which admission ensures. `time_added` is ignored.
        add_hold: how long `add` must hold. None means the setting.
        remove_hold: how long `remove` must hold. None means the setting.
        targets: for a TaintPolicy, selects targets. None for a ClusterTaintPolicy.
    """

    name: str
    created: datetime | None = None
    affinity: ClusterAffinity | None = None
    add: tuple[MatchCondition, ...] = ()
    remove: tuple[MatchCondition, ...] = ()
    taints: tuple[Taint, ...] = ()
    add_hold: timedelta | None = None
    remove_hold: timedelta | None = None
    targets: PolicyTargets | None = None

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Return the policy of an object of either kind.

        A hold that is not a duration counts as absent; admission refuses it.

        Raises:
            ValueError: the object is not a policy (pydantic's ValidationError, which names the field).
        """
        if document.get("kind") == TAINT_POLICY:
            return cls._of_any_target(TaintPolicy.model_validate(document))
        policy = ClusterTaintPolicy.model_validate(document)
        spec, notes = policy.spec, policy.metadata.annotations or {}
        return cls(
            name=policy.metadata.name,
            created=policy.metadata.creation_timestamp,
            affinity=spec.target_clusters,
            add=tuple(spec.add_on_conditions or ()),
            remove=tuple(spec.remove_on_conditions or ()),
            taints=_plain(spec.taints),
            add_hold=parse_hold(notes.get(ADD_HOLD, "")),
            remove_hold=parse_hold(notes.get(REMOVE_HOLD, "")),
        )

    @classmethod
    def _of_any_target(cls, policy: TaintPolicy) -> Self:
        spec = policy.spec
        return cls(
            name=policy.metadata.name,
            created=policy.metadata.creation_timestamp,
            add=tuple(spec.add_on_conditions or ()),
            remove=tuple(spec.remove_on_conditions or ()),
            taints=_plain(spec.taints),
            add_hold=parse_hold(spec.add_hold or ""),
            remove_hold=parse_hold(spec.remove_hold or ""),
            targets=spec.targets,
        )

    @property
    def is_gated(self) -> bool:
        """Whether it is a ClusterTaintPolicy, which acts only while Karmada's switches are on."""
        return self.targets is None

    @property
    def title(self) -> str:
        """Its kind and name, as the reasons of its taints have them."""
        return f"{CLUSTER_TAINT_POLICY if self.targets is None else TAINT_POLICY} {self.name}"

    @property
    def target_kind(self) -> str:
        """The kind of its targets."""
        return TargetKind.CLUSTER.value if self.targets is None else self.targets.kind

    @property
    def order(self) -> tuple[datetime, str, str]:
        """The sort key of the policy: by creation, then by name, then by kind."""
        return (self.created or _EARLIEST, self.name, self.title)

    def selects(self, target: TargetFacts) -> bool:
        """Return whether the policy is about a target. As upstream, an empty list of names counts as absent."""
        chosen = self.targets
        if chosen is None:
            return target.kind == TargetKind.CLUSTER.value and selects(self.affinity, target.facts)
        facts = target.facts
        return (
            target.kind == chosen.kind
            and chosen.cluster in {target.cluster, EVERY_CLUSTER}
            and (not chosen.names or facts.name in chosen.names)
            and facts.name not in (chosen.exclude or ())
            and (chosen.selector is None or matches_labels(chosen.selector, facts.labels))
        )


def _plain(taints: Iterable[OpenTaint]) -> tuple[Taint, ...]:
    return tuple(Taint(key=taint.key, value=taint.value, effect=taint.effect) for taint in taints)


@dataclass(frozen=True, slots=True)
class PolicyList:
    """Policies of both kinds in their order of evaluation, divided by the kind of their targets."""

    by_kind: Mapping[str, tuple[TaintingPolicy, ...]] = field(default_factory=dict)
    ungated: frozenset[str] = frozenset()
    """The kinds of targets about which there is a policy that needs no switch."""

    @classmethod
    def of(cls, policies: Iterable[TaintingPolicy]) -> Self:
        """Return the list of policies that may be in any order."""
        found: dict[str, tuple[TaintingPolicy, ...]] = {}
        for policy in in_order(policies):
            found[policy.target_kind] = (*found.get(policy.target_kind, ()), policy)
        ungated = (kind for kind, listed in found.items() if not all(policy.is_gated for policy in listed))
        return cls(found, frozenset(ungated))

    def about(self, kind: str) -> tuple[TaintingPolicy, ...]:
        """Return the policies about targets of a kind."""
        return self.by_kind.get(kind, ())

    def acts_on(self, kind: str, *, switched_on: bool) -> bool:
        """Return whether a policy about targets of a kind may act, with or without those that need switches."""
        return kind in (self.by_kind if switched_on else self.ungated)


@dataclass(frozen=True, slots=True)
class Act:
    """One action of a policy on a target.

    Attributes:
        adds: True adds those of `policy.taints` that are missing. False removes the existing ones.
    """

    policy: TaintingPolicy
    adds: bool

    @property
    def conditions(self) -> tuple[MatchCondition, ...]:
        """The conditions that matched."""
        return self.policy.add if self.adds else self.policy.remove


def in_order(policies: Iterable[TaintingPolicy]) -> tuple[TaintingPolicy, ...]:
    """Return the policies in their order of evaluation."""
    return tuple(sorted(policies, key=lambda policy: policy.order))


def matches(requirements: Sequence[MatchCondition], statuses: Mapping[str, Sequence[str]]) -> bool:
    """Return whether all requirements match. An empty list never matches.

    Args:
        requirements: the requirements, ANDed. One with an operator other than `In` and `NotIn` never matches.
        statuses: the statuses of each condition that the target has, by type. A condition that the target lacks
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
    policies: Sequence[TaintingPolicy], target: TargetFacts, statuses: Mapping[str, Sequence[str]]
) -> Iterator[Act]:
    """Yield the actions of the policies on a target, in order.

    Args:
        policies: the policies in the order of `in_order`.
        target: the target.
        statuses: as for `matches`.
    """
    for policy in policies:
        if not policy.selects(target):
            continue
        if matches(policy.add, statuses):
            yield Act(policy, adds=True)
        if matches(policy.remove, statuses):
            yield Act(policy, adds=False)
