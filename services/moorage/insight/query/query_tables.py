"""The tables that explanations rest on: the last record of each key, kept up to date, and placement's view.

A record is kept as it was received until an explanation needs the tables. Of a key, only its last record is kept. The
number of such unread records is limited, and beyond it the oldest ones are read into the tables. There, an event is
decoded at once only if placement's view needs it. Otherwise its bytes are kept, and decoded when an explanation needs
it. Records can be found by their ids, by their chains, and by the owners of their workloads.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any, Final, NamedTuple, Self

import orjson
import structlog
from typing_extensions import override

from moorage.decide.scheduling.nodes.pod_controllers import controller_key
from moorage.insight.explain.chain import Chained
from moorage.insight.explain.grounds import TOPICS, Grounds, target_in
from moorage.runtime.process import metrics
from moorage.runtime.service import GlobalView, Input, Malformed
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire import codec
from moorage.runtime.wire.packing import Packer
from moorage.workers.placement.fleet_view import FleetView
from moorage.workers.placement.service import PlacementService
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import CONDITIONS, EVICTIONS, PLACEMENTS, RESOURCES, Topic

NAME: Final = "query"

_log = structlog.get_logger(__name__)

_EPOCH: Final = datetime.fromtimestamp(0, UTC)

_TOMBSTONES: Final = 50_000
"""The number of deletions that are kept, the latest. They may also be causes. Older ones are `lost` in a chain."""

_MOST_UNREAD: Final = 10_000
"""The number of unread records that are kept. The first question after a while waits until they are read."""

_MOST_UNREAD_BYTES: Final = 16 << 20
"""The size of their values that is kept."""

_PORTION: Final = 50
"""Unread records that are read before other work gets its turn."""

_ID: Final = "ce_id"
_CORRELATION: Final = "ce_correlationid"


class _Unread(NamedTuple):
    """A record that is not in the tables yet."""

    topic: Topic
    record: Any
    correlation: str
    is_new: bool
    """Whether the tables had no record of its key."""

    @property
    def size(self) -> int:
        return len(self.record.value or b"")


class _Head(NamedTuple):
    """The kept parts of a record beside its key and its value."""

    partition: int
    offset: int
    millis: int
    gone: bool
    meta: Meta


class Stored:
    """One record, packed. Its parts are unpacked at each use.

    Args:
        event: the event of a record whose value alone is not the event.
    """

    __slots__ = ("_event", "_kept", "_packer", "key", "topic")

    def __init__(
        self, packer: Packer, topic: Topic, record: Any, *, key: str, meta: Meta, event: Model | None = None
    ) -> None:
        self.topic = topic
        self.key = key
        self._event = event
        self._packer = packer
        # The subject is nearly always the key. JSON has no line break outside of its strings, so one ends the head.
        attributes: list[object] = [*meta]
        if meta.subject == key:
            attributes[_SUBJECT] = None
        value: bytes | None = record.value
        head = (record.partition, record.offset, record.timestamp, value is None, attributes)
        self._kept = packer.pack(orjson.dumps(head) + b"\n" + (value or b""))

    @property
    def partition(self) -> int:
        """Its partition."""
        return self._head.partition

    @property
    def offset(self) -> int:
        """Its offset."""
        return self._head.offset

    @property
    def meta(self) -> Meta:
        """Its attributes."""
        return self._head.meta

    @property
    def event(self) -> Model | None:
        """The event. None for a tombstone, and if the record cannot be decoded."""
        if self._event is not None:
            return self._event
        value = self._value
        return codec.event_of(self.topic, value) if value else None

    @property
    def gone(self) -> bool:
        """Whether it is a tombstone."""
        return self._head.gone

    @property
    def timestamp(self) -> datetime:
        """Kafka's timestamp of the record."""
        return _EPOCH + timedelta(milliseconds=self._head.millis)

    @property
    def owner(self) -> str:
        """The key of the owner of a decision's workload. Empty if the record is not a decision."""
        return _owner(self._value)

    @property
    def controller(self) -> str:
        """The key of the controller of a mirrored object. Empty if it has none, or the record is no such object."""
        return _controller(self._value)

    @property
    def _head(self) -> _Head:
        partition, offset, millis, gone, meta = orjson.loads(self._packer.unpack(self._kept).partition(b"\n")[0])
        found = Meta(*meta)
        time = datetime.fromisoformat(meta[_TIME]) if meta[_TIME] is not None else None
        subject = self.key if meta[_SUBJECT] is None else found.subject
        return _Head(partition, offset, millis, gone, found._replace(time=time, subject=subject))

    @property
    def _value(self) -> bytes:
        return self._packer.unpack(self._kept).partition(b"\n")[2]


_TIME: Final = Meta._fields.index("time")
_SUBJECT: Final = Meta._fields.index("subject")


