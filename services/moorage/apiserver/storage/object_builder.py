"""The objects that the API shows. Their kinds build them (`Kind.shown`)."""

from __future__ import annotations

from typing import Any

from moorage.apiserver.kinds.kind import Kind, View, discovered
from moorage.apiserver.kinds.status.namespaces import names
from moorage.apiserver.kinds.status.records import Document, ObjectId, Records
from moorage.apiserver.rules.field_defaults import with_empty_status, with_field_defaults
from moorage.apiserver.storage.tables import Tables
from moorage_schemas.resource import ResourceDeclared


class ObjectBuilder:
    """Builds objects from the latest records.

    Args:
        records: the latest records.
        is_home: whether they are those of the home fleet. In a cluster there is only what its records say: nothing is
            built in, or implied by other objects.
    """

    def __init__(self, records: Records, *, is_home: bool = True) -> None:
        self._records = records
        self._is_home = is_home
        self._kinds: dict[str, Kind[Any]] = {kind.kind: kind for kind in discovered()}
        self.counted = frozenset(kind.kind for kind in self._kinds.values() if kind.counted_status)
        """Kinds whose status counts other objects."""

    @property
    def always(self) -> frozenset[ObjectId]:
        """Objects that exist now although nobody has declared them."""
        kinds, namespaces = self._kinds.values(), names(self._records)
        return frozenset(
            (
                *(
                    ObjectId(kind.kind, "", name)
                    for kind in kinds
                    for name in (*kind.built_in, *kind.implied(self._records))
                ),
                *(
                    ObjectId(kind.kind, namespace, name)
                    for kind in kinds
                    for name in kind.in_each_namespace
                    for namespace in namespaces
                ),
            )
        )

    def build(self, object_id: ObjectId) -> Document | None:
        """Return an object as it is now, without a resource version. None if there is none.

        It is in the version that its kind stores, also if the record was written when another one was preferred, and
        has the default values of the fields that nobody has set.
        """
        return self._built(object_id, self._records)

    def build_as_if(self, object_id: ObjectId, declared: ResourceDeclared) -> Document | None:
        """Return an object as it would be if that were declared: the object itself, or the controller of a pod.

        None if it would not be there.
        """
        return self._built(object_id, self._records.with_resource(declared.key, declared))

    def _built(self, object_id: ObjectId, records: Records) -> Document | None:
        kind = self._kinds.get(object_id.kind)
        is_recorded = object_id.key in records.resources or object_id.key in records.placements
        if not (self._is_home or isinstance(kind, View) or is_recorded):
            return None
        found = kind.shown(object_id, records) if kind is not None else None
        if kind is None or found is None:
            return None
        if not kind.has_generation and "generation" in found["metadata"]:
            metadata = {name: value for name, value in found["metadata"].items() if name != "generation"}
            found = {**found, "metadata": metadata}
        return with_empty_status(with_field_defaults({**found, "apiVersion": kind.api_versions[0]}))


class ClusterTables:
    """The tables that the objects of one cluster are built from, with its own names for everything."""

    def __init__(self) -> None:
        self.tables = Tables(is_home=False)
        self.builder = ObjectBuilder(self.tables, is_home=False)
