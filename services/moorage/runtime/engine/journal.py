"""Records the steps of an engine that do not follow from the records alone, so that a replay can repeat them.

The records show the decisions. They do not show the time of a decision, the number of records of each topic that it
rests on, or the order in which sources, followed topics and the global view were read in between. A `Journal` notes
this, entry by entry, in its order. Tasks write the entries together with their decisions: unwritten entries become part
of the next transaction with output, of any task. Until then they wait in memory, which is safe, because nothing that
was written rests on them. Many of them are written without other output. In a service with a global view, which all
partitions of a process share, each process has one journal. In any other service each task has its own.

The entries are lists, to keep them small and fast: every record that is read is noted here. k is the number of a
task, t the number of a topic (its index in `topics` of the first entry), and p a partition. Offsets are written as the
first offset, the number of consecutive records from there, the number of offsets that are left out, the number of
consecutive records after them, and so on:

    {"service", "partitions", "topics", "settings"}     the first entry of every journal
    ["v", t, p, offsets…]     the view folded in records
    ["V"]                     the view was read to its end
    ["o", k, p]               a task with a new engine
    ["r", k, p, [committed…], tokens…]     it restores; None for a source without a committed offset. Where the
                                           position to begin at is limited, the limits follow, one for each source
    ["s", k, [t, end, count, …]]     before it restores: a standby has folded in the records of these tables below these
                                     offsets, and their number
    ["f", k, t, offsets…]     it folded in records of a table
    ["d", k, now, tokens…]    it decides; microseconds since the epoch
    ["c", k, tokens…]         it continues after other tasks had their turn
    ["x", k]                  it discarded its state

Tokens state what the engine found at each step, in order. "t" means that it continued at once. The answer to a request
follows the request. A list [t, offsets…] stands for the records that were taken. A value of `Flag` means that the flag
holds. "z5" means that slices have five records from here on. {"m": [t, offset, …]} stands for the transaction markers
that were passed.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

import orjson
import structlog
from typing_extensions import override

from moorage.runtime.engine.requests import Bounded, Bounds, Refresh, Request
from moorage.runtime.process import metrics
from moorage.runtime.service import Service
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import Topic

log = structlog.get_logger(__name__)

STEPS_HEADER: Final = "moorage-steps"
"""The header of a transaction's first record. It names the decision, and holds steps that were not written before."""

_HEAVY: Final = 4000
"""The number of values in waiting entries above which they are written without other output: about 25 kB."""

_LOST: Final = 1_000_000
"""The number of values in waiting entries above which the journal is given up. This happens in a process that owns no
partition, because it writes nothing."""

_HEADER_BYTES: Final = 4096
"""The maximum size in bytes of steps in a header. Larger ones get records of their own."""

_PART_BYTES: Final = 500_000
"""Bytes of entries that go into one record. Compressed and encoded as base64, they are far below Kafka's limit."""

