"""Decides on a batch of records. Leaves out malformed records, and those that make a service fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Generic, TypeVar

import structlog

from moorage.runtime.engine.journal import Book
from moorage.runtime.engine.requests import CatchUp, Steps, Turn
from moorage.runtime.process.failures import EncodeError, StartAfresh
from moorage.runtime.process.logs import bound_to
from moorage.runtime.service import Emit, Input, Malformed, NeedFresh, RawRecord, Service
from moorage.runtime.settings.moorage_configuration import Configuration
from moorage.runtime.wire.record_format import HandedOver, RecordFormat, dead_letter
from moorage.runtime.wire.record_places import RecordPlaces
from moorage_schemas.dead_letter import RefusalReason
from moorage_schemas.envelope import Meta
from moorage_schemas.topics import Topic, partition_of

log = structlog.get_logger(__name__)

S = TypeVar("S")


_SHOWN = 256  # characters of an invalid key that are kept
_LONGEST = 1024  # characters of an error that are kept

_SLICE = 25
"""The number of records after which other tasks run at first: the transaction in flight, and other partitions."""

_LARGEST_SLICE = 50
"""The number of records after which they run at the latest, however little time each takes."""

_SLICE_SECONDS = 0.01
"""The maximum time in seconds that a slice should take. Slices get smaller when records take longer."""

DECISION_EVENTS = 2000
"""The number of events after which a decision takes no more records, so that its transaction stays small and ends
soon."""


@dataclass(slots=True)
class BatchDecision:
    """The content of one transaction."""

    now: datetime
    number: int = -1
    """The decision's number in the journal; -1 when no engine made it."""

    emits: list[tuple[Emit, bytes | None]] = field(default_factory=list)
    """The records to write, each with its encoded value."""

    configurations: list[int] = field(default_factory=list)
    """For each of them, the generation of the configuration by which it was decided; 0 for none."""

    positions: dict[Topic, int] = field(default_factory=dict)
    """The next offset of each source that the batch had records of."""

    before: dict[Topic, int] = field(default_factory=dict)
    """The next offset of every source when the decision began."""

    records: int = 0
    left: Sequence[tuple[Topic, Any]] = ()
    """The given records that the decision did not take. They are for the next decision."""

    partition: int = -1
    """The partition of its state records, once it has any events."""

    afresh: str = ""
    """Why the state must be restored once this is written; empty when the state is sound."""

    fresh: bool = False
    """Whether it holds decisions on tables that were read to their present ends. They are soon out of date."""

    rests_on: Mapping[str, int] = field(default_factory=dict)
    """The positions on which the state rests after the decision: `PartitionEngine.rests_on`."""


