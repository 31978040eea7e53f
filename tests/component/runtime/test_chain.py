# ruff: noqa: ARG002 - toy services have the parameters of the interface, and do not use all of them
"""Services in a chain: what one writes is the next one's input in the same transaction. Tests answer requests."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from tests.support.toys import COUNTED, NUMBERS, TALLIES, Counted, Number, Tally, number_record

from moorage.runtime.engine import chain as chains
from moorage.runtime.engine.chain import ChainDecision, ChainTransaction, PartitionChain, inner_topics
from moorage.runtime.engine.encode import Encoder
from moorage.runtime.engine.engine import EngineRules, PartitionEngine
from moorage.runtime.engine.requests import Bounded, Bounds, Refresh, Request
from moorage.runtime.process.failures import StartAfresh
from moorage.runtime.service import Emit, Freshness, Input, Needs, Service, Upstream
from moorage.runtime.wire.codec import SOURCES_HEADER, Outgoing
from moorage.runtime.wire.record_format import KafkaFormat
from moorage_schemas.envelope import Meta, to_headers
from moorage_schemas.topics import Topic

NOW = datetime(2026, 1, 1, tzinfo=UTC)
POISON = 13


class Adder(Service[dict[str, int]]):
    """Adds numbers up."""

    name = "adder"
    sources: ClassVar[tuple[Topic, ...]] = (NUMBERS,)
    changelogs: ClassVar[tuple[Topic, ...]] = (TALLIES,)
    can_wait = False
    reader = ""

    def new_state(self, partition: int) -> dict[str, int]:
        return {}

    def apply(self, state: dict[str, int], topic: Topic, key: str, event: Any) -> None:
        state[key] = event.total

    def process(
        self, state: dict[str, int], batch: Sequence[Input], now: datetime, *, fresh: bool = False
    ) -> list[Emit]:
        emits = []
        for record in batch:
            assert isinstance(record.event, Number)
            total = state.get(record.key, 0) + record.event.n
            self.apply(state, TALLIES, record.key, tally := Tally(key=record.key, count=1, total=total))
            emit = Emit(
                *(TALLIES, record.key, record.key, tally, record.meta), can_wait=self.can_wait, reader=self.reader
            )
            emits.append(emit)
        return emits


class Reporter(Service[dict[str, int]]):
    """Reports each sum. It fails on one of them."""

    name = "reporter"
    sources: ClassVar[tuple[Topic, ...]] = (TALLIES,)
    source_tables: ClassVar[frozenset[Topic]] = frozenset({TALLIES})
    changelogs: ClassVar[tuple[Topic, ...]] = (COUNTED,)
    careful = False
    """Whether it reads everything to its present end before it wakes."""

    def __init__(self) -> None:
        self.found: list[Freshness] = []
        self.woken: list[dict[str, int]] = []

    def new_state(self, partition: int) -> dict[str, int]:
        return {}

    def apply(self, state: dict[str, int], topic: Topic, key: str, event: Any) -> None:
        if topic is TALLIES:
            state[key] = event.total

    def process(
        self, state: dict[str, int], batch: Sequence[Input], now: datetime, *, fresh: bool = False
    ) -> list[Emit]:
        emits = []
        for record in batch:
            assert isinstance(record.event, Tally)
            self.apply(state, TALLIES, record.key, record.event)
            if record.event.total == POISON:
                raise ZeroDivisionError("poison")
            event = Counted(key=record.key, seq=record.offset, n=1, total=record.event.total)
            emits.append(Emit(COUNTED, record.key, record.key, event, record.meta))
        return emits

    def needs(self, state: dict[str, int], now: datetime) -> Needs | None:
        upstream = Upstream("adder", (NUMBERS,), TALLIES, lambda _topic, key, _value: key, via=TALLIES)
        return Needs((TALLIES,), upstream=(upstream,)) if self.careful else None

    def refreshed(self, state: dict[str, int], found: Freshness) -> None:
        self.found.append(found)

    def wake(self, state: dict[str, int], now: datetime) -> list[Emit]:
        self.woken.append(dict(state))
        return []


class Driver:
    """A chain on topics that are lists. It answers the requests of the engines.

    Args:
        tallies: records that lie in the inner topic when the chain starts.
        done: how many of them the reporter alone has processed.
    """

    def __init__(self, tallies: int = 0, done: int = 0) -> None:
        self.adder, self.reporter = Adder(), Reporter()
        form = KafkaFormat()
        services: tuple[Service[Any], ...] = (self.adder, self.reporter)
        rules = EngineRules(partitions=1, reconcile_interval=None)
        self.chain = PartitionChain(
            [PartitionEngine(one, 0, rules=rules, form=form) for one in services],
            [Encoder(one, prefix="test", partitions=1) for one in services],
        )
        self.ends = {NUMBERS: 0, TALLIES: tallies, COUNTED: 0}
        self.tallies = [tally_record(number, f"old{number}", number) for number in range(tallies)]
        self.asked: list[tuple[int, Request]] = []
        self.now = NOW
        self.fresh: Callable[[Refresh], Freshness | None] = lambda _: None
        for place, committed in ((0, {NUMBERS: 0}), (1, {TALLIES: done})):
            self._run(self._only(place, committed))
        self.chain.begin({TALLIES: tallies})

    def _only(self, place: int, committed: Mapping[Topic, int | None]) -> Generator[tuple[int, Request], Any, None]:
        steps: Generator[Request, Any, None] = self.chain.engines[place].restore(committed, None)
        answer: Any = None
        while True:
            try:
                request = steps.send(answer)
            except StopIteration:
                return
            if isinstance(request, Bounds):
                answer = Bounded(
                    dict.fromkeys(request.begin, 0),
                    {topic: self.ends[topic] for topic in (*request.end, *request.committed)},
                )
                continue
            if hasattr(request, "spans"):
                for span in request.spans if type(request).__name__ == "Read" else ():
                    found = self.tallies[span.begin : span.end] if span.topic is TALLIES else []
                    self.chain.engines[place].fold(span.topic, found)
            answer = yield place, request

    def _run(self, steps: Generator[tuple[int, Request], Any, Any]) -> Any:
        answer: Any = None
        while True:
            try:
                place, request = steps.send(answer)
            except StopIteration as end:
                return end.value
            self.asked.append((place, request))
            answer = self.fresh(request) if isinstance(request, Refresh) else None

    def decide(self) -> ChainDecision:
        self.asked.clear()
        decision: ChainDecision = self._run(self.chain.decide(lambda: self.now))
        return decision

    def numbers(self, *numbers: int, key: str = "k") -> None:
        """Consume some numbers."""
        begin = self.ends[NUMBERS]
        self.chain.offer(NUMBERS, [number_at(begin + place, key, n) for place, n in enumerate(numbers)])
        self.ends[NUMBERS] += len(numbers)
        self.chain.passed(NUMBERS, self.ends[NUMBERS])


def consumed(topic: Topic, offset: int, key: str, value: bytes, headers: Any) -> Any:
    return SimpleNamespace(
        topic=topic.short, partition=0, offset=offset, key=key.encode(), value=value, headers=headers, timestamp=offset
    )


def number_at(offset: int, key: str, n: int) -> Any:
    return consumed(NUMBERS, offset, key, *number_record(NUMBERS, Number(key=key, n=n), id_=f"{offset}"))


def tally_record(offset: int, key: str, total: int) -> Any:
    meta = Meta(id=f"tally {offset}", source="moorage/adder", type=TALLIES.event_type)
    value = Tally(key=key, count=1, total=total).model_dump_json().encode()
    return consumed(TALLIES, offset, key, value, to_headers(meta))


def records(decision: ChainDecision) -> list[Outgoing]:
    return [record for share in decision.shares for record in share.records]


def positions(record: Outgoing) -> str:
    return dict(record.headers)[SOURCES_HEADER].decode()


def totals(decision: ChainDecision) -> list[tuple[int, int]]:
    """Of each report, the offset of the sum that it rests on, and the sum."""
    events = [emit.event for share in decision.shares for emit, _ in share.decision.emits]
    return [(one.seq, one.total) for one in events if isinstance(one, Counted)]


def test_only_what_they_write_for_each_other_is_inner() -> None:
    assert inner_topics([Adder(), Reporter()]) == {TALLIES}
    assert inner_topics([Adder()]) == frozenset()


def test_what_one_writes_is_the_next_one_s_input_in_the_same_transaction() -> None:
    driver = Driver()
    driver.decide()
    assert driver.chain.wanted == (NUMBERS,), "what is handed over is not fetched"
    driver.numbers(1, 2)
    decision = driver.decide()
    assert [record.topic for record in records(decision)] == ["test.toy-tallies.v1"] * 2 + ["test.toy-counted.v1"] * 2
    assert totals(decision) == [(0, 1), (1, 3)]
    assert [positions(record) for record in records(decision)] == ["toy-numbers=2"] * 2 + ["toy-tallies=2"] * 2
    transaction = driver.chain.prepare(decision)
    assert transaction is not None
    assert transaction.expected == {TALLIES: 0}


def test_offsets_go_on_after_the_marker_of_each_transaction() -> None:
    driver = Driver()
    found = []
    for numbers in ((1, 2), (3,), (), (4,)):
        if numbers:
            driver.numbers(*numbers)
        decision = driver.decide()
        transaction = driver.chain.prepare(decision)
        found.append((totals(decision), {} if transaction is None else transaction.expected))
    assert found == [
        ([(0, 1), (1, 3)], {TALLIES: 0}),
        ([(3, 6)], {TALLIES: 3}),
        ([], {}),
        ([(5, 10)], {TALLIES: 5}),
    ]


def patient(*, can_wait: bool = True, reader: str = "") -> Driver:
    """A chain that has begun. What its adder writes can wait, and its reporter writes nothing."""
    driver = Driver()
    driver.decide()
    driver.adder.can_wait, driver.adder.reader = can_wait, reader
    driver.reporter.process = lambda *_given, **_named: []  # type: ignore[method-assign]  # as above
    return driver


def prepared(driver: Driver, *numbers: int) -> tuple[list[int], Mapping[Topic, int]] | None:
    """Decide on numbers. Return the sums in the transaction, and its expected offsets; None for no transaction."""
    driver.numbers(*numbers)
    return content(driver.chain.prepare(driver.decide()))


def content(transaction: ChainTransaction | None) -> tuple[list[int], Mapping[Topic, int]] | None:
    if transaction is None:
        return None
    emits = [emit for share, _ in transaction.shares for emit, _ in share.decision.emits]
    return [emit.event.total for emit in emits if isinstance(emit.event, Tally | Counted)], transaction.expected


@pytest.mark.parametrize("driver", [{}, {"can_wait": False, "reader": "reporter"}], ids=["can wait", "for one of them"])
def test_what_can_wait_is_committed_with_the_offsets(driver: dict[str, Any]) -> None:
    chain = patient(**driver)
    assert prepared(chain, 1) is None
    chain.now += timedelta(seconds=0.9)
    assert prepared(chain, 2, 3) is None
    assert chain.chain.next_due() == NOW + timedelta(seconds=1)
    chain.now = NOW + timedelta(seconds=1)
    transaction = chain.chain.prepare(chain.decide())
    assert content(transaction) == ([1, 3, 6], {TALLIES: 0})
    assert transaction is not None
    assert {topic: offset for _, one in transaction.shares for topic, offset in one.offsets.items()} == {
        NUMBERS: 3,
        TALLIES: 3,
    }
    chain.chain.written(transaction)
    chain.adder.can_wait, chain.adder.reader = False, ""
    assert prepared(chain, 4) == ([10], {TALLIES: 4}), "after the three and the marker"


@pytest.mark.parametrize("reader", ["", "another service"])
def test_what_cannot_wait_takes_along_what_has_waited(reader: str) -> None:
    driver = patient()
    assert prepared(driver, 1) is None
    driver.adder.can_wait, driver.adder.reader = False, reader
    assert prepared(driver, 2) == ([1, 3], {TALLIES: 0})
    assert prepared(driver, 3) == ([6], {TALLIES: 3})


def test_what_has_waited_is_committed_before_the_partition_goes() -> None:
    driver = patient()
    assert prepared(driver, 1) is None
    assert content(driver.chain.pending_offsets(driver.now)) == ([1], {TALLIES: 0})
    assert driver.chain.release() is None


def test_what_follows_from_it_is_in_its_transaction() -> None:
    driver = Driver()
    driver.decide()
    driver.adder.can_wait = True
    assert prepared(driver, 1) == ([1, 1], {TALLIES: 0}), "the report cannot wait"


def test_few_records_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "DECISION_EVENTS", 2)
    driver = patient()
    assert prepared(driver, 1) is None
    assert prepared(driver, 2) == ([1, 3], {TALLIES: 0})


def test_after_a_failure_nothing_has_waited() -> None:
    driver = patient()
    assert prepared(driver, 1) is None
    driver.chain.forget()
    assert driver.chain.release() is None


def test_what_lies_in_an_inner_topic_comes_first_and_once() -> None:
    """Services that ran alone may not have processed all of it."""
    driver = Driver(tallies=4, done=2)
    driver.decide()
    assert set(driver.chain.wanted) == {NUMBERS, TALLIES}
    driver.numbers(50)
    assert records(driver.decide()) == [], "the reporter has to catch up first"
    written = tally_record(4, "k", 50)
    driver.chain.offer(TALLIES, [*driver.tallies[2:], written])  # a consumer also fetches what is handed over
    driver.chain.passed(TALLIES, 5)
    assert totals(driver.decide()) == [(2, 2), (3, 3)]
    assert totals(driver.decide()) == [(4, 50)]
    assert set(driver.chain.wanted) == {NUMBERS}


def test_after_a_rebalance_what_was_not_decided_on_is_fetched() -> None:
    driver = Driver()
    driver.decide()
    driver.reporter.process = lambda *_given, **_named: []  # type: ignore[method-assign]  # as if it took nothing
    driver.numbers(1)
    driver.chain.prepare(driver.decide())
    driver.chain.clear()
    driver.chain.begin()
    assert driver.chain.positions == {NUMBERS: 1, TALLIES: 1}
    assert set(driver.chain.wanted) == {NUMBERS, TALLIES}
    driver.chain.passed(TALLIES, 2)  # the marker
    assert set(driver.chain.wanted) == {NUMBERS}


def test_a_transaction_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "DECISION_EVENTS", 3)
    driver = Driver()
    driver.decide()
    driver.numbers(1, 1, 1, 1)
    first = driver.decide()
    assert totals(first) == []
    assert len(records(first)) == 4
    transaction = driver.chain.prepare(first)
    assert transaction is not None
    assert driver.chain.restless
    second = driver.decide()
    assert totals(second) == [(0, 1), (1, 2), (2, 3), (3, 4)], "under the offsets that they have got"


def test_a_backlog_of_one_does_not_keep_the_next_one_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "DECISION_EVENTS", 3)
    driver = Driver()
    driver.decide()
    found = []
    for _ in range(4):
        driver.numbers(1, 1, 1, 1)
        decision = driver.decide()
        driver.chain.prepare(decision)
        found.append([share.place for share in decision.shares])
    assert found == [[0], [1], [0], [1]]


def test_a_failure_discards_what_was_handed_over_and_only_the_same_record_is_poison() -> None:
    driver = Driver()
    driver.decide()
    driver.numbers(POISON, 1)
    with pytest.raises(StartAfresh):
        driver.decide()
    again = Driver()
    again.chain.engines[1]._batches._poison = {(TALLIES.short, 0): ("another event", "failed")}
    again.decide()
    again.numbers(1)
    assert totals(again.decide()) == [(0, 1)], "the record of which the offset was predicted was never written"


def careful(most: int | None = None, *, more: Callable[[Driver], None] = lambda _: None) -> Driver:
    """A chain whose reporter reads everything to its end. More is written while it does.

    Args:
        most: the number of unread records that there are, for a driver that refuses to read so many.
        more: what is written meanwhile.
    """
    driver = Driver()
    driver.reporter.careful = True

    def fresh(request: Refresh) -> Freshness | None:
        if most is not None and request.most is not None:
            assert most > request.most
            return None
        more(driver)
        ends = {topic: driver.ends[topic] for topic in request.needs.tables}
        return Freshness(NOW, ends, {"k": "adder"} if request.needs.upstream else {})

    driver.fresh = fresh
    return driver


def test_what_is_accepted_is_decided_on_by_the_services_before_first() -> None:
    driver = careful(more=lambda driver: driver.numbers(5, key="late"))
    decision = driver.decide()
    refreshes = [request for _, request in driver.asked if isinstance(request, Refresh)]
    assert [(one.needs.tables, one.needs.upstream) for one in refreshes] == [((NUMBERS,), ())]
    assert driver.reporter.woken == [{"late": 5}]
    assert driver.reporter.found[0].ends == {TALLIES: 1}
    assert totals(decision) == [(0, 5)]


def test_what_was_read_too_long_ago_is_no_ground_for_a_decision() -> None:
    def slow(driver: Driver) -> None:
        driver.now += timedelta(seconds=1)

    driver = careful(more=slow)
    driver.decide()
    assert driver.reporter.woken == []
    assert driver.chain.restless, "it tries again at once"
    driver.fresh = lambda request: Freshness(driver.now, {topic: driver.ends[topic] for topic in request.needs.tables})
    driver.decide()
    assert driver.reporter.woken == [{}]


def test_a_backlog_is_judged_key_by_key() -> None:
    driver = careful(most=5_000)
    driver.decide()
    refreshes = [request for _, request in driver.asked if isinstance(request, Refresh)]
    assert [one.needs.tables for one in refreshes] == [(NUMBERS,), (TALLIES,)]
    assert driver.reporter.found[0].lags("k") == "adder"
    assert driver.reporter.found[0].lags("other") == ""


def test_a_service_that_was_away_alone_is_ahead_of_the_others() -> None:
    """Each service takes only what it has not processed alone."""
    driver = Driver()
    driver.chain.engines[0]._positions[NUMBERS] = 2
    driver.chain.begin({TALLIES: 0})
    driver.decide()
    driver.numbers(7, 8, 9)
    assert totals(driver.decide()) == [(0, 9)]
