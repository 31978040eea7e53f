"""Events: the leading gateway writes them about decisions, and removes the old ones.

The name of an event follows from what it counts: the object and the reason. An annotation has the time of the latest
decision that is counted. So a leader that takes over goes through the latest decisions again, and counts none twice.
Events are in the object log alone. No worker reads them.
"""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Final, cast

import orjson
import structlog

from moorage.apiserver.controllers.decisions import (
    DECLARED_PREFIX,
    TOPICS,
    Occurrence,
    PodsMade,
    Similar,
    combined,
    occurrences,
)
from moorage.apiserver.kinds.event import KIND
from moorage.apiserver.kinds.status.namespaces import NAMESPACE
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.machinery.api_errors import StatusError
from moorage.apiserver.storage.durable_log import Log, Write
from moorage.apiserver.storage.store import Store
from moorage.apiserver.writing.object_records import logged_write
from moorage.decide.kubernetes.unstructured import at
from moorage.runtime.process.clock import Clock
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta, event_id
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.names import DEFAULT_NAMESPACE
from moorage_schemas.times import format_time, parse_time
from moorage_schemas.topics import PLACEMENTS, RESOURCES, Topic

_log = structlog.get_logger(__name__)

DECIDED: Final = "moorage.io/decided-time"
"""The annotation with the time of the latest decision that an event counts, to the microsecond."""

_SOURCE: Final = "moorage/gateway"
_AT_ONCE: Final = 200  # records in one transaction, so that people's writes need not wait for many
_PAUSE: Final = 0.1  # seconds between two transactions: at most 2,000 events a second
_FEW: Final = 10  # events that are written at once; more wait, so that the objects that they are about come first
_AGAIN: Final = 5.0  # seconds before a write that has failed is tried again
_LOOK: Final = 30.0  # seconds between two looks at the clock, which may be set
_LONGEST_NAME: Final = 253


@dataclass(slots=True)
class Counted:
    """Occurrences that are to be added to an event."""

    latest: Occurrence
    first: datetime
    """When the first of them was."""

    count: int = 1


