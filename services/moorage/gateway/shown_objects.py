"""The objects that the API shows, as packed JSON.

A gateway keeps every object of the fleet. As nested dictionaries they would take ten times the memory, and the JSON is
what most answers are made of: a list or a watch without a selector sends it as it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from moorage.core.apimachinery.packing import Packer
from moorage.kinds.status.records import ObjectId, ObjectMap

Document = Mapping[str, Any]

_VERSION = 8  # bytes of the version before the packed JSON


class ShownObject:
    """One object as the API shows it. It never changes: a change makes another one.

    Args:
        packer: has packed it.
        kept: its version, and its packed JSON.
    """

    __slots__ = ("_packer", "kept")

    def __init__(self, packer: Packer, kept: bytes) -> None:
        self._packer = packer
        self.kept = kept

    @property
    def version(self) -> int:
        """Its resource version."""
        return int.from_bytes(self.kept[:_VERSION], "big")

    @property
    def json(self) -> bytes:
        """The object with its resource version as JSON, unpacked each time."""
        return self._packer.unpack(self.kept[_VERSION:])

    @property
    def document(self) -> dict[str, Any]:
        """The object with its resource version, parsed each time. It is the caller's own."""
        found: dict[str, Any] = orjson.loads(self.json)
        return found


def unkept(version: int, document: Document) -> ShownObject:
    """An object that is shown once and kept nowhere.

    Args:
        version: its resource version. 0 if it has none.
        document: the object, with that version.
    """
    packer = Packer()
    return ShownObject(packer, version.to_bytes(_VERSION, "big") + packer.pack(orjson.dumps(document)))


class ShownObjects:
    """All objects that are shown, by kind, namespace and name."""

    def __init__(self) -> None:
        self._kept = ObjectMap[bytes]()
        self._packers: defaultdict[str, Packer] = defaultdict(Packer)

    def get(self, object_id: ObjectId) -> ShownObject | None:
        """The present state of an object. None if there is none."""
        kept = self._kept.get(object_id)
        return ShownObject(self._packers[object_id.kind], kept) if kept is not None else None

    def sorted(self, kind: str, namespace: str = "") -> Iterator[ShownObject]:
        """The objects of a kind in one namespace or in all, by namespace and name."""
        for kept in self._kept.sorted(kind, namespace):
            yield ShownObject(self._packers[kind], kept)

    def put(self, object_id: ObjectId, version: int, document: Document) -> ShownObject:
        """Keep an object. The arguments are those of `packed`."""
        shown = self.packed(object_id.kind, version, document)
        self._kept.put(object_id, shown.kept)
        return shown

    def discard(self, object_id: ObjectId) -> None:
        """Forget an object."""
        self._kept.discard(object_id)

    def packed(self, kind: str, version: int, document: Document) -> ShownObject:
        """Pack an object without keeping it.

        Args:
            kind: of the object.
            version: its resource version.
            document: the object, with that version.
        """
        packer = self._packers[kind]
        return ShownObject(packer, version.to_bytes(_VERSION, "big") + packer.pack(orjson.dumps(document)))
