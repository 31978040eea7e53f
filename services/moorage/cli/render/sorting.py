"""The order of `--sort-by`: numbers by size, amounts by size, texts as people sort them (`n2` before `n10`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from moorage.cli.errors import CliError
from moorage.cli.render.jsonpath import relaxed
from moorage.core.apimachinery.quantities import QuantityError, parse_quantity

_DIGITS = re.compile(r"(\d+)")


def sorted_by(items: Sequence[Any], path: str) -> list[Any]:
    """Return objects in the order of the values at a path. Those without a value come first.

    Raises:
        CliError: it is no path, no object has a value there, or the values cannot be compared.
    """
    template = relaxed(path)
    keyed = [(template.values(item), item) for item in items]
    values = [found[0] for found, _ in keyed if found]
    if items and not values:
        raise CliError(f"couldn't find any field with path {path!r} in the list of objects")
    if any(isinstance(value, dict | list) for value in values):
        raise CliError("sorting by objects or lists is not possible")
    order = _order(values)
    try:
        return [
            item for _, item in sorted(keyed, key=lambda pair: (bool(pair[0]), order(pair[0][0]) if pair[0] else ()))
        ]
    except TypeError:
        raise CliError(f"the values at {path!r} are of several types and cannot be compared") from None


def _order(values: Sequence[Any]) -> Any:
    if not all(isinstance(value, str) for value in values):
        return lambda value: (0,) if value is None else (1, value)
    if all(_amount(value) is not None for value in values):
        return lambda value: (_amount(value),)
    return lambda value: tuple(
        (int(part), "") if part.isdigit() else (-1, part) for part in _DIGITS.split(value) if part
    )


def _amount(text: str) -> Fraction | None:
    try:
        return parse_quantity(text)
    except QuantityError:
        return None
