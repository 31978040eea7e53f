"""Creates events from values that are known to be valid, without validating them again.

Use this only for events that a service derives from records that it has read, because these are validated when they are
read. Ten thousand evictions a second are as many models, and validating one takes longer than deciding it. Records of
third parties are created in this way only from rows, which are as strict as the models.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel

from moorage_schemas.base import Model
from moorage_schemas.keys import ResourceKey
from moorage_schemas.refs import TargetRef, WorkloadRef

M = TypeVar("M", bound=Model)

_new = BaseModel.__new__
_set_values: Callable[[BaseModel, Any], None] = vars(BaseModel)["__dict__"].__set__
_set_names: Callable[[BaseModel, Any], None] = vars(BaseModel)["__pydantic_fields_set__"].__set__
_set_extra: Callable[[BaseModel, Any], None] = vars(BaseModel)["__pydantic_extra__"].__set__
_set_private: Callable[[BaseModel, Any], None] = vars(BaseModel)["__pydantic_private__"].__set__


class _Fields(NamedTuple):
    """The fields of a model."""

    blank: dict[str, Any]
    """Each field with its default, in order; None for required fields."""

    required: frozenset[str]
    """The fields without a default, and those whose default is created again each time."""

    names: set[str]
    """The names of all fields: one set for all instances, which are frozen."""


def trusted(model: type[M], /, **values: Any) -> M:
    """Return an event, or a part of one, equal to `model(**values)`.

    Args:
        model: the model to create.
        values: fields by their Python names, each of exactly the type that validation would produce (instants in UTC,
            enumerations, tuples). A field whose default is created again each time must be given.

    Raises:
        TypeError: a field is missing, or there is no such field.
    """
    fields = _fields(model)
    made_of, count = {**fields.blank, **values}, len(fields.blank)
    if len(made_of) != count or (len(values) != count and not fields.required <= values.keys()):
        wrong = sorted((values.keys() - fields.names) | (fields.required - values.keys()))
        raise TypeError(f"{model.__name__}: missing or unknown: {', '.join(wrong)}")
    return _made(model, made_of, fields.names)


def trusted_maker(model: type[M]) -> Callable[[dict[str, Any]], M]:
    """Return a function that creates a model from a mapping of all its fields, in their order.

    The model keeps the mapping. The values are as for `trusted`. Nothing is checked, because this is for code that runs
    for every report and names its fields in one place.
    """
    names = _fields(model).names

    def make(values: dict[str, Any]) -> M:
        made = _new(model)  # as `_made`, without a call
        _set_values(made, values)
        _set_names(made, names)
        _set_extra(made, None)
        _set_private(made, None)
        return made

    return make


def workload_ref(key: str) -> WorkloadRef:
    """Return the workload of a key that came from a validated event."""
    return _made(WorkloadRef, ResourceKey.parse(key)._asdict(), _fields(WorkloadRef).names)


@lru_cache(maxsize=4096)
def target_ref(key: str) -> TargetRef:
    """Return the target of a key. All records about one target share the same object.

    Raises:
        ValueError: the text is not `Kind/name` with a known kind.
    """
    return TargetRef.parse(key)


def _made(model: type[M], values: dict[str, Any], names: set[str]) -> M:
    """Create a model from all its fields, in order. The model keeps the mapping."""
    made = _new(model)
    # These are the four parts of a pydantic model, set as in `model_construct`. A test checks that both ways agree.
    _set_values(made, values)
    _set_names(made, names)
    _set_extra(made, None)
    _set_private(made, None)
    return made


@lru_cache(maxsize=64)
def _fields(model: type[Model]) -> _Fields:
    fields = model.model_fields.items()
    required = frozenset(name for name, field in fields if field.is_required() or field.default_factory is not None)
    blank = {name: None if name in required else field.default for name, field in fields}
    return _Fields(blank, required, set(blank))
