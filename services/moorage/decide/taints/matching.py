"""Matches tolerations and taints (docs/domain.md, "Matching"). For many nodes at once, use `node_taint_matrix`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from moorage.decide.kubernetes.quantities import canonical_int64
from moorage_schemas.taint import Taint, Toleration, TolerationOperator

_EXISTS: Final = TolerationOperator.EXISTS.value
_EQUAL: Final = ("", TolerationOperator.EQUAL.value)
_GT: Final = TolerationOperator.GT.value
_COMPARISONS: Final = (_GT, TolerationOperator.LT.value)


def _compares(operator: str, taint_value: str, toleration_value: str) -> bool:
    """Return whether the taint's value is greater (`Gt`) or less (`Lt`) than the toleration's."""
    limit = canonical_int64(toleration_value)
    number = canonical_int64(taint_value)
    if limit is None or number is None:
        return False
    return number > limit if operator == _GT else number < limit


def tolerates(toleration: Toleration, taint: Taint, *, comparison: bool = True, strict: bool = True) -> bool:
    """Return whether the toleration matches the taint.

    Args:
        toleration: the toleration. An empty effect matches every effect, an empty key every key, and an empty operator
            means `Equal`.
        taint: the taint. Its effect is not interpreted here; that is up to the dialect.
        comparison: whether `Gt` and `Lt` are allowed. If not, they match nothing. They compare the taint's value with
            the toleration's. Both must be canonical 64-bit integers, otherwise they do not match.
        strict: whether an empty key matches only with `Exists`, and `Exists` only without a value. False behaves like
            upstream's code for such tolerations, which validation refuses; see
            `deviations.Deviation.EMPTY_KEY_NEEDS_EXISTS` and `EXISTS_TAKES_NO_VALUE`.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    operator = toleration.operator
    if operator == _EXISTS:
        return not (strict and toleration.value)
    if strict and not toleration.key:
        return False
    if operator in _EQUAL:
        return toleration.value == taint.value
    return comparison and operator in _COMPARISONS and _compares(operator, taint.value, toleration.value)


def first_match(
    taint: Taint, tolerations: Iterable[Toleration], *, comparison: bool = True, strict: bool = True
) -> Toleration | None:
    """Return the first toleration that matches the taint, which is the one that counts. None if none matches."""
    for toleration in tolerations:
        if tolerates(toleration, taint, comparison=comparison, strict=strict):
            return toleration
    return None


def untolerated(
    taints: Iterable[Taint],
    tolerations: Sequence[Toleration],
    effects: Collection[str],
    *,
    comparison: bool = True,
    strict: bool = True,
) -> tuple[Taint, ...]:
    """Return the taints with one of `effects` that no toleration matches, in their order."""
    return tuple(
        taint
        for taint in taints
        if taint.effect in effects and first_match(taint, tolerations, comparison=comparison, strict=strict) is None
    )


def prefer_count(
    taints: Iterable[Taint],
    tolerations: Sequence[Toleration],
    scoring: Collection[str],
    *,
    comparison: bool = True,
    strict: bool = True,
) -> int:
    """Return the number of untolerated taints with a scoring effect. Fewer is better."""
    return len(untolerated(taints, tolerations, scoring, comparison=comparison, strict=strict))


MAX_SCORE: Final = 100


def normalize_reversed(counts: Sequence[int]) -> list[int]:
    """Convert counts, of which fewer is better, to scores 0…100: the highest count gets 0, zero gets 100.

    The quotient is truncated towards zero, as with upstream's integers. If no count is above zero, all scores are 100.
    """
    highest = max(counts, default=0)
    if highest <= 0:
        return [MAX_SCORE for _ in counts]
    # Truncation towards zero, not floor. A negative count is meaningless, but the result must equal upstream's.
    return [MAX_SCORE - (1 if n >= 0 else -1) * (MAX_SCORE * abs(n) // highest) for n in counts]
