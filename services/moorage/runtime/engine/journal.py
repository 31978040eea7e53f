"""What an engine did that does not follow from the records alone: the steps from which a replay makes the same again.

Records say what was decided, but not at which time, on how much of each topic, and in which order records of several
topics, the followed ones and the global view came in between. A `Journal` notes that, entry by entry, in the order in
which it happened, and its owners write it beside what they decide: the entries that nobody has written yet ride with
the next transaction of any of them that has output. Until then they wait in memory, for nothing that was written rests
on them; when they grow many, they are written by themselves. Where a service has a global view, which all partitions
of a process share, the process has one journal; elsewhere each owner has its own.

The entries are lists, for this is on the way of every record (k: an owner's number, t: a topic's, by its place in the
first entry's `topics`, p: a partition, offsets: first, how many, how many are left out, how many, …):

    {"service", "partitions", "topics", "settings"}     the first of every journal
    ["v", t, p, offsets…]     the view took records in
    ["V"]                     the view was read to its end
    ["o", k, p]               an owner with a new engine
    ["r", k, p, [committed…], tokens…]     it restores; None where no offset of a source was committed. Where it may not
                                           begin later than somewhere, these positions follow, one for each source
    ["f", k, t, offsets…]     it folded records of a table
    ["d", k, now, tokens…]    it decides; microseconds since the epoch
    ["c", k, tokens…]         it goes on after others had their turn
    ["x", k]                  it threw its state away

Tokens say, in the order in which the engine comes by, what was found there: "t" it went on at once; after a question
its answer; a list of [t, offsets…] the records that were taken; a flag of `Flag` that holds; "z5" that slices are of
five records from here on; {"m": [t, offset, …]} markers that were passed.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final, Protocol

import orjson
import structlog

from moorage.runtime import metrics
from moorage.runtime.engine.requests import Bounded, Bounds, Refresh, Request
from moorage.runtime.service import Service
from moorage.runtime.settings import Settings
from moorage_schemas.topics import Topic

log = structlog.get_logger(__name__)

STEPS_HEADER: Final = "moorage-steps"
"""Header of the first record of a transaction: which decision it is of, and steps that were not written before."""

_HEAVY: Final = 4000
"""Numbers in entries at which they are written though nothing else is: about 25 kB."""

_LOST: Final = 1_000_000
"""Numbers in entries that are never held in memory: a process that owns nothing writes nothing."""

_HEADER_BYTES: Final = 4096
"""Bytes of the longest steps that ride in a header; longer ones get records of their own."""

_PART_BYTES: Final = 500_000
"""Bytes of entries that go into one record: compressed, and as base64, far below what Kafka takes."""

_ENTRY: Final = 6
"""What an entry counts beside its numbers, for tokens that come later."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

# Of the settings these say where things are and how the process runs; they change no decision.
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
        "reconcile_interval",
        "watchdog_timeout",
        "http_host",
        "http_port",
        "gateway_port",
        "server",
        "log_format",
        "log_level",
    }
)


class Flag(StrEnum):
    """What holds or not when an engine comes by."""

    BEGINS = "b"
    """Nothing has been decided since the restore, and the global topics are read first."""

    CAUGHT_UP = "k"
    """The source tables are read to where they ended at the start."""

    RECONCILES = "r"
    """A round of the reconciler is due."""

    POKED = "p"
    """The service is woken, whatever it waits for."""

    HELD = "h"
    """A wake-up that has failed is put off."""

    FRESH = "n"
    """Everything that was needed has been read."""


Taken = Sequence[tuple[Topic, Any]]


class Book(Protocol):
    """Where an engine looks for what is not its own to know: live it is found and noted, in a replay it is given."""

    @property
    def heavy(self) -> bool:
        """Whether steps are to be written though nothing else is."""

    def restores(self, committed: Mapping[Topic, int | None], no_later: Mapping[Topic, int]) -> None:
        """A restore begins."""

    def decides(self, now: datetime) -> int:
        """A decision begins; returns its number, -1 for none."""

    def resumed(self, request: Request, answer: object) -> None:
        """The engine goes on with an answer to what it asked for."""

    def folded(self, topic: Topic, records: Sequence[Any]) -> None:
        """Records of a table are folded in."""

    def forgot(self) -> None:
        """The state is thrown away."""

    def took(self, take: Callable[[], Taken]) -> Taken:
        """The records that are taken now."""

    def flag(self, flag: Flag, found: bool) -> bool:  # noqa: FBT001 - what was found, not a switch
        """Whether something holds."""

    def slice(self, before: int, found: int) -> int:
        """How many records the next slice has."""

    def passed(self, found: Mapping[Topic, int]) -> Mapping[Topic, int]:
        """Positions that have moved past markers."""


