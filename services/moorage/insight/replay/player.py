"""Drives the engines of one run through their recorded steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from moorage.insight.copy.run import services
from moorage.insight.replay.recording import Recording
from moorage.insight.replay.runs import Run, settings_of
from moorage.insight.replay.script import MisfitError, MissingError, Script, records_below, records_of
from moorage.runtime.engine.batch import BatchDecision
from moorage.runtime.engine.encode import Encoder
from moorage.runtime.engine.engine import EngineRules, PartitionEngine
from moorage.runtime.engine.journal import time_of
from moorage.runtime.engine.partition_tables import PartitionTables
from moorage.runtime.engine.requests import Request, Steps
from moorage.runtime.kafka.tables.global_tables import fold_into_view
from moorage.runtime.service import GlobalView, Service
from moorage.runtime.wire.codec import Outgoing
from moorage.runtime.wire.record_format import KafkaFormat
from moorage_schemas.topics import TOPICS, Topic

PREFIX = "replayed"
"""The prefix of the topics' names in the records that a replay produces."""

_TOPICS = {topic.short: topic for topic in TOPICS}


@dataclass(frozen=True, slots=True)
class Made:
    """The result of a decision that was made again."""

    number: int
    """The number of the decision's first step in the run; -1 for a restore."""

    partition: int
    session: int
    """The number of the partition's session, counted from 1 in each run."""

    records: Sequence[Outgoing] = ()
    missing: str = ""
    """Why the decision could not be made again; empty when it could."""

    misfit: str = ""
    """How the engine deviated from the recorded run before there was a result to compare."""

    doubt: str = ""
    """Why its state may not be the recorded one; empty when it is."""


@dataclass(slots=True, eq=False)
class _Owner:
    """One engine of the run."""

    partition: int
    script: Script
    engine: PartitionEngine[Any]
    session: int = 0
    steps: Steps[Any] | None = None
    request: Request | None = None
    deciding: int = -1
    """The number of the decision in progress; -1 while the engine restores."""

    broken: str = "its beginning is not in the recording"
    """Why its state is not the recorded one; empty when it is."""

    ready: PartitionTables[Any] | None = None
    """The records that a standby had read before the next restore."""

    doubt: str = ""
    """Why its state may not be the recorded one, because a standby had read records that are no longer there."""

    raised: str = ""
    """The error that the engine has raised. When the recorded engine failed too, the next step discards its state."""