class BatchProcessor(Generic[S]):
    """Calls the service for one partition's records. It outlives the partition's states.

    When the service fails on a batch, the state may be invalid, so nothing of the batch is written. After the restore
    its records are processed one by one. The record that fails again is noted as poison, and the results of the records
    before it are written. After one more restore, that record becomes a dead letter when its turn comes.

    Args:
        report_max_bytes: the maximum size of a record from third parties.
        form: how records are read and written.
        seconds: a clock that measures how long a slice takes.
        book: records the size of slices; in a replay it supplies them.
    """

    def __init__(
        self,
        service: Service[S],
        partition: int,
        *,
        partitions: int,
        report_max_bytes: int,
        form: RecordFormat,
        seconds: Callable[[], float],
        book: Book,
    ) -> None:
        self._service = service
        self._partition = partition
        self._partitions = partitions
        self._max_bytes = report_max_bytes
        self._form = form
        self._seconds = seconds
        self._book = book
        self._places = RecordPlaces(partition, partitions)
        self._changelogs = frozenset(topic.short for topic in service.changelogs)
        self._slice = _SLICE
        self.steps = 0
        """Grows with each slice of records that is decided on. The watchdog reads it."""

        self.configuration: Configuration | None = None
        """The configuration that the service decides by; None when it needs none."""

        self._singly: set[tuple[str, int]] = set()
        self._poison: dict[tuple[str, int], tuple[str, str]] = {}
        """For each record on which the service has failed, its event's id and the error. A record that was handed over
        in memory, and never written, may not be the one that has its offset in the end."""

        self._fresh = False

    @property
    def is_quick(self) -> bool:
        """Whether records take so little time that slices have not become smaller."""
        return self._slice >= _SLICE

    def process(  # noqa: C901 - one loop that distinguishes the kinds of records
        self, state: S, records: Sequence[tuple[Topic, Any]], decision: BatchDecision, *, catching_up: bool = False
    ) -> Steps[None]:
        """Decide on records, in order, until the transaction is large enough. The rest becomes `decision.left`.

        Raises:
            StartAfresh: the service failed on several records at once, and nothing of them may be written.
        """
        run: list[Input] = []
        careful = bool(self._singly or self._poison)
        self._fresh = False
        yield Turn()
        for number, (topic, record) in enumerate(records):
            if len(run) >= self._slice:
                if not (yield from self._process(state, run, decision, catching_up=catching_up)):
                    return
                run = []
                if len(decision.emits) >= DECISION_EVENTS:
                    decision.left = records[number:]
                    return
                yield Turn()
            decoded = record.input if type(record) is HandedOver else self._decode(topic, record)
            poisonous = alone = False
            if careful:
                place = (topic.short, record.offset)
                poisonous = place in self._poison and self._poison[place][0] == _id_of(decoded)
                alone = poisonous or place in self._singly
            if alone or isinstance(decoded, Malformed):
                if not (yield from self._process(state, run, decision, catching_up=catching_up)):
                    return
                run = []
            if poisonous:
                self._bury(decoded, record, decision)
            elif isinstance(decoded, Malformed):
                self._refuse(state, decoded, decision)
            else:
                run.append(decoded)
                if alone:
                    if not (yield from self._process(state, run, decision, catching_up=catching_up)):
                        return
                    run = []
        yield from self._process(state, run, decision, catching_up=catching_up)

    def _decode(self, topic: Topic, record: Any) -> Input | Malformed:
        """Return a consumed record as the service sees it. Third parties' keys are left to the service."""
        is_third_party = topic in self._service.refuses
        found = self._form.decode(topic, record, third_party=is_third_party, max_bytes=self._largest())
        if is_third_party or isinstance(found, Malformed):
            return found
        rule = self._places.flaw(topic, found.key, found.event)
        return found if not rule else self._misplaced(found, record, rule)

    def _misplaced(self, found: Input, record: Any, rule: str) -> Malformed:
        """Return the refusal of a record whose key is not that of its event or of its partition."""
        shown = found.key[:_SHOWN]
        return Malformed(
            topic=found.topic,
            partition=found.partition,
            offset=found.offset,
            raw=self._form.raw(record),
            reason=RefusalReason.WRONG_KEY.value,
            message=f"key: invalid value {shown!r}: {rule}",
            field="key",
            value=shown,
            rule=rule,
        )

    def add(self, decision: BatchDecision, emits: Sequence[Emit]) -> None:
        """Add the records that the service emits when it is woken, or when it reconciles.

        Raises:
            EncodeError: an event cannot be written.
        """
        serialize, own, partitions = self._form.serialize, self._partition, self._partitions
        added = []  # all events, or none when one cannot be written
        topic: Topic | None = None
        key: str | None = None
        is_state = False
        for emit in emits:
            if emit.topic is not topic:
                topic, key = emit.topic, None
                is_state = topic.short in self._changelogs
            if is_state and emit.partition_key is not key:
                key = emit.partition_key  # records about one target often follow each other
                if partition_of(key, partitions) != own:
                    raise self._strayed(emit)
            added.append((emit, serialize(emit)))
        decision.partition = self._partition
        decision.emits += added
        generation = self.configuration.generation if self.configuration is not None else 0
        decision.configurations += [generation] * len(added)

    def add_apart(self, decision: BatchDecision, emits: Sequence[Emit]) -> None:
        """Add records as `add` does, but leave out what cannot be written, with all of the same cause.

        There is a dead letter for it. Otherwise nothing that is due at the same time would ever be written.
        """
        try:
            self.add(decision, emits)
        except EncodeError:
            left_out: set[str] = set()
            for emit in emits:
                if emit.cause.id not in left_out:
                    try:
                        self.add(BatchDecision(decision.now), [emit])
                    except EncodeError as error:
                        left_out.add(emit.cause.id)
                        self._refuse_emit(decision, emit, error)
            self.add(decision, [emit for emit in emits if emit.cause.id not in left_out])

    def set_aside(self, decision: BatchDecision, key: str, error: str) -> None:
        """Add the dead letter of a key on which the service has failed when it was woken."""
        topic = (*self._service.changelogs, *self._service.sources)[0]
        self._refuse_own(decision, topic, key, f"the service failed on it when it was woken: {error}")

    def _refuse_emit(self, decision: BatchDecision, emit: Emit, error: EncodeError) -> None:
        log.error(
            "emit.not_written", service=self._service.name, topic=emit.topic.short, key=emit.key, error=str(error)
        )
        event = emit.event
        value = None if event is None else event.model_dump_json().encode()
        why = f"it could not be written: {error}"
        self._refuse_own(decision, emit.topic, emit.key, why, value=value, cause=emit.cause)

    def _refuse_own(
        self,
        decision: BatchDecision,
        topic: Topic,
        key: str,
        message: str,
        *,
        value: bytes | None = None,
        cause: Meta | None = None,
    ) -> None:
        """Add the dead letter of a record of this service that is not in a topic."""
        bad = Malformed(
            topic=topic,
            partition=self._partition,
            offset=0,
            raw=RawRecord(key.encode(), value, ()),
            reason=RefusalReason.INVALID_EVENT.value,
            message=message[:_LONGEST],
            rule="must not make the service fail",
        )
        self._add_refusal(decision, [dead_letter(self._service.name, bad, decision.now, cause)], bad)

    def _largest(self) -> int:
        """Return the maximum size of a report in bytes."""
        found = self.configuration
        return found.settings.report_max_bytes if found is not None and found.generation else self._max_bytes

    def _process(self, state: S, run: Sequence[Input], decision: BatchDecision, *, catching_up: bool) -> Steps[bool]:
        """Process a run of records. Return False when it was a single record on which the service failed.

        When a record needs fresh tables, they are read once. They are then as new as all records of the run.
        """
        if not run:
            return True
        while True:
            began = self._seconds()
            try:
                if catching_up:
                    self.add(decision, self._service.catch_up(state, run, decision.now))
                else:
                    self.add(decision, self._service.process(state, run, decision.now, fresh=self._fresh))
                break
            except Exception as error:  # noqa: BLE001 - the function is pure, so the record caused the error
                if self._fresh or not isinstance(error, NeedFresh):
                    self._failed(run, decision, error)
                    return False
            yield CatchUp(self._service.fresh_globals)
            self._fresh = True
        passed = {record.topic.short: record for record in run}  # the last record of each topic
        for record in passed.values():
            decision.positions[record.topic] = record.offset + 1
        decision.records += len(run)
        self._measure(self._seconds() - began)
        if self._singly:
            self._singly.difference_update((record.topic.short, record.offset) for record in run)
        return True

    def _measure(self, seconds: float) -> None:
        """Make slices smaller when they take long, and larger again when they do not."""
        self.steps += 1
        size = self._slice
        if seconds > _SLICE_SECONDS:
            size = max(1, int(size * _SLICE_SECONDS / seconds))
        elif size < _LARGEST_SLICE and 2 * seconds <= _SLICE_SECONDS:
            size = min(_LARGEST_SLICE, 2 * size)
        self._slice = self._book.slice(self._slice, size)

    def _failed(self, run: Sequence[Input], decision: BatchDecision, error: Exception) -> None:
        service, first = self._service.name, run[0]
        if len(run) > 1:
            self._singly.update((record.topic.short, record.offset) for record in run)
            log.warning("batch.failed", service=service, partition=self._partition, records=len(run), error=repr(error))
            raise StartAfresh("the service failed on a batch") from error
        self._poison[first.topic.short, first.offset] = (first.meta.id, f"{type(error).__name__}: {error}")
        with bound_to(first.meta, first.key, service=service):
            log.error(
                "record.poisonous",
                topic=first.topic.short,
                partition=self._partition,
                offset=first.offset,
                exc_info=error,
            )
        decision.afresh = "the service failed on a record"

    def _bury(self, decoded: Input | Malformed, record: Any, decision: BatchDecision) -> None:
        """Write a dead letter for a record on which the service failed."""
        place = (decoded.topic.short, decoded.offset)
        rule = "must not make the service fail"
        bad = Malformed(
            topic=decoded.topic,
            partition=decoded.partition,
            offset=decoded.offset,
            raw=self._form.raw(record),
            reason=RefusalReason.INVALID_EVENT.value,
            message=f"the service failed on it: {self._poison[place][1]}",
            rule=rule,
        )
        cause = decoded.meta if isinstance(decoded, Input) else None
        self._add_refusal(decision, [dead_letter(self._service.name, bad, decision.now, cause)], bad)
        self._passed(decoded, decision)
        self._singly.discard(place)

    def _refuse(self, state: S, bad: Malformed, decision: BatchDecision) -> None:
        """Pass a third party's malformed record to the service. Any other malformed record gets a dead letter here."""
        emits: list[Emit]
        if bad.topic in self._service.refuses:
            try:
                emits = self._service.refuse(state, bad, decision.now)
            except Exception:
                log.exception("refuse.failed", service=self._service.name, topic=bad.topic.short, offset=bad.offset)
                emits = [dead_letter(self._service.name, bad, decision.now)]
        else:
            emits = [dead_letter(self._service.name, bad, decision.now)]
        self._add_refusal(decision, emits, bad)
        self._passed(bad, decision)

    def _add_refusal(self, decision: BatchDecision, emits: Sequence[Emit], bad: Malformed) -> None:
        """Add dead letters. If they are too large, add one without the original instead, so that work continues."""
        try:
            self.add(decision, emits)
        except EncodeError as error:
            log.exception("refusal.not_written", service=self._service.name, topic=bad.topic.short, offset=bad.offset)
            short = replace(bad, raw=RawRecord(None, None, ()), value="", message=f"{bad.reason}; {error}"[:1024])
            self.add(decision, [dead_letter(self._service.name, short, decision.now)])

    def _passed(self, record: Input | Malformed, decision: BatchDecision) -> None:
        decision.positions[record.topic] = record.offset + 1
        decision.records += 1

    def _strayed(self, emit: Emit) -> EncodeError:
        """Return the error of a state record that belongs to another partition."""
        return EncodeError(
            f"{emit.topic.short} {emit.key}: invalid value {emit.partition_key!r}: state must stay in its task's "
            f"partition {self._partition}, but this key belongs to partition "
            f"{partition_of(emit.partition_key, self._partitions)}"
        )


def _id_of(decoded: Input | Malformed) -> str:
    return decoded.meta.id if isinstance(decoded, Input) else ""
