"""Deletes orphaned objects, the content of namespaces that are being deleted, and evicted bare pods.

An object is deleted when no owner that its `ownerReferences` name exists: an owner counts by its uid, so one that was
created again under the name is another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, Final

import structlog
from typing_extensions import override

from moorage.apiserver.admission.deletion import (
    BACKGROUND_POLICY,
    FOREGROUND,
    FOREGROUND_POLICY,
    ORPHAN,
    ORPHAN_POLICY,
    DeleteOptions,
    finalizers_of,
    is_marked,
)
from moorage.apiserver.controllers.object_controller import ObjectController
from moorage.apiserver.kinds.kind import ServedKind, named
from moorage.apiserver.kinds.status.controllers import OwnerIndex
from moorage.apiserver.kinds.status.dependents import DependentIndex
from moorage.apiserver.kinds.status.namespaces import NAMESPACE, NamespaceIndex
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.machinery.api_errors import StatusError
from moorage.apiserver.storage.store import Store
from moorage.apiserver.writing.object_records import Caller
from moorage.apiserver.writing.writer import Writer
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.workload_kinds import POD

_CALLER: Final = Caller("moorage/garbage-collector")

Document = dict[str, Any]


class _Owner(Enum):
    """The state of the owner that a reference names."""

    PRESENT = auto()
    """The owner exists, or its kind is unknown here."""

    WAITING = auto()
    """The owner is being deleted, after what it owns."""

    ABSENT = auto()


class GarbageCollector(ObjectController):
    """Looks at the objects about which something has changed, a number of them at a time."""

    what = "objects with owners"
    at_once = 64

    def __init__(self, store: Store, writer: Writer) -> None:
        self._index = store.tables.index(DependentIndex)
        super().__init__(store, writer, self._index.unsettled)

    @override
    async def settle(self, name: str) -> str:
        declared = self._store.tables.resources.get(name)
        if declared is not None and declared.mirrored is None:  # its cluster collects what is mirrored
            await self._look(ObjectId.of(name), declared)
        return ""

    async def _look(self, object_id: ObjectId, declared: ResourceDeclared) -> None:
        document = declared.object
        if is_marked(document):
            if ORPHAN in finalizers_of(document):
                await self._orphan(object_id, declared)
            elif FOREGROUND in finalizers_of(document):
                await self._foreground(object_id, declared)
            return
        references = document["metadata"].get("ownerReferences") or []
        found = [self._owner(object_id, reference) for reference in references]
        if not references:
            return
        if _Owner.PRESENT in found:
            lost = {
                str(one["uid"]) for one, state in zip(references, found, strict=True) if state is not _Owner.PRESENT
            }
            if lost:
                await self._change(object_id, declared.uid, lambda shown: _without_owners(shown, lost))
            return
        finalizers = finalizers_of(document)
        policy = BACKGROUND_POLICY
        if _Owner.WAITING in found and self._index.dependents.get(declared.uid):
            policy = FOREGROUND_POLICY
        elif ORPHAN in finalizers:
            policy = ORPHAN_POLICY
        elif FOREGROUND in finalizers:
            policy = FOREGROUND_POLICY
        await self._writer.collect(object_id, declared.uid, _CALLER, DeleteOptions(policy))

    async def _orphan(self, object_id: ObjectId, declared: ResourceDeclared) -> None:
        """Take an owner out of what it owns, and let it go."""
        uid = declared.uid
        for key in sorted(self._index.dependents.get(uid, ())):
            dependent = self._store.tables.resources.get(key)
            if dependent is not None and dependent.mirrored is None:
                await self._change(ObjectId.of(key), dependent.uid, lambda shown: _without_owners(shown, {uid}))
        await self._change(object_id, uid, lambda shown: _without_finalizer(shown, ORPHAN))

    async def _foreground(self, object_id: ObjectId, declared: ResourceDeclared) -> None:
        """Delete what an owner has, and let the owner go when nothing is left that blocks it."""
        uid, made = declared.uid, self._store.tables.index(OwnerIndex).made_by.get(object_id.key, ())
        blocked = any(key.startswith(f"{POD}/") for key in made)
        for key in sorted(self._index.dependents.get(uid, ())):
            dependent = self._store.tables.resources.get(key)
            if dependent is None or dependent.mirrored is not None:
                continue
            references = dependent.object["metadata"].get("ownerReferences") or ()
            blocked |= any(one.get("uid") == uid and one.get("blockOwnerDeletion") is True for one in references)
        if not blocked:
            await self._change(object_id, uid, lambda shown: _without_finalizer(shown, FOREGROUND))

    def _owner(self, object_id: ObjectId, reference: Mapping[str, Any]) -> _Owner:
        definition = named(str(reference.get("kind")))
        group = str(reference.get("apiVersion", "")).rpartition("/")[0]
        if definition is None or definition.group != group:
            return _Owner.PRESENT  # its absence cannot be known here
        if definition.namespaced and not object_id.namespace:
            return _Owner.PRESENT  # an object without a namespace has no owner in one; upstream leaves it as well
        namespace = object_id.namespace if definition.namespaced else ""
        owner_id = ObjectId(definition.kind, namespace, str(reference.get("name")))
        declared = self._store.tables.resources.get(owner_id.key)
        shown = None if declared is not None else self._store.get(owner_id)
        document = declared.object if declared is not None else shown.document if shown is not None else None
        if document is None or document["metadata"].get("uid") != reference.get("uid"):
            return _Owner.ABSENT
        waits = is_marked(document) and FOREGROUND in finalizers_of(document)
        return _Owner.WAITING if waits else _Owner.PRESENT

    async def _change(self, object_id: ObjectId, uid: str, change: Any) -> None:
        definition = named(object_id.kind)
        if definition is None:
            return
        kind = ServedKind(definition, definition.versions[0])

        def of_this(shown: Document) -> Document:
            if shown["metadata"].get("uid") != uid:
                raise StatusError(409, f"{object_id.key} is another object now", reason="Conflict")
            wanted: Document = change(shown)
            return {**wanted, "metadata": {**wanted["metadata"], "resourceVersion": ""}}

        await self._writer.change(kind, object_id, of_this, "patch", _CALLER)


def _without_owners(document: Document, uids: set[str]) -> Document:
    references = document["metadata"].get("ownerReferences") or ()
    kept = [one for one in references if one.get("uid") not in uids]
    metadata = {**document["metadata"], "ownerReferences": kept}
    if not kept:
        del metadata["ownerReferences"]
    return {**document, "metadata": metadata}


def _without_finalizer(document: Document, finalizer: str) -> Document:
    kept = [one for one in finalizers_of(document) if one != finalizer]
    metadata = {**document["metadata"], "finalizers": kept}
    if not kept:
        del metadata["finalizers"]
    return {**document, "metadata": metadata}


_NAMESPACES: Final = Caller("moorage/namespaces")
_OPTIONS: Final = DeleteOptions(BACKGROUND_POLICY)
_AT_ONCE: Final = 64


class NamespaceKeeper(ObjectController):
    """Empties namespaces in the background, one after the other."""

    what = "namespaces"
    passed_over = frozenset()

    def __init__(self, store: Store, writer: Writer) -> None:
        self._index = store.tables.index(NamespaceIndex)
        super().__init__(store, writer, self._index.unsettled)

    @override
    async def settle(self, name: str) -> str:
        uid = self._index.ending.get(name)
        if uid is None:
            return ""
        if name not in self._index.sizes:
            done = await self._writer.finish(ObjectId(NAMESPACE, "", name), uid, _NAMESPACES)
            return "" if done else "an object is being created"
        resources = self._store.tables.resources
        inside = [object_id for object_id in map(ObjectId.of, resources) if object_id.namespace == name]
        for first in range(0, len(inside), _AT_ONCE):
            some = inside[first : first + _AT_ONCE]
            await asyncio.gather(*(self._delete(object_id) for object_id in some))
        return ""

    async def _delete(self, object_id: ObjectId) -> None:
        declared = self._store.tables.resources.get(object_id.key)
        if declared is not None and declared.mirrored is None and not is_marked(declared.object):
            await self._writer.collect(object_id, declared.uid, _NAMESPACES, _OPTIONS)


_log = structlog.get_logger(__name__)

_PAUSE = 5.0  # seconds before a pod that could not be deleted is tried again


class Sweeper:
    """Deletes evicted pods in the background, and tries again until it succeeds."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._found: dict[ObjectId, str] = {}
        self._wake = asyncio.Event()

    @property
    def busy(self) -> bool:
        """Whether there is something to do."""
        return bool(self._found)

    def found(self, object_id: ObjectId, uid: str) -> None:
        """Note that the bare pod with this uid was evicted."""
        self._found[object_id] = uid
        self._wake.set()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._found:
                batch = list(self._found.items())[:_AT_ONCE]
                outcomes = await asyncio.gather(*(self._sweep(object_id, uid) for object_id, uid in batch))
                if failures := [why for why in outcomes if why]:
                    _log.warning("gateway.evicted_pods_not_deleted", pods=len(failures), why=failures[0])
                    await asyncio.sleep(_PAUSE)

    async def _sweep(self, object_id: ObjectId, uid: str) -> str:
        """Delete one pod. Returns why that failed, or an empty text."""
        try:
            await self._writer.sweep(object_id, uid)
        except StatusError as error:
            return error.message
        if self._found.get(object_id) == uid:
            del self._found[object_id]
        return ""
