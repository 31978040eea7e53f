"""How a schema's values lie in protobuf: which fields a message has, and of which wire type values are."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Final

from moorage.apiserver.machinery.openapi.definitions import META
from moorage.apiserver.machinery.protobuf.wire import BYTES, FIXED64, VARINT
from moorage.apiserver.machinery.schema import Field, Form, Schema

MICRO_TIME: Final = f"{META}.MicroTime"
"""The definition of an instant with microseconds. Others have seconds."""

ONLY: Final = 1
"""The number of the one field of messages that stand for a value: a quantity, embedded JSON, a list in a map."""


@dataclass(slots=True)
class MessageLayout:
    """The fields of a message by their numbers."""

    fields: dict[int, Field] = field(default_factory=dict)
    embedded: dict[int, MessageLayout] = field(default_factory=dict)
    """Messages whose fields JSON shows beside those of the message that they are in."""


@cache
def layout(schema: Schema) -> MessageLayout:
    """Return how the message of a struct is laid out."""
    made = MessageLayout()
    for one in schema.fields.values():
        if one.number:
            at = made
            for number in one.within:
                at = at.embedded.setdefault(number, MessageLayout())
            at.fields[one.number] = one
    return made


def wire_type(schema: Schema) -> int:
    """The wire type of one value."""
    return {Form.INTEGER: VARINT, Form.BOOLEAN: VARINT, Form.NUMBER: FIXED64}.get(schema.form, BYTES)


def is_repeated(schema: Schema) -> bool:
    """Whether each element of a list is a field. A list whose type has a name is a message that has the elements."""
    return schema.form is Form.LIST and not schema.type_name
