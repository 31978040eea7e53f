"""What a service cannot decide or write when it is woken is left out with a dead letter, and all else goes on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar

from tests.support.tables import table
from tests.support.worlds.flow import START
from tests.support.worlds.owners import Owners
from typing_extensions import override

from moorage.insight.copy.stack import MemoryFormat
from moorage.runtime.engine.isolation import isolated
from moorage.runtime.engine.portions import PendingChecks
from moorage.runtime.service import Emit, Input, Service
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire import codec
from moorage.runtime.wire.codec import record_meta
from moorage.runtime.wire.record_places import RecordPlaces
from moorage.workers.taint_manager.service import TaintManager
from moorage.workers.taint_manager.state import TaintManagerPartition
from moorage_schemas.base import Model
from moorage_schemas.budget import EvictionAnswered
from moorage_schemas.condition import ConditionChanged, ConditionStatus
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.taint import TargetTainted
from moorage_schemas.timer import SetTimer, TimerFired
from moorage_schemas.topics import (
    BINDINGS,
    CONDITIONS,
    DEAD_LETTERS,
    EVICTION_ANSWERS,
    RESOURCES,
    TAINTS,
    TIMER_FIRED,
    TIMERS,
    ZONE_MEMBERS,
    Topic,
    partition_of,
)


class State:
    def __init__(self) -> None:
        self.timers: dict[str, SetTimer] = {}
        self.left = PendingChecks()
        self.round = PendingChecks()
        self.fired: set[str] = set()


class Fires(Service[State]):
    """Fires each timer at once, fails on those about `fails`, and writes too large records of those about `large`."""

    name: ClassVar[str] = "fires"
    sources: ClassVar[tuple[Topic, ...]] = (TIMERS,)
    source_tables: ClassVar[frozenset[Topic]] = frozenset({TIMERS})
    changelogs: ClassVar[tuple[Topic, ...]] = (TIMER_FIRED,)

    @override
    def new_state(self, partition: int) -> State:
        return State()

    @override
    def apply(self, state: State, topic: Topic, key: str, event: Any) -> None:
        if topic is TIMER_FIRED:
            state.fired.add(key)
        elif event is not None:
            state.timers[key] = event
            state.left.begin(sorted(one for one in state.timers if one not in state.fired))

    @override
    def process(self, state: State, batch: Sequence[Input], now: datetime, *, fresh: bool = False) -> list[Emit]:
        for record in batch:
            self.apply(state, record.topic, record.key, record.event)
        return []

    @override
    def wake(self, state: State, now: datetime) -> list[Emit]:
        emits: list[Emit] = []
        self._fire(state, state.left, now, emits)
        return emits

    @override
    def next_wake(self, state: State) -> datetime | None:
        return START if state.left else None

    @override
    def reconcile(self, state: State, now: datetime) -> list[Emit]:
        emits: list[Emit] = []
        state.round.begin(sorted(one for one in state.timers if one not in state.fired))
        self._fire(state, state.round, now, emits)
        return emits

    def _fire(self, state: State, keys: PendingChecks, now: datetime, emits: list[Emit]) -> None:
        for key in keys.portion(emits):
            timer = state.timers[key]
            if timer.subject == "fails":
                raise LookupError("no such subject")
            subject = "x" * 2_000_000 if timer.subject == "large" else timer.subject
            fired = TimerFired(
                id=key,
                target=timer.target,
                owner=timer.owner,
                generation=timer.generation,
                deadline=now,
                fired_time=now,
                subject=subject,
            )
            state.fired.add(key)
            emits.append(Emit(TIMER_FIRED, key, timer.target.key, fired, record_meta(TIMERS, 0, len(key))))


class Bytes(MemoryFormat):
    """Records that must fit into their topics."""

    @override
    def serialize(self, emit: Emit) -> bytes | None:
        return codec.serialize(emit)


def timer(key: str, subject: str = "", generation: int = 1) -> SetTimer:
    return SetTimer(id=key, target=node("n1"), owner="o", generation=generation, deadline=START, subject=subject)


def node(name: str) -> TargetRef:
    return TargetRef(kind=TargetKind.NODE, name=name)


def fired(flow: Owners) -> set[str]:
    return {record.name for record in flow.records(TIMER_FIRED)}


def letters(flow: Owners) -> list[tuple[str, str, str]]:
    return [(one.key, one.reason.value, one.message[:60]) for one in flow.events(DEAD_LETTERS)]


def test_a_key_on_which_a_wake_fails_is_set_aside_until_a_record_about_it_comes() -> None:
    flow = Owners([Fires()], partitions=1)
    for key in ("a", "bb", "ccc"):
        flow.produce(TIMERS, key, timer(key, "fails" if key == "bb" else ""), partition_key="Node/n1")
    flow.advance(10)
    assert fired(flow) == {"a", "ccc"}
    assert letters(flow) == [("bb", "InvalidEvent", "the service failed on it when it was woken: LookupError: no ")]
    assert len(flow.failures) == 1
    flow.reconcile()
    flow.produce(TIMERS, "dddd", timer("dddd"), partition_key="Node/n1")
    flow.advance(100)
    assert fired(flow) == {"a", "ccc", "dddd"}
    assert (len(flow.failures), len(letters(flow))) == (1, 1)
    flow.produce(TIMERS, "bb", timer("bb", generation=2), partition_key="Node/n1")
    flow.advance(10)
    assert fired(flow) == {"a", "bb", "ccc", "dddd"}
    assert len(flow.failures) == 1


def test_a_key_that_fails_again_after_a_change_is_set_aside_again() -> None:
    flow = Owners([Fires()], partitions=1)
    flow.produce(TIMERS, "bb", timer("bb", "fails"), partition_key="Node/n1")
    flow.advance(10)
    flow.produce(TIMERS, "bb", timer("bb", "fails", generation=2), partition_key="Node/n1")
    flow.produce(TIMERS, "a", timer("a"), partition_key="Node/n1")
    flow.advance(10)
    assert fired(flow) == {"a"}
    assert (len(flow.failures), len(letters(flow))) == (2, 2)


class FailsOnOne(TaintManager):
    """A taint-manager that cannot decide on one node when its time has come."""

    @override
    def _decide_due(self, state: TaintManagerPartition, target: str, until: datetime) -> list[Emit]:
        wait = state.waits.get(target)
        if target == "Node/a" and wait is not None and wait.due is not None and wait.due <= until:
            raise LookupError("no such node")
        return super()._decide_due(state, target, until)


def test_a_node_that_cannot_be_decided_on_delays_no_other_whose_hold_ends() -> None:
    flow = Owners([FailsOnOne(Settings(taint_add_hold=60))], partitions=1)
    for name in ("a", "b"):
        event = ConditionChanged(
            target=node(name),
            type="DiskPressure",
            status=ConditionStatus.TRUE,
            last_transition_time=START,
            last_heartbeat_time=START,
            generation=1,
        )
        declared = ResourceDeclared(object={"kind": "Node", "metadata": {"name": name}, "spec": {}}, version=1)
        flow.produce(RESOURCES, declared.key, declared, partition_key=f"Node/{name}")
        flow.produce(CONDITIONS, f"Node/{name}|DiskPressure", event, partition_key=f"Node/{name}")
    flow.advance(100)
    tainted = {one.target.name: [taint.key for taint in one.taints] for one in flow.events(TAINTS)}
    assert tainted == {"a": [], "b": ["node.kubernetes.io/disk-pressure"]}
    assert [key for key, _, _ in letters(flow)] == ["Node/a"]
    assert len(flow.failures) == 1


def test_what_cannot_be_written_has_a_dead_letter_and_the_rest_is_written() -> None:
    flow = Owners([Fires()], partitions=1)
    flow._format = Bytes()
    for key in ("a", "bb", "ccc"):
        flow.produce(TIMERS, key, timer(key, "large" if key == "bb" else ""), partition_key="Node/n1")
    flow.advance(10)
    assert fired(flow) == {"a", "ccc"}
    assert letters(flow) == [("bb", "InvalidEvent", "it could not be written: timer-fired bb: invalid value 20001")]
    assert flow.failures == []


def test_without_an_engine_all_keys_are_worked_on() -> None:
    assert list(isolated(["a", "b"])) == ["a", "b"]


N1 = node("n1")
WEB = WorkloadRef(kind="Pod", namespace="default", name="web")
TAINTED = TargetTainted(target=N1, generation=1)
BOUND = WorkloadBound(workload=WEB, uid="u", owner=WEB, target=N1, generation=1, bound_time=START)
FIRED = TimerFired(id="t", target=N1, owner="o", generation=1, deadline=START, fired_time=START)
ANSWER = EvictionAnswered(workload=WEB, target=N1, generation=2, revision=1, granted=True, answered_time=START)


def declared(kind: str, name: Any, **metadata: Any) -> ResourceDeclared:
    return ResourceDeclared(object={"kind": kind, "metadata": {"name": name, **metadata}}, version=1)


HOME = partition_of("Node/n1", 3)


@table(
    ("topic", "key", "event", "flaw"),
    [
        (TAINTS, "Node/n1", TAINTED, ""),
        (TAINTS, "Node/n2", TAINTED, "must be that of its event, 'Node/n1'"),
        (TAINTS, "", TAINTED, "must be that of its event"),
        (TAINTS, "Node/n1", None, ""),
        (TAINTS, "Node/", None, "must begin with a target"),
        (TAINTS, "Thing/n1", None, "must begin with a target"),
        (CONDITIONS, "Node/|Ready", None, "must begin with a target"),
        (ZONE_MEMBERS, "Node/", None, "must begin with a target"),
        (BINDINGS, "Pod/default/web|Node/n1", BOUND, ""),
        (BINDINGS, "Pod/default/web|Node/n2", BOUND, "must be that of its event"),
        (BINDINGS, "Pod/default/web|Node/", None, "must name a workload and a target"),
        (BINDINGS, "web|Node/n1", None, "must name a workload and a target"),
        (EVICTION_ANSWERS, "Pod/default/web|Node/n1|2", ANSWER, ""),
        (EVICTION_ANSWERS, "Pod/default/web|Node/n1|1", ANSWER, "must be that of its event"),
        (TIMER_FIRED, "t", FIRED, ""),
        (TIMER_FIRED, "other", FIRED, "must be that of its event, 't'"),
        (RESOURCES, "Node//n1", declared("Node", "n1"), ""),
        (RESOURCES, "Node//n2", declared("Node", "n1"), "must be that of its event"),
        (RESOURCES, "Node//", declared("Node", ""), "must be kind/namespace/name"),
        (RESOURCES, "//n1", declared("", "n1"), "must be kind/namespace/name"),
        (RESOURCES, "Node//n1", ResourceDeclared(object={"metadata": None}, version=1), "must be that of its event"),
        (RESOURCES, "Node//n1", ResourceDeclared(object={}, version=1), "must be that of its event"),
        (RESOURCES, "Node//n1", None, ""),
        (RESOURCES, "Node", None, "must be kind/namespace/name"),
        (DEAD_LETTERS, "anything", None, ""),
    ],
)
def test_keys(topic: Topic, key: str, event: Model | None, flaw: str) -> None:
    partition = partition_of("fleet", 3) if topic is ZONE_MEMBERS else HOME
    found = RecordPlaces(partition, 3).flaw(topic, key, event)
    assert found.startswith(flaw) if flaw else not found, found


@table(
    ("topic", "key", "event"),
    [
        (TAINTS, "Node/n1", TAINTED),
        (TAINTS, "Node/n1", None),
        (BINDINGS, "Pod/default/web|Node/n1", BOUND),
        (TIMER_FIRED, "t", FIRED),
        (RESOURCES, "Node//n1", declared("Node", "n1")),
        (EVICTION_ANSWERS, "Pod/default/web|Node/n1|2", ANSWER),
    ],
)
def test_partitions(topic: Topic, key: str, event: Model | None) -> None:
    flaws = [RecordPlaces(partition, 3).flaw(topic, key, event) for partition in range(3)]
    assert flaws.pop(HOME) == ""
    assert all(one.startswith(f"must be in partition {HOME}, not in") for one in flaws)


def test_a_record_of_another_partition_is_refused_and_counts_for_nothing_after_a_restore() -> None:
    flow = Owners([Fires()], partitions=3)
    other = (partition_of("Node/n1", 3) + 1) % 3
    sound = flow.produce(TIMERS, "sound", timer("sound"), partition_key="Node/n1")
    stray = flow.produce_raw(
        TIMERS, other, key=b"stray", value=timer("stray").model_dump_json().encode(), headers=sound.headers
    )
    flow.advance(10)
    assert fired(flow) == {"sound"}
    assert [(key, reason) for key, reason, _ in letters(flow)] == [("stray", "WrongKey")]
    assert stray.partition == other
    flow.crash_process("fires")
    flow.advance(10)
    assert (fired(flow), flow.failures) == ({"sound"}, [])
