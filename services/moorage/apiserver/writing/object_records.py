"""Records of objects: written durably when an object changes, under its lock, and read back before the answer."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from moorage.apiserver.admission import mutation
from moorage.apiserver.kinds.kind import ServedKind, logged_kinds
from moorage.apiserver.kinds.status import leaves
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.machinery import api_errors
from moorage.apiserver.storage.durable_log import Log, Write
from moorage.apiserver.storage.shown_objects import ShownObject
from moorage.apiserver.storage.store import FleetObjects, within
from moorage.decide.kubernetes.attributes import User
from moorage.runtime.process.clock import Clock
from moorage_schemas.condition import ConditionReported
from moorage_schemas.configuration import ConfigurationChanged
from moorage_schemas.dead_letter import Audited
from moorage_schemas.envelope import Meta, event_id
from moorage_schemas.keys import LeaveKey, leave_key
from moorage_schemas.leave_request import LeaveRequested
from moorage_schemas.probe_grant import ProbeGrantChanged
from moorage_schemas.resource import ResourceDeclared, resource_partition_key
from moorage_schemas.resources.configuration import CONFIGURATION_KIND, MoorageConfiguration
from moorage_schemas.resources.probe_grants import ProbeGrant
from moorage_schemas.shown import ObjectShown
from moorage_schemas.topics import (
    AUDIT,
    CONDITION_REPORTS,
    CONFIGURATION,
    EVICTION_REQUESTS,
    FLEET,
    OBJECTS,
    PROBE_GRANTS,
    RESOURCES,
    Topic,
)

SOURCE = "moorage/gateway"
READ_BACK_WITHIN = 15.0
"""Seconds within which a committed record must be read back."""

_PROBE_GRANT = "ProbeGrant"


@dataclass(frozen=True, slots=True)
class Caller:
    """The user who writes."""

    actor: str = "anonymous"
    """The program, as it names itself."""

    traceparent: str = ""
    user: User | None = None
    """As whom it writes. None if the gateway writes by itself, which may write everything."""

    sender: str = ""
    """The sender of the request, if on behalf of that user."""


class ObjectRecords:
    """Writes the records of a fleet's objects. Whether an object may be written is decided before."""

    def __init__(self, store: FleetObjects, log: Log, clock: Clock) -> None:
        self._store = store
        self._log = log
        self._clock = clock

    def whole(self, object_id: ObjectId) -> ObjectId:
        """Return an object as records name it: with its cluster."""
        return object_id._replace(cluster=self._store.cluster) if self._store.cluster else object_id

    def record(self, object_id: ObjectId, declared: ResourceDeclared, caller: Caller) -> Write:
        """Return the record that declares an object."""
        meta = self._meta(object_id, event_id(object_id.key, declared.uid, declared.version), caller)
        key = self.whole(object_id).key
        return Write(RESOURCES, key, resource_partition_key(key), declared, meta)

    def removal(self, object_id: ObjectId, stored: ResourceDeclared, caller: Caller) -> list[Write]:
        """Return the records that remove an object, and note in the audit who has done that."""
        meta = self._meta(object_id, event_id(object_id.key, stored.uid, "deleted"), caller)
        key, audited = self.whole(object_id).key, self._audit(object_id, stored, "delete", caller)
        return [
            Write(RESOURCES, key, resource_partition_key(key), None, meta),
            Write(AUDIT, key, key, audited, _beside(meta, AUDIT, key)),
        ]

    async def write_all(self, writes: Sequence[Write], what: str, *, is_shown: bool) -> None:
        """Write records in one transaction, and wait until the store shows them if they are to be shown with it.

        Raises:
            StatusError: 503 if nothing was written, 504 if that is not known or takes too long.
        """
        await self._read_back(what, await self._log.commit(writes, is_shown=is_shown))

    async def remove(self, object_id: ObjectId, stored: ResourceDeclared, verb: str, caller: Caller) -> int:
        """Remove an object, and return the version of the log then.

        Raises:
            StatusError: 503 if nothing was written, 504 if that is not known or takes too long.
        """
        meta = self._meta(object_id, event_id(object_id.key, stored.uid, "deleted"), caller)
        return await self._commit(object_id, None, meta, self._audit(object_id, stored, verb, caller))

    async def write(
        self,
        kind: ServedKind,
        object_id: ObjectId,
        declared: ResourceDeclared,
        verb: str,
        caller: Caller,
        *,
        is_audited: bool = True,
    ) -> ShownObject:
        """Write the record of an object, and return the object as it is shown then.

        Raises:
            StatusError: 404 if it is not shown, 503 if nothing was written, 504 if that is not known or takes too long.
        """
        meta = self._meta(object_id, event_id(object_id.key, declared.uid, declared.version), caller)
        audited = self._audit(object_id, declared, verb, caller) if is_audited else None
        await self._commit(object_id, declared, meta, audited)
        shown = self._store.get(object_id)
        if shown is None:
            raise api_errors.not_found(kind.group, kind.plural, object_id.name)
        return shown

    async def write_controller(
        self, pod_id: ObjectId, uid: str, declared: ResourceDeclared, verb: str, caller: Caller
    ) -> None:
        """Write the record of a controller because of one of its pods, with that uid, which the audit names."""
        owner_id = ObjectId.of(declared.key)
        meta = self._meta(owner_id, event_id(owner_id.key, declared.uid, declared.version), caller)
        audited = self._audit(pod_id, declared, verb, caller).model_copy(update={"uid": uid})
        await self._commit(owner_id, declared, meta, audited)

    async def report(self, reports: Iterable[ConditionReported], caller: Caller) -> None:
        """Write condition reports. They count when condition-ingest has accepted them.

        Raises:
            StatusError: nothing can be written.
        """
        now = self._clock.now()
        await self._log.report(
            [
                Write(
                    CONDITION_REPORTS,
                    one.target.key,
                    one.target.key,
                    one,
                    Meta(
                        id=str(uuid.uuid4()),
                        source=SOURCE,
                        type=CONDITION_REPORTS.event_type,
                        time=now,
                        subject=one.target.key,
                        traceparent=caller.traceparent,
                    ),
                )
                for one in reports
            ]
        )

    async def note(self, object_id: ObjectId, uid: str, verb: str, caller: Caller) -> None:
        """Write to the audit what changes no object. Returns when it is durable.

        Raises:
            StatusError: nothing can be written.
        """
        meta, key = self._meta(object_id, str(uuid.uuid4()), caller), object_id.key
        audited = self._audited(key, uid, 0, verb, caller)
        await self._log.report([Write(AUDIT, key, key, audited, _beside(meta, AUDIT, key))])

    async def _commit(
        self, object_id: ObjectId, event: ResourceDeclared | None, meta: Meta, audited: Audited | None
    ) -> int:
        """Write a record of an object, and wait until the store shows it. Returns the version of the log then."""
        key = self.whole(object_id).key
        if event is not None and self._store.cluster:
            event = event.model_copy(update={"cluster": self._store.cluster})
        if object_id.kind in logged_kinds():  # only gateways read it, and it is not audited
            shown = mutation.without_generation(event.object) if event is not None else None
            return await self._read_back(key, await self._log.commit([logged_write(object_id, shown, meta)]))
        writes = [Write(RESOURCES, key, resource_partition_key(key), event, meta)]
        if audited is not None:
            writes.append(Write(AUDIT, key, key, audited, _beside(meta, AUDIT, key)))
        if object_id.kind == CONFIGURATION_KIND and event is not None:
            writes.append(_for_services(object_id.name, event, meta))
        if object_id.kind == _PROBE_GRANT:
            writes.append(_grant_for_services(object_id.name, event, meta))
        if object_id.kind == leaves.EVICTION_REQUEST:
            writes += self._leaves(object_id, event, meta)
        return await self._read_back(key, await self._log.commit(writes))

    async def keep_leaves(self, object_id: ObjectId, caller: Caller) -> None:
        """Write what the requests to leave of an object lack. Nothing is written if nothing is.

        Raises:
            StatusError: 503 if nothing was written, 504 if that is not known or takes too long.
        """
        declared = self._store.tables.resources.get(object_id.key)
        version = declared.version if declared is not None else 0
        meta = self._meta(object_id, event_id(object_id.key, leaves.EVICTION_REQUEST, version), caller)
        if writes := self._leaves(object_id, declared, meta):
            await self._log.commit(writes, is_shown=False)

    def _leaves(self, object_id: ObjectId, declared: ResourceDeclared | None, cause: Meta) -> list[Write]:
        """Return the records that make an object's requests to leave as it wants them. Mirrored clusters have none."""
        if self._store.cluster:
            return []
        tables = self._store.tables
        bound = leaves.binding_to_leave(declared.object, tables) if declared is not None else None
        wanted: dict[str, LeaveRequested] = {}
        if declared is not None and bound is not None:
            event = leaves.leave_of(declared.object, bound)
            wanted[leave_key(bound.workload, bound.target, event.requester.key)] = event
        present = tables.index(leaves.LeaveIndex).records.get(object_id.key, set())
        return [
            Write(
                EVICTION_REQUESTS,
                key,
                LeaveKey.parse(key).target,
                wanted.get(key),
                _leave_meta(cause, key, wanted.get(key)),
            )
            for key in sorted(wanted.keys() | present)
            if wanted.get(key) != tables.leaves.get(key)
        ]

    async def _read_back(self, key: str, version: int) -> int:
        """Wait until the store shows what was written, and return the version."""
        try:
            await within(READ_BACK_WITHIN, self._store, version)
        except TimeoutError:
            raise api_errors.StatusError(
                504,
                f"{key} was written, but the gateway has not read it back within {READ_BACK_WITHIN:g} s",
            ) from None
        return version

    def _meta(self, object_id: ObjectId, identity: str, caller: Caller) -> Meta:
        return Meta(
            id=identity,
            source=SOURCE,
            type=RESOURCES.event_type,
            time=self._clock.now(),
            subject=self.whole(object_id).key,
            traceparent=caller.traceparent,
        )

    def _audit(self, object_id: ObjectId, declared: ResourceDeclared, verb: str, caller: Caller) -> Audited:
        return self._audited(self.whole(object_id).key, declared.uid, declared.version, verb, caller)

    def _audited(self, key: str, uid: str, version: int, verb: str, caller: Caller) -> Audited:
        return Audited(
            actor=caller.actor,
            verb=verb,
            resource=key,
            uid=uid,
            version=version,
            outcome="committed",
            user=caller.user.name if caller.user is not None else "",
            groups=list(caller.user.groups) if caller.user is not None else [],
            sender=caller.sender,
            time=self._clock.now(),
        )


