"""How the clusters of an OCM placement are divided into decision groups (`spec.decisionStrategy.groupStrategy`).

The named groups come first, in their order. Each takes the selected clusters that its selector matches and that no
earlier group has taken. The remaining clusters follow without a group name. A group with more clusters than
`clustersPerDecisionGroup` is divided into several groups of the same name. Within each group, clusters are sorted by
name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from moorage.decide.kubernetes.cel.expressions import Evaluation, Expression, ExpressionError, budget_of
from moorage.decide.scheduling.ocm.columns.cluster_facts import ManagedClusterFacts
from moorage.decide.scheduling.ocm.columns.column import NOTHING, Aspect
from moorage.decide.scheduling.ocm.selector import SelectorError
from moorage.decide.scheduling.ocm.terms import SelectorTerms
from moorage_schemas.resources.managed import DecisionStrategy, GroupClusterSelector, RequiredClusterSelector

_PERCENT: Final = re.compile(
    r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(inf|infinity)|nan", re.IGNORECASE
)
"""Numbers as Go's `ParseFloat` accepts them, except hexadecimal ones."""
_LENGTH: Final = re.compile(r"(100|[1-9][0-9]?)%|[1-9][0-9]*")
"""The text values that the API's schema allows."""

_SHOWN: Final = Aspect.DOCUMENT | Aspect.LABELS | Aspect.TAINTS
"""The aspects of a cluster that an expression sees."""


@dataclass(frozen=True, slots=True)
class SelectedGroup:
    """A decision group.

    Attributes:
        name: the group's name. Empty for clusters that are in no named group.
        clusters: the clusters, sorted by name.
    """

    name: str
    clusters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Named:
    name: str
    selector: SelectorTerms

    def takes(self, cluster: ManagedClusterFacts, costs: _Costs) -> bool:
        selector = self.selector
        return (
            selector.labels.hold(cluster.labels)
            and selector.claims.hold(cluster.claims)
            and all(costs.allow(one, cluster) for one in selector.expressions)
        )


class _Costs:
    """Evaluates expressions as long as all of them together do not cost too much. After that they are false.

    Args:
        budget: how much they may cost.
    """

    def __init__(self, budget: int) -> None:
        self._left = budget
        self._within = Evaluation()

    def allow(self, expression: Expression, cluster: ManagedClusterFacts) -> bool:
        """Return whether an expression is true for a cluster."""
        if self._left <= 0:
            return False
        result = expression.evaluate(cluster.document, self._within)
        self._left -= result.cost + result.work
        return result.value


@dataclass(frozen=True, slots=True)
class GroupTerms:
    """A parsed group strategy.

    Attributes:
        problem: the error in the strategy, as text. Empty if it is valid.
    """

    named: tuple[_Named, ...] = ()
    number: int = 0
    """The maximum number of clusters in a group. 0 or less means all."""
    share: float | None = None
    """Replaces `number`: the maximum size of a group as a percentage of the selected clusters."""
    problem: str = ""
    nothing: bool = False
    """With upstream's behaviour, an invalid strategy leads to no groups, and its decisions are lost."""

    @classmethod
    def of(cls, strategy: DecisionStrategy, *, as_upstream: bool = False) -> GroupTerms:
        """Parse a strategy. An error is stored in `problem`. Unless with upstream's behaviour, the rest still applies.

        As documented, an invalid length counts as absent, and so does a group with an invalid selector.
        """
        group = strategy.group_strategy
        number, share, problem = _length(group.clusters_per_decision_group, as_upstream=as_upstream)
        if problem and as_upstream:
            return cls(problem=problem, nothing=True)
        named: list[_Named] = []
        for i, wanted in enumerate(group.decision_groups or ()):
            try:
                named.append(
                    _Named(wanted.group_name, _selector(wanted.group_cluster_selector, as_upstream=as_upstream))
                )
            except (SelectorError, ExpressionError) as error:
                if as_upstream:
                    # The groups before this one remain with their clusters. This group and all later ones are lost.
                    return cls(tuple(named), number, share, str(error), nothing=True)
                problem = problem or f"decisionStrategy.groupStrategy.decisionGroups[{i}].groupClusterSelector: {error}"
        return cls(tuple(named), number, share, problem)

    @property
    def aspects(self) -> Aspect:
        """The aspects of a selected cluster that can change the groups. So can any change of the selection."""
        found = Aspect.LABELS | Aspect.CLAIMS if self.named else NOTHING
        return found | _SHOWN if any(one.selector.expressions for one in self.named) else found

    def length(self, selected: int) -> int:
        """Return the maximum number of clusters in a group for this number of selected clusters."""
        length = self.number
        if self.share is not None:
            exact = self.share / 100 * selected
            length = math.ceil(exact) if math.isfinite(exact) else 0
        return length if 0 < length <= selected else max(selected, 1)

    def cut(self, selected: Collection[str], facts: Callable[[str], ManagedClusterFacts]) -> list[SelectedGroup]:
        """Return the groups of the selected clusters. If none is selected, one group without clusters.

        The expressions of all groups together have a budget (`cel.budget_of`), by the order of groups and names.

        Args:
            selected: the names of the selected clusters, each once.
            facts: returns the facts about a selected cluster.
        """
        length, costs = self.length(len(selected)), _Costs(budget_of(len(selected)))
        rest = sorted(selected)
        groups: list[SelectedGroup] = []
        for named in self.named:
            taken = [name for name in rest if named.takes(facts(name), costs)]
            rest = sorted(set(rest).difference(taken)) if taken else rest
            groups += _cut(named.name, taken, length)
        if self.nothing:
            return groups
        groups += _cut("", rest, length)
        return groups or [SelectedGroup("", ())]


def _selector(selector: GroupClusterSelector, *, as_upstream: bool) -> SelectorTerms:
    """Return the selector of a group. Upstream's has no CEL expressions."""
    return SelectorTerms.of(
        RequiredClusterSelector(
            label_selector=selector.label_selector,
            claim_selector=selector.claim_selector,
            cel_selector=None if as_upstream else selector.cel_selector,
        )
    )


def _cut(name: str, clusters: Sequence[str], length: int) -> list[SelectedGroup]:
    return [SelectedGroup(name, tuple(clusters[i : i + length])) for i in range(0, len(clusters), length)]


def _length(value: int | str | None, *, as_upstream: bool) -> tuple[int, float | None, str]:
    """Return number, share and problem of `clustersPerDecisionGroup`."""
    if value is None:
        return 0, None, ""
    if isinstance(value, int):
        return value if as_upstream else max(value, 0), None, ""  # Go clients send 0 for no value
    if as_upstream:
        percent = value[:-1] if value.endswith("%") else ""
        if not _PERCENT.fullmatch(percent):
            return 0, None, f"{value} invalid type: string is not a percentage"
        return 0, float(percent), ""
    if not _LENGTH.fullmatch(value):
        rule = "must be a number of at least 1, or a percentage from 1% to 100%"
        return 0, None, f"decisionStrategy.groupStrategy.clustersPerDecisionGroup: Invalid value: {value!r}: {rule}"
    return (0, float(value[:-1]), "") if value.endswith("%") else (int(value), None, "")
