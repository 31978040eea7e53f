"""Hypothesis strategies for every event model, built from the models' annotations."""

from __future__ import annotations

import types
from datetime import UTC, datetime
from enum import Enum
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import annotated_types as at
from hypothesis import strategies as st
from pydantic import AwareDatetime, BaseModel, StringConstraints
from pydantic.fields import FieldInfo

M = TypeVar("M", bound=BaseModel)

INSTANTS = st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - hypothesis requires naive bounds
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def instances(model: type[M]) -> st.SearchStrategy[M]:
    """Instances of a model with every required field and any of the others."""
    required: dict[str, st.SearchStrategy[Any]] = {}
    optional: dict[str, st.SearchStrategy[Any]] = {}
    for name, field in model.model_fields.items():
        (required if field.is_required() else optional)[name] = _of_field(field)
    return st.fixed_dictionaries(required, optional=optional).map(lambda values: model(**values))


def _of_field(field: FieldInfo) -> st.SearchStrategy[Any]:
    return _of(field.annotation, list(field.metadata))


def _of(annotation: Any, constraints: list[Any]) -> st.SearchStrategy[Any]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _of(arguments[0], [*arguments[1:], *constraints])
    if origin in (Union, types.UnionType):
        return st.one_of([st.none() if one is type(None) else _of(one, constraints) for one in arguments])
    if origin in (tuple, list):
        some = st.lists(_of(arguments[0], []), min_size=_limit(constraints, at.MinLen) or 0, max_size=3)
        return some.map(tuple) if origin is tuple else some
    if origin is dict:
        values = JSON if arguments[1] is Any else _of(arguments[1], [])
        return st.dictionaries(st.text(max_size=12), values, max_size=3)
    if annotation in (datetime, AwareDatetime):
        return INSTANTS
    if isinstance(annotation, type):
        return _of_class(annotation, constraints)
    raise NotImplementedError(f"no strategy for {annotation!r}; add one here")


def _of_class(annotation: type, constraints: list[Any]) -> st.SearchStrategy[Any]:
    if issubclass(annotation, Enum):
        return st.sampled_from(list(annotation))
    if issubclass(annotation, BaseModel):
        return instances(annotation)
    if annotation is bool:
        return st.booleans()
    if annotation is int:
        return st.integers(_limit(constraints, at.Ge) or 0, 2**31)
    if annotation is float:
        return st.floats(_limit(constraints, at.Ge) or 0, 1e6)
    if annotation is str:
        return _text(constraints)
    raise NotImplementedError(f"no strategy for {annotation!r}; add one here")


def _text(constraints: list[Any]) -> st.SearchStrategy[str]:
    patterns = [rule.pattern for rule in constraints if getattr(rule, "pattern", None)]
    if patterns:
        return st.from_regex(str(patterns[0]), fullmatch=True).filter(lambda text: 0 < len(text) <= 64)
    shortest = max([getattr(rule, "min_length", None) or 0 for rule in constraints], default=0)
    return st.text(min_size=shortest, max_size=24)


def _limit(constraints: list[Any], kind: type) -> int | None:
    for rule in constraints:
        if isinstance(rule, kind):
            return int(getattr(rule, "ge", None) or getattr(rule, "min_length", None) or 0)
        if isinstance(rule, StringConstraints) and kind is at.MinLen:
            return rule.min_length
    return None