def _for_services(name: str, declared: ResourceDeclared, cause: Meta) -> Write:
    """Return the record of a configuration that the services follow. They do not read all of `resources` for it."""
    found = MoorageConfiguration.model_validate(declared.object)
    event = ConfigurationChanged(uid=declared.uid, generation=found.metadata.generation, spec=found.spec)
    return Write(CONFIGURATION, name, FLEET, event, _beside(cause, CONFIGURATION, name))


def _beside(cause: Meta, topic: Topic, subject: str) -> Meta:
    """Return the attributes of a record that is written together with the one that causes it."""
    return Meta(
        id=event_id(cause.id, topic.short),
        source=SOURCE,
        type=topic.event_type,
        time=cause.time,
        subject=subject,
        correlation_id=cause.correlation,
        causation_id=cause.id,
        traceparent=cause.traceparent,
    )


def _leave_meta(cause: Meta, key: str, event: LeaveRequested | None) -> Meta:
    """Return the attributes of a request to leave, or of its withdrawal. An object may have several requests."""
    step = "withdrawn" if event is None else event.generation
    identity = event_id(cause.id, EVICTION_REQUESTS.short, key, step)
    return _beside(cause, EVICTION_REQUESTS, key)._replace(id=identity)


def _grant_for_services(name: str, declared: ResourceDeclared | None, cause: Meta) -> Write:
    """Return the record of a ProbeGrant that condition-ingest follows; a tombstone if it is deleted."""
    event = None
    if declared is not None:
        found = ProbeGrant.model_validate(declared.object)
        event = ProbeGrantChanged(uid=declared.uid, generation=found.metadata.generation, spec=found.spec)
    return Write(PROBE_GRANTS, name, FLEET, event, _beside(cause, PROBE_GRANTS, name))


class ObjectLocks:
    """One lock for each object that is being written. Others take no memory."""

    def __init__(self) -> None:
        self._locks: dict[ObjectId, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def held(self, object_id: ObjectId) -> AsyncIterator[None]:
        """Hold the lock of an object within the context."""
        lock, users = self._locks.get(object_id, (asyncio.Lock(), 0))
        self._locks[object_id] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks.pop(object_id)
            if users > 1:
                self._locks[object_id] = (lock, users - 1)


def logged_write(object_id: ObjectId, document: dict[str, Any] | None, meta: Meta) -> Write:
    """Return the record that shows an object, or that it was deleted."""
    event = ObjectShown(object=document) if document is not None else None
    return Write(OBJECTS, object_id.key, FLEET, event, meta._replace(type=OBJECTS.event_type))
