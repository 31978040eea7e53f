"""Definitions of upstream's types, by their names. Each is built from the files of data when it is first used."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any, Final

from moorage.apiserver.machinery.openapi import data
from moorage.apiserver.machinery.schema import Field, Form, ListType, Schema

META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
"""The package of the definitions that all kinds share."""

_DEFINITIONS: Final[dict[str, Schema]] = {}
"""Definitions that are built."""

_BEING_BUILT: Final[dict[str, Schema]] = {}
"""Definitions that are being built, because they may refer to each other in a circle. Only one thread builds any."""

_LOCK: Final = threading.RLock()


def definition(name: str) -> Schema:
    """Return a definition of upstream's by its name, such as `io.k8s.api.core.v1.PodSpec`.

    Raises:
        LookupError: there is no such definition.
    """
    if (found := _DEFINITIONS.get(name)) is not None:
        return found
    with _LOCK:
        return _built(name)


def _built(name: str) -> Schema:
    """Build a definition and those that it refers to. They are found by others when all of them are whole."""
    for known in (_DEFINITIONS, _BEING_BUILT):
        if (found := known.get(name)) is not None:
            return found
    said = data.native()["definitions"].get(name)
    if said is None:
        raise LookupError(f"there is no definition {name}")
    is_first = not _BEING_BUILT
    made = _BEING_BUILT[name] = Schema(Form(said["form"]), name=name)
    try:
        _fill(made, said)
        if is_first:
            _DEFINITIONS.update(_BEING_BUILT)
    finally:
        if is_first:
            _BEING_BUILT.clear()
    return made


@cache
def list_of(item: Schema) -> Schema:
    """Return the structure of a list of objects."""
    text, metadata = Schema(Form.STRING), definition(f"{META}.ListMeta")
    shown = {
        "apiVersion": Field("apiVersion", text, omits_empty=True),
        "items": Field("items", Schema(Form.LIST, items=item), required=True, number=2),
        "kind": Field("kind", text, omits_empty=True),
        "metadata": Field("metadata", metadata, number=1),
    }
    return Schema(Form.STRUCT, name=f"{item.name}List", fields=shown)


def from_data(said: Mapping[str, Any], name: str) -> Schema:
    """Return the structure that a kind's data describes, under a name of its own."""
    made = Schema(Form.STRUCT, name=name)
    _fill(made, said)
    return made


def _schema(said: Mapping[str, Any]) -> Schema:
    """Return the schema of a field, of an element or of a map's value."""
    if "ref" not in said:
        made = Schema(Form(said["form"]))
        _fill(made, said)
        return made
    target = definition(said["ref"])
    if not said.keys() & _OF_A_USE:
        return target
    return replace(
        target,
        patch_strategies=frozenset(said.get("patch_strategies", ())),
        is_atomic=said.get("is_atomic", target.is_atomic),
        is_nullable=said.get("is_nullable", False),
        default=said.get("default"),
    )


_OF_A_USE: Final = frozenset({"patch_strategies", "is_atomic", "is_nullable", "default"})
"""The keys that the use of a definition may add."""


def _fill(made: Schema, said: Mapping[str, Any]) -> None:
    """Fill a schema from its data."""
    if "fields" in said:
        made.fields = inner = dict[str, Field]()
        inner.update((name, _field(name, one)) for name, one in said["fields"].items())
    if "items" in said:
        made.items = _schema(said["items"])
    for name in said.keys() & _PLAIN:
        setattr(made, name, _CONVERTED.get(name, _same)(said[name]))


def _same(value: Any) -> Any:
    return value


_CONVERTED: Final[Mapping[str, Callable[[Any], Any]]] = {
    "embedded": tuple,
    "enum": tuple,
    "list_keys": tuple,
    "list_type": ListType,
    "patch_strategies": frozenset,
    "within": tuple,
}
"""The keys of the data with lists and texts."""

_PLAIN: Final = {one.name for one in fields(Schema)} - {"form", "name", "fields", "items"}
_OF_FIELD: Final = {one.name for one in fields(Field)} - {"name", "schema"}


def _field(name: str, said: Mapping[str, Any]) -> Field:
    found = {one: _CONVERTED.get(one, _same)(said[one]) for one in said.keys() & _OF_FIELD}
    return Field(name, _schema(said), **found)
