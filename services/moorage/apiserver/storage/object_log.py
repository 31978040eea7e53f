"""The object log: all objects as the API shows them, in the order of their changes.

It is one partition of the topic `objects`, so it has one order, and versions follow from it: the resource version of
an object is the offset of its record plus one, and that of a list is the version of the latest record that it includes.
Every gateway gives the same versions, before and after a restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import orjson

from moorage.apiserver.kinds.status.records import ObjectId
from moorage_schemas.shown import ObjectShown

_HEAD: Final = b'{"object":'
_TAIL: Final = b"}"
_BEGINS: Final = b'{"apiVersion":"'
_METADATA: Final = b'"metadata":{'


class LoggedRecord(NamedTuple):
    """One record of the object log."""

    offset: int
    key: str
    value: bytes | None
    """None for a tombstone."""

    @property
    def version(self) -> int:
        """The resource version of the object that it shows."""
        return self.offset + 1


class Emission(NamedTuple):
    """A change of an object that is to be appended to the object log."""

    object_id: ObjectId
    json: bytes | None
    """The object without its resource version (`json_of`). None if it was deleted."""

    @property
    def value(self) -> bytes | None:
        """The value of its record."""
        return None if self.json is None else value_of(self.json)


def json_of(document: Mapping[str, Any]) -> bytes:
    """Return an object as the log has it: without its resource version, and with `metadata` first."""
    metadata = document["metadata"]
    if "resourceVersion" in metadata:
        metadata = {name: value for name, value in metadata.items() if name != "resourceVersion"}
    head = {"apiVersion": document.get("apiVersion", ""), "kind": document.get("kind", ""), "metadata": metadata}
    return orjson.dumps({**head, **{name: value for name, value in document.items() if name not in head}})


def value_of(json: bytes) -> bytes:
    """Return the value of the record that shows an object (`json_of`)."""
    return _HEAD + json + _TAIL


def with_version(json: bytes, version: int) -> bytes:
    """Return an object as the API shows it: with its resource version."""
    if not version:
        return json
    at = json.index(_METADATA) + len(_METADATA)
    comma = b"" if json[at : at + 1] == b"}" else b","
    return b'%s"resourceVersion":"%d"%s%s' % (json[:at], version, comma, json[at:])


def object_in(value: bytes) -> bytes | None:
    """Return the object in the value of a record (`json_of`). None if the record shows none.

    Raises:
        ValueError: the value is not an event of the topic.
    """
    json = value[len(_HEAD) : -len(_TAIL)]
    if value.startswith(_HEAD) and json.startswith(_BEGINS) and _METADATA in json:
        return json
    found = ObjectShown.model_validate_json(value, extra="ignore").object
    return json_of(found) if found else None
