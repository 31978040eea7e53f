"""Compares the results of a replay with the recorded records, byte for byte."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from moorage.insight.copy.run import services as every_service
from moorage.insight.replay.player import PREFIX, Made, Player
from moorage.insight.replay.recording import RecordedRecord, Recording, RecordingError
from moorage.insight.replay.runs import Run, RunOutput, runs_of
from moorage.runtime.engine.journal import STEPS_HEADER
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire.codec import Outgoing
from moorage_schemas.topics import JOURNAL, TOPICS

_SHORTS: Final = {topic.name(PREFIX): topic.short for topic in TOPICS}
_TIME: Final = "ce_time"
_ID: Final = "ce_id"
_SOURCE: Final = "ce_source"
_REASONS: Final = 5
"""The number of reasons that are kept for each partition of why something could not be compared."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of two records that differ."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference between a replay and its recording."""

    service: str
    partition: int
    run: str
    step: int
    """The number of the decision in its run."""

    why: str
    topic: str = ""
    topic_partition: int = -1
    offset: int = -1
    """The offset of the recorded record; -1 when no record was recorded."""

    recorded: Side | None = None
    made: Side | None = None


@dataclass(slots=True)
class Tally:
    """The result of comparing one partition of a service."""

    service: str
    partition: int
    sessions: int = 0
    transactions: int = 0
    """Transactions that were recorded with their steps."""

    records: int = 0
    """Records that were compared."""

    equal: int = 0
    """Transactions that were reproduced byte for byte."""

    differing: int = 0
    missing: int = 0
    """Transactions that cannot be made or compared, because something that was read or written is no longer there."""

    unwritten: int = 0
    """Decisions that were made in the replay and are not recorded: aborted, or lost with their process."""

    reasons: list[str] = field(default_factory=list)
    """The first few reasons why something is missing."""

    difference: Difference | None = None
    """The first difference."""


@dataclass(slots=True)
class Replayed:
    """The result of replaying a recording."""

    tallies: list[Tally]
    records: int
    """The number of records in the recording."""

    uncompared: dict[str, int]
    """For each service, the number of its records that were not compared, such as those of older versions without
    steps."""

    @property
    def differing(self) -> int:
        """The number of transactions whose result differs from the recording."""
        return sum(one.differing for one in self.tallies)

    @property
    def missing(self) -> int:
        """The number of transactions that could not be compared."""
        return sum(one.missing for one in self.tallies)

    @property
    def equal(self) -> int:
        """The number of transactions that were reproduced byte for byte."""
        return sum(one.equal for one in self.tallies)


def replay(
    recording: Recording,
    *,
    services: Collection[str] = (),
    partitions: Collection[int] = (),
    progress: Callable[[str, float], None] | None = None,
) -> Replayed:
    """Make every recorded decision again, and compare the results with the recording.

    Args:
        recording: the records.
        services: the services to replay; all when empty.
        partitions: the partitions to replay; all when empty.
        progress: called with the service and the share that is done, 0 to 1.

    Raises:
        RecordingError: the steps cannot be read, or the recording has none of these services and partitions.
    """
    records = _Records(recording)
    tallies: dict[tuple[str, int], Tally] = {}
    every = runs_of(recording)
    runs = [run for run in every if not services or run.service in services]
    if every and not runs:
        there = ", ".join(sorted({run.service for run in every}))
        raise RecordingError(f"it has no steps of {', '.join(services)}, only of {there}")
    for done, run in enumerate(runs):
        if progress is not None:
            progress(run.service, done / len(runs))
        _Comparing(run, recording, records, tallies, partitions).run()
    if runs and partitions and not tallies:
        numbers = ", ".join(map(str, sorted(partitions)))
        raise RecordingError(f"it has no steps of partition {numbers}")
    known = {one.name for one in every_service(Settings())}
    uncompared = {name: left for name, left in records.left().items() if name in (services or known)}
    return Replayed([tallies[place] for place in sorted(tallies)], recording.count, uncompared)


class _Records:
    """The records of a recording, indexed by their ids, and which of them were compared."""

    def __init__(self, recording: Recording) -> None:
        self._by_id: dict[tuple[str, int, bytes], list[RecordedRecord]] = defaultdict(list)
        self._claimed: set[tuple[str, int, int]] = set()
        self._by_service: dict[str, int] = {}
        for record in recording.records():
            headers = dict(record.headers)
            if record.topic == JOURNAL.short:
                continue
            self._by_id[record.topic, record.partition, headers.get(_ID, b"")].append(record)
            source = headers.get(_SOURCE, b"").decode("utf-8", "replace")
            if source.startswith("moorage/"):
                name = source.removeprefix("moorage/")
                self._by_service[name] = self._by_service.get(name, 0) + 1
        self._own: dict[str, int] = {}
        self._at: dict[tuple[str, int, bytes, bytes], list[RecordedRecord]] | None = None
        self._recording = recording

    def claim(self, record: RecordedRecord) -> None:
        """Mark a record as compared."""
        self._claimed.add((record.topic, record.partition, record.offset))
        source = record.header(_SOURCE).decode("utf-8", "replace")
        if source.startswith("moorage/"):
            name = source.removeprefix("moorage/")
            self._own[name] = self._own.get(name, 0) + 1

    def left(self) -> dict[str, int]:
        """Return for each service the number of its records that were not compared."""
        return {
            name: count - self._own.get(name, 0)
            for name, count in sorted(self._by_service.items())
            if count > self._own.get(name, 0)
        }

    def find(self, topic: str, made: Outgoing, time: bytes) -> RecordedRecord | None:
        """Return the unclaimed record with the same id: one that is equal, else one of the given time."""
        found = [one for one in self._by_id.get((topic, made.partition, _of(made.headers, _ID)), ()) if self._free(one)]
        same = next((one for one in found if equal(one, made)), None)
        return same or next((one for one in found if one.header(_TIME) == time), None)

    def alike(self, topic: str, made: Outgoing, source: bytes) -> RecordedRecord | None:
        """Return an unclaimed record of the same key, writer and time under another id."""
        if self._at is None:
            self._at = defaultdict(list)
            for record in self._recording.records():
                place = (record.topic, record.partition, record.header(_SOURCE), record.header(_TIME))
                self._at[place].append(record)
        place = (topic, made.partition, source, _of(made.headers, _TIME))
        found = [one for one in self._at.get(place, ()) if self._free(one)]
        return next((one for one in found if one.key == made.key), None)

    def _free(self, record: RecordedRecord) -> bool:
        return (record.topic, record.partition, record.offset) not in self._claimed


@dataclass(eq=False)
class _Comparing:
    """Compares one run with its recording."""

    of: Run
    recording: Recording
    records: _Records
    tallies: dict[tuple[str, int], Tally]
    partitions: Collection[int]
    _pending: dict[tuple[int, int], list[Made]] = field(default_factory=dict, init=False)
    """Results that were not recorded, by partition and session, until it is known whether they were committed."""

    _strayed: dict[tuple[int, int], Made] = field(default_factory=dict, init=False)
    """The decisions without records in which the engine deviated from the recording, by partition and session."""

    def __post_init__(self) -> None:
        self._player = Player(self.of, self.recording)
        self._written = dict(self.of.transactions)

    def run(self) -> None:
        """Play the run and compare its results. Raises RecordingError if the run was not recorded by this version."""
        sessions: dict[int, int] = {}
        try:
            for made in self._player.play():
                sessions[made.partition] = max(sessions.get(made.partition, 0), made.session)
                if not self.partitions or made.partition in self.partitions:
                    self._decision(made)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise RecordingError(f"the steps of {self.of.service} {self.of.name} cannot be read: {error!r}") from None
        for partition, count in sessions.items():
            if not self.partitions or partition in self.partitions:
                self._tally(partition).sessions += count
        for waiting in self._pending.values():
            for made in waiting:
                self._tally(made.partition).unwritten += 1
        for written in self._written.values():
            self._unplayed(written)

    def _unplayed(self, written: RunOutput) -> None:
        """Count a transaction whose steps are missing, or come after steps that are missing."""
        partition = written.partition
        if not self.partitions or partition in self.partitions:
            tally = self._tally(partition)
            tally.transactions += 1
            if self._strayed:
                self._stray(tally, self._strayed.popitem()[1], written)
            else:
                self._miss(tally, self._player.why_missing())

    def _stray(self, tally: Tally, made: Made, written: RunOutput) -> None:
        """Report the first transaction that was written after the engine deviated; this replay cannot lead to it."""
        self._differ(tally, made, f"the engine goes another way: {made.misfit}", written.first)

    def _decision(self, made: Made) -> None:
        written = self._written.pop(made.number, None)
        place = (made.partition, made.session)
        tally = self._tally(made.partition)
        if written is None:
            if made.misfit:
                self._strayed[place] = made
            elif made.records:
                self._pending.setdefault(place, []).append(made)
            return
        for earlier in self._pending.pop(place, ()):
            # A later decision of the session was committed, so this one was, too. Its first record is no longer there.
            tally.transactions += 1
            first = earlier.records[0]
            self._miss(tally, f"{_SHORTS[first.topic]} {_text(first.key)}: what was written no longer exists")
        tally.transactions += 1
        if strayed := self._strayed.pop(place, None):
            self._stray(tally, strayed, written)
        elif made.missing:
            self._miss(tally, made.missing)
        elif made.misfit:
            self._stray(tally, made, written)
        else:
            self._compare(tally, made, written)

    def _compare(self, tally: Tally, made: Made, written: RunOutput) -> None:
        pairs: list[tuple[Outgoing, RecordedRecord | None]] = []
        time = written.first.header(_TIME)
        for place, one in enumerate(made.records):
            short = _SHORTS[one.topic]
            first = written.first
            if place == 0 and (first.topic, first.partition) == (short, one.partition):
                found: RecordedRecord | None = first if equal(first, one) or first.key == one.key else None
            else:
                found = self.records.find(short, one, time)
            if found is not None:
                self.records.claim(found)
            pairs.append((one, found))
        lost = [one for one, found in pairs if found is None]
        tally.records += len(pairs) - len(lost)
        different = next(((out, found) for out, found in pairs if found is not None and not equal(found, out)), None)
        if different is not None:
            one, other = different
            self._differ(tally, made, _how(one, other), other, one)
        elif len(made.records) != written.records:
            why = f"{len(made.records)} records come out, {written.records} were written"
            self._differ(tally, made, why, None if lost else written.first, lost[0] if lost else None)
        elif lost:
            self._lost(tally, made, lost, written)
        else:
            tally.equal += 1

    def _lost(self, tally: Tally, made: Made, lost: Sequence[Outgoing], written: RunOutput) -> None:
        """Handle a decision with as many records as were written, some of which are not found: gone, or different."""
        source = written.first.header(_SOURCE)
        for one in lost:
            other = self.records.alike(_SHORTS[one.topic], one, source)
            if other is not None:
                self.records.claim(other)
                tally.records += 1
                self._differ(tally, made, _how(one, other), other, one)
                return
        if lost[0] is made.records[0]:
            self._differ(tally, made, "another record comes first", written.first, lost[0])
            return
        one = lost[0]
        self._miss(tally, f"{_SHORTS[one.topic]}/{one.partition} {_text(one.key)}: what was written no longer exists")

    def _differ(
        self, tally: Tally, made: Made, why: str, recorded: RecordedRecord | None, out: Outgoing | None = None
    ) -> None:
        if made.doubt:
            self._miss(tally, made.doubt)
            return
        tally.differing += 1
        if tally.difference is not None:
            return
        tally.difference = Difference(
            service=tally.service,
            partition=tally.partition,
            run=self.of.name,
            step=made.number,
            why=why,
            topic=recorded.topic if recorded is not None else _SHORTS[out.topic] if out is not None else "",
            topic_partition=recorded.partition if recorded is not None else out.partition if out is not None else -1,
            offset=recorded.offset if recorded is not None else -1,
            recorded=None if recorded is None else Side(recorded.key, recorded.value, _plain(recorded.headers)),
            made=None if out is None else Side(out.key, out.value, tuple(out.headers)),
        )

    @staticmethod
    def _miss(tally: Tally, why: str) -> None:
        tally.missing += 1
        if why not in tally.reasons and len(tally.reasons) < _REASONS:
            tally.reasons.append(why)

    def _tally(self, partition: int) -> Tally:
        place = (self.of.service, partition)
        if place not in self.tallies:
            self.tallies[place] = Tally(*place)
        return self.tallies[place]


_NOT_DECIDED: Final = frozenset({STEPS_HEADER, "traceparent"})
"""Headers that are no part of a decision."""


def equal(recorded: RecordedRecord, made: Outgoing) -> bool:
    """Return whether a record was reproduced byte for byte, apart from its steps and its trace context.

    The sampler of the recorded process is not recorded, and earlier versions had no span for each event.
    """
    same = recorded.key == made.key and recorded.value == made.value
    return same and _plain(recorded.headers) == _plain(made.headers)


def _plain(headers: Iterable[tuple[str, bytes]]) -> tuple[tuple[str, bytes], ...]:
    return tuple((name, value) for name, value in headers if name not in _NOT_DECIDED)


def _of(headers: Iterable[tuple[str, Any]], name: str) -> bytes:
    return next((value for found, value in headers if found == name), b"")


def _how(made: Outgoing, recorded: RecordedRecord | None) -> str:
    """Return in words how two records differ."""
    if recorded is None:
        return "nothing like it was written"
    if recorded.key != made.key:
        return "the keys differ"
    if recorded.value != made.value:
        return "the values differ"
    there, here = dict(_plain(recorded.headers)), dict(_plain(made.headers))
    names = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    return f"the headers differ: {', '.join(names) or 'their order'}"


def _text(raw: bytes | None) -> str:
    return (raw or b"").decode("utf-8", "replace")