def _owner(value: bytes | None) -> str:
    """Return the key of the owner in the value of a decision. Empty if the value is not one."""
    if not value:
        return ""
    try:
        ref = orjson.loads(value)["owner"]
        cluster = f"{ref['cluster']}:" if ref.get("cluster") else ""
        return f"{cluster}{ref['kind']}/{ref.get('namespace', '')}/{ref['name']}"
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        return ""


def _controller(value: bytes | None) -> str:
    """Return the key of the controller of a mirrored object. Empty if it has none, or the value is no such object."""
    if not value or b'"mirrored"' not in value or b'"ownerReferences"' not in value:
        return ""
    event = codec.event_of(RESOURCES, value)
    return controller_key(event) if isinstance(event, ResourceDeclared) else ""


class QueryTables(GlobalView, Grounds):
    """The present tables. What an explanation assumes in placement's view is undone at its end."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.taken = _EPOCH
        self._service = PlacementService(settings)
        self._view = self._service.new_globals()
        self._last: dict[str, dict[str, Stored]] = {topic.short: {} for topic in TOPICS}
        self._by_id: dict[str, Stored] = {}
        self._packers: dict[str, Packer] = {topic.short: Packer() for topic in TOPICS}
        self._chains: dict[str, Stored | set[Stored]] = {}
        """By correlation. Many chains have one record, for which no set is made."""

        self._made: dict[str, set[str]] = {}
        """The workloads of each owner, without workloads that are their own owner."""

        self._mirrored: dict[str, set[str]] = {}
        """The mirrored objects of each controller in their cluster."""

        self._about: dict[str, dict[str, set[str]]] = {topic.short: {} for topic in (CONDITIONS, EVICTIONS)}
        """The keys about each target, by topic."""

        self._gone: deque[Stored] = deque()
        self._unread: dict[tuple[str, bytes], _Unread] = {}
        """By topic and key, the oldest first."""

        self._unread_bytes = 0
        self._unread_chains: Counter[str] = Counter()
        self._new: dict[str, int] = {topic.short: 0 for topic in TOPICS}
        """The number of unread keys of which the tables have no record, by topic."""

    # From the log.

    @override
    def apply(self, record: Input) -> None:
        self._view.apply(record)

    @override
    def changed(self) -> Iterable[int] | None:
        return ()  # nothing waits for changes

    def fold(self, topic: Topic, record: Any) -> None:
        """Keep a consumed record until the tables are needed. If there are too many, read the oldest ones."""
        place = (topic.short, record.key or b"")
        if place in self._unread:
            self._take(place)
        is_new = place[1].decode(errors="replace") not in self._last[topic.short]
        correlation = (correlation_of(record.headers) or b"").decode(errors="replace")
        unread = self._unread[place] = _Unread(topic, record, correlation, is_new)
        self._unread_bytes += unread.size
        self._unread_chains[correlation] += 1
        self._new[topic.short] += is_new
        while len(self._unread) > _MOST_UNREAD or self._unread_bytes > _MOST_UNREAD_BYTES:
            self._read_oldest()

    def read(self) -> Iterator[None]:
        """Read all unread records into the tables, a portion at each step. More may be added meanwhile."""
        while self._unread:
            for _ in range(min(_PORTION, len(self._unread))):
                self._read_oldest()
            yield

    def _read_oldest(self) -> None:
        unread = self._take(next(iter(self._unread)))
        self._read(unread.topic, unread.record)

    def _take(self, place: tuple[str, bytes]) -> _Unread:
        unread = self._unread.pop(place)
        self._unread_bytes -= unread.size
        self._new[place[0]] -= unread.is_new
        if self._unread_chains[unread.correlation] > 1:
            self._unread_chains[unread.correlation] -= 1
        else:
            del self._unread_chains[unread.correlation]
        return unread

    def _read(self, topic: Topic, record: Any) -> None:
        """Apply a consumed record. If it is not an event of Moorage, it is logged, and its key has no record."""
        meta, key = codec.attributes(topic, record), (record.key or b"").decode(errors="replace")
        if meta is not None and not self._view.wants(topic, key):
            self._put(topic, record, key, meta)
            return
        decoded = codec.decode(topic, record)
        if isinstance(decoded, Malformed):
            self._forget(topic, key)
            self._skip(topic, record, decoded.message)
            return
        event = decoded.event if meta is None else None  # its value alone is not the event
        self._put(topic, record, decoded.key, decoded.meta, event)
        if self._view.wants(topic, decoded.key):
            try:
                self.apply(decoded)
            except Exception as error:  # noqa: BLE001 - any error is due to this record, and must not affect the others
                self._skip(topic, record, repr(error))

    def _skip(self, topic: Topic, record: Any, problem: str) -> None:
        metrics.TABLE_RECORDS_SKIPPED.labels(NAME).inc()
        place = {"topic": topic.short, "partition": record.partition, "offset": record.offset}
        _log.error("query.record_skipped", **place, problem=problem)

    def _put(self, topic: Topic, record: Any, key: str, meta: Meta, event: Model | None = None) -> None:
        self._forget(topic, key)
        stored = Stored(self._packers[topic.short], topic, record, key=key, meta=meta, event=event)
        self._last[topic.short][key] = stored
        self._by_id[meta.id] = stored
        known = self._chains.setdefault(meta.correlation, stored)
        if isinstance(known, set):
            known.add(stored)
        elif known is not stored:
            self._chains[meta.correlation] = {known, stored}
        if topic is PLACEMENTS and (owner := _owner(record.value)) not in {"", key}:
            self._made.setdefault(owner, set()).add(key)
        if topic is RESOURCES and (controller := _controller(record.value)):
            self._mirrored.setdefault(controller, set()).add(key)
        if target := target_in(topic, key):
            self._about[topic.short].setdefault(target, set()).add(key)
        if record.value is None:
            self._gone.append(stored)
            while len(self._gone) > _TOMBSTONES:
                self._forget_if_last(self._gone.popleft())

    def _forget_if_last(self, record: Stored) -> None:
        if self._last[record.topic.short].get(record.key) is record:
            self._forget(record.topic, record.key)

    def _forget(self, topic: Topic, key: str) -> None:
        record = self._last[topic.short].pop(key, None)
        if record is None:
            return
        meta = record.meta
        if self._by_id.get(meta.id) is record:
            del self._by_id[meta.id]
        known = self._chains[meta.correlation]
        if isinstance(known, set):
            known.discard(record)
        if not isinstance(known, set) or not known:
            del self._chains[meta.correlation]
        if topic is PLACEMENTS and (owner := record.owner) not in {"", key}:
            _discard(self._made, owner, key)
        if topic is RESOURCES and (controller := record.controller):
            _discard(self._mirrored, controller, key)
        if target := target_in(topic, key):
            _discard(self._about[topic.short], target, key)

    # Questions.

    def as_of(self, taken: datetime) -> Self:
        """Return the tables as the state of a moment. It is valid as long as nothing is read.

        Records that are still unread are read first.
        """
        for _ in self.read():
            pass
        now = copy(self)
        now.taken = taken
        return now

    @property
    @override
    def records(self) -> Self:
        return self

    @override
    def last(self, topic: Topic, key: str) -> Stored | None:
        return self._last[topic.short].get(key)

    def find(self, event_id: str) -> Stored | None:
        """Return the record of an event."""
        return self._by_id.get(event_id)

    def chain(self, correlation: str) -> Iterable[Stored]:
        """Return the records of a chain, in any order."""
        found = self._chains.get(correlation, ())
        return (found,) if isinstance(found, Stored) else found

    def correlations(self) -> Iterable[str]:
        """Return the chains of which there are records, unread ones included."""
        return chain(self._chains, self._unread_chains)

    def has_chain(self, correlation: str) -> bool:
        """Return whether there is a record of a chain."""
        return correlation in self._chains or correlation in self._unread_chains

    @override
    def decisions_for(self, owner: str) -> Mapping[str, WorkloadPlaced]:
        found = {}
        for key in (*self._made.get(owner, ()), owner):
            record = self.last(PLACEMENTS, key)
            event = record.event if record is not None else None
            if isinstance(event, WorkloadPlaced) and event.owner.key == owner:
                found[key] = event
        return found

    @override
    def mirrored_of(self, owner: str) -> Iterable[str]:
        return self._mirrored.get(owner, ())

    @override
    def placement(self) -> tuple[PlacementService, FleetView]:
        return self._service, self._view

    @override
    def about(self, topic: Topic, target: str) -> Iterable[Stored]:
        records = self._last[topic.short]
        return [records[key] for key in self._about[topic.short].get(target, ())]

    def sizes(self) -> dict[str, int]:
        """Return the number of records of each topic, unread ones included."""
        return {short: len(records) + self._new[short] for short, records in self._last.items()}


class ChainsNow(Chained):
    """A copy of the present records of some chains."""

    def __init__(self, tables: QueryTables, correlations: Iterable[str]) -> None:
        self._tables = tables
        self._chains = {correlation: tuple(tables.chain(correlation)) for correlation in correlations}
        self._by_id = {record.meta.id: record for records in self._chains.values() for record in records}

    @override
    def find(self, event_id: str) -> Stored | None:
        return self._by_id.get(event_id) or self._tables.find(event_id)  # the present one of another chain

    @override
    def chain(self, correlation: str) -> Iterable[Stored]:
        return self._chains.get(correlation, ())


def _discard(index: dict[str, set[str]], name: str, one: str) -> None:
    found = index.get(name)
    if found is not None:
        found.discard(one)
        if not found:
            del index[name]


def correlation_of(headers: Iterable[tuple[str, bytes]]) -> bytes | None:
    """Return the id of a record's chain. It is the record's own id if the record began the chain."""
    own = None
    for name, value in headers:
        if name == _CORRELATION and value:
            return value
        if name == _ID:
            own = value
    return own