_ENTRY: Final = 6
"""The weight of an entry in addition to its values, for tokens that are added later."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

# These settings name addresses and control how the process runs. They change no decision.
_ELSEWHERE: Final = frozenset(
    {
        "bootstrap_servers",
        "topic_prefix",
        "partitions",
        "replication_factor",
        "batch_max_records",
        "batch_linger_ms",
        "transaction_timeout_ms",
        "session_timeout_ms",
        "heartbeat_interval_ms",
        "standbys",
        "reconcile_interval",
        "watchdog_timeout",
        "http_host",
        "http_port",
        "gateway_port",
        "query_server",
        "server",
        "log_format",
        "log_level",
    }
    | {name for name in Settings.model_fields if name.startswith("kafka_")}
)


class Flag(StrEnum):
    """A condition that an engine checks at a step."""

    BEGINS = "b"
    """Nothing has been decided since the restore, and the global topics are read first."""

    CONFIGURES = "g"
    """Nothing has been decided since the restore, and the configuration is read before the waiting records."""

    WAITS = "q"
    """Records are waiting after one of these two. They are decided on with a later time."""

    CAUGHT_UP = "k"
    """The source tables are read to the ends that they had at the start."""

    RECONCILES = "r"
    """A round of the reconciler is due."""

    POKED = "p"
    """The service is woken, even if nothing is due."""

    HELD = "h"
    """A wake-up that has failed is postponed."""

    FRESH = "n"
    """Everything that was needed has been read."""


Taken = Sequence[tuple[Topic, Any]]


class Book:
    """Facts that do not follow from the records. A live engine finds and notes them; a replay supplies them.

    This one notes nothing, for engines whose steps are not recorded.
    """

    @property
    def heavy(self) -> bool:
        """Whether steps are to be written even without other output."""
        return False

    def stood_by(self, contents: Mapping[Topic, tuple[int, int]]) -> None:
        """Note the tables of a standby: for each, the offset below which it has read, and the number of records."""

    def restores(self, committed: Mapping[Topic, int | None], no_later: Mapping[Topic, int]) -> None:
        """Note that a restore begins."""

    def decides(self, now: datetime) -> int:  # noqa: ARG002 - for books that note it
        """Note that a decision begins, and return its number, which is that of its first entry; -1 for none."""
        return -1

    def resumed(self, request: Request, answer: object) -> None:
        """Note that the engine continues with an answer to its request."""

    def folded(self, topic: Topic, records: Sequence[Any]) -> None:
        """Note that records of a table are folded in."""

    def forgot(self) -> None:
        """Note that the state is discarded."""

    def took(self, take: Callable[[], Taken]) -> Taken:
        """Return the records that are taken now."""
        return take()

    def flag(self, flag: Flag, found: bool) -> bool:  # noqa: ARG002, FBT001 - for other books; a value that was found
        """Return whether a flag holds."""
        return found

    def slice(self, before: int, found: int) -> int:  # noqa: ARG002 - for other books
        """Return how many records the next slice has."""
        return found

    def passed(self, found: Mapping[Topic, int]) -> Mapping[Topic, int]:
        """Return the positions that have moved past transaction markers."""
        return found


@dataclass(slots=True)
class Part:
    """Entries that are written together."""

    first: int
    """The number of the first entry, counted from the start of the journal."""

    entries: list[Any]


class Journal:
    """The steps of one process, or of one task.

    Args:
        run: the journal's name, different from every other.
    """

    def __init__(self, run: str, service: Service[Any], settings: Settings, *, partitions: int) -> None:
        self.run = run
        self.service = service.name
        self._topics = {topic.short: place for place, topic in enumerate(topics_of(service))}
        head = {
            "service": service.name,
            "partitions": partitions,
            "topics": list(self._topics),
            "settings": deciding(settings),
        }
        self._entries: list[Any] = [head]
        self._first = 0
        self._weight = 0
        self._engines = 0
        self._back: list[Part] = []
        self._closed = False

    @property
    def heavy(self) -> bool:
        """Whether the waiting entries are to be written even without other output."""
        return self._weight > _HEAVY

    def book(self, partition: int) -> TaskBook:
        """Return the book of a new engine of a partition."""
        number = self._engines
        self._engines += 1
        self.note(["o", number, partition])
        return TaskBook(self, number, partition, self._topics)

    def viewed(self, topic: Topic, partition: int, records: Sequence[Any]) -> None:
        """Note that the view folded in records."""
        entry = ["v", self._topics[topic.short], partition]
        _offsets(entry, records)
        self.note(entry)

    def view_whole(self) -> None:
        """Note that the view was read to its end. Records that are read from now on wake partitions."""
        self.note(["V"])

    def note(self, entry: list[Any]) -> None:
        """Add an entry."""
        if self._closed:
            return
        self._entries.append(entry)
        self.weigh(len(entry) + _ENTRY)

    def weigh(self, numbers: int) -> None:
        """Add to the weight of the waiting entries, and give up the journal when it becomes too heavy."""
        self._weight += numbers
        if self._weight > _LOST:
            self._give_up()

    def is_last(self, entry: list[Any]) -> bool:
        """Return whether nothing was noted or written since an entry."""
        return bool(self._entries) and self._entries[-1] is entry

    @property
    def number(self) -> int:
        """The number of the latest entry; -1 when the journal was given up."""
        return -1 if self._closed else self._first + len(self._entries) - 1

    def take(self) -> list[Part]:
        """Return the entries to write now. If they are not written, they must be returned with `give_back`."""
        parts, self._back = self._back, []
        if self._entries:
            parts.append(Part(self._first, self._entries))
            self._first += len(self._entries)
            self._entries = []
        self._weight = 0
        return parts

    def give_back(self, parts: Sequence[Part]) -> None:
        """Take back entries that may not have been written. They are written again, under the same numbers."""
        if self._closed:
            return
        self._back += parts
        self.weigh(sum(len(entry) + _ENTRY for part in parts for entry in part.entries))

    def _give_up(self) -> None:
        """Stop noting. A replay detects that steps are missing, and reports it."""
        self._closed = True
        self._entries, self._back, self._weight = [], [], 0
        metrics.JOURNALS_GIVEN_UP.labels(self.service).inc()
        log.warning("journal.given_up", service=self.service, run=self.run)


class TaskBook(Book):
    """Notes the steps of one engine in a journal.

    Args:
        topics: the number of each topic, by short name.
    """

    def __init__(self, journal: Journal, number: int, partition: int, topics: Mapping[str, int]) -> None:
        self.journal = journal
        self.partition = partition
        self._number = number
        self._topics = topics
        self._entry: list[Any] = []

    @property
    def service(self) -> str:
        """The name of the service."""
        return self.journal.service

    @property
    @override
    def heavy(self) -> bool:
        return self.journal.heavy

    @override
    def stood_by(self, contents: Mapping[Topic, tuple[int, int]]) -> None:
        flat: list[int] = []
        for topic, (end, count) in contents.items():
            flat += (self._topics[topic.short], end, count)
        self._begin(["s", self._number, flat])

    @override
    def restores(self, committed: Mapping[Topic, int | None], no_later: Mapping[Topic, int]) -> None:
        limits = [no_later.get(topic) for topic in committed] if no_later else []
        self._begin(["r", self._number, self.partition, [*committed.values(), *limits]])

    @override
    def decides(self, now: datetime) -> int:
        self._begin(["d", self._number, microseconds(now)])
        return self.journal.number

    @override
    def resumed(self, request: Request, answer: object) -> None:
        if self.journal.is_last(self._entry):
            self._entry.append("t")
        else:
            self._begin(["c", self._number])
        if isinstance(request, Bounds):
            self._entry.append(_bounded(request, answer))
        elif isinstance(request, Refresh):
            self._entry.append(found := _fresh(request, answer))
            if found:
                self.journal.weigh(2 * len(found[2]))

    @override
    def folded(self, topic: Topic, records: Sequence[Any]) -> None:
        entry = ["f", self._number, self._topics[topic.short]]
        _offsets(entry, records)
        self.journal.note(entry)

    @override
    def forgot(self) -> None:
        self.journal.note(["x", self._number])

    @override
    def took(self, take: Callable[[], Taken]) -> Taken:
        taken = take()
        runs: list[list[int]] = []
        if taken:
            run: list[Any] = []
            last: Topic | None = None
            for topic, record in taken:
                if topic is not last:
                    if last is not None:
                        runs.append(self._run(last, run))
                    run, last = [], topic
                run.append(record)
            if last is not None:
                runs.append(self._run(last, run))
        self._entry.append(runs)
        self.journal.weigh(sum(map(len, runs)))
        return taken

    @override
    def flag(self, flag: Flag, found: bool) -> bool:
        if found:
            self._entry.append(flag.value)
        return found

    @override
    def slice(self, before: int, found: int) -> int:
        if found != before:
            self._entry.append(f"z{found}")
        return found

    @override
    def passed(self, found: Mapping[Topic, int]) -> Mapping[Topic, int]:
        if found:
            flat: list[int] = []
            for topic, offset in found.items():
                flat += (self._topics[topic.short], offset)
            self._entry.append({"m": flat})
        return found

    def _begin(self, entry: list[Any]) -> None:
        self._entry = entry
        self.journal.note(entry)

    def _run(self, topic: Topic, records: Sequence[Any]) -> list[int]:
        run = [self._topics[topic.short]]
        _offsets(run, records)
        return run


def topics_of(service: Service[Any] | type[Service[Any]]) -> tuple[Topic, ...]:
    """Return everything that a service reads, each topic once."""
    return tuple(
        {
            topic.short: topic for topic in (*service.sources, *service.changelogs, *service.follows, *service.globals)
        }.values()
    )


def deciding(settings: Settings) -> dict[str, Any]:
    """Return the settings that decisions rest on and that are not the defaults."""
    found = settings.model_dump(exclude_defaults=True, exclude=set(_ELSEWHERE))
    return {name: str(value) if value == float("inf") else value for name, value in found.items()}


def microseconds(when: datetime) -> int:
    """Return a time as whole microseconds since the epoch."""
    return (when - _EPOCH) // _MICROSECOND


def time_of(stamp: int) -> datetime:
    """Return the time that `microseconds` was given."""
    return _EPOCH + timedelta(microseconds=stamp)


def heading(book: TaskBook, decision: int, records: int, parts: Iterable[Part]) -> bytes:
    """Return the value of `STEPS_HEADER`: run, decision number, partition, number of records, and steps."""
    return orjson.dumps({"run": book.journal.run, "tx": [decision, book.partition, records], "steps": _plain(parts)})


def fits(header: bytes, record_bytes: int, limit: int) -> bool:
    """Return whether steps fit into a header of a record of this size, in a topic with this limit."""
    return len(header) <= _HEADER_BYTES and record_bytes + 2 * len(header) <= limit - _HEADER_BYTES


def texts(parts: Iterable[Part]) -> list[tuple[int, str]]:
    """Encode steps for records of their own, each with the number of its first entry: JSON, compressed, as base64."""
    found = []
    for part in parts:
        begin = size = 0
        for end, entry in enumerate(part.entries, 1):
            size += len(orjson.dumps(entry))
            if size > _PART_BYTES or end == len(part.entries):
                some = Part(part.first + begin, part.entries[begin:end])
                packed = zlib.compress(orjson.dumps(_plain([some])), 1)
                found.append((some.first, base64.b64encode(packed).decode()))
                begin, size = end, 0
    return found


def steps_of(text: str) -> list[list[Any]]:
    """Decode the output of `texts`: lists of [number of the first entry, entries].

    Raises:
        ValueError: the text is not in that form.
    """
    try:
        found = orjson.loads(zlib.decompress(base64.b64decode(text, validate=True)))
    except (ValueError, zlib.error) as error:
        raise ValueError(f"steps: {error}") from None
    return list(found)


def _plain(parts: Iterable[Part]) -> list[list[Any]]:
    return [[part.first, part.entries] for part in parts]


def _offsets(into: list[Any], records: Sequence[Any]) -> None:
    """Add the offsets of records in the journal's format: the first offset, then counts of records and gaps in turn."""
    first, last = records[0].offset, records[-1].offset
    into.append(first)
    if last - first + 1 == len(records):
        into.append(len(records))
        return
    run, expected = 0, first
    for record in records:
        offset = record.offset
        if offset != expected:
            into += (run, offset - expected)
            run = 0
        run += 1
        expected = offset + 1
    into.append(run)


def _bounded(request: Bounds, answer: Any) -> list[Any]:
    bounded: Bounded = answer
    ends = [bounded.end[topic] for topic in (*request.end, *request.committed)]
    return [[bounded.begin[topic] for topic in request.begin], ends]


def _fresh(request: Refresh, answer: Any) -> list[Any]:
    if answer is None:
        return []
    ends = [answer.ends[topic] for topic in request.needs.tables]
    return [microseconds(answer.now), ends, dict(sorted(answer.lagging.items()))]


class Journals:
    """The journals of one process: one for all its tasks when they share a view, otherwise one for each.

    Args:
        name: the name of the process, different from every other.
    """

    def __init__(self, name: str, service: Service[Any], settings: Settings, *, partitions: int) -> None:
        self._name = name
        self._service = service
        self._settings = settings
        self._partitions = partitions
        self._made = 0
        self.shared = self._make() if service.globals else None

    def book(self, partition: int) -> TaskBook:
        """Return the book of a new engine of a partition."""
        return (self.shared or self._make()).book(partition)

    def _make(self) -> Journal:
        self._made += 1
        run = f"{self._name}.{self._made}"
        return Journal(run, self._service, self._settings, partitions=self._partitions)
