"""JSONPath on the command line: paths without braces, and the order of objects by the values at a path."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, Final

from typing_extensions import override

from moorage.cli.errors import CliError
from moorage.decide.kubernetes import jsonpath
from moorage.decide.kubernetes.quantities import QuantityError, parse_quantity

_RELAXED: Final = re.compile(r"\{\.?([^{}]+)\}|\.?([^{}]+)")
_DIGITS: Final = re.compile(r"(\d+)")


class JsonPathError(CliError):
    """A template that cannot be read, or does not fit the object."""


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except jsonpath.TemplateError as error:
        raise JsonPathError(str(error)) from None


class JsonPath(jsonpath.JsonPathTemplate):
    """A template whose errors are messages for the user."""

    def __init__(self, template: str) -> None:
        with _explained():
            super().__init__(template)

    @override
    def text(self, document: Any, *, is_strict: bool = False) -> str:
        with _explained():
            return super().text(document, is_strict=is_strict)

    @override
    def values(self, document: Any) -> list[Any]:
        with _explained():
            return super().values(document)


def relaxed(path: str) -> JsonPath:
    """Return the template of a path that may lack braces and the first dot: `spec.nodeName`.

    Raises:
        JsonPathError: it is no path.
    """
    match = _RELAXED.fullmatch(path)
    if match is None:
        raise JsonPathError(
            "unexpected path string, expected a 'name1.name2' or '.name1.name2' or '{name1.name2}' or '{.name1.name2}'"
        )
    return JsonPath(f"{{.{match[1] or match[2]}}}")


def sorted_by(items: Sequence[Any], path: str) -> list[Any]:
    """Return objects in the order of the values at a path. Those without a value come first.

    Numbers and amounts are sorted by size, texts as people sort them: `n2` before `n10`.

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