class NoBook:
    """For engines whose steps nobody wants to see again."""

    heavy = False

    def restores(self, committed: Mapping[Topic, int | None], no_later: Mapping[Topic, int]) -> None:
        """Nothing is noted."""

    def decides(self, now: datetime) -> int:  # noqa: ARG002 - as of Book
        """Nothing is noted."""
        return -1

    def resumed(self, request: Request, answer: object) -> None:
        """Nothing is noted."""

    def folded(self, topic: Topic, records: Sequence[Any]) -> None:
        """Nothing is noted."""

    def forgot(self) -> None:
        """Nothing is noted."""

    def took(self, take: Callable[[], Taken]) -> Taken:
        """What is there."""
        return take()

    def flag(self, flag: Flag, found: bool) -> bool:  # noqa: ARG002, FBT001 - as of Book
        """As it was found."""
        return found

    def slice(self, before: int, found: int) -> int:  # noqa: ARG002 - as of Book
        """As it was found."""
        return found

    def passed(self, found: Mapping[Topic, int]) -> Mapping[Topic, int]:
        """As they were found."""
        return found


@dataclass(slots=True)
class Part:
    """Entries that are written together."""

    first: int
    """The number of the first, counted from the journal's beginning."""

    entries: list[Any]


class Journal:
    """The steps of one process, or of one owner.

    Args:
        run: its name, unlike that of any other.
        service: whose.
        settings: with which it decides.
        partitions: how many each topic has.
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
        self._owners = 0
        self._back: list[Part] = []
        self._over = False

    @property
    def heavy(self) -> bool:
        """Whether what waits is to be written though nothing else is."""
        return self._weight > _HEAVY

    @property
    def waiting(self) -> bool:
        """Whether there are steps that nobody has written."""
        return bool(self._entries or self._back)

    def book(self, partition: int) -> OwnerBook:
        """For a new engine of a partition."""
        number = self._owners
        self._owners += 1
        self.note(["o", number, partition])
        return OwnerBook(self, number, partition, self._topics)

    def viewed(self, topic: Topic, partition: int, records: Sequence[Any]) -> None:
        """The view takes records in."""
        entry = ["v", self._topics[topic.short], partition]
        _offsets(entry, records)
        self.note(entry)

    def view_whole(self) -> None:
        """The view was read to its end; what comes from now on wakes partitions."""
        self.note(["V"])

    def note(self, entry: list[Any]) -> None:
        """Add an entry."""
        if self._over:
            return
        self._entries.append(entry)
        self.weigh(len(entry) + _ENTRY)

    def weigh(self, numbers: int) -> None:
        """Count what waits."""
        self._weight += numbers
        if self._weight > _LOST:
            self._give_up()

    def is_last(self, entry: list[Any]) -> bool:
        """Whether nothing was noted, nor written, since an entry."""
        return bool(self._entries) and self._entries[-1] is entry

    @property
    def number(self) -> int:
        """The number of the latest entry; -1 when nothing is noted any more."""
        return -1 if self._over else self._first + len(self._entries) - 1

    def take(self) -> list[Part]:
        """What is to be written now; it is either `give_back` or gone."""
        parts, self._back = self._back, []
        if self._entries:
            parts.append(Part(self._first, self._entries))
            self._first += len(self._entries)
            self._entries = []
        self._weight = 0
        return parts

    def give_back(self, parts: Sequence[Part]) -> None:
        """What could not be written, as far as is known, is written again: the same entries under the same numbers."""
        if self._over:
            return
        self._back += parts
        self.weigh(sum(len(entry) + _ENTRY for part in parts for entry in part.entries))

    def _give_up(self) -> None:
        """Note nothing any more: a replay sees that steps are missing, and says so."""
        self._over = True
        self._entries, self._back, self._weight = [], [], 0
        metrics.JOURNALS_GIVEN_UP.labels(self.service).inc()
        log.warning("journal.given_up", service=self.service, run=self.run)


class OwnerBook:
    """Notes the steps of one engine in a journal.

    Args:
        journal: where.
        number: of the engine in it.
        partition: the engine's.
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
        """Whose it is."""
        return self.journal.service

    @property
    def heavy(self) -> bool:
        """Whether steps are to be written though nothing else is."""
        return self.journal.heavy

    def restores(self, committed: Mapping[Topic, int | None], no_later: Mapping[Topic, int]) -> None:
        """A restore begins."""
        limits = [no_later.get(topic) for topic in committed] if no_later else []
        self._begin(["r", self._number, self.partition, [*committed.values(), *limits]])

    def decides(self, now: datetime) -> int:
        """A decision begins; returns its number: that of its first entry."""
        self._begin(["d", self._number, microseconds(now)])
        return self.journal.number

    def resumed(self, request: Request, answer: object) -> None:
        """The engine goes on with an answer to what it asked for."""
        if self.journal.is_last(self._entry):
            self._entry.append("t")
        else:
            self._begin(["c", self._number])
        if isinstance(request, Bounds):
            self._entry.append(_bounded(request, answer))
        elif isinstance(request, Refresh):
            self._entry.append(found := _fresh(request, answer))
            if found:
                self.journal.weigh(len(found[2] or ()))

    def folded(self, topic: Topic, records: Sequence[Any]) -> None:
        """Records of a table are folded in."""
        entry = ["f", self._number, self._topics[topic.short]]
        _offsets(entry, records)
        self.journal.note(entry)

    def forgot(self) -> None:
        """The state is thrown away."""
        self.journal.note(["x", self._number])

    def took(self, take: Callable[[], Taken]) -> Taken:
        """The records that are taken now."""
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

    def flag(self, flag: Flag, found: bool) -> bool:  # noqa: FBT001 - as of Book
        """Whether something holds."""
        if found:
            self._entry.append(flag.value)
        return found

    def slice(self, before: int, found: int) -> int:
        """How many records the next slice has."""
        if found != before:
            self._entry.append(f"z{found}")
        return found

    def passed(self, found: Mapping[Topic, int]) -> Mapping[Topic, int]:
        """Positions that have moved past markers."""
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
    """Everything that a service reads, each topic once."""
    return tuple(
        {
            topic.short: topic for topic in (*service.sources, *service.changelogs, *service.follows, *service.globals)
        }.values()
    )


