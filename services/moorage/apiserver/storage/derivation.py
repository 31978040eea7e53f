"""The leading gateway's records in the object log: the objects that look different after records of other topics.

Only the leading gateway reads those topics. Objects that may look different are noted, built when there is time, and
compared with the last state that was appended. So changes of an object that come fast become one, and after a change of
the leader nothing is appended that has not changed.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator
from typing import Final

import orjson

from moorage.apiserver.kinds.kind import logged_kinds
from moorage.apiserver.kinds.placement import decided
from moorage.apiserver.kinds.status.clusters import cluster_of, local_event, local_key
from moorage.apiserver.kinds.status.index import ViewIndex
from moorage.apiserver.kinds.status.pods import evicted_uid
from moorage.apiserver.kinds.status.records import Document, ObjectId
from moorage.apiserver.storage.object_log import Emission, json_of
from moorage.apiserver.storage.store import ClusterTables, ObjectBuilder, Store
from moorage.apiserver.storage.tables import Tables
from moorage.decide.scheduling.ocm.decisions.page_order import steps_between
from moorage.runtime.service import Input
from moorage_schemas.base import Model
from moorage_schemas.topics import Topic

PLACEMENT_DECISION: Final = "PlacementDecision"

AT_ONCE: Final = 500
"""The number of objects that are built for one transaction."""

SECONDS: Final = 0.025
"""Seconds for which objects are built for one transaction, so that writes need not wait for many."""

_BYTES: Final = 2 << 20  # bytes of objects in one transaction


class Derivation:
    """The tables that objects are built from, and the objects that are to be compared with the object log.

    Each cluster has tables of its own. Those of the home fleet have no record of any cluster.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.tables = Tables()
        self.builder = ObjectBuilder(self.tables)
        self.clusters: dict[str, ClusterTables] = {}
        """The clusters of which there is a record, by name."""

        self._due: dict[ObjectId, None] = {}
        self._pages: dict[tuple[str, str, str], dict[ObjectId, None]] = {}
        """The pages of decisions that are due, by their placement (`_placement_of`)."""

        self._rest: Iterator[ObjectId] | None = None
        """The objects that were there at the start and are still to be compared."""

        self._begun = False

    @property
    def due(self) -> bool:
        """Whether objects are still to be compared."""
        return bool(self._due) or self._rest is not None

    def fold(self, records: Iterable[Input]) -> None:
        """Take records of other topics in, in the order of their partitions."""
        for record in records:
            self.note(self._fold(record.topic, record.key, record.event, record.meta.traceparent))
        if self._begun and self._store.applied is not None:
            self._store.applied()

    def write(self, topic: Topic, key: str, event: Model | None) -> Iterable[ObjectId]:
        """Take in a record that is about to be written. Returns the objects that may look different."""
        return self._fold(topic, key, event) if topic.short in self.tables.tables else ()

    def written(self) -> None:
        """Note that the records of `write` are committed."""
        if self._store.applied is not None:
            self._store.applied()

    def begin(self) -> None:
        """Compare all objects with the log, because the tables have been read to their ends."""
        store = self._store
        self._rest = self._all()
        self._begun = True
        if store.applied is not None:
            store.applied()

    def take(
        self, first: Iterable[ObjectId] = (), *, at_once: int = AT_ONCE, seconds: float = SECONDS
    ) -> list[Emission]:
        """Return changes to append: those of given objects, and others for as long as there is room and time.

        The store must have applied all changes that were returned before. Until it has applied these, another
        comparison would find the same changes again. So each object is compared once, although at the start an object
        may be given, due because of a record, and one of those that were there.
        """
        found: list[Emission] = []
        compared: set[ObjectId] = set()
        for object_id in first:
            self._due.pop(object_id, None)
            compared.add(object_id)
            found += self._compared(object_id)
        built, size, end = 0, 0, time.monotonic() + seconds
        while built < at_once and size < _BYTES and (not built or time.monotonic() < end):
            if (due := self._next()) is None:
                break
            if due in compared:
                continue
            together = self._together(due) if due.kind == PLACEMENT_DECISION else (due,)
            compared.update(together)
            changes = [change for one in together for change in self._compared(one)]
            found += self._in_order(changes) if len(changes) > 1 and due.kind == PLACEMENT_DECISION else changes
            built += len(together)
            size += sum(len(change.json or b"") for change in changes)
        if not self._due:
            self._due, self._pages = {}, {}  # an emptied dictionary keeps the room that it once needed
        return found

    def _next(self) -> ObjectId | None:
        """Return the next object to compare. None if there is none."""
        if self._due:
            object_id = next(iter(self._due))
            del self._due[object_id]
            return object_id
        found = next(self._rest, None) if self._rest is not None else None
        if found is None:
            self._rest = None
        return found

    def _all(self) -> Iterator[ObjectId]:
        """Yield all objects that are shown or are to be. What changes meanwhile is due anyway."""
        kept = logged_kinds()
        yield from (object_id for object_id in self._store if object_id.kind not in kept)
        for cluster, tables in [("", self.tables), *((name, one.tables) for name, one in self.clusters.items())]:
            for keys in (list(tables.resources), list(tables.placements)):
                for key in keys:
                    object_id = ObjectId.of(key)._replace(cluster=cluster)
                    if object_id not in self._store:
                        yield object_id
            always = self.builder.always if not cluster else ()
            for object_id in itertools.chain(tables.index(ViewIndex).origins, always):
                if (found := object_id._replace(cluster=cluster)) not in self._store:
                    yield found

    def _fold(self, topic: Topic, key: str, event: Model | None, traceparent: str = "") -> set[ObjectId]:
        if cluster := cluster_of(topic.short, key):
            return self._fold_in_cluster(cluster, topic, key, event, traceparent)
        if self._store.decided is not None:
            self._store.decided(topic, key, event)
        return self.tables.apply(topic, key, event, traceparent)

    def _fold_in_cluster(
        self, cluster: str, topic: Topic, key: str, event: Model | None, traceparent: str
    ) -> set[ObjectId]:
        found = self.clusters.get(cluster)
        if found is None:
            if event is None:
                return set()
            found = self.clusters[cluster] = ClusterTables()
        own = local_event(event, cluster) if event is not None else None
        touched = found.tables.apply(topic, local_key(key, cluster), own, traceparent)
        if not found.tables.count:
            del self.clusters[cluster]
        return {object_id._replace(cluster=cluster) for object_id in touched}

    def note(self, touched: Iterable[ObjectId]) -> None:
        """Note that objects may look different."""
        if self._begun:
            self._due.update(dict.fromkeys(sorted(touched)))
            for object_id in touched:
                if object_id.kind == PLACEMENT_DECISION:
                    self._pages.setdefault(_placement_of(object_id), {})[object_id] = None

    def _together(self, page: ObjectId) -> list[ObjectId]:
        """Return a page of a placement and all others that are due. A cluster may move from one to another."""
        found = self._pages.pop(_placement_of(page), {})
        others = [one for one in found if one != page and one in self._due]
        for one in others:
            del self._due[one]
        return [page, *others]

    def _in_order(self, changes: list[Emission]) -> list[Emission]:
        """Return changes of pages in an order in which every cluster that moves is always on one of them."""
        if any(
            change.json is None and after.object_id == change.object_id for change, after in itertools.pairwise(changes)
        ):
            return changes  # of another placement of the same name, of which nothing is kept
        before: dict[str, list[str]] = {}
        after: dict[str, list[str]] = {}
        documents: dict[str, tuple[ObjectId, Document | None]] = {}
        for object_id, content in changes:
            shown, name = self._store.get(object_id), object_id.name
            if shown is not None:
                before[name] = decided(shown.document)
            document: Document | None = None if content is None else orjson.loads(content)
            if document is not None:
                after[name] = decided(document)
            documents[name] = (object_id, document)
        ordered = []
        for step in steps_between(before, after):
            for name, clusters in step.items():
                object_id, document = documents.pop(name) if clusters is None else documents[name]
                if document is not None and clusters is not None and clusters != {*after[name]}:
                    decisions = [{"clusterName": one, "reason": ""} for one in sorted(clusters)]
                    document = {**document, "status": {**document["status"], "decisions": decisions}}
                ordered.append(Emission(object_id, None if document is None else json_of(document)))
        written = {change.object_id for change in ordered}
        return [*ordered, *(change for change in changes if change.object_id not in written)]

    def _built(self, object_id: ObjectId) -> Document | None:
        if not object_id.cluster:
            return self.builder.build(object_id)
        found = self.clusters.get(object_id.cluster)
        return found.builder.build(object_id.local) if found is not None else None

    def _compared(self, object_id: ObjectId) -> list[Emission]:
        """Return what makes the log show an object as it is now. Empty if it already does."""
        document = self._built(object_id)
        if self._store.evicted is not None and (uid := evicted_uid(object_id, self.tables)):
            self._store.evicted(object_id, uid)
        shown = self._store.get(object_id)
        known = shown.unversioned if shown is not None else None
        present = json_of(document) if document is not None else None
        if present == known:
            return []
        if present is None or known is None:
            return [Emission(object_id, present)]
        earlier, now = orjson.loads(known), orjson.loads(present)
        if earlier == now:  # only the order of its fields differs
            return []
        gone = earlier["metadata"].get("uid", "") != now["metadata"].get("uid", "")
        # An object that was deleted and created again meanwhile: a watch has to see both.
        return [*([Emission(object_id, None)] if gone else []), Emission(object_id, present)]


def _placement_of(page: ObjectId) -> tuple[str, str, str]:
    """Return the cluster, the namespace and the name of the placement of a page, by the page's name."""
    return page.cluster, page.namespace, page.name.rpartition("-decision-")[0] or page.name
