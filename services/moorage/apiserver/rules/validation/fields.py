"""Reading of documents for validation, and the rules that many fields share.

Documents have the defaults of `with_field_defaults`. A part of a wrong type counts as absent here: decoding refuses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from moorage.decide.kubernetes import names
from moorage.decide.kubernetes.field_errors import FieldError, forbidden, invalid, not_supported, required
from moorage.decide.kubernetes.selectors import DOES_NOT_EXIST, EXISTS, IN, NOT_IN

Fields = Mapping[str, Any]

_LAST_PORT: Final = 65_535


def inner(value: Fields, field: str) -> Fields:
    """An object in a field. Empty if there is none."""
    return object_in(value, field) or {}


def object_in(value: Fields, field: str) -> Fields | None:
    """An object in a field, which may be empty. None if there is none."""
    found = value.get(field)
    return found if isinstance(found, Mapping) else None


def listed(value: Fields, field: str) -> Sequence[Any]:
    """A list in a field. Empty if there is none."""
    found = value.get(field)
    return found if isinstance(found, list) else ()


def objects(value: Fields, field: str, path: str) -> Iterator[tuple[Fields, str]]:
    """The objects of a list in a field, each with its path.

    Args:
        value: has the field.
        field: its name.
        path: of the list.
    """
    for number, one in enumerate(listed(value, field)):
        if isinstance(one, Mapping):
            yield one, f"{path}[{number}]"


def text(value: Fields, field: str) -> str:
    """The text in a field. Empty if there is none."""
    found = value.get(field)
    return found if isinstance(found, str) else ""


def number(value: Fields, field: str) -> int | None:
    """The whole number in a field. None if there is none."""
    found = value.get(field)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def not_negative(value: Fields, path: str, *fields: str) -> Iterator[FieldError]:
    """Errors of numbers that are negative. Absent ones are valid."""
    for field in fields:
        found = number(value, field)
        if found is not None and found < 0:
            yield invalid(f"{path}.{field}", found, "must be greater than or equal to 0")


def one_of(value: str, path: str, supported: Sequence[str]) -> Iterator[FieldError]:
    """The error of a text that is not one of the supported ones, or is missing."""
    if not value:
        yield required(path)
    elif value not in supported:
        yield not_supported(path, value, supported)


def known(value: str, path: str, supported: Sequence[str]) -> Iterator[FieldError]:
    """The error of a text that is not one of the supported ones. An absent one is valid."""
    if value:
        yield from one_of(value, path, supported)


def dns_label(value: str, path: str) -> Iterator[FieldError]:
    """The errors of a text that is to be a DNS label."""
    yield from (invalid(path, value, rule) for rule in names.check_dns_label(value, names.OLDER))


def dns_subdomain(value: str, path: str) -> Iterator[FieldError]:
    """The errors of a text that is to be a DNS subdomain."""
    yield from (invalid(path, value, rule) for rule in names.check_dns_subdomain(value, names.OLDER))


def qualified_name(value: str, path: str) -> Iterator[FieldError]:
    """The errors of a text that is to be the key of a label."""
    yield from (invalid(path, value, rule) for rule in names.check_qualified_name(value))


def port_number(value: int, path: str) -> Iterator[FieldError]:
    """The error of a number that is no port."""
    if not 1 <= value <= _LAST_PORT:
        yield invalid(path, value, f"must be between 1 and {_LAST_PORT}, inclusive")


def labels(value: Fields, path: str) -> Iterator[FieldError]:
    """The errors of labels, in the order of their keys."""
    for key, one in sorted(value.items()):
        yield from qualified_name(key, path)
        yield from (invalid(path, one, rule) for rule in names.check_label_value(one))


def label_selector(selector: Fields | None, path: str) -> Iterator[FieldError]:
    """The errors of a label selector. An absent one is valid."""
    if selector is None:
        return
    yield from labels(inner(selector, "matchLabels"), f"{path}.matchLabels")
    for requirement, at in objects(selector, "matchExpressions", f"{path}.matchExpressions"):
        operator, values = text(requirement, "operator"), listed(requirement, "values")
        yield from values_by_operator(operator, values, at)
        if operator not in {IN, NOT_IN, EXISTS, DOES_NOT_EXIST}:
            yield unknown_operator(operator, at)
        yield from qualified_name(text(requirement, "key"), f"{at}.key")
        yield from label_values(values, at)


def values_by_operator(operator: str, values: Sequence[Any], path: str) -> Iterator[FieldError]:
    """The error of a requirement whose operator does not allow the values that it has."""
    if operator in {IN, NOT_IN} and not values:
        yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in {EXISTS, DOES_NOT_EXIST} and values:
        yield forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")


def unknown_operator(operator: str, path: str) -> FieldError:
    """The error of a requirement whose operator nobody knows."""
    return invalid(f"{path}.operator", operator, "not a valid selector operator")


def label_values(values: Sequence[Any], path: str) -> Iterator[FieldError]:
    """The errors of the values of a requirement."""
    for at, value in enumerate(values):
        yield from (invalid(f"{path}.values[{at}]", value, rule) for rule in names.check_label_value(value))


def amount(value: object, path: str) -> Iterator[FieldError]:
    """The errors of a number that may be a percentage: `2` or `25%`."""
    if isinstance(value, str):
        yield from (invalid(path, value, rule) for rule in names.check_percent(value))
    elif isinstance(value, int) and value < 0:
        yield invalid(path, value, "must be greater than or equal to 0")


def not_more_than_all(value: object, path: str) -> Iterator[FieldError]:
    """The error of a percentage of more than 100."""
    if isinstance(value, str) and not names.check_percent(value) and int_of(value) > 100:  # noqa: PLR2004 - all
        yield invalid(path, value, "must not be greater than 100%")


def int_of(value: object) -> int:
    """The number of a number or a percentage. 0 for anything else."""
    if isinstance(value, str):
        digits = value.removesuffix("%")
        return int(digits[:18]) if digits.isascii() and digits.isdigit() else 0
    return value if isinstance(value, int) else 0
