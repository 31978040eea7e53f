"""Label selectors and node selectors, as Kubernetes evaluates them.

An absent label selector (None) selects nothing, an empty one selects everything. An empty term of a node selector
selects nothing. An invalid requirement (an unknown operator, or `Gt` without exactly one integer) selects nothing here;
`check_requirement` returns the error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from moorage.decide.kubernetes.quantities import canonical_int64
from moorage_schemas.resources.meta import LabelSelector, SelectorRequirement
from moorage_schemas.resources.pod import NodeSelector, NodeSelectorTerm

NAME_FIELD: Final = "metadata.name"
"""The only field that `matchFields` supports."""

IN: Final = "In"
NOT_IN: Final = "NotIn"
EXISTS: Final = "Exists"
DOES_NOT_EXIST: Final = "DoesNotExist"
GT: Final = "Gt"
LT: Final = "Lt"
LABEL_OPERATORS: Final = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST)
NODE_OPERATORS: Final = (*LABEL_OPERATORS, GT, LT)

_INT64: Final = 1 << 63


def check_requirement(requirement: SelectorRequirement, *, node: bool) -> str:
    """Check a requirement. Returns the error as text, or an empty text if the requirement is valid.

    Args:
        requirement: the requirement to check.
        node: whether it is part of a node selector, where `Gt` and `Lt` are valid too.
    """
    operator, values = requirement.operator, requirement.values or []
    if operator in {IN, NOT_IN}:
        return "" if values else "must be specified when `operator` is 'In' or 'NotIn'"
    if operator in {EXISTS, DOES_NOT_EXIST}:
        return "may not be specified when `operator` is 'Exists' or 'DoesNotExist'" if values else ""
    if node and operator in {GT, LT}:
        if len(values) != 1:
            return "must be specified single value when `operator` is 'Lt' or 'Gt'"
        return "" if _integer(values[0]) is not None else "must be an integer when `operator` is 'Lt' or 'Gt'"
    known = ", ".join(NODE_OPERATORS if node else LABEL_OPERATORS)
    return f"{operator!r} is not a valid selector operator; one of {known}"


def test_of(requirement: SelectorRequirement, *, node: bool) -> Callable[[str | None], bool]:
    """Turn a requirement into a test of one label's value. None stands for an absent label.

    `NotIn` matches an absent label. An invalid requirement never matches.
    """
    if check_requirement(requirement, node=node):
        return lambda _: False
    operator, values = requirement.operator, frozenset(requirement.values or ())
    if operator == IN:
        return lambda value: value in values
    if operator == NOT_IN:
        return lambda value: value not in values
    if operator == EXISTS:
        return lambda value: value is not None
    if operator == DOES_NOT_EXIST:
        return lambda value: value is None
    return _comparison(operator, next(iter(values)))


def requirement_text(requirement: SelectorRequirement) -> str:
    """Return a requirement on one line: `disk In [ssd, nvme]`, `gpu Exists`."""
    values = f" [{', '.join(requirement.values)}]" if requirement.values else ""
    return f"{requirement.key} {requirement.operator}{values}"


def matches_labels(selector: LabelSelector | None, labels: Mapping[str, str] | None) -> bool:
    """Return whether a label selector selects an object with these labels."""
    if selector is None:
        return False
    present = labels or {}
    return all(present.get(key) == value for key, value in (selector.match_labels or {}).items()) and all(
        test_of(requirement, node=False)(present.get(requirement.key))
        for requirement in selector.match_expressions or ()
    )


def matches_node_selector(selector: NodeSelector, labels: Mapping[str, str] | None, name: str) -> bool:
    """Return whether at least one of the terms selects the node."""
    return any(matches_node_term(term, labels, name) for term in selector.node_selector_terms)


def matches_node_term(term: NodeSelectorTerm, labels: Mapping[str, str] | None, name: str) -> bool:
    """Return whether every requirement of a term matches the node. An empty term selects nothing."""
    expressions, fields = term.match_expressions or (), term.match_fields or ()
    if not expressions and not fields:
        return False
    present = labels or {}
    return all(test_of(r, node=True)(present.get(r.key)) for r in expressions) and matches_fields(fields, name)


def matches_fields(fields: Iterable[SelectorRequirement], name: str) -> bool:
    """Return whether the requirements on fields match: `metadata.name` with `In` or `NotIn` and one value."""
    return all(field_holds(requirement, name) for requirement in fields)


def field_holds(requirement: SelectorRequirement, name: str) -> bool:
    """Return whether one requirement on a field matches a node of this name. An invalid requirement never matches."""
    values = requirement.values or []
    if requirement.key != NAME_FIELD or len(values) != 1 or requirement.operator not in {IN, NOT_IN}:
        return False
    return (values[0] == name) == (requirement.operator == IN)


def _comparison(operator: str, limit_text: str) -> Callable[[str | None], bool]:
    limit = _integer(limit_text)

    def holds(value: str | None) -> bool:
        number = _integer(value) if value is not None else None
        if number is None or limit is None:
            return False
        return number > limit if operator == GT else number < limit

    return holds


def _integer(text: str) -> int | None:
    """Parse a 64-bit integer with an optional sign and leading zeros. This is more lenient than for tolerations."""
    if (exact := canonical_int64(text)) is not None:
        return exact
    digits = text[1:] if text[:1] in {"+", "-"} else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 64:  # noqa: PLR2004 - far beyond 64 bits
        return None
    number = int(text)
    return number if -_INT64 <= number < _INT64 else None
