"""The objects that the API shows, as packed JSON.

A gateway keeps every object of the fleet. As nested dictionaries they would take ten times the memory, and the JSON is
what most answers are made of: a list or a watch without a selector sends it as it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from moorage.apiserver.kinds.status.records import ObjectId, ObjectMap
from moorage.apiserver.storage.object_log import json_of, with_version
from moorage.runtime.wire.packing import Packer

Document = Mapping[str, Any]

_VERSION = 6  # bytes of the version before the packed JSON


class ShownObject:
    """One object as the API shows it. It never changes: a change makes another one."""

    __slots__ = ("_packer", "kept")

    def __init__(self, packer: Packer, kept: bytes) -> None:
        self._packer = packer
        self.kept = kept

    @property
    def version(self) -> int:
        """Its resource version."""
        return int.from_bytes(self.kept[:_VERSION], "big")

    @property
    def unversioned(self) -> bytes:
        """The object without its resource version as JSON (`json_of`), unpacked each time."""
        return self._packer.unpack(self.kept[_VERSION:])

    @property
    def json(self) -> bytes:
        """The object with its resource version as JSON, unpacked each time."""
        return with_version(self.unversioned, self.version)

    @property
    def document(self) -> dict[str, Any]:
        """The object with its resource version, parsed each time. It is the caller's own."""
        found: dict[str, Any] = orjson.loads(self.json)
        return found

    def at(self, version: int) -> ShownObject:
        """Return the same object with another resource version."""
        return ShownObject(self._packer, version.to_bytes(_VERSION, "big") + self.kept[_VERSION:])


def unkept(version: int, document: Document) -> ShownObject:
    """Return an object that is shown once and kept nowhere."""
    return _packed(Packer(), version, json_of(document))


class ShownObjects:
    """All objects that are shown, by kind, namespace and name."""

    def __init__(self) -> None:
        self._kept = ObjectMap[bytes]()
        self._packers: defaultdict[str, Packer] = defaultdict(Packer)

    def __iter__(self) -> Iterator[ObjectId]:
        return iter(self._kept)

    def __contains__(self, object_id: ObjectId) -> bool:
        return object_id in self._kept

    def get(self, object_id: ObjectId) -> ShownObject | None:
        """Return the present state of an object. None if there is none."""
        kept = self._kept.get(object_id)
        return ShownObject(self._packers[object_id.place], kept) if kept is not None else None

    def sorted(self, place: str, namespace: str = "") -> Sequence[ShownObject]:
        """Return the objects of a kind (`place_of`) in one namespace or in all, by namespace and name.

        They are those of the present moment, however long it takes to go through them.
        """
        return ObjectsAtOnce(self._packers[place], list(self._kept.sorted(place, namespace)))

    def names(self, place: str, namespace: str = "") -> dict[str, list[str]]:
        """Return the names of the objects of a kind (`place_of`) by namespace, of one namespace or of all."""
        return self._kept.names(place, namespace)

    def put(self, object_id: ObjectId, version: int, json: bytes) -> ShownObject:
        """Keep an object."""
        shown = _packed(self._packers[object_id.place], version, json)
        self._kept.put(object_id, shown.kept)
        return shown

    def discard(self, object_id: ObjectId) -> None:
        """Forget an object."""
        self._kept.discard(object_id)


class ObjectsAtOnce(Sequence[ShownObject]):
    """Objects of one kind at one moment. Each is made on request."""

    __slots__ = ("_kept", "_packer")

    def __init__(self, packer: Packer, kept: Sequence[bytes]) -> None:
        self._packer = packer
        self._kept = kept

    def __len__(self) -> int:
        return len(self._kept)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return ObjectsAtOnce(self._packer, self._kept[index])
        return ShownObject(self._packer, self._kept[index])


def _packed(packer: Packer, version: int, json: bytes) -> ShownObject:
    return ShownObject(packer, version.to_bytes(_VERSION, "big") + packer.pack(json))
