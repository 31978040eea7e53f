"""Parses the spec of a placement into its terms, with the errors in it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cache, lru_cache
from typing import Final, TypeVar

from moorage.decide.kubernetes.cel.expressions import ExpressionError
from moorage.decide.scheduling.ocm.plugin import Plugins
from moorage.decide.scheduling.ocm.selector import SelectorError
from moorage.decide.scheduling.ocm.terms import Coordinate, PlacementTerms, SelectorTerms
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

Defaults = tuple[tuple[Coordinate, int], ...]

BUILT_IN: Final = "BuiltIn"
ADDITIVE: Final = "Additive"
EXACT: Final = "Exact"


def terms_of(spec: PlacementSpec, *, as_upstream: bool = False, plugins: Plugins | None = None) -> PlacementTerms:
    """Parse a spec. Errors are stored in the terms.

    Args:
        spec: the spec of the placement.
        as_upstream: whether to parse it as upstream's code does.
        plugins: the plugins whose default weights apply if the spec states none. None means all discovered plugins.
    """
    defaults = _defaults(plugins or Plugins.discovered(), as_upstream)
    predicates, predicate_error, unsupported = _predicates(spec.predicates or ())
    tolerations = _tolerations(
        tuple((one.key, one.operator, one.value, one.effect, one.toleration_seconds) for one in spec.tolerations or ())
    )
    weights, policy_error = _weights(spec.prioritizer_policy, defaults, as_upstream=as_upstream)
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
        unsupported,
        _key(predicates, tolerations, weights, predicate_error, policy_error, as_upstream),
    )


@cache
def _defaults(plugins: Plugins, as_upstream: bool) -> Defaults:  # noqa: FBT001 - what is cached is called by position
    return plugins.defaults(as_upstream=as_upstream)


class _Hashed(tuple[_T, ...]):  # noqa: SLOT001 - it keeps its hash beside the tuple
    """A tuple whose hash is computed only once."""

    _hash: int

    def __hash__(self) -> int:
        found: int | None = self.__dict__.get("_hash")
        if found is None:
            found = self._hash = super().__hash__()
        return found


@lru_cache(maxsize=_REMEMBERED)
def _tolerations(parts: tuple[tuple[str, str, str, str, int | None], ...]) -> tuple[Toleration, ...]:
    """Return one shared object for equal tolerations, so that comparing them is fast."""
    names = ("key", "operator", "value", "effect", "toleration_seconds")
    return _Hashed(Toleration(**dict(zip(names, one, strict=True))) for one in parts)


@lru_cache(maxsize=_REMEMBERED)
def _key(*parts: Hashable) -> Hashable:
    """Return one shared object for equal parts."""
    return _Hashed(parts)


def _predicates(predicates: Sequence[ClusterPredicate]) -> tuple[tuple[SelectorTerms, ...], str, bool]:
    """Return the predicates, or the error in them and whether only Moorage refuses them."""
    found: list[SelectorTerms] = []
    errors: list[tuple[str, bool]] = []
    for one in predicates:
        try:
            found.append(SelectorTerms.of(one.required_cluster_selector))
        except SelectorError as error:
            errors.append((str(error), False))
        except ExpressionError as error:
            errors.append((str(error), not error.as_upstream))
    if errors:
        return (), *next((error for error in errors if not error[1]), errors[0])
    return tuple(found), "", False


def _weights(
    policy: PrioritizerPolicy, defaults: Defaults, *, as_upstream: bool
) -> tuple[tuple[tuple[Coordinate, int], ...], str]:
    """Return the prioritizers and their weights, or the error.

    A built-in prioritizer that is listed twice has its last weight. An add-on's score that is listed twice counts
    twice.
    """
    if policy.mode not in {"", ADDITIVE, EXACT}:
        return (), f"incorrect prioritizer policy mode: {policy.mode}"
    built_in: dict[Coordinate, int] = {} if policy.mode == EXACT else dict(defaults)
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
    """Return the source of the score. The deprecated name is used only if there is no coordinate."""
    if config.score_coordinate is not None or as_upstream or not config.name:
        return config.score_coordinate
    return ScoreCoordinate(type=BUILT_IN, built_in=config.name)
