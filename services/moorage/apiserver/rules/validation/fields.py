"""Fields of documents under validation, and the rules that many fields share.

Documents have the defaults of `with_field_defaults`. A value of a wrong type counts as absent: decoding refuses it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel

from moorage.decide.kubernetes import field_errors, names
from moorage.decide.kubernetes.field_errors import FieldError
from moorage.decide.kubernetes.selectors import DOES_NOT_EXIST, EXISTS, IN, NOT_IN

_OWN: Final = object()
_LAST_PORT: Final = 65_535
_NOT_NEGATIVE: Final = "must be greater than or equal to 0"


class CheckedField:
    """A field of a document: its value, its path, and the errors of the whole document, in the order of the rules.

    Methods that check add an error for each broken rule. Errors show the field's value unless they get another one.
    """

    __slots__ = ("errors", "path", "value")

    def __init__(self, value: Any, path: str = "", errors: list[FieldError] | None = None) -> None:
        self.value = value
        self.path = path
        self.errors: list[FieldError] = [] if errors is None else errors

    def __getitem__(self, name: str) -> CheckedField:
        return CheckedField(self.fields.get(name), f"{self.path}.{name}" if self.path else name, self.errors)

    def at(self, key: object, value: Any) -> CheckedField:
        """Return an entry of a list or map, with its path."""
        return CheckedField(value, f"{self.path}[{key}]", self.errors)

    @property
    def is_object(self) -> bool:
        """Whether the value is an object, which may be empty."""
        return isinstance(self.value, Mapping)

    @property
    def fields(self) -> Mapping[str, Any]:
        """The object in the field. Empty if there is none."""
        return self.value if isinstance(self.value, Mapping) else {}

    @property
    def items(self) -> list[Any]:
        """The list in the field. Empty if there is none."""
        return list(self.value) if isinstance(self.value, list | tuple) else []

    @property
    def text(self) -> str:
        """The text in the field. Empty if there is none."""
        return self.value if isinstance(self.value, str) else ""

    @property
    def number(self) -> int | None:
        """The whole number in the field. None if there is none."""
        return self.value if isinstance(self.value, int) and not isinstance(self.value, bool) else None

    def each(self) -> Iterator[CheckedField]:
        """Yield the items of the list."""
        return (self.at(i, one) for i, one in enumerate(self.items))

    def objects(self) -> Iterator[CheckedField]:
        """Yield the items of the list that are objects."""
        return (one for one in self.each() if one.is_object)

    def invalid(self, rule: str, shown: Any = _OWN) -> None:
        """Add the error of a value that breaks a rule."""
        self.errors.append(field_errors.invalid(self.path, self.value if shown is _OWN else shown, rule))

    def required(self, rule: str = "") -> None:
        """Add the error of a missing value."""
        self.errors.append(field_errors.required(self.path, rule))

    def forbidden(self, rule: str) -> None:
        """Add the error of a field that may not be set."""
        self.errors.append(field_errors.forbidden(self.path, rule))

    def duplicate(self, shown: Any = _OWN, rule: str = "") -> None:
        """Add the error of a value that occurs twice."""
        self.errors.append(field_errors.duplicate(self.path, self.value if shown is _OWN else shown, rule))

    def not_supported(self, supported: Iterable[str], shown: Any = _OWN) -> None:
        """Add the error of a value that is not one of the supported ones."""
        self.errors.append(field_errors.not_supported(self.path, self.value if shown is _OWN else shown, supported))

    def broken(self, rules: Iterable[str], shown: Any = _OWN) -> None:
        """Add an error for each of the broken rules."""
        for rule in rules:
            self.invalid(rule, shown)

    def check(self, errors: Iterable[FieldError]) -> None:
        """Add errors that were found elsewhere."""
        self.errors.extend(errors)

    def check_unique(self, seen: set[Any], identity: Any = _OWN) -> None:
        """Check that the value, or the identity, is not among those that were seen, and add it to them."""
        known = self.value if identity is _OWN else identity
        if known in seen:
            self.duplicate(known)
        seen.add(known)

    def check_set(self, rule: str = "") -> bool:
        """Check that the value is not empty, and return whether that holds."""
        if not self.value:
            self.required(rule)
        return bool(self.value)

    def check_supported(self, supported: Collection[str]) -> None:
        """Check that the value is one of the supported ones. None is not."""
        if self.value not in supported:
            self.not_supported(supported)

    def check_one_of(self, supported: Collection[str]) -> None:
        """Check that the text exists and is one of the supported ones."""
        if not self.text:
            self.required()
        else:
            self.check_supported(supported)

    def check_known(self, supported: Collection[str]) -> None:
        """Check that the text is one of the supported ones. An empty one is valid."""
        if self.text:
            self.check_supported(supported)

    def check_within(self, least: int, most: int, rule: str = "must be between {} and {}, inclusive") -> None:
        """Check that the number is not outside of the bounds. None is valid."""
        if self.number is not None and not least <= self.number <= most:
            self.invalid(rule.format(least, most))

    def check_not_negative(self, *names: str) -> None:
        """Check that the number, or those in the named fields, is not negative. None is valid."""
        for field in [self[name] for name in names] or (self,):
            if field.number is not None and field.number < 0:
                field.invalid(_NOT_NEGATIVE)

    def check_amount(self) -> None:
        """Check a number that may be a percentage: `2` or `25%`."""
        if isinstance(self.value, str):
            self.broken(names.check_percent(self.value))
        elif isinstance(self.value, int) and self.value < 0:
            self.invalid(_NOT_NEGATIVE)

    def check_not_more_than_all(self) -> None:
        """Check that a percentage is not more than 100."""
        if isinstance(self.value, str) and not names.check_percent(self.value) and self.amount > 100:  # noqa: PLR2004 - all
            self.invalid("must not be greater than 100%")

    @property
    def amount(self) -> int:
        """The number of a number or a percentage. 0 for anything else."""
        if isinstance(self.value, str):
            digits = self.value.removesuffix("%")
            return int(digits[:18]) if digits.isascii() and digits.isdigit() else 0
        return self.value if isinstance(self.value, int) else 0

    def check_dns_label(self) -> None:
        """Check that the text is a DNS label."""
        self.broken(names.check_dns_label(self.text, names.OLDER), self.text)

    def check_dns_subdomain(self) -> None:
        """Check that the text is a DNS subdomain."""
        self.broken(names.check_dns_subdomain(self.text, names.OLDER), self.text)

    def check_qualified_name(self) -> None:
        """Check that the text is the key of a label."""
        self.broken(names.check_qualified_name(self.text), self.text)

    def check_port(self) -> None:
        """Check that the number is a port."""
        self.check_within(1, _LAST_PORT)

    def check_labels(self) -> None:
        """Check keys and values of labels, in the order of the keys."""
        for key, one in sorted(self.fields.items()):
            self.broken(names.check_qualified_name(key), key)
            self.broken(names.check_label_value(one), one)

    def check_label_selector(self) -> None:
        """Check a label selector. None is valid."""
        self["matchLabels"].check_labels()
        for requirement in self["matchExpressions"].objects():
            requirement.check_operator((IN, NOT_IN, EXISTS, DOES_NOT_EXIST))
            requirement["key"].check_qualified_name()
            requirement["values"].check_label_values()

    def check_operator(self, supported: Sequence[str]) -> None:
        """Check the operator of a requirement, and that there are values if and only if it needs them."""
        operator, values = self["operator"], self["values"]
        if operator.text in {IN, NOT_IN} and not values.items:
            values.required("must be specified when `operator` is 'In' or 'NotIn'")
        elif operator.text in {EXISTS, DOES_NOT_EXIST} and values.items:
            values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        if operator.text not in supported:
            operator.invalid("not a valid selector operator", operator.text)

    def check_label_values(self) -> None:
        """Check the values of a requirement."""
        for one in self.each():
            one.broken(names.check_label_value(one.value))


def read(model: BaseModel, path: str = "") -> CheckedField:
    """Return an object, or a part of it, in the form of its API."""
    return CheckedField(model.model_dump(by_alias=True), path)