def deciding(settings: Settings) -> dict[str, Any]:
    """The settings on which decisions rest, where they are not the defaults."""
    found = settings.model_dump(exclude_defaults=True, exclude=set(_ELSEWHERE))
    return {name: str(value) if value == float("inf") else value for name, value in found.items()}


def microseconds(when: datetime) -> int:
    """A time as whole microseconds since the epoch."""
    return (when - _EPOCH) // _MICROSECOND


def time_of(stamp: int) -> datetime:
    """The time of `microseconds`."""
    return _EPOCH + timedelta(microseconds=stamp)


def heading(book: OwnerBook, decision: int, records: int, parts: Iterable[Part]) -> bytes:
    """The value of `STEPS_HEADER`: which decision of which run and partition, how many records it has, and steps."""
    return orjson.dumps({"run": book.journal.run, "tx": [decision, book.partition, records], "steps": _plain(parts)})


def fits(header: bytes, record_bytes: int, limit: int) -> bool:
    """Whether steps may ride with a record of a size in a topic with a limit."""
    return len(header) <= _HEADER_BYTES and record_bytes + 2 * len(header) <= limit - _HEADER_BYTES


def texts(parts: Iterable[Part]) -> list[tuple[int, str]]:
    """Steps for records of their own, each with the number of its first entry: JSON, compressed, as base64."""
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
    """What `texts` has written: [number of the first, entries].

    Raises:
        ValueError: it is none of that.
    """
    try:
        found = orjson.loads(zlib.decompress(base64.b64decode(text, validate=True)))
    except (ValueError, zlib.error) as error:
        raise ValueError(f"steps: {error}") from None
    return list(found)


def _plain(parts: Iterable[Part]) -> list[list[Any]]:
    return [[part.first, part.entries] for part in parts]


def _offsets(into: list[Any], records: Sequence[Any]) -> None:
    """Add the offsets of consecutive records: the first, how many, then in turn how many are left out and follow."""
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
    lagging = None if answer.lagging is None else sorted(answer.lagging)
    return [microseconds(answer.now), [answer.ends[topic] for topic in request.needs.tables], lagging]


class Journals:
    """The journals of one process: one for all its owners where they share a view, else one for each.

    Args:
        name: unlike that of any other process.
        service: whose.
        settings: with which it decides.
        partitions: how many each topic has.
    """

    def __init__(self, name: str, service: Service[Any], settings: Settings, *, partitions: int) -> None:
        self._name = name
        self._service = service
        self._settings = settings
        self._partitions = partitions
        self._made = 0
        self.shared = self._make() if service.globals else None

    def book(self, partition: int) -> OwnerBook:
        """For a new engine of a partition."""
        return (self.shared or self._make()).book(partition)

    def _make(self) -> Journal:
        self._made += 1
        run = f"{self._name}.{self._made}"
        return Journal(run, self._service, self._settings, partitions=self._partitions)
