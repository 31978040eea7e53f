"""The structure of values of the API that patches, apply, validation, OpenAPI and protobuf all read.

A kind's schema is a tree of `Schema`. It contains only the content of the tags of upstream's own types: names, forms,
what lists are keyed by, how a patch is merged, and the numbers of protobuf fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final


class Form(Enum):
    """The form of a value in JSON."""

    STRUCT = "struct"
    """An object with named fields."""

    MAP = "map"
    """An object with any keys, and values of one schema (`items`)."""

    LIST = "list"
    """An array, with elements of one schema (`items`)."""

    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    INT_OR_STRING = "int-or-string"
    QUANTITY = "quantity"
    """A number with a unit (`resource.Quantity`): a string, or a number that is written as one."""

    TIME = "time"
    """An instant (`metav1.Time` or `metav1.MicroTime`), as RFC 3339."""

    ANY = "any"
    """Any JSON."""


ZEROS: Final[Mapping[Form, Any]] = {
    Form.STRING: "",
    Form.INTEGER: 0,
    Form.INT_OR_STRING: 0,
    Form.NUMBER: 0,
    Form.BOOLEAN: False,
    Form.QUANTITY: "0",
}
"""The zero values of upstream's types."""


class ListType(Enum):
    """How server-side apply merges a list (`x-kubernetes-list-type`)."""

    ATOMIC = "atomic"
    """It is replaced whole, and has one owner."""

    SET = "set"
    """Its elements are scalars, each with its own owner."""

    MAP = "map"
    """Its elements are objects that the fields in `Schema.list_keys` identify."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct."""

    name: str
    """Its name in JSON."""

    schema: Schema
    required: bool = False
    number: int = 0
    """Its number in protobuf. 0 if it has none."""

    within: tuple[int, ...] = ()
    """The numbers of the messages around it in protobuf, the outermost first, of a field that JSON shows further out:
    a volume's `emptyDir` is in the message of the volume's source."""

    embedded: tuple[str, ...] = ()
    """The names of upstream's types for those messages, which messages of its decoder contain: `VolumeSource`."""

    is_pointer: bool = False
    """Whether upstream's type distinguishes an absent field from the zero value."""

    omits_empty: bool = False
    """Whether upstream leaves the field out of JSON if it has the zero value and is no pointer."""

    description: str = ""
    """The meaning of the field in plain text, or empty."""


@dataclass(slots=True, eq=False)
class Schema:
    """The structure of a value. Schemas may refer to each other in a circle. None changes after it has been made."""

    form: Form
    name: str = ""
    """The name of a definition: `io.k8s.api.core.v1.PodSpec`. Empty for a value that is written where it is used."""

    fields: Mapping[str, Field] = field(default_factory=dict)
    """The fields of a struct, by their names in JSON."""

    items: Schema | None = None
    """The elements of a list, or the values of a map."""

    list_type: ListType = ListType.ATOMIC
    list_keys: tuple[str, ...] = ()
    """The fields that identify the elements of a list, for `ListType.MAP` (`x-kubernetes-list-map-keys`)."""

    is_atomic: bool = False
    """Whether server-side apply replaces a struct or a map whole (`x-kubernetes-map-type: atomic`)."""

    patch_strategies: frozenset[str] = frozenset()
    """`merge`, `replace`, `retainKeys` (`x-kubernetes-patch-strategy`), for strategic merge patches."""

    merge_key: str = ""
    """The field by which a strategic merge patch identifies the elements of a list (`x-kubernetes-patch-merge-key`).
    Empty with the strategy `merge` for a list of scalars, which is merged as a set."""

    keeps_unknown: bool = False
    """Whether fields that the schema does not name are kept (`x-kubernetes-preserve-unknown-fields`)."""

    format: str = ""
    """`int32`, `int64`, `double`, `byte` or `date-time`, as in OpenAPI. Empty if there is none."""

    enum: tuple[str, ...] = ()
    """The values that a string may have. Empty if it may have any."""

    constraints: Mapping[str, Any] = field(default_factory=dict)
    """The limits of a value, in OpenAPI's words: `pattern`, `minimum`, `maximum`, `minLength`, `maxLength`,
    `minItems`, `maxItems`."""

    type_name: str = ""
    """The name of a value's type in messages of upstream's decoder, where it is not that of its form:
    `v1.TaintEffect`."""

    description: str = ""
    """The meaning of the value in plain text, or empty."""

    default: Any = None
    """The value of a field that is left out, as in OpenAPI. None if there is none."""

    is_nullable: bool = False

    def at(self, name: str) -> Schema | None:
        """Return the schema of a field of a struct, or of any value of a map. None if there is no such field."""
        if self.form is Form.STRUCT:
            found = self.fields.get(name)
            return found.schema if found is not None else None
        return self.items if self.form is Form.MAP else None
