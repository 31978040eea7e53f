"""A placement's spec, read once: what it asks of clusters, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeVar

from moorage.core.apimachinery.cel import ExpressionError
from moorage.core.scheduling.ocm.plugin import Plugins
from moorage.core.scheduling.ocm.selector import SelectorError
from moorage.core.scheduling.ocm.terms import Coordinate, PlacementTerms, SelectorTerms
from moorage_schemas.resources.managed import (
    ClusterPredicate,
    PlacementSpec,
    PrioritizerConfig,
    PrioritizerPolicy,
    ScoreCoordinate,
)
from moorage_schemas.taint import Toleration

_T = TypeVar("_T")
_REMEMBERED: Final = 16_384

BUILT_IN: Final = "BuiltIn"
ADDITIVE: Final = "Additive"
EXACT: Final = "Exact"


def terms_of(spec: PlacementSpec, *, as_upstream: bool = False, plugins: Plugins | None = None) -> PlacementTerms:
    """Read a spec; what is wrong with it is told by the errors of the terms.

    Args:
        spec: of the placement.
        as_upstream: whether it is read as upstream's code reads it.
        plugins: those whose weights count where the spec gives none; those that are found when None.
    """
    known = plugins or Plugins.discovered()
    predicates, predicate_error = _predicates(spec.predicates or ())
    tolerations = _tolerations(
        tuple((one.key, one.operator, one.value, one.effect, one.toleration_seconds) for one in spec.tolerations or ())
    )
    weights, policy_error = _weights(
        spec.prioritizer_policy, known.defaults(as_upstream=as_upstream), as_upstream=as_upstream
    )
    if not as_upstream and spec.number_of_clusters is not None and spec.number_of_clusters < 0:
        shown = spec.number_of_clusters
        policy_error = f"spec.numberOfClusters: Invalid value: {shown}: must be greater than or equal to 0"
    return PlacementTerms(
        tuple(spec.cluster_sets or ()),
        spec.number_of_clusters,
        predicates,
        tolerations,
        weights,
        predicate_error,
        policy_error,
        any(one.toleration_seconds is not None for one in tolerations),
        as_upstream,
        _key(predicates, tolerations, weights, predicate_error, policy_error, as_upstream),
    )


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


def _predicates(predicates: Sequence[ClusterPredicate]) -> tuple[tuple[SelectorTerms, ...], str]:
    try:
        return tuple(SelectorTerms.of(one.required_cluster_selector) for one in predicates), ""
    except (SelectorError, ExpressionError) as error:
        return (), str(error)


def _weights(
    policy: PrioritizerPolicy, defaults: Mapping[Coordinate, int], *, as_upstream: bool
) -> tuple[tuple[tuple[Coordinate, int], ...], str]:
    """The prioritizers and their weights, or why there are none.

    A built-in one that is listed twice has its last weight, an add-on's score that is listed twice counts twice.
    """
    if policy.mode not in {"", ADDITIVE, EXACT}:
        return (), f"incorrect prioritizer policy mode: {policy.mode}"
    built_in = {} if policy.mode == EXACT else dict(defaults)
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