class EventRecorder:
    """Writes events about decisions, and removes those that are older than their time to live."""

    def __init__(self, store: Store, log: Log, clock: Clock, *, ttl: timedelta, kept: int) -> None:
        self._store = store
        self._log = log
        self._clock = clock
        self._ttl = ttl
        self._kept = kept
        self._pending: dict[ObjectId, Counted] = {}
        self._written: dict[ObjectId, datetime] = {}
        """When each event was last written."""

        self._oldest: list[tuple[datetime, ObjectId]] = []
        """A heap of these times. An entry counts only while `_written` has the same time."""

        self._pods, self._similar = PodsMade(store, clock.now), Similar()
        self._gone: set[str] = set()
        """Deleted namespaces, whose events are deleted with them."""

        self._wake = asyncio.Event()
        self._reading = True
        """Whether the decisions and events that were there at the start are still to be taken in."""

    @property
    def busy(self) -> bool:
        """Whether there is something to do."""
        return bool(self._reading or self._pending or self._gone or self._is_over())

    def applied(self) -> None:
        """Note that records have been taken in."""
        if self.busy:
            self._wake.set()

    async def run(self) -> None:
        """Work until cancelled."""
        self._written.clear()
        self._oldest.clear()
        self._pods, self._similar = PodsMade(self._store, self._clock.now), Similar()
        self._store.logged, self._store.decided = self._note_event, self._note_record
        self._reading = True
        try:
            await self._read_present()
            self._reading = False
            while True:
                while self.busy:
                    await self._write()
                self._wake.clear()
                await self._until_woken()
                if len(self._pending) > _FEW:
                    await asyncio.sleep(_PAUSE)
        finally:
            self._store.logged = self._store.decided = None

    async def _read_present(self) -> None:
        """Read the present events, and the decisions that an earlier leader may not have reported."""
        for number, shown in enumerate(self._store.all(KIND.kind)):
            document = orjson.loads(shown.unversioned)
            object_id = ObjectId(KIND.kind, document["metadata"]["namespace"], document["metadata"]["name"])
            self._note_time(object_id, document)
            self._know(document)
            if ObjectId(NAMESPACE, "", object_id.namespace) not in self._store:
                self._gone.add(object_id.namespace)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        resources = self._store.tables.resources
        for key in [key for key in resources if key.startswith(DECLARED_PREFIX)]:
            if (declared := resources.get(key)) is not None:
                self._note(RESOURCES, declared)
        for topic in TOPICS:
            for number, record in enumerate(self._store.tables.tables[topic.short].records()):
                self._note(topic, record)
                if topic is PLACEMENTS:
                    self._add(self._pods.present(record), at_start=True)
                if number % _AT_ONCE == 0:
                    await asyncio.sleep(0)

    async def _until_woken(self) -> None:
        """Return when there is something new, or after a while."""
        try:
            async with asyncio.timeout(_LOOK):
                await self._wake.wait()
        except TimeoutError:
            return

    def _note_record(self, topic: Topic, key: str, event: Model | None) -> None:
        """Count the occurrences in a record of another topic."""
        if topic is PLACEMENTS:
            self._add(self._pods.placed(key, event))
        if topic is RESOURCES:
            if event is None or key.startswith(DECLARED_PREFIX):
                self._add(self._pods.declared(key, cast("ResourceDeclared | None", event)))
            if event is None and key.startswith(f"{NAMESPACE}/"):
                self._gone.add(ObjectId.of(key).name)
            elif event is not None and key.startswith(DECLARED_PREFIX):
                self._note(topic, event)
        elif event is not None:
            self._note(topic, event)

    def _note(self, topic: Topic, record: Any) -> None:
        self._add(occurrences(topic.short, record))

    def _add(self, found: Iterable[Occurrence], *, at_start: bool = False) -> None:
        """Note occurrences as due."""
        since = self._clock.now() - self._ttl
        for each in found:
            if each.time <= since or (at_start and self._is_combined(each)):
                continue
            one = self._gathered(each)
            object_id = event_of(one)
            counted = self._pending.get(object_id)
            if counted is None:
                while len(self._pending) >= max(self._kept, 1):
                    del self._pending[next(iter(self._pending))]
                self._pending[object_id] = Counted(one, one.time)
            elif counted.latest.time < one.time or one.counts_all:
                counted.latest = one
                counted.count += 1

    def _gathered(self, one: Occurrence) -> Occurrence:
        """Return an occurrence as it is reported: by itself, or with similar ones if they are many."""
        object_id = event_of(one)
        if object_id in self._pending or object_id in self._store:
            return one
        if self._similar.is_many(one):
            return combined(one)
        self._similar.know(one.about.uid, one.reason, one.time)
        return one

    def _is_combined(self, one: Occurrence) -> bool:
        """Return whether an earlier leader has reported an occurrence together with others."""
        present = self._store.get(event_of(combined(one)))
        return present is not None and decided_at(present.document) >= one.time

    def _know(self, document: Mapping[str, Any]) -> None:
        """Count an event of an earlier leader among those that are like it."""
        uid, reason = at(document, "involvedObject", "uid"), str(document.get("reason") or "")
        self._similar.know(str(uid or ""), reason, decided_at(document))

    def _note_event(self, object_id: ObjectId, json: bytes | None) -> None:
        """Keep an event that was written, and forget one that was deleted."""
        if object_id.kind != KIND.kind:
            return
        if json is None:
            self._written.pop(object_id, None)
        else:
            self._note_time(object_id, orjson.loads(json))

    def _note_time(self, object_id: ObjectId, document: Mapping[str, Any]) -> None:
        time = min(written_at(document), self._clock.now())
        if self._written.get(object_id) != time:
            self._written[object_id] = time
            heapq.heappush(self._oldest, (time, object_id))

    def _is_over(self) -> bool:
        """Return whether the oldest event is to go."""
        while self._oldest and self._written.get(self._oldest[0][1]) != self._oldest[0][0]:
            heapq.heappop(self._oldest)
        if not self._oldest:
            return False
        return len(self._written) > self._kept or self._oldest[0][0] + self._ttl <= self._clock.now()

    async def _write(self) -> None:
        """Write what is due, in one transaction. What cannot be written now stays due."""
        counted = dict(islice(self._pending.items(), _AT_ONCE))
        for object_id in counted:
            del self._pending[object_id]
        writes = {
            object_id: write
            for object_id, one in counted.items()
            if (write := self._counted(object_id, one)) is not None
        }
        over = [*self._of_gone(), *self._take_over()]
        writes = {**{object_id: logged_write(object_id, None, self._meta(object_id)) for object_id in over}, **writes}
        if writes:
            try:
                await self._log.commit(list(writes.values()))
            except StatusError as error:
                self._put_back(counted, over)
                _log.warning("gateway.events_not_written", events=len(writes), why=error.message)
                await asyncio.sleep(_AGAIN)
        if self.busy:
            await asyncio.sleep(_PAUSE)

    def _put_back(self, counted: Mapping[ObjectId, Counted], over: Iterable[ObjectId]) -> None:
        """Note as due what could not be written."""
        for object_id, one in counted.items():
            if (later := self._pending.get(object_id)) is None:
                self._pending[object_id] = one
            else:
                later.first = one.first
                later.count += one.count
        for object_id in over:
            if (time := self._written.get(object_id)) is not None:
                heapq.heappush(self._oldest, (time, object_id))

    def _take_over(self) -> list[ObjectId]:
        """Return the events that are to go, at most those of one transaction."""
        found: list[ObjectId] = []
        excess = len(self._written) - self._kept
        before = self._clock.now() - self._ttl
        while self._oldest and len(found) < _AT_ONCE:
            time, object_id = self._oldest[0]
            if self._written.get(object_id) == time:
                if time > before and len(found) >= excess:
                    break
                found.append(object_id)
            heapq.heappop(self._oldest)
        return found

    def _of_gone(self) -> list[ObjectId]:
        """Return the events in deleted namespaces, at most those of one transaction."""
        found: list[ObjectId] = []
        for namespace in tuple(self._gone):
            left = _AT_ONCE - len(found)
            shown = self._store.all(KIND.kind, namespace)
            found += [ObjectId(KIND.kind, namespace, one.document["metadata"]["name"]) for one in shown[:left]]
            if not shown or ObjectId(NAMESPACE, "", namespace).key in self._store.tables.resources:
                self._gone.discard(namespace)  # it has no events left, or exists again
        return found

    def _counted(self, object_id: ObjectId, one: Counted) -> Write | None:
        """Return the record of an event with more occurrences. None if it has them already, or may not be there."""
        if object_id.namespace in self._gone or self._store.get(ObjectId(NAMESPACE, "", object_id.namespace)) is None:
            return None
        shown = self._store.get(object_id)
        present = shown.document if shown is not None else None
        if present is not None and decided_at(present) >= one.latest.time and not one.latest.counts_all:
            return None
        document = event(object_id, one, present, self._clock.now())
        return logged_write(object_id, document, self._meta(object_id))

    def _meta(self, object_id: ObjectId) -> Meta:
        now = self._clock.now()
        identity = event_id(object_id.key, format_time(now), self._store.version)
        return Meta(id=identity, source=_SOURCE, type="", time=now, subject=object_id.key)


