"""How the clusters of an OCM placement are cut into decision groups (`spec.decisionStrategy.groupStrategy`).

The named groups come first, in their order; each takes the selected clusters that its selector matches and no group
before it has taken. The rest follows without a name. Whatever is longer than `clustersPerDecisionGroup` is cut into
several groups of the same name. Within each, clusters are by name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from moorage.core.apimachinery.cel import ExpressionError
from moorage.core.scheduling.ocm.columns import NOTHING, Aspect
from moorage.core.scheduling.ocm.facts import ManagedClusterFacts
from moorage.core.scheduling.ocm.selector import SelectorError
from moorage.core.scheduling.ocm.terms import SelectorTerms
from moorage_schemas.resources.managed import DecisionStrategy, GroupClusterSelector, RequiredClusterSelector

_PERCENT: Final = re.compile(
    r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(inf|infinity)|nan", re.IGNORECASE
)
"""Numbers as Go's `ParseFloat` reads them, but for hexadecimal ones."""
_LENGTH: Final = re.compile(r"(100|[1-9][0-9]?)%|[1-9][0-9]*")
"""What the API's schema allows as text."""

_SHOWN: Final = Aspect.DOCUMENT | Aspect.LABELS | Aspect.TAINTS
"""What an expression sees of a cluster."""


@dataclass(frozen=True, slots=True)
class SelectedGroup:
    """A decision group.

    Attributes:
        name: empty for the clusters that are in no named group.
        clusters: by name.
    """

    name: str
    clusters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Named:
    name: str
    selector: SelectorTerms

    def takes(self, cluster: ManagedClusterFacts) -> bool:
        selector = self.selector
        return (
            selector.labels.hold(cluster.labels)
            and selector.claims.hold(cluster.claims)
            and all(expression.holds(cluster.document) for expression in selector.expressions)
        )


@dataclass(frozen=True, slots=True)
class GroupTerms:
    """A group strategy, read once.

    Attributes:
        problem: what is wrong with it, in words; empty when nothing is.
    """

    named: tuple[_Named, ...] = ()
    number: int = 0
    """At most so many clusters a group; 0 or less means all."""
    share: float | None = None
    """Instead of `number`: at most this share of the selected clusters, in percent."""
    problem: str = ""
    nothing: bool = False
    """As upstream, a wrong strategy leaves no groups, and its decisions are lost."""

    @classmethod
    def of(cls, strategy: DecisionStrategy, *, as_upstream: bool = False) -> GroupTerms:
        """Read a strategy. What is wrong in it is told in `problem`; the rest of it counts, unless as upstream.

        As documented, a wrong length counts as none, and a group with a wrong selector as not there.
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
                    # Those before it stand, and their clusters with them; it and the rest are lost.
                    return cls(tuple(named), number, share, str(error), nothing=True)
                problem = problem or f"decisionStrategy.groupStrategy.decisionGroups[{i}].groupClusterSelector: {error}"
        return cls(tuple(named), number, share, problem)

    @property
    def aspects(self) -> Aspect:
        """Which changes of a selected cluster, and not only of the selection, can change the groups."""
        found = Aspect.LABELS | Aspect.CLAIMS if self.named else NOTHING
        return found | _SHOWN if any(one.selector.expressions for one in self.named) else found

    def length(self, selected: int) -> int:
        """How many clusters a group has at most, of so many that are selected."""
        length = self.number
        if self.share is not None:
            exact = self.share / 100 * selected
            length = math.ceil(exact) if math.isfinite(exact) else 0
        return length if 0 < length <= selected else max(selected, 1)

    def cut(self, selected: Collection[str], facts: Callable[[str], ManagedClusterFacts]) -> list[SelectedGroup]:
        """The groups of the selected clusters; one without clusters when none is selected.

        Args:
            selected: names, each once.
            facts: what is known of a selected cluster.
        """
        length = self.length(len(selected))
        rest = sorted(selected)
        groups: list[SelectedGroup] = []
        for named in self.named:
            taken = [name for name in rest if named.takes(facts(name))]
            rest = sorted(set(rest).difference(taken)) if taken else rest
            groups += _cut(named.name, taken, length)
        if self.nothing:
            return groups
        groups += _cut("", rest, length)
        return groups or [SelectedGroup("", ())]


def _selector(selector: GroupClusterSelector, *, as_upstream: bool) -> SelectorTerms:
    """The selector of a group; upstream's has no CEL expressions."""
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
    """Number, share and problem of `clustersPerDecisionGroup`."""
    if value is None:
        return 0, None, ""
    if as_upstream:
        if isinstance(value, int):
            return value, None, ""
        percent = value[:-1] if value.endswith("%") else ""
        if not _PERCENT.fullmatch(percent):
            return 0, None, f"{value} invalid type: string is not a percentage"
        return 0, float(percent), ""
    wrong = value < 1 if isinstance(value, int) else not _LENGTH.fullmatch(value)
    if wrong:
        rule = "must be a number of at least 1, or a percentage from 1% to 100%"
        return 0, None, f"decisionStrategy.groupStrategy.clustersPerDecisionGroup: Invalid value: {value!r}: {rule}"
    text = str(value)
    return (0, float(text[:-1]), "") if text.endswith("%") else (int(text), None, "")
