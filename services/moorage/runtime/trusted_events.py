"""Events made of values that are known to be right, without checking them again.

Only for what a service decides itself out of what it has read, and reading checks: ten thousand evictions a second are
as many models, and checking each costs more than deciding it. What third parties write never comes this way.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from moorage_schemas.base import Model
from moorage_schemas.keys import ResourceKey
from moorage_schemas.refs import TargetRef, WorkloadRef

M = TypeVar("M", bound=Model)

_set = object.__setattr__


class _Fields(NamedTuple):
    """The fields of a model."""

    blank: dict[str, Any]
    """Each with its default, in order; None for those that have none."""

    required: frozenset[str]
    names: set[str]
    """All of them: one set for all instances, which are frozen."""


def trusted(model: type[M], /, **values: Any) -> M:
    """An event, or a part of one, as `model(**values)` makes it.

    Args:
        model: what is made.
        values: fields by their Python names, each of exactly the type that validation would leave (instants in UTC,
            enumerations, tuples).

    Raises:
        TypeError: a field is missing, or there is no such field.
    """
    fields = _fields(model)
    made_of, count = {**fields.blank, **values}, len(fields.blank)
    if len(made_of) != count or (len(values) != count and not fields.required <= values.keys()):
        wrong = sorted((values.keys() - fields.names) | (fields.required - values.keys()))
        raise TypeError(f"{model.__name__}: missing or unknown: {', '.join(wrong)}")
    return _made(model, made_of, fields.names)


def workload_ref(key: str) -> WorkloadRef:
    """The workload of a key that came from a checked event."""
    return _made(WorkloadRef, ResourceKey.parse(key)._asdict(), _fields(WorkloadRef).names)


@lru_cache(maxsize=4096)
def target_ref(key: str) -> TargetRef:
    """The target of a key: one object for all that happens on it.

    Raises:
        ValueError: the text is not `Kind/name` with a known kind.
    """
    return TargetRef.parse(key)


def _made(model: type[M], values: dict[str, Any], names: set[str]) -> M:
    """A model of all its fields, in order; it keeps the mapping."""
    made = model.__new__(model)
    # The four parts of a pydantic model, as its own `model_construct` sets them; a test holds the two ways together.
    _set(made, "__dict__", values)
    _set(made, "__pydantic_fields_set__", names)
    _set(made, "__pydantic_extra__", None)
    _set(made, "__pydantic_private__", None)
    return made


@lru_cache(maxsize=64)
def _fields(model: type[Model]) -> _Fields:
    required = frozenset(name for name, field in model.model_fields.items() if field.is_required())
    blank = {name: None if name in required else field.default for name, field in model.model_fields.items()}
    made = [name for name, field in model.model_fields.items() if field.default_factory is not None]
    if made:
        raise TypeError(f"{model.__name__}: has defaults that are made anew each time: {', '.join(made)}")
    return _Fields(blank, required, set(blank))
