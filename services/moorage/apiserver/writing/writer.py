"""Writes: a request is checked against the present objects, written durably, and read back before it is answered."""

from __future__ import annotations

import secrets
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from moorage.apiserver.admission import deletion, made_pods, mutation, taint_edits, validation
from moorage.apiserver.admission.deletion import Deleted, DeleteOptions
from moorage.apiserver.admission.priorities import check_default_class, with_priority
from moorage.apiserver.admission.validation import check_namespace
from moorage.apiserver.authorization.guards import GuardedWrite, WriteGuards
from moorage.apiserver.kinds.kind import ServedKind, named
from moorage.apiserver.kinds.namespace import KIND as NAMESPACE_KIND
from moorage.apiserver.kinds.pod import KIND as POD_KIND
from moorage.apiserver.kinds.status.namespaces import NamespaceIndex
from moorage.apiserver.kinds.status.pods import DedicatedIndex, evicted_uid, is_stopping
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.machinery import api_errors
from moorage.apiserver.rules.admission_defaults import SYSTEM_ACTOR
from moorage.apiserver.rules.feature_gates import FeatureGates
from moorage.apiserver.rules.field_defaults import in_stored_form, with_field_defaults
from moorage.apiserver.storage.durable_log import Log
from moorage.apiserver.storage.shown_objects import ShownObject, unkept
from moorage.apiserver.storage.store import FleetObjects
from moorage.apiserver.writing.object_records import Caller, ObjectLocks, ObjectRecords
from moorage.decide.kubernetes.field_errors import FieldError, invalid
from moorage.decide.kubernetes.quantities import QuantityError
from moorage.decide.kubernetes.unstructured import at
from moorage.runtime.process.clock import Clock
from moorage_schemas.condition import ConditionReported
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.resource import PodOrder, ResourceDeclared, TaintWish
from moorage_schemas.resources.dedicated import DedicatedNodes
from moorage_schemas.resources.meta import Resource

_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"  # no vowels and no similar characters, so that no words result
_SUFFIX_LENGTH = 5
_PATCHES = frozenset({"patch", "apply"})

Document = dict[str, Any]
Change = Callable[[Document], Document]


@dataclass(frozen=True, slots=True)
class Preconditions:
    """Conditions for an object to be changed. Empty fields are not checked."""

    uid: str = ""
    resource_version: str = ""


_EVICTION = Caller("moorage/eviction")
_POD = ServedKind(POD_KIND, POD_KIND.versions[0])
_NAMESPACE = ServedKind(NAMESPACE_KIND, NAMESPACE_KIND.versions[0])


def _next(stored: ResourceDeclared, **changed: Any) -> ResourceDeclared:
    """Return the next record of an object."""
    return stored.model_copy(update={**changed, "version": stored.version + 1})


@dataclass(frozen=True, slots=True)
class _Edit:
    """A change of an object that exists."""

    kind: ServedKind
    object_id: ObjectId
    shown: ShownObject
    """The object before."""

    verb: str
    caller: Caller
    dry_run: bool

    def check(self, uid: str, resource_version: str) -> None:
        """Check that the object is the expected one, in the expected version. Empty texts are not checked."""
        kind, name, own = self.kind, self.object_id.name, str(self.shown.document["metadata"].get("uid", ""))
        if uid not in {"", own}:
            why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {own}"
            raise api_errors.conflict(kind.group, kind.plural, name, why)
        if resource_version not in {"", str(self.shown.version)}:
            raise api_errors.conflict(kind.group, kind.plural, name)


def _check_may_delete(kind: ServedKind, object_id: ObjectId, shown: ShownObject, wanted: Preconditions) -> None:
    """Check that an object is the one that is to be deleted."""
    uid, version = str(shown.document["metadata"].get("uid", "")), str(shown.version)
    if wanted.uid not in {"", uid}:
        why = (
            f"the UID in the precondition ({wanted.uid}) does not match the UID in record ({uid}). "
            "The object might have been deleted and then recreated"
        )
    elif wanted.resource_version not in {"", version}:
        why = (
            f"the ResourceVersion in the precondition ({wanted.resource_version}) does not match the ResourceVersion "
            f"in record ({version}). The object might have been modified"
        )
    else:
        return
    # As that of a kube-apiserver, the error names the kind, not the resource.
    raise api_errors.conflict(kind.group, kind.kind, object_id.name, why)


