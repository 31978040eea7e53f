"""The partition engine. The tests answer its requests."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from structlog.testing import capture_logs

from moorage.runtime.engine.engine import EngineRules, PartitionEngine
from moorage.runtime.engine.requests import Bounded, Bounds, CatchUp, Refresh, Request, Written
from moorage.runtime.process.failures import StartAfresh
from moorage.runtime.process.metrics import REPAIRS
from moorage.runtime.service import Emit, Freshness, Input, Needs, Service, Upstream, source_name
from moorage.runtime.wire.codec import SOURCES_HEADER, sources_value
from moorage.runtime.wire.record_format import KafkaFormat
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta
from moorage_schemas.topics import BINDINGS, RESOURCES, TAINTS, Topic

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Careful(Service[list[str]]):
    """Reads everything before it decides, and records its calls."""

    name = "careful"
    sources: ClassVar[tuple[Topic, ...]] = (RESOURCES,)
    source_tables: ClassVar[frozenset[Topic]] = frozenset({RESOURCES})
    changelogs: ClassVar[tuple[Topic, ...]] = (TAINTS,)

    def new_state(self, partition: int) -> list[str]:
        return [f"partition {partition}"]

    def apply(self, state: list[str], topic: Topic, key: str, event: Model | None) -> None:
        raise AssertionError(f"{state} {topic.short} {key} {event}: its topics are empty")

    def process(self, state: list[str], batch: Sequence[Input], now: datetime, *, fresh: bool = False) -> list[Emit]:
        raise AssertionError(f"{state} {batch} {now} {fresh}: its topics are empty")

    def needs(self, state: list[str], now: datetime) -> Needs:
        state.append(f"needs {now:%S}")
        return Needs((RESOURCES,))

    def wake(self, state: list[str], now: datetime) -> list[Emit]:
        state.append(f"wake {now:%S}")
        return []

    def reconcile(self, state: list[str], now: datetime) -> list[Emit]:
        state.append(f"reconcile {now:%S}")
        return []


def drive(steps: Any, read_at: datetime | None) -> tuple[list[Request], Any]:
    """Answer requests with empty topics that are read to their ends at `read_at`, or cannot be read if it is None."""
    asked: list[Request] = []
    answer: Any = None
    while True:
        try:
            asked.append(request := steps.send(answer))
        except StopIteration as end:
            return asked, end.value
        answer = None
        if isinstance(request, Bounds):
            answer = Bounded(dict.fromkeys(request.begin, 0), dict.fromkeys((*request.end, *request.committed), 0))
        elif isinstance(request, Refresh) and read_at is not None:
            answer = Freshness(read_at, dict.fromkeys(request.needs.tables, 0))


def begun() -> PartitionEngine[list[str]]:
    rules = EngineRules(partitions=1, reconcile_interval=timedelta(seconds=30))
    engine = PartitionEngine(Careful(), 0, rules=rules, form=KafkaFormat())
    drive(engine.restore({RESOURCES: None}, None), NOW)
    engine.begin_reconciling(NOW)
    return engine


def test_neither_wake_nor_the_reconciler_looks_before_what_they_need_is_read() -> None:
    engine = begun()
    for seconds in (1, 40):
        drive(engine.decide(NOW + timedelta(seconds=seconds)), NOW + timedelta(seconds=seconds + 2))
    assert engine.state == ["partition 0", "needs 01", "wake 03", "needs 40", "wake 42", "reconcile 42", "wake 42"]


def test_a_round_of_the_reconciler_waits_when_what_it_needs_cannot_be_read() -> None:
    engine = begun()
    drive(engine.decide(NOW + timedelta(seconds=40)), None)
    assert engine.state == ["partition 0", "needs 40"]
    assert engine.restless, "it tries again at once: reading takes as long as it does"
    drive(engine.decide(NOW + timedelta(seconds=41)), NOW + timedelta(seconds=41))
    assert engine.state[2:] == ["needs 41", "wake 41", "reconcile 41", "wake 41"]
    assert engine.next_due() == NOW + timedelta(seconds=71)


class Owing(Service[list[str]]):
    """Owes records, and writes what it owes when it is woken, and when it reconciles."""

    name = "owing"
    sources: ClassVar[tuple[Topic, ...]] = (RESOURCES,)
    source_tables: ClassVar[frozenset[Topic]] = frozenset({RESOURCES})
    changelogs: ClassVar[tuple[Topic, ...]] = (TAINTS,)
    at_once = 2
    overlooked: tuple[str, ...] = ()
    """What only the reconciler sees."""

    def new_state(self, partition: int) -> list[str]:  # noqa: ARG002 - as the base says
        return []

    def apply(self, state: list[str], topic: Topic, key: str, event: Model | None) -> None:
        raise AssertionError(f"{state} {topic.short} {key} {event}: its topics are empty")

    def process(self, state: list[str], batch: Sequence[Input], now: datetime, *, fresh: bool = False) -> list[Emit]:
        raise AssertionError(f"{state} {batch} {now} {fresh}: its topics are empty")

    def wake(self, state: list[str], now: datetime) -> list[Emit]:  # noqa: ARG002 - as the base says
        done, state[:] = state[: self.at_once], state[self.at_once :]
        return [Emit(TAINTS, key, key, None, CAUSE) for key in done]

    def next_wake(self, state: list[str]) -> datetime | None:
        return datetime.min.replace(tzinfo=UTC) if state else None

    def reconcile(self, state: list[str], now: datetime) -> list[Emit]:
        state.extend(self.overlooked)
        return self.wake(state, now)


CAUSE = Meta(id="c", source="test", type=TAINTS.event_type)


@pytest.mark.parametrize(
    ("owed", "overlooked", "repairs"),
    [
        (["a", "b"], (), []),
        (["a", "b", "c", "d", "e"], (), []),
        (["a"], ("x",), ["taints x"]),
        ([], ("x", "y"), ["taints x", "taints y"]),
    ],
)
def test_what_was_due_anyway_is_no_repair(owed: list[str], overlooked: tuple[str, ...], repairs: list[str]) -> None:
    service = Owing()
    service.overlooked = overlooked
    engine = PartitionEngine(
        service, 0, rules=EngineRules(partitions=1, reconcile_interval=timedelta(seconds=30)), form=KafkaFormat()
    )
    drive(engine.restore({RESOURCES: None}, None), NOW)
    engine.begin_reconciling(NOW)
    drive(engine.decide(NOW), NOW)
    engine.state.extend(owed)
    before = counted(service.name)
    with capture_logs() as logs:
        _, decision = drive(engine.decide(NOW + timedelta(seconds=40)), NOW)
    written = [emit.key for emit, _ in decision.emits]
    assert written == [*owed, *overlooked]
    assert [one["first"] for one in logs if one["event"] == "reconciler.repairs"] == ([repairs] if repairs else [])
    assert counted(service.name) - before == len(repairs)


def counted(service: str) -> float:
    """How many repairs of a service were counted."""
    return REPAIRS.labels(service)._value.get()  # type: ignore[no-any-return]  # the library has no types for it


class Abroad(Careful):
    """Also uses the global view."""

    name = "abroad"
    globals: ClassVar[tuple[Topic, ...]] = (RESOURCES, TAINTS, BINDINGS)

    def process(self, state: list[str], batch: Sequence[Input], now: datetime, *, fresh: bool = False) -> list[Emit]:
        state.append(f"process {len(batch)} {now:%S} {fresh}")
        return []


def test_before_anything_is_decided_the_view_is_as_new_as_what_was_decided_before() -> None:
    """The previous owner may have read more than this process."""
    rules = EngineRules(partitions=1, reconcile_interval=None)
    engine = PartitionEngine(Abroad(), 0, rules=rules, form=KafkaFormat())
    whole = CatchUp(frozenset(Abroad.globals))
    for _ in range(2):
        drive(engine.restore({RESOURCES: None}, None), NOW)
        steps = engine.decide(NOW)
        assert (next(steps), engine.state) == (whole, ["partition 0"])
        assert drive(steps, NOW)[0] == [Written(), Refresh(Needs((RESOURCES,)))]
        assert engine.state[1:] == ["needs 00", "wake 00"]
        assert whole not in drive(engine.decide(NOW), NOW)[0]


def test_what_was_offered_and_is_not_decided_on_tells_of_upstream_only_as_far_as_it_will_be() -> None:
    upstream = Upstream("gateway", (TAINTS,), RESOURCES, lambda _topic, key, _value: key, via=RESOURCES)
    engine = begun()
    engine.offer(RESOURCES, [written_by(upstream, offset, taints=10 + offset) for offset in range(3)])
    assert [engine.progress_of(upstream, below) for below in range(4)] == [
        {},
        {"taints": 10},
        {"taints": 11},
        {"taints": 12},
    ]


def written_by(upstream: Upstream, offset: int, **positions: int) -> SimpleNamespace:
    headers = [("ce_source", source_name(upstream.service).encode()), (SOURCES_HEADER, sources_value(positions))]
    return SimpleNamespace(offset=offset, headers=headers)


def test_after_a_step_back_of_the_clock_every_wait_begins_again() -> None:
    """A service's waits are instants in memory, which would last until the clock has caught up."""
    engine = begun()
    drive(engine.decide(NOW + timedelta(hours=1)), NOW + timedelta(hours=1))
    due, left = engine.next_due(), engine.wait_left()
    assert due is not None
    assert left == due - NOW - timedelta(hours=1), "however late that is by the clock"
    assert engine.was_set_back(NOW)
    assert not engine.was_set_back(NOW + timedelta(hours=1))
    with pytest.raises(StartAfresh, match=r"the clock was set back by 3600\.0 s"):
        drive(engine.decide(NOW), NOW)
    drive(engine.restore({RESOURCES: None}, None), NOW)
    drive(engine.decide(NOW), NOW)
    assert engine.state == ["partition 0", "needs 00", "wake 00"]
    assert engine.next_due() == NOW + timedelta(seconds=30), "the reconciler's round, too"


def test_a_small_step_back_of_the_clock_restores_nothing() -> None:
    engine = begun()
    drive(engine.decide(NOW + timedelta(seconds=10)), NOW + timedelta(seconds=10))
    drive(engine.decide(NOW + timedelta(seconds=6)), NOW + timedelta(seconds=6))
    assert engine.state[:3] == ["partition 0", "needs 10", "wake 10"]
