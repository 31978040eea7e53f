"""The terms of a placement: its spec, parsed once by `spec.terms_of`."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final

from moorage.decide.kubernetes.cel.expressions import Expression, ExpressionError, compiled, limit_of
from moorage.decide.scheduling.ocm.selector import LabelTerms
from moorage_schemas.resources.managed import RequiredClusterSelector
from moorage_schemas.resources.meta import LabelSelector
from moorage_schemas.taint import Toleration

EVERYTHING: Final = LabelTerms()
"""The requirements of an empty selector: none."""


@dataclass(frozen=True, slots=True)
class Coordinate:
    """The source of a score: a built-in prioritizer, or a named score of an `AddOnPlacementScore`."""

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
    """Requirements on a cluster, ANDed. They belong to a predicate or a decision group."""

    labels: LabelTerms = EVERYTHING
    claims: LabelTerms = EVERYTHING
    expressions: tuple[Expression, ...] = ()

    @classmethod
    def of(cls, selector: RequiredClusterSelector) -> SelectorTerms:
        """Parse a selector. The selector of a decision group has the same fields.

        Raises:
            SelectorError: the label selector or the claim selector is invalid.
            ExpressionError: a CEL expression is invalid.
        """
        labels = EVERYTHING if selector.label_selector is None else LabelTerms.of(selector.label_selector)
        claims = EVERYTHING
        if selector.claim_selector is not None:
            claims = LabelTerms.of(LabelSelector(match_expressions=selector.claim_selector.match_expressions))
        expressions = (selector.cel_selector.cel_expressions if selector.cel_selector else None) or ()
        return cls(labels, claims, _compiled(expressions))


def _compiled(texts: Sequence[str]) -> tuple[Expression, ...]:
    """Compile expressions. Of several errors, one counts that upstream also finds."""
    found: list[Expression] = []
    errors: list[ExpressionError] = []
    for text in texts:
        try:
            found.append(compiled(text, limit_of(len(texts))))
        except ExpressionError as error:
            errors.append(error)
    if errors:
        raise next((error for error in errors if error.as_upstream), errors[0])
    return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class PlacementTerms:
    """The terms of a placement.

    Attributes:
        sets: the names of the sets that it may choose from. Empty means all sets that are bound to its namespace.
        number: the number of clusters that it requests. None means all that fit.
        predicates: the predicates, ORed. If empty, every cluster passes.
        tolerations: the tolerations, as written.
        weights: its prioritizers, without those of weight 0: first the defaults, then those of the spec in their order.
        predicate_error: why the predicates are invalid. Empty if they are valid.
        policy_error: why the prioritizers, or the number, are invalid. Empty if they are valid.
        limited: whether a toleration has `tolerationSeconds`.
        as_upstream: whether the spec was parsed as upstream's code does.
        unsupported: whether the predicates are invalid only because Moorage does not support an expression in them.
        key: equal for terms that filter and score equally. `number` and `sets` are not part of it.
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
    unsupported: bool
    key: Hashable = field(repr=False)
