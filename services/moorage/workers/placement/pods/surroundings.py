"""Objects that constraints of pods refer to: namespaces with their labels, claims, and the volumes of claims."""

from __future__ import annotations

from collections.abc import Mapping
from sys import intern
from typing import Any, Final

from moorage.decide.scheduling.nodes.volumes import BoundVolume, claimed, read_volume
from moorage.decide.scheduling.nodes.workloads import text_labels
from moorage_schemas.keys import ResourceKey
from moorage_schemas.resource import ResourceDeclared

NAMESPACE: Final = "Namespace"
CLAIM: Final = "PersistentVolumeClaim"
VOLUME: Final = "PersistentVolume"
KINDS: Final = (f"{NAMESPACE}/", f"{CLAIM}/", f"{VOLUME}/")
"""The prefixes of the keys of these objects."""

_NAME_LABEL: Final = "kubernetes.io/metadata.name"


class Surroundings:
    """The namespaces, claims and volumes of a fleet."""

    def __init__(self) -> None:
        self._labels: dict[str, dict[str, str]] = {}
        self._volume_of: dict[tuple[str, str], str] = {}
        self._leaving: dict[tuple[str, str], bool] = {}
        """The claims that are being deleted."""

        self._volumes: dict[str, BoundVolume] = {}

    def fold(self, key: str, event: ResourceDeclared | None) -> bool:
        """Fold in an object that is declared, or deleted (None). Return whether anything has changed for pods."""
        kind, namespace, name, _ = ResourceKey.parse(key)
        found: Mapping[str, Any] | None = event.object if event is not None else None
        if kind == NAMESPACE:
            return self._fold_namespace(name, found)
        if kind == CLAIM:
            claim = (intern(namespace), name)
            spec, metadata = ((found or {}).get(part) or {} for part in ("spec", "metadata"))
            marked = _put(self._leaving, claim, bool(metadata.get("deletionTimestamp")) or None)
            return _put(self._volume_of, claim, str(spec.get("volumeName") or "") or None) or marked
        return _put(self._volumes, name, read_volume(found) if found is not None else None)

    def labels_of(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace. One that is not declared has its name as its only label."""
        return self._labels.get(namespace) or {_NAME_LABEL: namespace}

    def volumes_of(self, namespace: str, claims: tuple[str, ...]) -> tuple[BoundVolume, ...]:
        """Return the volumes of claims. Claims that are not bound, or not declared, have none."""
        found = (
            claimed(
                claim,
                name := self._volume_of.get((namespace, claim), ""),
                self._volumes.get(name),
                leaving=(namespace, claim) in self._leaving,
            )
            for claim in claims
        )
        return tuple(volume for volume in found if volume is not None)

    def _fold_namespace(self, name: str, found: Mapping[str, Any] | None) -> bool:
        before = self.labels_of(name)
        labels = text_labels((found.get("metadata") or {}).get("labels")) if found is not None else {}
        _put(self._labels, name, {**labels, _NAME_LABEL: name} if labels else None)
        return self.labels_of(name) != before


def _put(table: dict[Any, Any], key: object, value: object | None) -> bool:
    """Set or remove a value. Return whether the table has changed."""
    if table.get(key) == value:
        return False
    if value is None:
        del table[key]
    else:
        table[key] = value
    return True
