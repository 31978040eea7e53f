"""What upstream says of a value that cannot become a field of its built-in types after a strategic merge patch.

Such a patch is applied to values in memory, so the words are those of their conversion, and not of a JSON decoder.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moorage.apiserver.machinery.openapi.built_in import DecodeError, kind_of, type_name
from moorage.apiserver.machinery.schema import Form, Schema

_RESTORED: Final[Mapping[Form, str]] = {
    Form.STRUCT: "cannot restore struct from: {}",
    Form.LIST: "cannot restore slice from {}",
    Form.MAP: "cannot restore map from {}",
}
_DECODE_THEMSELVES: Final = frozenset({Form.TIME, Form.INT_OR_STRING, Form.QUANTITY})


_BASE64: Final = "illegal base64 data"


def conversion_flaw(error: DecodeError) -> str:
    """Return what is wrong with a document, in the words of a conversion.

    Args:
        error: what is wrong, in the words of a decoder.
    """
    if error.mistyped is None:
        return f"error decoding from json: {error.reason}" if error.reason.startswith(_BASE64) else error.reason
    schema, value = error.mistyped
    if schema.form in _DECODE_THEMSELVES:
        return error.reason
    return _flaw(schema, _type(value))


def _flaw(schema: Schema, found: str) -> str:
    if (words := _RESTORED.get(schema.form)) is not None:
        return words.format(found)
    if schema.format == "byte":
        return _RESTORED[Form.LIST].format(found)
    kind = kind_of(schema)
    # Upstream's language converts whole numbers to texts, and numbers to each other, so these fail later than others.
    if (found == "int64" and kind != "bool") or (found == "float64" and kind not in {"bool", "string"}):
        return f"cannot convert {found} to {type_name(schema)}"
    return f"unrecognized type: {kind}"


def _type(value: Any) -> str:
    """What upstream calls a value of JSON in memory."""
    match value:
        case bool():
            return "bool"
        case int():
            return "int64"
        case float():
            return "float64"
        case str():
            return "string"
        case Mapping():
            return "map"
    return "slice"
