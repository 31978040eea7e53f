"""A placement's spec, read once: what it asks of clusters, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, TypeVar

from moorage.core.apimachinery.cel import Expression, ExpressionError, compiled
from moorage.core.scheduling.ocm.selector import LabelTerms, SelectorError
from moorage.core.taints.dialects.ocm import BALANCE, STEADY
from moorage_schemas.resources.managed import (
    ClusterPredicate,
    PlacementSpec,
    PrioritizerConfig,
    PrioritizerPolicy,
    RequiredClusterSelector,
    ScoreCoordinate,
)
from moorage_schemas.resources.meta import LabelSelector
from moorage_schemas.taint import Toleration, TolerationOperator

_T = TypeVar("_T")
_REMEMBERED: Final = 16_384

BUILT_IN: Final = "BuiltIn"
ADD_ON: Final = "AddOn"
ADDITIVE: Final = "Additive"
EXACT: Final = "Exact"

EVERYTHING: Final = LabelTerms()
"""The requirements of an empty selector: none."""

PREDICATE: Final = "Predicate"
TAINT_TOLERATION: Final = "TaintToleration"


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
        return self.built_in if self.built_in_type else f"{ADD_ON}/{self.resource}/{self.score}"


DEFAULT_WEIGHTS: Final = ((Coordinate(BALANCE), 1), (Coordinate(STEADY), 1))
"""What mode `Additive` begins with."""


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


class _Hashed(tuple[_T, ...]):  # noqa: SLOT001 - it keeps its hash beside the tuple
    """A tuple that is hashed once."""

    _hash: int

    def __hash__(self) -> int:
        found: int | None = self.__dict__.get("_hash")
        if found is None:
            found = self._hash = super().__hash__()
        return found


@lru_cache(maxsize=_REMEMBERED)
def _tolerations(parts: tuple[tuple[str, str, str, str, int | None], ...]) -> tuple[Toleration, ...]:
    """One object for equal tolerations, so that comparing them takes no time."""
    names = ("key", "operator", "value", "effect", "toleration_seconds")
    return _Hashed(Toleration(**dict(zip(names, one, strict=True))) for one in parts)


@lru_cache(maxsize=_REMEMBERED)
def _key(*parts: Hashable) -> Hashable:
    """One object for equal parts."""
    return _Hashed(parts)


@dataclass(frozen=True, slots=True, eq=False)
class PlacementTerms:
    """What a placement asks for.

    Attributes:
        sets: names of the sets that it may choose from; empty means all that are bound to its namespace.
        number: how many clusters it wants; None means all that fit.
        predicates: ORed; empty lets every cluster pass.
        tolerations: as written.
        weights: its prioritizers, none with weight 0, in the order of the spec after the defaults.
        predicate_error: why the predicates cannot be applied; empty when they can.
        toleration_error: why the tolerations cannot.
        policy_error: why the prioritizers, or the number, cannot.
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
    toleration_error: str
    policy_error: str
    limited: bool
    as_upstream: bool
    key: Hashable = field(repr=False)

    @classmethod
    def of(cls, spec: PlacementSpec, *, as_upstream: bool = False) -> PlacementTerms:
        """Read a spec; what is wrong with it is told by the errors."""
        predicates, predicate_error = _predicates(spec.predicates or ())
        tolerations = _tolerations(
            tuple(
                (one.key, one.operator, one.value, one.effect, one.toleration_seconds) for one in spec.tolerations or ()
            )
        )
        weights, policy_error = _weights(spec.prioritizer_policy, as_upstream=as_upstream)
        if not as_upstream and spec.number_of_clusters is not None and spec.number_of_clusters < 0:
            shown = spec.number_of_clusters
            policy_error = f"spec.numberOfClusters: Invalid value: {shown}: must be greater than or equal to 0"
        toleration_error = _toleration_error(tolerations)
        errors = (predicate_error, toleration_error, policy_error)
        key = _key(predicates, tolerations, weights, *errors, as_upstream)
        return cls(
            tuple(spec.cluster_sets or ()),
            spec.number_of_clusters,
            predicates,
            tolerations,
            weights,
            *errors,
            any(one.toleration_seconds is not None for one in tolerations),
            as_upstream,
            key,
        )

    @property
    def errors(self) -> tuple[tuple[str, str], ...]:
        """What makes it Misconfigured: pairs of the filter's name (empty for the policy) and the message."""
        found = (
            (PREDICATE, self.predicate_error),
            (TAINT_TOLERATION, self.toleration_error),
            ("", self.policy_error),
        )
        return tuple((plugin, message) for plugin, message in found if message)


def _predicates(predicates: Sequence[ClusterPredicate]) -> tuple[tuple[SelectorTerms, ...], str]:
    try:
        return tuple(SelectorTerms.of(one.required_cluster_selector) for one in predicates), ""
    except (SelectorError, ExpressionError) as error:
        return (), str(error)


def _toleration_error(tolerations: Sequence[Toleration]) -> str:
    """What upstream's taint filter says of the first toleration that is wrong."""
    for toleration in tolerations:
        exists = toleration.operator == TolerationOperator.EXISTS
        if not toleration.key and not exists:
            return "If the key is empty, operator must be Exists."
        if exists and toleration.value:
            return "If the operator is Exists, the value should be empty."
    return ""


def _weights(policy: PrioritizerPolicy, *, as_upstream: bool) -> tuple[tuple[tuple[Coordinate, int], ...], str]:
    """The prioritizers and their weights, or why there are none.

    A built-in one that is listed twice has its last weight, an add-on's score that is listed twice counts twice.
    """
    if policy.mode not in {"", ADDITIVE, EXACT}:
        return (), f"incorrect prioritizer policy mode: {policy.mode}"
    built_in: dict[Coordinate, int] = {} if policy.mode == EXACT else dict(DEFAULT_WEIGHTS)
    others: list[tuple[Coordinate, int]] = []
    nameless = False
    for config in policy.configurations or ():
        found = _score_coordinate(config, as_upstream=as_upstream)
        if found is None:
            return (), "scoreCoordinate field is required"
        is_built_in = found.type == BUILT_IN or (not found.type and not as_upstream)
        if is_built_in and found.add_on is None:
            built_in[Coordinate(found.built_in)] = config.weight
        elif is_built_in:
            others.append((Coordinate(found.built_in), config.weight))
        elif found.add_on is not None:
            add_on = found.add_on
            others.append((Coordinate("", add_on.resource_name, add_on.score_name, built_in_type=False), config.weight))
        elif config.weight:
            nameless = True
    if nameless:
        return (), "addOn should not be empty"
    return tuple((coordinate, weight) for coordinate, weight in (*built_in.items(), *others) if weight), ""


def _score_coordinate(config: PrioritizerConfig, *, as_upstream: bool) -> ScoreCoordinate | None:
    """Where the score comes from; by the deprecated name when nothing else says."""
    if config.score_coordinate is not None or as_upstream or not config.name:
        return config.score_coordinate
    return ScoreCoordinate(type=BUILT_IN, built_in=config.name)
