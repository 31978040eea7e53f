"""Bugs of the partition engine: restoring, catching up, positions, batches."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from tests.chaos.seeded.bugs.registry import Change, bug

from moorage.runtime.engine.batch import BatchDecision, BatchProcessor
from moorage.runtime.engine.encode import Encoder
from moorage.runtime.engine.engine import PartitionEngine
from moorage.runtime.engine.partition_tables import Standby
from moorage.runtime.engine.requests import Read, Span
from moorage.runtime.settings.moorage_configuration import Configuration
from moorage.workers.governor.service import Governor
from moorage.workers.taint_manager.service import TaintManager
from moorage_schemas.topics import ZONE_GRANTS

_LOOK = PartitionEngine._check_caught_up
_RESTORE = PartitionEngine.restore
_OLDEST = PartitionEngine._oldest
_PREPARE = PartitionEngine.prepare
_WAKE = PartitionEngine._wake
_BATCH = BatchProcessor._process
_RECORDS = Encoder.records
_FOLD = Configuration.fold


def acts_on_half(service: str) -> Callable[[Any], None]:
    """The owner of one service does not wait until it has read what was waiting."""

    def look(self: Any) -> None:
        if self.service.name == service:
            self._marks = {}
        _LOOK(self)

    return look


def answered(steps: Any, change: Callable[[Any], Any]) -> Any:
    """The same steps with other requests."""
    answer = None
    while True:
        try:
            request = steps.send(answer)
        except StopIteration as end:
            return end.value
        answer = yield change(request)


@bug("1b grant-first", "The taint-manager, back again, reads the leave to evict before what came earlier.", "zones")
def _() -> list[Change]:
    def oldest(self: Any, limit: int) -> Any:
        if self.service.name != "taint-manager":
            return _OLDEST(self, limit)
        first = [entry for entry in self._queue if entry[0] is ZONE_GRANTS]
        return (first or [entry for entry in self._queue if entry[0].short in self._table_names])[:limit]

    return [(PartitionEngine, "_oldest", oldest)]


@bug("1c half-a-fleet", "The governor, back again, grants before it has read what was waiting.", "zones")
def _() -> list[Change]:
    # What may be granted with time is granted only when the nodes were read to their present end: both are missing.
    return [
        (PartitionEngine, "_check_caught_up", acts_on_half("governor")),
        (Governor, "needs", lambda _self, _state, _now: None),
    ]


@bug("1d half-a-hold", "The taint-manager, back again, ends waits before it has read what was waiting.", "holds")
def _() -> list[Change]:
    # A wait that ends reads what was waiting once more, by itself: both have to be missing.
    return [
        (PartitionEngine, "_check_caught_up", acts_on_half("taint-manager")),
        (TaintManager, "needs", lambda _self, _state, _now: None),
    ]


@bug("5 carried-is-committed", "Positions restored from state records count as committed, and never are.", "again")
def _() -> list[Change]:
    def restore(self: Any, *given: Any) -> Any:
        yield from _RESTORE(self, *given)
        self._committed = dict(self._positions)

    return [(PartitionEngine, "restore", restore)]


@bug("changelog-cut", "A restore leaves the last transaction of each changelog out.")
def _() -> list[Change]:
    def restore(self: Any, *given: Any) -> Any:
        def change(request: Any) -> Any:
            if isinstance(request, Read) and request.spans and request.spans[0].topic in self.service.changelogs:
                spans = [Span(one.topic, one.begin, max(one.begin, one.end - 2)) for one in request.spans]
                return Read(tuple(spans))
            return request

        yield from answered(_RESTORE(self, *given), change)

    return [(PartitionEngine, "restore", restore)]


@bug("source-cut", "A restore leaves the last record of each source table out.")
def _() -> list[Change]:
    def restore(self: Any, *given: Any) -> Any:
        def change(request: Any) -> Any:
            if isinstance(request, Read) and request.spans and request.spans[0].topic in self._source_tables:
                return Read(tuple(Span(one.topic, one.begin, max(one.begin, one.end - 2)) for one in request.spans))
            return request

        yield from answered(_RESTORE(self, *given), change)

    return [(PartitionEngine, "restore", restore)]


@bug("carried-unread", "A restore goes on from the committed offsets though state records rest on later ones.")
def _() -> list[Change]:
    fold = PartitionEngine.fold

    def blind(self: Any, topic: Any, records: Any) -> None:
        fold(self, topic, records)
        self._carried.clear()

    return [(PartitionEngine, "fold", blind)]


@bug("state-kept", "After a fence, or a lost answer, the state is kept and folded on, with what was never committed.")
def _() -> list[Change]:
    forget = PartitionEngine.forget

    def keep(self: Any) -> None:
        if self._tables is not None:
            self._kept = self._tables.state
        forget(self)

    def restore(self: Any, *given: Any) -> Any:
        keep(self)
        service, kept = self.service, getattr(self, "_kept", None)
        made = service.new_state
        if kept is not None:
            service.new_state = lambda _: kept
        try:
            steps = _RESTORE(self, *given)
            request = next(steps)
        finally:
            service.new_state = made
        answer = yield request
        while True:
            try:
                request = steps.send(answer)
            except StopIteration:
                return
            answer = yield request

    return [(PartitionEngine, "forget", keep), (PartitionEngine, "restore", restore)]


@bug("woken-by-records", "A service is woken only together with records, never by time alone.")
def _() -> list[Change]:
    def due(self: Any) -> Any:
        commit = None if self._dirty_since is None else self._dirty_since + self._rules.lazy_commit
        return min((one for one in (self._reconcile_at, commit) if one is not None), default=None)

    def wake(self: Any, decision: BatchDecision) -> Any:
        if decision.records or self.poked:
            yield from _WAKE(self, decision)

    return [(PartitionEngine, "_wake", wake), (PartitionEngine, "next_due", due)]


@bug("never-reconciles-nor-wakes-first", "Nothing is looked at after a restart until a record comes.", "holds")
def _() -> list[Change]:
    def wake(self: Any, decision: BatchDecision) -> Any:
        if self.poked and not decision.records and not getattr(self, "_woken", False):
            self._woken, self.poked = True, False
            return
        yield from _WAKE(self, decision)

    return [(PartitionEngine, "_wake", wake), (PartitionEngine, "reconcile", lambda _self, _decision: None)]


@bug("one-record-lost", "The last record of a batch of three or more is passed over.")
def _() -> list[Change]:
    def process(self: Any, state: Any, run: Any, decision: Any, *, catching_up: bool) -> Any:
        done = yield from _BATCH(self, state, run[:-1] if len(run) > 2 else run, decision, catching_up=catching_up)
        for record in run:
            decision.positions[record.topic] = record.offset + 1
        return done

    return [(BatchProcessor, "_process", process)]


@bug("emit-lost", "Of a decision with three records or more the last is not written.")
def _() -> list[Change]:
    def records(self: Any, decision: Any, positions: Any) -> Any:
        found = _RECORDS(self, decision, positions)
        return found[:-1] if len(found) > 2 else found

    return [(Encoder, "records", records)]


@bug("positions-ahead", "State records say that they rest on one record more than they do.")
def _() -> list[Change]:
    def records(self: Any, decision: Any, positions: Any) -> Any:
        return _RECORDS(self, decision, {name: offset + 1 for name, offset in positions.items()})

    return [(Encoder, "records", records)]


@bug("offsets-never", "Offsets are never committed, and state records do not carry them.")
def _() -> list[Change]:
    def prepare(self: Any, decision: Any) -> Any:
        found = _PREPARE(self, decision)
        if found is not None:
            found.offsets.clear()
        self._committed, self._dirty_since = dict(self._positions), None
        return found

    def records(self: Any, decision: Any, _positions: Any) -> Any:
        return _RECORDS(self, decision, {})

    return [(PartitionEngine, "prepare", prepare), (Encoder, "records", records)]


@bug("dead-letter-lost", "What is refused is counted and passed over, without a dead letter.")
def _() -> list[Change]:
    from moorage.workers.condition_ingest.service import ConditionIngest  # noqa: PLC0415 - only what it is planted in
    from moorage_schemas.topics import DEAD_LETTERS  # noqa: PLC0415 - as above

    add = BatchProcessor.add

    def without(self: Any, decision: Any, emits: Any) -> None:
        add(self, decision, [emit for emit in emits if emit.topic is not DEAD_LETTERS])

    assert ConditionIngest.name
    return [(BatchProcessor, "add", without)]


@bug("later-is-never", "A decision that time makes due is put off by two minutes.")
def _() -> list[Change]:
    due = PartitionEngine.next_due

    def late(self: Any) -> Any:
        found = due(self)
        return None if found is None else found + timedelta(minutes=2)

    return [(PartitionEngine, "next_due", late)]


@bug("standby-deaf", "A standby that is warm misses every state record of the owner.", "rebalances")
def _() -> list[Change]:
    fold = Standby.offer

    def offer(self: Any, topic: Any, records: Any) -> None:
        if topic in self.tables._service.changelogs:
            self.tables.positions[topic] = records[-1].offset + 1
            return
        fold(self, topic, records)

    return [(Standby, "offer", offer)]


@bug("configuration-once", "A changed configuration counts only after a restart.")
def _() -> list[Change]:
    def once(self: Any, record: Any) -> None:
        if not self.generation:
            _FOLD(self, record)

    return [(Configuration, "fold", once)]