def _check_not_refused(kind: ServedKind, object_id: ObjectId, change: str) -> None:
    if why := kind.definition.refusal(object_id.name, change):
        raise api_errors.StatusError(403, f'{kind.resource} "{object_id.name}" is forbidden: {why}')


class Writer:
    """Checks and writes objects. Each write of an object sees the result of the write before it.

    Without guards, all writes are allowed. The writers of all fleets share their locks.
    """

    def __init__(
        self,
        store: FleetObjects,
        log: Log,
        clock: Clock,
        switches: Callable[[], FeatureGates],
        guards: WriteGuards | None = None,
        *,
        locks: ObjectLocks | None = None,
    ) -> None:
        self._switches = switches
        self._guards = guards
        self._store = store
        self._log = log
        self._clock = clock
        self._locks = locks or ObjectLocks()
        self.records = ObjectRecords(store, log, clock)
        """Writes what is decided to be written."""

        self._creating: Counter[str] = Counter()
        """The number of objects that are being created in each namespace."""

    async def create(
        self,
        kind: ServedKind,
        document: Document,
        caller: Caller,
        *,
        dry_run: bool = False,
        is_accepted: bool = False,
    ) -> ShownObject:
        """Create an object.

        With `dry_run`, nothing is written. `is_accepted`: whether it is made of another object that is there, so that
        its fields may break rules.

        Raises:
            StatusError: 404 if its namespace does not exist, 403 if that is being deleted or the caller may not write
                such an object, 409 if the name is taken, 422 if a rule is broken, 503 if nothing can be written.
        """
        metadata = document["metadata"]
        generate = metadata.get("generateName")
        if not metadata.get("name") and isinstance(generate, str) and generate:
            suffix = "".join(secrets.choice(_SUFFIX) for _ in range(_SUFFIX_LENGTH))
            document = {**document, "metadata": {**metadata, "name": generate + suffix}}
        document = mutation.with_each_owner_once(document)
        resource = validation.typed(document, kind)
        if self._store.cluster:
            raise validation.read_only(kind, resource.metadata.name, None, self._store.cluster)
        self.ensure_writable()
        self._guard(caller, GuardedWrite(kind, resource.metadata.namespace, None, document))
        with self._created_in(kind, resource.metadata.namespace, resource.metadata.name):
            if not is_accepted:
                check_default_class(document, kind, self._store.tables)
                document = with_priority(document, kind, self._store.tables)
                whole = with_field_defaults(document)
                broken = validation.broken_rules(resource, whole, kind, self._switches(), before=None)
                validation.refuse(kind, resource.metadata.name, broken)
            return await self._create(kind, document, resource, caller, dry_run=dry_run)

    async def _create(
        self, kind: ServedKind, document: Document, resource: Resource, caller: Caller, *, dry_run: bool
    ) -> ShownObject:
        switches = self._switches()
        document = kind.definition.created(document, switches)
        object_id = ObjectId(kind.kind, resource.metadata.namespace, resource.metadata.name)
        async with self.lock(object_id):
            self.ensure_writable()
            present = self._store.get(object_id)
            if present is not None and not self._may_be_declared(kind, object_id):
                raise api_errors.already_exists(
                    kind.group,
                    kind.plural,
                    object_id.name,
                    generated=bool(document["metadata"].get("generateName")),
                    deleted=deletion.is_marked(present.document),
                )
            if resource.metadata.resource_version:
                raise api_errors.bad_request("metadata.resourceVersion must not be set on objects to be created")
            now = self._clock.now()
            uid = str(uuid.uuid4())
            prepared = self._prepared(document, kind, self._store.tables.index(DedicatedIndex).rules.values())
            new = kind.definition.identified(mutation.created(prepared, uid=uid, now=now))
            wished = self._taint_edits(kind, None, resource, new, caller)
            by_default = kind.definition.taints_of_new(resource)
            wished = taint_edits.with_defaults(wished, by_default, now=now, actor=SYSTEM_ACTOR)
            left = self._store.tables.resources.get(object_id.key)
            version = left.version + 1 if left is not None else 1
            declared = ResourceDeclared(object=new, version=version, wishes=tuple(wished))
            if dry_run:
                return self._as_if(kind, object_id, declared, None)
            return await self.records.write(kind, object_id, declared, "create", caller)

    async def change(
        self,
        kind: ServedKind,
        object_id: ObjectId,
        change: Change,
        verb: str,
        caller: Caller,
        *,
        dry_run: bool = False,
    ) -> ShownObject:
        """Change an object. `change` gets it as it is shown and returns it as it is to be.

        With `dry_run`, everything is checked, nothing is written, and the object is returned as it would be.

        Raises:
            StatusError: 404 if it does not exist, 403 if the caller may not write such an object, 409 if it is not the
                expected version or object, 422 if a rule is broken, 503 if nothing can be written.
        """
        async with self.lock(object_id):
            self.ensure_writable()
            edit = _Edit(kind, object_id, self._shown(kind, object_id), verb, caller, dry_run=dry_run)
            _check_not_refused(kind, object_id, "changed")
            if (found := self._mirrored(object_id)) is not None:
                return await self._taint(edit, found, change)
            wanted, resource, broken = self._checked(edit, change)
            if made_pods.is_made(object_id, self._store.tables):
                validation.refuse(kind, object_id.name, broken)
                return await self._change_made(edit, wanted)
            stored, shown = self._declared(kind, object_id), edit.shown
            prepared = self._prepared(wanted, kind, (), broken)  # rules for dedicated nodes apply only to new pods
            broken = [*deletion.validate_finalizers(stored.object, prepared), *broken]
            broken += validation.broken_by_change(shown.document, prepared, kind)
            validation.refuse(kind, object_id.name, broken)
            declared = self._changed(kind, stored, prepared, resource, caller)
            if declared is None:
                if not dry_run:
                    await self._log.commit(())  # a gateway that was replaced without notice has an older state
                return shown
            goes = deletion.is_marked(declared.object) and not deletion.is_held(declared.object, kind.definition)
            if dry_run or goes:
                last = self._as_if(kind, object_id, declared, shown)
                if dry_run:
                    return _still_decided(kind, last, shown.document, stored.object)
                await self.records.remove(object_id, declared, verb, caller)
                return last
            is_audited = not kind.definition.is_heartbeat(stored.object, declared.object)
            return await self.records.write(kind, object_id, declared, verb, caller, is_audited=is_audited)

    async def _taint(self, edit: _Edit, stored: ResourceDeclared, change: Change) -> ShownObject:
        """Change the taints of a mirrored target. No other part of a mirrored object can be changed here."""
        kind, shown, cluster = edit.kind, edit.shown, self._store.cluster
        wanted = with_field_defaults(change(dict(shown.document)))
        before = with_field_defaults(dict(shown.document))
        validation.check_taints_alone(kind, stored, before, wanted, cluster=cluster)
        self._guard(edit.caller, GuardedWrite(kind, stored.namespace, shown.document, wanted))
        resource = validation.typed(wanted, kind)
        edit.check(resource.metadata.uid, resource.metadata.resource_version)
        if kind.definition.spec_taints(resource) is not None:
            validation.refuse(kind, stored.name, kind.definition.validate(resource, self._switches()))
        wished = self._taint_edits(kind, stored, resource, wanted, edit.caller)
        validation.check_taint_edits(kind, stored, wished, cluster=cluster)
        if not wished:
            return shown
        declared = _next(stored, wishes=taint_edits.merged(stored.wishes, wished, self.wishes_applied(stored)))
        if edit.dry_run:
            return self._as_if(kind, edit.object_id, declared, shown)
        return await self.records.write(kind, edit.object_id, declared, edit.verb, edit.caller)

    def _mirrored(self, object_id: ObjectId) -> ResourceDeclared | None:
        """Return the record of an object that is read-only here. None for any other."""
        stored = self._store.tables.resources.get(object_id.key)
        return stored if stored is not None and (stored.mirrored is not None or self._store.cluster) else None

    def check_own(self, kind: ServedKind, object_id: ObjectId) -> None:
        """Check that an object is not mirrored. Raises StatusError: 403 if it is."""
        if (found := self._mirrored(object_id)) is not None:
            raise validation.read_only(kind, object_id.name, found.mirrored, self._store.cluster)

    def wishes_applied(self, stored: ResourceDeclared) -> int:
        """Return the highest generation of an edit of a target's taints that the taint-manager has applied."""
        tables = self._store.tables
        current = tables.taints.get(f"{stored.kind}/{stored.name}")
        return current.wishes_applied if current is not None and current.target_uid in {"", stored.uid} else 0

    def _checked(self, edit: _Edit, change: Change) -> tuple[Document, Resource, list[FieldError]]:
        """Return a changed object, its typed view, and the rules that it breaks."""
        kind, present = edit.kind, edit.shown.document
        changed = mutation.with_each_owner_once(change(dict(present)))
        self._guard(edit.caller, GuardedWrite(kind, edit.object_id.namespace, present, changed))
        wanted = with_field_defaults(kind.definition.changed(changed, present))
        check_default_class(wanted, kind, self._store.tables)
        resource = validation.typed(wanted, kind)
        # A uid that a patch changes is a rule that is broken.
        edit.check("" if edit.verb in _PATCHES else resource.metadata.uid, resource.metadata.resource_version)
        return wanted, resource, validation.broken_rules(resource, wanted, kind, self._switches(), before=present)

    def _changed(
        self, kind: ServedKind, stored: ResourceDeclared, prepared: Document, resource: Resource, caller: Caller
    ) -> ResourceDeclared | None:
        """Return the record of a changed object. None if the change leaves it as it is."""
        tables, before = self._store.tables, stored.object
        wanted = in_stored_form(kind.definition.without_decided(prepared, before), before)
        wanted = kind.definition.same(wanted, before, tables)
        wished = self._taint_edits(kind, stored, resource, wanted, caller)
        new = mutation.updated(wanted, before, wished=bool(wished))
        if new == before and not wished:
            return None
        applied = self.wishes_applied(stored)
        return ResourceDeclared(
            object=new,
            version=stored.version + 1,
            wishes=taint_edits.merged(stored.wishes, wished, applied),
            pods=made_pods.standing(stored.pods, tables),
            pod_metadata=made_pods.standing_metadata(stored.pod_metadata, tables),
        )

    async def delete(
        self,
        kind: ServedKind,
        object_id: ObjectId,
        preconditions: Preconditions,
        caller: Caller,
        *,
        options: DeleteOptions = DeleteOptions(),  # noqa: B008 - it is frozen
        dry_run: bool = False,
    ) -> Deleted:
        """Delete an object, or mark it if finalizers hold it. With `dry_run`, nothing is written.

        Raises:
            StatusError: 404 if it does not exist, 409 if a precondition fails, 403 if it must not be deleted, 503 if
                nothing can be written.
        """
        async with self.lock(object_id):
            self.ensure_writable()
            shown = self._shown(kind, object_id)
            _check_may_delete(kind, object_id, shown, preconditions)
            _check_not_refused(kind, object_id, "deleted")
            self.check_own(kind, object_id)
            if made_pods.is_made(object_id, self._store.tables):
                return await self._end(object_id, shown, caller, dry_run=dry_run)
            stored = self._declared(kind, object_id)
            return await self._delete(kind, object_id, stored, options, caller, dry_run=dry_run)

    async def keep_leaves(self, object_id: ObjectId, caller: Caller) -> None:
        """Write what the requests to leave of an `EvictionRequest` lack.

        Raises:
            StatusError: 503 if nothing can be written.
        """
        async with self.lock(object_id):
            await self.records.keep_leaves(object_id, caller)

    async def collect(self, object_id: ObjectId, uid: str, caller: Caller, options: DeleteOptions) -> None:
        """Delete a declared object that goes with another one, if it still has that uid.

        Raises:
            StatusError: nothing can be written now.
        """
        definition = named(object_id.kind)
        async with self.lock(object_id):
            stored = self._store.tables.resources.get(object_id.key)
            if definition is not None and stored is not None and stored.uid == uid and stored.mirrored is None:
                self.ensure_writable()
                kind = ServedKind(definition, definition.versions[0])
                await self._delete(kind, object_id, stored, options, caller)

    async def _delete(
        self,
        kind: ServedKind,
        object_id: ObjectId,
        stored: ResourceDeclared,
        options: DeleteOptions,
        caller: Caller,
        *,
        verb: str = "delete",
        dry_run: bool = False,
    ) -> Deleted:
        marked = deletion.marked(stored.object, options, self._clock.now())
        shown = self._store.get(object_id) or unkept(0, stored.object)  # an evicted pod is no longer shown
        if not deletion.is_held(marked, kind.definition):
            if dry_run:
                return Deleted(shown.document, gone=True)
            version = await self.records.remove(object_id, stored, verb, caller)
            metadata = {**shown.document["metadata"], "resourceVersion": str(version)}
            return Deleted({**shown.document, "metadata": metadata}, gone=True)
        if marked != stored.object:
            declared = _next(stored, object=marked)
            if dry_run:
                shown = self._as_if(kind, object_id, declared, shown)
            else:
                shown = await self.records.write(kind, object_id, declared, verb, caller)
        return Deleted(shown.document, gone=False)

    async def bind(self, object_id: ObjectId, node: str, uid: str, caller: Caller, *, dry_run: bool = False) -> None:
        """Set the node of a pod that has none: the choice of another scheduler, or of a person.

        The node need not exist yet. An empty `uid` stands for any pod of that name.

        Raises:
            StatusError: 404 if there is no such pod, 409 if it has a node, is being deleted or has another uid, 503 if
                nothing can be written.
        """
        async with self.lock(object_id):
            self.ensure_writable()
            shown = self._shown(_POD, object_id)
            self.check_own(_POD, object_id)
            if made_pods.is_made(object_id, self._store.tables):
                made_pods.check_unbound(shown.document, uid)
                await self._order(object_id, "bind", caller, node=node, dry_run=dry_run)
                return
            stored = self._declared(_POD, object_id)
            made_pods.check_unbound(shown.document, uid, str(at(stored.object, "spec", "nodeName") or ""))
            if not dry_run:
                bound = {**stored.object, "spec": {**(stored.object.get("spec") or {}), "nodeName": node}}
                await self.records.write(_POD, object_id, _next(stored, object=bound), "bind", caller)

    async def _end(self, object_id: ObjectId, shown: ShownObject, caller: Caller, *, dry_run: bool) -> Deleted:
        """Have a pod ended that a controller makes. The controller makes another one."""
        # One that was evicted is shown as marked too, but its controller does not delete it before it has ended.
        if not deletion.is_marked(shown.document) or is_stopping(object_id, self._store.tables):
            await self._order(object_id, "delete", caller, dry_run=dry_run)
            shown = self._store.get(object_id) or shown
        return Deleted(shown.document, gone=False)

    async def _change_made(self, edit: _Edit, wanted: Document) -> ShownObject:
        """Change the labels and annotations of a pod that a controller makes."""
        present, key = edit.shown.document, edit.object_id.key
        async with self._controller_of(edit.object_id) as (placed, stored):
            made_pods.check_metadata_alone(present, wanted, stored.key)
            made_pods.check_selected(wanted, present, stored)
            changed = made_pods.changed_metadata(key, placed.uid, wanted)
            if changed == made_pods.changed_metadata(key, placed.uid, present):
                return edit.shown
            others = made_pods.standing_metadata(stored.pod_metadata, self._store.tables)
            declared = _next(stored, pod_metadata=(*(one for one in others if one.uid != placed.uid), changed))
            if edit.dry_run:
                return self._as_if(edit.kind, edit.object_id, declared, edit.shown)
            await self.records.write_controller(edit.object_id, placed.uid, declared, edit.verb, edit.caller)
        return self._shown(edit.kind, edit.object_id)

    async def _order(
        self, object_id: ObjectId, verb: str, caller: Caller, *, node: str = "", dry_run: bool = False
    ) -> None:
        """Write an order about a pod that a controller makes."""
        async with self._controller_of(object_id) as (placed, stored):
            order = PodOrder(pod=object_id.key, uid=placed.uid, node=node, time=self._clock.now(), actor=caller.actor)
            others = (one for one in made_pods.standing(stored.pods, self._store.tables) if one.uid != placed.uid)
            declared = _next(stored, pods=(*others, order))
            if not dry_run:
                await self.records.write_controller(object_id, placed.uid, declared, verb, caller)

    @asynccontextmanager
    async def _controller_of(self, object_id: ObjectId) -> AsyncIterator[tuple[WorkloadPlaced, ResourceDeclared]]:
        """Hold a controller, and yield the decision about a pod that it makes and its record."""
        tables = self._store.tables
        placed = tables.placements.get(object_id.key)
        owner_id = ObjectId.of(placed.owner.key) if placed is not None else object_id
        async with self.lock(owner_id):
            stored, placed = tables.resources.get(owner_id.key), tables.placements.get(object_id.key)
            if stored is None or placed is None or placed.owner_uid != stored.uid:
                raise api_errors.not_found("", POD_KIND.plural, object_id.name)
            yield placed, stored

    async def report(self, reports: Iterable[ConditionReported], caller: Caller) -> None:
        """Write condition reports. They count when condition-ingest has accepted them.

        Raises:
            StatusError: nothing can be written now.
        """
        self.ensure_writable()
        await self.records.report(reports, caller)

    async def note(self, object_id: ObjectId, uid: str, verb: str, caller: Caller) -> None:
        """Write to the audit what changes no object. Returns when it is durable.

        Raises:
            StatusError: nothing can be written now.
        """
        self.ensure_writable()
        await self.records.note(object_id, uid, verb, caller)

    async def finish(self, object_id: ObjectId, uid: str, caller: Caller) -> bool:
        """Delete a namespace that is being deleted and is empty, as far as its other finalizers allow.

        Returns:
            Whether it has none. False if an object is being created there.

        Raises:
            StatusError: nothing can be written now.
        """
        async with self.lock(object_id):
            stored = self._store.tables.resources.get(object_id.key)
            if stored is None or stored.uid != uid or not deletion.is_marked(stored.object):
                return True
            if stored.mirrored is not None:
                return True
            if self._creating[object_id.name] or object_id.name in self._store.tables.index(NamespaceIndex).sizes:
                return False
            self.ensure_writable()
            empty = {**stored.object, "spec": {**(stored.object.get("spec") or {}), "finalizers": []}}
            if not deletion.finalizers_of(empty):
                await self.records.remove(object_id, stored, "finalize", caller)
            elif empty != stored.object:
                await self.records.write(_NAMESPACE, object_id, _next(stored, object=empty), "finalize", caller)
            return True

    @contextmanager
    def _created_in(self, kind: ServedKind, namespace: str, name: str) -> Iterator[None]:
        """Count an object that is being created, so that its namespace does not go meanwhile."""
        check_namespace(kind, namespace, name, self._store.tables)
        self._creating[namespace] += 1
        try:
            yield
        finally:
            self._creating[namespace] -= 1
            if not self._creating[namespace]:
                del self._creating[namespace]

    async def sweep(self, object_id: ObjectId, uid: str) -> None:
        """Delete the resource of a bare pod that was evicted, if it still has that uid.

        Raises:
            StatusError: nothing can be written now.
        """
        async with self.lock(object_id):
            stored = self._store.tables.resources.get(object_id.key)
            if stored is not None and stored.uid == uid == evicted_uid(object_id, self._store.tables):
                await self._delete(_POD, object_id, stored, DeleteOptions(), _EVICTION, verb="evict")

    def _guard(self, caller: Caller, write: GuardedWrite) -> None:
        if self._guards is not None:
            self._guards.check(caller.user, write)

    @property
    def fleet(self) -> FleetObjects:
        """The objects of its fleet."""
        return self._store

    def ensure_writable(self) -> None:
        """Check that something can be written now. Raises StatusError: 503 if not."""
        if not self._store.ready:
            raise api_errors.unavailable("the gateway is not ready: it is still reading its tables")
        if self._log.obstacle:
            raise api_errors.unavailable(self._log.obstacle)

    def _shown(self, kind: ServedKind, object_id: ObjectId) -> ShownObject:
        shown = self._store.get(object_id)
        if shown is None:
            raise api_errors.not_found(kind.group, kind.plural, object_id.name)
        return shown

    def _declared(self, kind: ServedKind, object_id: ObjectId) -> ResourceDeclared:
        stored = self._store.tables.resources.get(object_id.key)
        if stored is not None:
            return stored
        if kind.definition.logged and (logged := self._store.get(object_id)) is not None:
            document = logged.document
            del document["metadata"]["resourceVersion"]
            return ResourceDeclared(object=document, version=logged.version)
        implied = self._implied(kind, object_id)
        if implied is not None:
            # It is shown although it is not declared. The first change declares it.
            return ResourceDeclared(object=implied, version=1)
        placed = self._store.tables.placements.get(object_id.key)
        owner = placed.owner.key if placed is not None else "its controller"
        raise api_errors.StatusError(
            405,
            f'{kind.plural} "{object_id.name}" is made from the template of {owner}: change that instead',
        )

    def _may_be_declared(self, kind: ServedKind, object_id: ObjectId) -> bool:
        """Return whether an object that is shown may be created, because it is only there while others imply it."""
        is_built_in = kind.definition.is_built_in(object_id, self._store.tables)
        return not is_built_in and self._implied(kind, object_id) is not None

    def _implied(self, kind: ServedKind, object_id: ObjectId) -> Document | None:
        """Return an object that exists although it is not declared, and may be. None for any other."""
        definition, name, tables = kind.definition, object_id.name, self._store.tables
        if object_id.key in tables.resources or definition.refusal(name, "changed"):
            return None
        if not definition.is_built_in(object_id, tables) and name not in definition.implied(tables):
            return None
        shown = self._store.get(object_id)
        return shown.document if shown is not None else None

    @staticmethod
    def _prepared(
        document: Document, kind: ServedKind, rules: Iterable[DedicatedNodes], broken: Sequence[FieldError] = ()
    ) -> Document:
        """Return the object with what admission adds. `broken` are the rules that it is known to break."""
        try:
            return mutation.prepared(document, kind.definition, rules)
        except QuantityError as error:
            found = broken or [invalid(error.field, error.value, error.rule)]
            raise api_errors.invalid(kind.group, kind.kind, document["metadata"].get("name", ""), found) from None

    def _taint_edits(
        self,
        kind: ServedKind,
        stored: ResourceDeclared | None,
        resource: Resource,
        document: Document,
        caller: Caller,
    ) -> list[TaintWish]:
        """Return the taint edits of a write. The `document` will be declared. Empty for kinds without taints."""
        wanted = kind.definition.spec_taints(resource)
        if wanted is None:
            return []
        shown = kind.definition.taints(stored, self._store.tables) if stored is not None else None
        known = stored.wishes if stored is not None else ()
        wanted = list(taint_edits.asked_for(document, wanted, shown))
        present, applied = (shown.taints, shown.wishes_applied) if shown is not None else ((), 0)
        now, actor = self._clock.now(), caller.actor
        return taint_edits.difference(present, wanted, known, applied=applied, now=now, actor=actor)

    def _as_if(
        self, kind: ServedKind, object_id: ObjectId, declared: ResourceDeclared, present: ShownObject | None
    ) -> ShownObject:
        """Return the object as it would be, with the resource version that it has at present."""
        document = self._store.builder.build_as_if(object_id, declared)
        if document is None:
            raise api_errors.not_found(kind.group, kind.plural, object_id.name)
        if present is None:
            return unkept(0, document)
        metadata = {**document["metadata"], "resourceVersion": str(present.version)}
        return unkept(present.version, {**document, "metadata": metadata})

    def lock(self, object_id: ObjectId) -> AbstractAsyncContextManager[None]:
        """Return what holds the lock of an object within a context."""
        return self._locks.held(self.records.whole(object_id))

    def now(self) -> datetime:
        """Return the present time."""
        return self._clock.now()


def _still_decided(
    kind: ServedKind, last: ShownObject, present: Mapping[str, Any], stored: Mapping[str, Any]
) -> ShownObject:
    """Return an object as a change would make it, before the services have decided anything about the change."""
    document = last.document
    if not kind.definition.status_declared:
        document.pop("status", None)
        if "status" in present:
            document["status"] = present["status"]
    declared = stored["metadata"].get("annotations") or {}
    decided = {
        name: value for name, value in (present["metadata"].get("annotations") or {}).items() if name not in declared
    }
    if decided:
        annotations = {**decided, **(document["metadata"].get("annotations") or {})}
        document["metadata"] = {**document["metadata"], "annotations": annotations}
    return unkept(last.version, document)