class Player:
    """Plays one run."""

    def __init__(self, run: Run, recording: Recording) -> None:
        self._run = run
        self._recording = recording
        self._owners: dict[int, _Owner] = {}
        self._lost = ""
        """Why nothing more of the run can be made again; empty while it can."""

        self._view: GlobalView | None = None
        self._view_whole = False
        self._service: Service[Any]
        self._topics: list[Topic] = []
        self._counts: dict[int, int] = {}

    def play(self) -> Iterator[Made]:
        """Make every decision again, in order."""
        run = self._run
        if 0 not in run.entries:
            last = min(run.entries, default=1) - 1
            self._lost = f"steps 0 to {last} no longer exist"
            return
        self._begin(run.entries[0])
        expected = 1
        for number in sorted(run.entries)[1:]:
            if number != expected:
                self._gap(f"steps {expected} to {number - 1} no longer exist")
            expected = number + 1
            if self._lost:
                return
            yield from self._step(number, run.entries[number])
        for owner in self._owners.values():
            if owner.raised and owner.deciding in run.transactions:
                yield from self._misfit(owner, owner.raised)

    def why_missing(self) -> str:
        """Return why decisions were not made again at all."""
        return self._lost or "its steps no longer exist"

    def _begin(self, head: Any) -> None:
        settings = settings_of(head)
        found = {one.name: one for one in services(settings)}
        self._service = service = found[head["service"]]
        self._topics = [_TOPICS[short] for short in head["topics"]]
        self._view = service.new_globals() if service.globals else None
        self._partitions = settings.partitions
        self._report_max_bytes = settings.report_max_bytes
        self._encoder = Encoder(service, prefix=PREFIX, partitions=settings.partitions)

    def _gap(self, why: str) -> None:
        """Handle missing steps: a run with a view ends here; without one, each engine continues at its next restore."""
        if self._view is not None:
            self._lost = why
        for owner in self._owners.values():
            self._break(owner, why)

    def _break(self, owner: _Owner, why: str) -> None:
        owner.broken = owner.broken or why
        owner.steps = None
        if self._view is not None and type(self._service).drop is not Service.drop:
            self._lost = self._lost or why  # other partitions see what its state put into the view

    def _step(self, number: int, entry: list[Any]) -> Iterator[Made]:
        match entry[0]:
            case "v":
                self._fold_view(entry)
            case "V":
                self._view_whole = True
            case "o":
                self._owners[entry[1]] = self._owner(entry[2])
            case "s":
                self._stand_by(entry)
            case "r":
                yield from self._restore(entry)
            case _ if (owner := self._owners.get(entry[1])) is not None:
                yield from self._own_step(owner, number, entry)

    def _own_step(self, owner: _Owner, number: int, entry: list[Any]) -> Iterator[Made]:
        kind = entry[0]
        if kind == "x":
            owner.steps, owner.raised = None, ""
            owner.engine.forget()
            return
        if owner.raised:
            yield from self._misfit(owner, owner.raised)
        if owner.broken:
            if kind == "d":
                yield Made(number, owner.partition, owner.session, missing=owner.broken)
        elif kind == "f":
            self._fold(owner, entry)
        elif kind == "c":
            yield from self._go_on(owner, entry[2:])
        else:
            owner.deciding = number
            owner.engine.clear()
            owner.script.feed(entry[3:])
            owner.steps = owner.engine.decide(time_of(entry[2]))
            yield from self._go(owner, None)

    def _owner(self, partition: int) -> _Owner:
        script = Script(self._recording, self._topics, partition)
        engine = PartitionEngine(
            self._service,
            partition,
            rules=EngineRules(
                partitions=self._partitions,
                report_max_bytes=self._report_max_bytes,
                reconcile_interval=None,
                lazy_commit=timedelta(0),
            ),
            form=KafkaFormat(),
            seconds=lambda: 0.0,  # the recorded run determines the size of slices
            book=script,
        )
        return _Owner(partition, script, engine)

    def _fold_view(self, entry: list[Any]) -> None:
        _, topic, partition, *offsets = entry
        view = self._view
        if view is None:
            return
        try:
            records = records_of(self._recording, self._topics[topic], partition, offsets)
        except MissingError as error:
            self._lost = str(error)
            return
        for record in records:
            fold_into_view(view, self._topics[topic], record, service=self._service.name)
        if self._view_whole:
            view.changed()  # resets it; the steps say which partitions it woke

    def _fold(self, owner: _Owner, entry: list[Any]) -> None:
        _, _, topic, *offsets = entry
        try:
            records = records_of(self._recording, self._topics[topic], owner.partition, offsets)
        except MissingError as error:
            self._break(owner, str(error))
            return
        owner.engine.fold(self._topics[topic], records)

    def _stand_by(self, entry: list[Any]) -> None:
        """Read what a standby had read: the tables below some offsets.

        The standby may have read records that compaction has removed since. Usually a later one that it had also read
        has replaced them; where it came after the end, the state is not the same. The two look alike.
        """
        owner = self._owners.get(entry[1])
        if owner is None:
            return
        ready = owner.ready = PartitionTables(
            self._service, owner.partition, KafkaFormat(), partitions=self._partitions
        )
        owner.doubt = ""
        for place in range(0, len(entry[2]), 3):
            number, end, count = entry[2][place : place + 3]
            topic = self._topics[number]
            records = records_below(self._recording, topic, owner.partition, end)
            ready.fold(topic, records)
            ready.positions[topic] = end
            if len(records) != count:
                owner.doubt = f"a standby had read {count} records of {topic.short}, {len(records)} are there now"

    def _restore(self, entry: list[Any]) -> Iterator[Made]:
        _, k, partition, committed, *tokens = entry
        owner = self._owners.get(k)
        if owner is None:  # its first step is missing, but a restore discards its state anyway
            owner = self._owners[k] = self._owner(partition)
        owner.broken, owner.raised, owner.deciding = "", "", -1
        self._counts[partition] = self._counts.get(partition, 0) + 1
        owner.session = self._counts[partition]
        owner.script.feed(tokens)
        sources = self._service.sources
        committed, limits = committed[: len(sources)], committed[len(sources) :]
        if len(committed) != len(sources) or len(limits) not in {0, len(sources)}:
            yield from self._misfit(owner, f"its sources are {[one.short for one in sources]}")
            return
        no_later = {topic: limit for topic, limit in zip(sources, limits, strict=False) if limit is not None}
        ready, owner.ready = owner.ready, None
        if ready is None:
            owner.doubt = ""
        owner.steps = owner.engine.restore(dict(zip(sources, committed, strict=True)), self._view, no_later, ready)
        yield from self._go(owner, None)

    def _go_on(self, owner: _Owner, tokens: list[Any]) -> Iterator[Made]:
        owner.script.feed(tokens)
        if owner.steps is None or owner.request is None:
            yield from self._misfit(owner, "it is done where it then asked for more")
            return
        try:
            answer = owner.script.answer(owner.request)
        except MisfitError as error:
            yield from self._misfit(owner, str(error))
            return
        yield from self._go(owner, answer)

    def _go(self, owner: _Owner, answer: Any) -> Iterator[Made]:
        """Let an engine continue until the next point where other tasks had their turn."""
        try:
            decision = self._until_halt(owner, answer)
            if decision is not None:
                yield self._made(owner, decision)
        except MissingError as error:
            self._break(owner, str(error))
            if owner.deciding >= 0:
                yield Made(owner.deciding, owner.partition, owner.session, missing=str(error))
        except MisfitError as error:
            yield from self._misfit(owner, str(error))
        except Exception as error:  # noqa: BLE001 - the recorded engine may have failed with the same error, whatever it is
            owner.steps, owner.raised = None, f"{error}: {error.__cause__!r}" if error.__cause__ else repr(error)

    @staticmethod
    def _until_halt(owner: _Owner, answer: Any) -> BatchDecision | None:
        """Run an engine's steps to their end, or to the next point where other tasks had their turn.

        Return the decision, when the steps end with one.
        """
        steps, script, owner.request = owner.steps, owner.script, None
        decision: BatchDecision | None = None
        while steps is not None:
            try:
                request = steps.send(answer)
            except StopIteration as end:
                owner.steps = None
                decision = end.value
                break
            if not script.went_on():
                owner.request = request
                break
            answer = script.answer(request)
        script.end()
        return decision

    def _misfit(self, owner: _Owner, why: str) -> Iterator[Made]:
        yield Made(owner.deciding, owner.partition, owner.session, misfit=why, doubt=owner.doubt)
        owner.raised = ""
        self._break(owner, f"what went before came out otherwise: {why}")

    def _made(self, owner: _Owner, decision: BatchDecision) -> Made:
        records = self._encoder.records(decision, owner.engine.rests_on())
        return Made(owner.deciding, owner.partition, owner.session, records, doubt=owner.doubt)
