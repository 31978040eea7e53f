"""Label selectors of the OCM dialect, over labels and over claims, with upstream's error messages.

Kubernetes validates the keys and values of a selector when it parses the selector, and an invalid selector is an error.
In `apimachinery.selectors`, by contrast, an invalid requirement is one that never matches.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from moorage.decide.kubernetes.field_errors import FieldError, invalid
from moorage.decide.kubernetes.names import OLDER, check_label_value, check_qualified_name
from moorage.decide.kubernetes.selectors import DOES_NOT_EXIST, EXISTS, IN, LABEL_OPERATORS, NOT_IN
from moorage_schemas.resources.meta import LabelSelector

_RULES: Final = {
    IN: "for 'in', 'notin' operators, values set can't be empty",
    NOT_IN: "for 'in', 'notin' operators, values set can't be empty",
    EXISTS: "values set must be empty for exists and does not exist",
    DOES_NOT_EXIST: "values set must be empty for exists and does not exist",
}


class SelectorError(ValueError):
    """A selector is invalid. The text is upstream's."""


@dataclass(frozen=True, slots=True)
class LabelTerms:
    """The requirements of a selector, ANDed. Without any, the selector selects everything.

    Each is (key, operator, values). An entry of `matchLabels` is a requirement with `In` and one value.
    """

    requirements: tuple[tuple[str, str, frozenset[str]], ...] = ()

    @classmethod
    def of(cls, selector: LabelSelector) -> LabelTerms:
        """Parse a selector.

        Raises:
            SelectorError: the first key, value, operator or number of values that is invalid.
        """
        made = []
        for key, value in (selector.match_labels or {}).items():
            _check(key, IN, [value])
            made.append((key, IN, frozenset({value})))
        for requirement in selector.match_expressions or ():
            operator, values = requirement.operator, requirement.values or []
            if operator not in LABEL_OPERATORS:
                shown = json.dumps(operator, ensure_ascii=False)
                raise SelectorError(f"{shown} is not a valid label selector operator")
            _check(requirement.key, operator, values)
            made.append((requirement.key, operator, frozenset(values)))
        return cls(tuple(made))

    def hold(self, labels: Mapping[str, str]) -> bool:
        """Return whether the selector matches these labels or claims."""
        for key, operator, values in self.requirements:
            there = key in labels
            if operator == IN:
                good = there and labels[key] in values
            elif operator == NOT_IN:
                good = not there or labels[key] not in values
            else:
                good = there == (operator == EXISTS)
            if not good:
                return False
        return True


def _check(key: str, operator: str, values: list[str]) -> None:
    errors: list[FieldError] = []
    if wrong := check_qualified_name(key, OLDER):
        errors.append(invalid("key", key, "; ".join(wrong)))
    if bool(values) == (operator in {EXISTS, DOES_NOT_EXIST}):
        errors.append(invalid("values", values or None, _RULES[operator]))
    errors += [
        invalid(f"values[{i}][{key}]", value, "; ".join(wrong))
        for i, value in enumerate(values)
        if (wrong := check_label_value(value, OLDER))
    ]
    if not errors:
        return
    texts = list(dict.fromkeys(map(str, errors)))
    raise SelectorError(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
