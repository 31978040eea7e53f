"""Which tolerations match which taints, one at a time: docs/domain.md, "Matching". Many at once: `taint_matrix`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from moorage.core.apimachinery.integers import canonical_int64
from moorage_schemas.taint import Taint, Toleration, TolerationOperator

_EXISTS: Final = TolerationOperator.EXISTS.value
_EQUAL: Final = ("", TolerationOperator.EQUAL.value)
_GT: Final = TolerationOperator.GT.value
_COMPARISONS: Final = (_GT, TolerationOperator.LT.value)


def _compares(operator: str, taint_value: str, toleration_value: str) -> bool:
    """Whether the taint's value is greater (`Gt`) or less (`Lt`) than the toleration's."""
    limit = canonical_int64(toleration_value)
    number = canonical_int64(taint_value)
    if limit is None or number is None:
        return False
    return number > limit if operator == _GT else number < limit


def tolerates(toleration: Toleration, taint: Taint, *, comparison: bool = True, strict: bool = True) -> bool:
    """Whether the toleration matches the taint.

    Args:
        toleration: empty effect matches every effect, empty key every key, empty operator means `Equal`.
        taint: its effect is not judged here; that is the dialect's.
        comparison: whether `Gt` and `Lt` count; without, they match nothing. The taint's value is compared
            with the toleration's, both canonical 64-bit integers, else no match.
        strict: an empty key matches only with `Exists`, and `Exists` only without a value.
            False answers as upstream's code does on such tolerations, which validation refuses:
            see `deviations.Deviation.EMPTY_KEY_NEEDS_EXISTS` and `EXISTS_TAKES_NO_VALUE`.
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
    """The first toleration that matches the taint, which is the one that counts; None when none does."""
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
    """The taints with one of `effects` that no toleration matches, in their order."""
    return tuple(
        taint
        for taint in taints
        if taint.effect in effects and first_match(taint, tolerations, comparison=comparison, strict=strict) is None
    )


def fits(
    taints: Iterable[Taint],
    tolerations: Sequence[Toleration],
    filtering: Collection[str],
    *,
    comparison: bool = True,
    strict: bool = True,
) -> bool:
    """Whether no taint with a filtering effect is left untolerated."""
    return not untolerated(taints, tolerations, filtering, comparison=comparison, strict=strict)


def prefer_count(
    taints: Iterable[Taint],
    tolerations: Sequence[Toleration],
    scoring: Collection[str],
    *,
    comparison: bool = True,
    strict: bool = True,
) -> int:
    """How many taints with a scoring effect are untolerated; fewer is better."""
    return len(untolerated(taints, tolerations, scoring, comparison=comparison, strict=strict))


MAX_SCORE: Final = 100


def normalize_reversed(counts: Sequence[int]) -> list[int]:
    """Scores 0…100 from counts of which fewer is better: the highest count gets 0, zero gets 100.

    The quotient is cut towards zero, as upstream's integers are; with no count above zero all get 100.
    """
    highest = max(counts, default=0)
    if highest <= 0:
        return [MAX_SCORE for _ in counts]
    # Truncation towards zero, not floor: a negative count is no count, but it is answered as upstream does.
    return [MAX_SCORE - (1 if n >= 0 else -1) * (MAX_SCORE * abs(n) // highest) for n in counts]
