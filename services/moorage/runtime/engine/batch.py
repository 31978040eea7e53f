"""From a batch of records to what is written for it, with malformed and poisonous records taken out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Generic, TypeVar

import structlog

from moorage.runtime import metrics
from moorage.runtime.engine.dead_letters import dead_letter
from moorage.runtime.engine.format import RecordFormat
from moorage.runtime.engine.journal import Book
from moorage.runtime.engine.requests import CatchUp, Steps, Turn
from moorage.runtime.errors import EncodeError, StartAfresh
from moorage.runtime.logs import bound_to
from moorage.runtime.service import Emit, Input, Malformed, NeedFresh, RawRecord, Service
from moorage_schemas.dead_letter import RefusalReason
from moorage_schemas.topics import Topic, partition_of

log = structlog.get_logger(__name__)

S = TypeVar("S")


_SLICE = 25
"""Records after which other tasks get their turn: the transaction in flight, and other partitions' owners."""

_SLICE_SECONDS = 0.01
"""Seconds that a slice should take, at most: where records are dear, slices get smaller."""

DECISION_EVENTS = 2000
"""Events after which a decision takes no more records, so that its transaction stays small, and soon ends."""


@dataclass(slots=True)
class BatchDecision:
    """What one transaction will hold."""

    now: datetime
    number: int = -1
    """In the journal; -1 for what no engine decided."""

    emits: list[tuple[Emit, bytes | None]] = field(default_factory=list)
    """What is written, each with its value."""

    positions: dict[Topic, int] = field(default_factory=dict)
    """The next offset of each source that the batch had records of."""

    before: dict[Topic, int] = field(default_factory=dict)
    """The next offset of every source when it began."""

    records: int = 0
    left: Sequence[tuple[Topic, Any]] = ()
    """The records, of those that were given, that it did not take: they are the next decision's."""

    afresh: str = ""
    """Why the state must be restored once this is written; empty when it is sound."""

    fresh: bool = False
    """Whether it holds what was decided on tables read to their present ends, and is worth less with each moment."""