def event_of(one: Occurrence) -> ObjectId:
    """Return the event that counts an occurrence."""
    about = one.about
    cause = repr((about.kind, about.namespace, about.name, about.uid, one.reason, one.matter))
    suffix = f".{hashlib.sha256(cause.encode()).hexdigest()[:16]}"
    return ObjectId(KIND.kind, about.namespace or DEFAULT_NAMESPACE, about.name[: _LONGEST_NAME - len(suffix)] + suffix)


def event(object_id: ObjectId, counted: Counted, present: Mapping[str, Any] | None, now: datetime) -> dict[str, Any]:
    """Return an event that counts occurrences."""
    known, latest = present or {}, counted.latest
    begun = str(known.get("firstTimestamp") or _seconds(counted.first))
    created = str(at(known, "metadata", "creationTimestamp") or _seconds(now))
    uid = at(known, "metadata", "uid") or str(uuid.uuid5(uuid.NAMESPACE_URL, f"{object_id.key}/{created}"))
    return {
        "apiVersion": KIND.api_versions[0],
        "kind": KIND.kind,
        "metadata": {
            "name": object_id.name,
            "namespace": object_id.namespace,
            "uid": uid,
            "creationTimestamp": created,
            "annotations": {DECIDED: format_time(latest.time)},
        },
        "involvedObject": latest.about.reference,
        "reason": latest.reason,
        "message": latest.message,
        "source": {"component": latest.component},
        "firstTimestamp": begun,
        "lastTimestamp": _seconds(latest.time),
        "count": int(known.get("count") or 0) + counted.count,
        "type": latest.type,
        "eventTime": None,
        "reportingComponent": latest.component,
        "reportingInstance": "",
    }


def decided_at(document: Mapping[str, Any]) -> datetime:
    """Return the time of the latest decision that an event counts. The earliest of all times if it has none."""
    return _time(at(document, "metadata", "annotations", DECIDED))


def written_at(document: Mapping[str, Any]) -> datetime:
    """Return when an event was last written, by the clock of the gateway: its writer's times do not count."""
    metadata = document["metadata"]
    fields = metadata.get("managedFields") or ()
    times = (metadata.get("creationTimestamp"), *(one.get("time") for one in fields))
    return max(decided_at(document), *map(_time, times))


def _time(text: Any) -> datetime:
    try:
        found = parse_time(text)
    except ValueError:
        found = None
    return found if isinstance(found, datetime) else datetime.min.replace(tzinfo=UTC)


def _seconds(time: datetime) -> str:
    return format_time(time.replace(microsecond=0))
