"""The state of a cluster as its bridge has seen it: each object as it is mirrored, and the targets that it acts on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

from typing_extensions import override

from moorage.bridges.engine.cluster_events import Regarding
from moorage.bridges.engine.seen_target import SeenTarget
from moorage.bridges.engine.skips import Skips
from moorage.bridges.kube.reflector import Sink
from moorage_schemas.keys import ResourceKey

LEASE: Final = "Lease"

_METADATA: Final = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "labels",
    "ownerReferences",
    "finalizers",
)
_LONGEST_ANNOTATION: Final = 1024

JsonObject = dict[str, Any]
Seen = Callable[[str, str], None]
"""Called with the kind and the key of an object that was seen, changed or gone."""

Target = TypeVar("Target", bound=SeenTarget)


class SeenState(ABC, Generic[Target]):
    """The objects of one cluster.

    Args:
        cluster: its name in references. Empty for the home fleet.
    """

    def __init__(self, seen: Seen, cluster: str = "") -> None:
        self._cluster = cluster
        self._seen = seen
        self._objects: dict[str, JsonObject] = {}
        self.targets: dict[str, Target] = {}
        """By name."""

        self.keeps_taints = False
        """Whether the cluster decides on the taints of its targets, so that they are mirrored as they are."""

        self.skips = Skips()

        self.renewals: dict[str, str] = {}
        """The time of the last renewal of a target's Lease, by the target's name."""

    @property
    def keys(self) -> frozenset[str]:
        """The keys of all objects that are to be mirrored."""
        return frozenset(self._objects)

    def object(self, key: str) -> JsonObject | None:
        """Return an object as it is to be mirrored. None if it does not exist."""
        return self._objects.get(key)

    def key_of(self, kind: str, found: Mapping[str, Any]) -> str:
        """Return the key of an object."""
        metadata = found["metadata"]
        return str(ResourceKey(kind, metadata.get("namespace") or "", metadata["name"], self._cluster))

    def of_kind(self, kind: str) -> list[str]:
        """Return the keys of the objects of a kind."""
        return [key for key in self._objects if ResourceKey.parse(key).kind == kind]

    @abstractmethod
    def leased(self, kind: str, key: str) -> str:
        """Return the target whose Lease an object is. Empty if it is none."""

    @abstractmethod
    def put(self, kind: str, found: JsonObject) -> None:
        """Note an object as it was seen."""

    def answered(self, kind: str, found: JsonObject) -> None:
        """Note an object as a write was answered, unless the watch has brought its deletion or a newer version."""
        known = self._objects.get(self.key_of(kind, found))
        if known is not None and known["metadata"].get("uid") == found["metadata"].get("uid"):
            self.put(kind, found)

    @abstractmethod
    def drop(self, kind: str, key: str) -> None:
        """Note that an object was deleted."""


class StateSink(Sink):
    """A receiver of the objects of one kind from a reflector."""

    def __init__(self, state: SeenState[Any], kind: str) -> None:
        self._state = state
        self._kind = kind
        self._unread: set[str] = set()
        """The keys of the objects that could not be read."""

    @override
    def replaced(self, objects: Sequence[JsonObject]) -> None:
        there = {self._state.key_of(self._kind, one) for one in objects}
        for key in self._state.of_kind(self._kind):
            if key not in there:
                self._state.drop(self._kind, key)
        for one in objects:
            self.changed(one)

    @override
    def changed(self, found: JsonObject) -> None:
        """Note an object. One that cannot be read stays as it was read last."""
        key, problem = self._state.key_of(self._kind, found), ""
        try:
            self._state.put(self._kind, found)
        except Exception as error:  # noqa: BLE001 - what comes from a cluster is data, and no object may stop a bridge
            problem = f"{type(error).__name__}: {error}"
        if problem or key in self._unread:
            (self._unread.add if problem else self._unread.discard)(key)
            about = Regarding.of({**found, "kind": self._kind})
            self._state.skips.note(about, "object", f"Moorage cannot read this object: {problem}" if problem else "")

    @override
    def deleted(self, found: JsonObject) -> None:
        key = self._state.key_of(self._kind, found)
        self._unread.discard(key)
        self._state.drop(self._kind, key)


def is_older(found: JsonObject, known: JsonObject | None) -> bool:
    """Return whether a newer version of the same object is known.

    The watch and the answers to writes bring versions in any order. The watch does not bring one again.
    """
    if known is None or known["metadata"].get("uid") != found["metadata"].get("uid"):
        return False
    version, other = (str(one["metadata"].get("resourceVersion") or "") for one in (found, known))
    return version.isdecimal() and other.isdecimal() and int(version) < int(other)


def reduced_object(
    found: Mapping[str, Any], body: Mapping[str, Any], dropped: Collection[str], *, also: tuple[str, ...] = ()
) -> JsonObject:
    """Return an object as it is mirrored, with its `metadata.resourceVersion`, and without what is large.

    Args:
        found: the object.
        body: what is mirrored of it beside its metadata.
        dropped: the annotations that are left out. Long ones also are.
        also: fields of its metadata that are kept beside the usual ones.
    """
    metadata = found.get("metadata") or {}
    annotations = {
        name: value
        for name, value in (metadata.get("annotations") or {}).items()
        if name not in dropped and len(value) <= _LONGEST_ANNOTATION
    }
    reduced = fields_of(metadata, (*_METADATA, *also)) | ({"annotations": annotations} if annotations else {})
    return {"apiVersion": found["apiVersion"], "kind": str(found["kind"]), "metadata": reduced, **body}


def fields_of(found: Mapping[str, Any], names: tuple[str, ...]) -> JsonObject:
    """Return those of some fields that have a value."""
    return {name: found[name] for name in names if found.get(name) not in (None, "", [], {})}