class BatchProcessor(Generic[S]):
    """Calls the service for one partition's records; outlives the partition's states.

    A batch on which the service fails may have spoiled the state, so nothing of it is written. After the restore its
    records are handed over singly; the one that fails again is remembered as poison, what came before it is written,
    and after one more restore it is dead-lettered in its turn.

    Args:
        service: what decides.
        partition: whose records.
        partitions: how many each topic has.
        report_max_bytes: the largest record that is taken from third parties.
        form: how records are read and written.
        seconds: tells how long a slice took.
        book: says how large slices are, in a replay.
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
        self._changelogs = frozenset(topic.short for topic in service.changelogs)
        self._slice = _SLICE
        self.steps = 0
        """Grows with each slice of records that is decided on; for the watchdog."""

        self._singly: set[tuple[str, int]] = set()
        self._poison: dict[tuple[str, int], str] = {}
        self._fresh = False

    def process(  # noqa: C901 - one loop over the kinds of records, told apart here
        self, state: S, records: Sequence[tuple[Topic, Any]], decision: BatchDecision, *, catching_up: bool = False
    ) -> Steps[None]:
        """Decide on records, in order, as many as lead to a transaction of a good size; the rest is `decision.left`.

        Raises:
            StartAfresh: the service failed on several records at once; nothing of them may be written.
        """
        run: list[Input] = []
        third_party = self._service.refuses
        careful = bool(self._singly or self._poison)
        self._fresh = False
        yield Turn()
        last_topic, foreign = None, False
        for number, (topic, record) in enumerate(records):
            if topic is not last_topic:  # a topic's hash is dear: it is made of all its fields
                last_topic, foreign = topic, topic in third_party
            if len(run) >= self._slice:
                if not (yield from self._process(state, run, decision, catching_up=catching_up)):
                    return
                run = []
                if len(decision.emits) >= DECISION_EVENTS:
                    decision.left = records[number:]
                    return
                yield Turn()
            decoded = self._form.decode(topic, record, third_party=foreign, max_bytes=self._max_bytes)
            place = (topic.short, record.offset)
            alone = careful and (place in self._singly or place in self._poison)
            if alone or isinstance(decoded, Malformed):
                if not (yield from self._process(state, run, decision, catching_up=catching_up)):
                    return
                run = []
            if careful and place in self._poison:
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

    def add(self, decision: BatchDecision, emits: Sequence[Emit]) -> None:
        """Add what the service emits by itself: woken, or by its reconciler.

        Raises:
            EncodeError: it cannot be written.
        """
        changelogs, serialize = self._changelogs, self._form.serialize
        added = []  # all of them or, when one cannot be written, none
        for emit in emits:
            if emit.topic.short in changelogs:
                self._check_partition(emit)
            added.append((emit, serialize(emit)))
        decision.emits += added

    def _process(self, state: S, run: Sequence[Input], decision: BatchDecision, *, catching_up: bool) -> Steps[bool]:
        """Process a run of records; False when it was a single one and has spoiled the state.

        What is read once, because one of the records asks for it, is as new as all that were taken together.
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
            except Exception as error:  # noqa: BLE001 - a pure function: whatever it raises, the record made it fail
                if self._fresh or not isinstance(error, NeedFresh):
                    self._failed(run, decision, error)
                    return False
            yield CatchUp(self._service.fresh_globals)
            self._fresh = True
        passed = {record.topic.short: record for record in run}  # the last of each topic
        for record in passed.values():
            decision.positions[record.topic] = record.offset + 1
        decision.records += len(run)
        self._measure(self._seconds() - began)
        if self._singly:
            self._singly.difference_update((record.topic.short, record.offset) for record in run)
        return True

    def _measure(self, seconds: float) -> None:
        """Take smaller slices where they take long, and larger ones again where they do not."""
        self.steps += 1
        size = self._slice
        if seconds > _SLICE_SECONDS:
            size = max(1, int(size * _SLICE_SECONDS / seconds))
        elif size < _SLICE and 2 * seconds <= _SLICE_SECONDS:
            size = min(_SLICE, 2 * size)
        self._slice = self._book.slice(self._slice, size)

    def _failed(self, run: Sequence[Input], decision: BatchDecision, error: Exception) -> None:
        service, first = self._service.name, run[0]
        if len(run) > 1:
            self._singly.update((record.topic.short, record.offset) for record in run)
            log.warning("batch.failed", service=service, partition=self._partition, records=len(run), error=repr(error))
            raise StartAfresh("the service failed on a batch") from error
        self._poison[first.topic.short, first.offset] = f"{type(error).__name__}: {error}"
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
        """Dead-letter a record on which the service failed."""
        place = (decoded.topic.short, decoded.offset)
        rule = "must not make the service fail"
        bad = Malformed(
            topic=decoded.topic,
            partition=decoded.partition,
            offset=decoded.offset,
            raw=self._form.raw(record),
            reason=RefusalReason.INVALID_EVENT.value,
            message=f"the service failed on it: {self._poison[place]}",
            rule=rule,
        )
        cause = decoded.meta if isinstance(decoded, Input) else None
        self._count_refusal(bad)
        self._add_refusal(decision, [dead_letter(self._service.name, bad, decision.now, cause)], bad)
        self._passed(decoded, decision)
        self._singly.discard(place)

    def _refuse(self, state: S, bad: Malformed, decision: BatchDecision) -> None:
        """Let the service refuse what third parties wrote; anything else is dead-lettered here."""
        emits: list[Emit]
        if bad.topic in self._service.refuses:
            try:
                emits = self._service.refuse(state, bad, decision.now)
            except Exception:
                log.exception("refuse.failed", service=self._service.name, topic=bad.topic.short, offset=bad.offset)
                emits = [dead_letter(self._service.name, bad, decision.now)]
        else:
            emits = [dead_letter(self._service.name, bad, decision.now)]
        log.warning(
            "record.refused",
            service=self._service.name,
            topic=bad.topic.short,
            partition=self._partition,
            offset=bad.offset,
            reason=bad.reason,
            problem=bad.message,
        )
        self._count_refusal(bad)
        self._add_refusal(decision, emits, bad)
        self._passed(bad, decision)

    def _add_refusal(self, decision: BatchDecision, emits: Sequence[Emit], bad: Malformed) -> None:
        """Add dead letters; should they not fit into a record, one without the original, so that the rest goes on."""
        try:
            self.add(decision, emits)
        except EncodeError as error:
            log.exception("refusal.not_written", service=self._service.name, topic=bad.topic.short, offset=bad.offset)
            short = replace(bad, raw=RawRecord(None, None, ()), value="", message=f"{bad.reason}; {error}"[:1024])
            self.add(decision, [dead_letter(self._service.name, short, decision.now)])

    def _passed(self, record: Input | Malformed, decision: BatchDecision) -> None:
        decision.positions[record.topic] = record.offset + 1
        decision.records += 1

    def _count_refusal(self, bad: Malformed) -> None:
        metrics.DEAD_LETTERS.labels(self._service.name, bad.reason).inc()

    def _check_partition(self, emit: Emit) -> None:
        goes_to = partition_of(emit.partition_key, self._partitions)
        if goes_to != self._partition:
            raise EncodeError(
                f"{emit.topic.short} {emit.key}: invalid value {emit.partition_key!r}: state must stay in its "
                f"owner's partition {self._partition}, this goes to {goes_to}"
            )
