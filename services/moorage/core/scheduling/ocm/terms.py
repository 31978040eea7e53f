"""What a placement asks of clusters: its spec, read once by `spec.terms_of`."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final

from moorage.core.apimachinery.cel import Expression, compiled
from moorage.core.scheduling.ocm.selector import LabelTerms
from moorage_schemas.resources.managed import RequiredClusterSelector
from moorage_schemas.resources.meta import LabelSelector
from moorage_schemas.taint import Toleration

EVERYTHING: Final = LabelTerms()
"""The requirements of an empty selector: none."""


@dataclass(frozen=True, slots=True)
class Coordinate:
    """Where a score comes from: a built-in prioritizer, or a named score of an `AddOnPlacementScore`."""

    built_in: str = ""
    resource: str = ""
    score: str = ""
    built_in_type: bool = True

    @property
    def name(self) -> str:
        """The prioritizer's name in results: `Balance`, `AddOn/<resource>/<score>`."""
        return self.built_in if self.built_in_type else f"AddOn/{self.resource}/{self.score}"


@dataclass(frozen=True, slots=True)
class SelectorTerms:
    """Requirements on one cluster, ANDed: of a predicate, or of a decision group."""

    labels: LabelTerms = EVERYTHING
    claims: LabelTerms = EVERYTHING
    expressions: tuple[Expression, ...] = ()

    @classmethod
    def of(cls, selector: RequiredClusterSelector) -> SelectorTerms:
        """Read a selector (one of a decision group has the same fields).

        Raises:
            SelectorError: the label or the claim selector is wrong.
            ExpressionError: a CEL expression is.
        """
        labels = EVERYTHING if selector.label_selector is None else LabelTerms.of(selector.label_selector)
        claims = EVERYTHING
        if selector.claim_selector is not None:
            claims = LabelTerms.of(LabelSelector(match_expressions=selector.claim_selector.match_expressions))
        said = (selector.cel_selector.cel_expressions if selector.cel_selector else None) or ()
        return cls(labels, claims, tuple(compiled(text) for text in said))


@dataclass(frozen=True, slots=True, eq=False)
class PlacementTerms:
    """What a placement asks for.

    Attributes:
        sets: names of the sets that it may choose from; empty means all that are bound to its namespace.
        number: how many clusters it wants; None means all that fit.
        predicates: ORed; empty lets every cluster pass.
        tolerations: as written.
        weights: its prioritizers, none with weight 0, in the order of the spec after the defaults.
        predicate_error: why the predicates cannot be read; empty when they can.
        policy_error: why the prioritizers, or the number, cannot be applied; empty when they can.
        limited: whether a toleration has `tolerationSeconds`.
        as_upstream: whether it is read as upstream's code reads it.
        key: the same for terms that rule out and score the same; `number` and `sets` are not part of it.
    """

    sets: tuple[str, ...]
    number: int | None
    predicates: tuple[SelectorTerms, ...]
    tolerations: tuple[Toleration, ...]
    weights: tuple[tuple[Coordinate, int], ...]
    predicate_error: str
    policy_error: str
    limited: bool
    as_upstream: bool
    key: Hashable = field(repr=False)
