"""Writes what a bridge has seen in a real cluster (docs/bridge.md, "The mirror endpoint").

An object is stored as the cluster has it. It is read once as the services read it, so that what they cannot read is
refused here, with its field, value and rule, and stops nothing else. A batch is one transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from moorage.apiserver.admission import made_pods, taint_edits, validation
from moorage.apiserver.kinds.kind import Kind, ServedKind, named
from moorage.apiserver.kinds.node import Target
from moorage.apiserver.kinds.status.index import MirroredIndex
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.machinery.api_errors import StatusError, shorten
from moorage.apiserver.storage.cluster_store import ClusterNames
from moorage.apiserver.storage.durable_log import Write, check_sizes
from moorage.apiserver.storage.tables import Tables
from moorage.apiserver.writing.object_records import Caller
from moorage.apiserver.writing.writer import Writer
from moorage.decide.kubernetes.attributes import CLUSTERS, MIRRORS, OWN_GROUP
from moorage.decide.kubernetes.field_errors import FieldError, duplicate, invalid, not_supported, required
from moorage.decide.kubernetes.pod_resources import pod_requests
from moorage.decide.kubernetes.quantities import QuantityError, whole_amounts
from moorage.decide.kubernetes.unstructured import at, part
from moorage_schemas.refs import HOME, TargetKind, fleet_called
from moorage_schemas.resource import Mirrored, ResourceDeclared, TaintWish
from moorage_schemas.resources.meta import Resource
from moorage_schemas.resources.workload_kinds import POD
from moorage_schemas.taint import Taint

_NOT_KEPT: Final = frozenset({"resourceVersion", "managedFields", "selfLink"})
_DECIDED: Final = frozenset({"conditions", "heldTaints"})
"""Parts of the status of a target that services determine. A bridge reports conditions."""

_AT_ONCE: Final = 64
"""How many objects are read before other requests have their turn."""

_NOT_MIRRORED: Final = "is no kind that is mirrored"

Document = dict[str, Any]


class MirrorOutcome(StrEnum):
    """The outcome of an object of a batch."""

    WRITTEN = "Written"
    UNCHANGED = "Unchanged"
    """It is recorded already, or its deletion is."""

    IGNORED = "Ignored"
    """The recorded object is newer."""

    REFUSED = "Refused"
    """It cannot be recorded. The message has the reason."""


@dataclass(frozen=True, slots=True)
class MirrorResult:
    """The outcome of an object of a batch, and why if that is not plain."""

    key: str
    outcome: MirrorOutcome
    message: str = ""


@dataclass(frozen=True, slots=True)
class MirrorBatch:
    """The objects that a bridge has seen, in that order."""

    source: str
    """The bridge."""

    objects: Sequence[Any]
    """Objects as their cluster has them."""

    deleted: Sequence[Any] = ()
    """The kinds, namespaces, names and uids of deleted objects."""

    cluster_uid: str = ""
    """The uid of the cluster's namespace `kube-system`. Empty if the bridge does not send it."""

    keeps_taints: bool = False
    """Whether the cluster's own controllers decide on the taints of its targets."""

    is_shown: bool = True
    """Whether the objects are shown when the batch is written. Otherwise they are shown later, when there is time."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """An object that can be recorded. Without a document, a deleted one."""

    object_id: ObjectId
    uid: str
    document: Document | None = None
    version: str = ""
    taints: tuple[Taint, ...] = ()
    is_target: bool = False


@dataclass
class _Writing:
    """The records of a batch so far."""

    records: dict[str, ResourceDeclared | None] = field(default_factory=dict)
    """By key. None is a tombstone."""

    writes: list[Write] = field(default_factory=list)


class Mirror:
    """Writes batches of what was seen in one cluster, or of the home fleet, whose locks protect facts of all fleets."""

    def __init__(self, writer: Writer, names: ClusterNames, home: Writer) -> None:
        self._writer = writer
        self._names = names
        self._home = home
        self._fleet = writer.fleet

    async def write(self, batch: MirrorBatch, caller: Caller) -> list[MirrorResult]:
        """Write a batch in one transaction. Returns what became of the objects, and then of those that were deleted.

        Raises:
            StatusError: 409 if the bridge has mirrored another cluster, or the cluster is mirrored under another name,
                503 if nothing was written, 504 if the outcome is unknown.
        """
        self._writer.ensure_writable()
        seen: list[_Seen | MirrorResult] = []
        for number, one in enumerate(batch.objects):
            seen.append(self._read(one))
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)  # other requests have their turn
        seen += [self._read_deleted(one) for one in batch.deleted]
        async with AsyncExitStack() as held:
            if batch.cluster_uid and not self._cluster_uids(batch):
                # Of two clusters that come at the same time, the second one sees what the first has written.
                await held.enter_async_context(self._writer.lock(ObjectId(MIRRORS, "", batch.source)))
            kinds = {one.object_id.kind for one in seen if isinstance(one, _Seen) and one.document is not None}
            if batch.cluster_uid and not kinds <= self._kinds(batch):
                # The same of two names of one cluster.
                await held.enter_async_context(self._home.lock(ObjectId(CLUSTERS, "", batch.cluster_uid)))
            # A holder of the lock of a pod may wait for that of its controller, so pods come first.
            ids = {one.object_id for one in seen if isinstance(one, _Seen)}
            for object_id in sorted(ids, key=lambda one: (one.kind != POD, one)):
                await held.enter_async_context(self._writer.lock(object_id))
            self._writer.ensure_writable()
            writing, tables = _Writing(), self._fleet.tables
            self._check_cluster(batch)
            self._check_name(batch, kinds)
            results = [
                one if isinstance(one, MirrorResult) else self._decide(one, batch, writing, tables, caller)
                for one in seen
            ]
            if writing.writes:
                await self._writer.records.write_all(writing.writes, "what was mirrored", is_shown=batch.is_shown)
        return results

    def _cluster_uids(self, batch: MirrorBatch) -> set[str]:
        """Return the uids of the clusters that the bridge of a batch has mirrored so far."""
        return self._fleet.tables.index(MirroredIndex).cluster_uids(batch.source)

    def _check_cluster(self, batch: MirrorBatch) -> None:
        """Check that a batch is of the cluster that its bridge has mirrored so far.

        Otherwise two clusters under one name would forget each other's objects.
        """
        known = self._cluster_uids(batch) - {batch.cluster_uid}
        if batch.cluster_uid and known:
            fleet = fleet_called(self._fleet.cluster)
            raise StatusError(
                409,
                f"clusterUID: invalid value {shorten(batch.cluster_uid)!r}: {fleet} has objects that {batch.source} "
                f"has mirrored from the cluster with the uid {min(known)}",
            )

    def _kinds(self, batch: MirrorBatch) -> AbstractSet[str]:
        """Return the kinds of which objects of the cluster of a batch are mirrored under its name so far."""
        return self._fleet.tables.index(MirroredIndex).kinds_of(batch.cluster_uid)

    def _check_name(self, batch: MirrorBatch, kinds: AbstractSet[str]) -> None:
        """Check that objects of a cluster are not mirrored under another name.

        A batch without objects, with which a bridge reports that it runs, is about all that it has mirrored. So two
        bridges are noticed that have mirrored a cluster under two names already. Raises StatusError: 409 if they are.
        """
        if not batch.cluster_uid:
            return
        other = self._names.another(self._fleet.cluster, batch.cluster_uid, kinds | self._kinds(batch))
        if other is not None:
            raise StatusError(
                409,
                f"clusterUID: invalid value {shorten(batch.cluster_uid)!r}: {other.source} mirrors this cluster as "
                f"{fleet_called(other.name)} already ({', '.join(other.kinds)}), and a cluster has one name",
                reason="AlreadyExists",
                details={"group": OWN_GROUP, "kind": CLUSTERS, "name": other.name or HOME},
            )

    def _decide(
        self, seen: _Seen, batch: MirrorBatch, writing: _Writing, tables: Tables, caller: Caller
    ) -> MirrorResult:
        """Decide on one object, and add its record to those that are written if there is one."""
        source = batch.source
        key = self._writer.records.whole(seen.object_id).key
        own_key = seen.object_id.key
        stored = writing.records[key] if key in writing.records else tables.resources.get(own_key)
        is_own = stored.mirrored is None if stored is not None else made_pods.is_made(seen.object_id, tables)
        if is_own and not self._fleet.cluster:
            return MirrorResult(key, MirrorOutcome.REFUSED, "is declared here")
        if seen.document is None:
            return self._delete(seen, stored, writing, caller)
        known = stored.mirrored if stored is not None else None
        is_same = stored is not None and stored.uid == seen.uid
        if is_same and known is not None and _is_older(seen.version, known.resource_version):
            why = f"the version {known.resource_version} is recorded already, and {seen.version} is older"
            return MirrorResult(key, MirrorOutcome.IGNORED, why)
        keeps = batch.keeps_taints and seen.is_target
        recorded = (known.taints, known.source, known.keeps_taints) if known is not None else None
        if stored is not None and stored.object == seen.document and recorded == (seen.taints, source, keeps):
            # That its version is newer is not recorded: it would be a record for each change of what is not mirrored,
            # such as a heartbeat. So a late batch with a version in between may be taken. Its bridge sees that in the
            # topics, and sends the present state again.
            return MirrorResult(key, MirrorOutcome.UNCHANGED)
        declared = ResourceDeclared(
            object=seen.document,
            version=stored.version + 1 if stored is not None else 1,
            wishes=self._taint_edits(seen, stored if is_same else None, source),
            cluster=self._fleet.cluster,
            mirrored=Mirrored(
                source=source,
                resource_version=seen.version,
                cluster_uid=batch.cluster_uid,
                taints=seen.taints,
                keeps_taints=keeps,
            ),
        )
        write = self._writer.records.record(seen.object_id, declared, caller)
        try:
            check_sizes([write])
        except StatusError as error:
            return MirrorResult(key, MirrorOutcome.REFUSED, error.message)
        writing.records[key] = declared
        writing.writes.append(write)
        return MirrorResult(key, MirrorOutcome.WRITTEN)

    def _delete(self, seen: _Seen, stored: ResourceDeclared | None, writing: _Writing, caller: Caller) -> MirrorResult:
        key = self._writer.records.whole(seen.object_id).key
        if stored is None:
            return MirrorResult(key, MirrorOutcome.UNCHANGED)
        if seen.uid not in {"", stored.uid}:
            why = f"the object with the uid {stored.uid} is recorded, and {seen.uid} is another one"
            return MirrorResult(key, MirrorOutcome.IGNORED, why)
        writing.records[key] = None
        writing.writes += self._writer.records.removal(seen.object_id, stored, caller)
        return MirrorResult(key, MirrorOutcome.WRITTEN)

    def _taint_edits(self, seen: _Seen, stored: ResourceDeclared | None, source: str) -> tuple[TaintWish, ...]:
        """Return the edits of the taints of a target: those made here, and those of others in the cluster."""
        before = stored.mirrored.taints if stored is not None and stored.mirrored is not None else ()
        known = stored.wishes if stored is not None else ()
        if not before and not seen.taints and not known:
            return ()
        applied = self._writer.wishes_applied(stored) if stored is not None else 0
        now = self._writer.now()
        new = taint_edits.difference(before, seen.taints, known, applied=applied, now=now, actor=source)
        return taint_edits.merged(known, new, applied)

    def _read(self, document: Any) -> _Seen | MirrorResult:
        """Read an object as the services do."""
        if not isinstance(document, dict):
            return self._refused("", f"{shorten(document)!r} is not an object")
        key = self._key_in(document.get("kind"), part(document, "metadata"))
        kind = _kind_of(document)
        if isinstance(kind, FieldError):
            return self._refused(key, str(kind))
        document = kind.definition.stored({**document, "metadata": document.get("metadata") or {}})
        try:
            resource = validation.typed(document, kind)
        except StatusError as error:
            return self._refused(key, error.message)
        found = _flaws(kind.definition, resource) or _wrong_amounts(document)
        if found:
            return self._refused(key, "; ".join(map(str, found)))
        meta, is_target = resource.metadata, isinstance(kind.definition, Target)
        return _Seen(
            ObjectId(kind.kind, meta.namespace, meta.name),
            meta.uid,
            _kept(document, is_target=is_target),
            meta.resource_version,
            _taints(resource),
            is_target,
        )

    def _read_deleted(self, said: Any) -> _Seen | MirrorResult:
        if not isinstance(said, dict):
            return self._refused("", f"{shorten(said)!r} is not an object")
        key = self._key_in(said.get("kind"), said)
        found: list[FieldError] = [
            invalid(name, shorten(said[name]), "must be text")
            for name in ("kind", "namespace", "name", "uid")
            if not isinstance(said.get(name, ""), str)
        ]
        definition = named(said["kind"]) if not found and said.get("kind") else None
        if not found and (definition is None or not definition.mirrorable):
            found.append(invalid("kind", shorten(said.get("kind", "")), _NOT_MIRRORED))
        if not said.get("name"):
            found.append(required("name", ""))
        if found:
            return self._refused(key, "; ".join(map(str, found)))
        return _Seen(ObjectId(said["kind"], said.get("namespace", ""), said["name"]), said.get("uid", ""))

    def _key_in(self, kind: Any, names: Mapping[str, Any]) -> str:
        """Return the key of what is refused, as far as it can be read."""
        parts = (str(shorten(one or "")) for one in (kind, names.get("namespace"), names.get("name")))
        return self._writer.records.whole(ObjectId(*parts)).key

    @staticmethod
    def _refused(key: str, why: str) -> MirrorResult:
        return MirrorResult(key, MirrorOutcome.REFUSED, why)


def _kind_of(document: Mapping[str, Any]) -> ServedKind | FieldError:
    """Return the kind of an object, at its version. An error if objects of it are not mirrored."""
    kind, api_version = document.get("kind"), document.get("apiVersion")
    definition = named(kind) if isinstance(kind, str) else None
    if definition is None or not definition.mirrorable:
        return invalid("kind", shorten(kind), _NOT_MIRRORED)
    if api_version not in definition.api_versions:
        return not_supported("apiVersion", shorten(api_version), list(definition.api_versions))
    return ServedKind(definition, str(api_version).rpartition("/")[2])


def _flaws(definition: Kind[Any], resource: Resource) -> list[FieldError]:
    """Return what makes that an object cannot be distinguished from others, or that its taints cannot be read."""
    meta = resource.metadata
    found = definition.validate_metadata(meta)
    if not meta.uid:
        found.append(required("metadata.uid", ""))
    seen = set[tuple[str, str]]()
    for number, taint in enumerate(_taints(resource)):
        path = f"spec.taints[{number}]"
        found += [required(f"{path}.{name}", "") for name in ("key", "effect") if not getattr(taint, name)]
        if taint.identity in seen:
            found.append(duplicate(path, f"{taint.key}:{taint.effect}"))
        seen.add(taint.identity)
    return found


def _wrong_amounts(document: Mapping[str, Any]) -> list[FieldError]:
    """Return what is no quantity of the resources that a pod requests, or a node offers."""
    try:
        if document["kind"] == POD:
            pod_requests(part(document, "spec"), part(document, "status"))
        elif document["kind"] == TargetKind.NODE.value:
            for amounts in ("capacity", "allocatable"):
                whole_amounts(at(document, "status", amounts), f"status.{amounts}")
    except QuantityError as error:
        return [invalid(error.field, error.value, error.rule)]
    return []


def _taints(resource: Resource) -> tuple[Taint, ...]:
    given = getattr(getattr(resource, "spec", None), "taints", None) or ()
    return tuple(
        Taint(key=one.key, value=one.value, effect=one.effect, time_added=one.time_added)
        for one in given
        if isinstance(one, Taint)
    )


def _kept(document: Document, *, is_target: bool) -> Document:
    """Return what is stored of an object."""
    metadata = {name: value for name, value in document["metadata"].items() if name not in _NOT_KEPT}
    found = {**document, "metadata": metadata}
    if is_target:
        found["spec"] = {name: value for name, value in part(document, "spec").items() if name != "taints"}
        status = {name: value for name, value in part(document, "status").items() if name not in _DECIDED}
        found.pop("status", None)
        if status:
            found["status"] = status
    return found


def _is_older(version: str, known: str) -> bool:
    """Return whether a resource version comes before another one. Versions that are no numbers have no order."""
    return version.isdecimal() and known.isdecimal() and int(version) < int(known)
