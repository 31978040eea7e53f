"""Rows are read from what the models accept, and are equal to the models.

The folded state must not depend on whether records were read as rows, so it is compared with that of a service that has
none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from types import SimpleNamespace
from typing import Any, TypeVar

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field, TypeAdapter, field_validator
from structlog.testing import capture_logs

from moorage.runtime.engine.engine import EngineRules, PartitionEngine
from moorage.runtime.engine.requests import Bounded, Bounds
from moorage.runtime.process import metrics
from moorage.runtime.service import RowFormat, Service
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire.record_format import KafkaFormat
from moorage.runtime.wire.row_reader import ModelReader, RowReader
from moorage.workers.condition_ingest.service import ConditionIngest
from moorage.workers.eviction.service import Eviction
from moorage.workers.eviction.state import EvictionPartition
from moorage.workers.placement.service import PlacementService
from moorage.workers.placement.state import PlacementPartition
from moorage.workers.timer.service import TimerService
from moorage_schemas.base import Model, Timestamp
from moorage_schemas.condition import ConditionChanged, ConditionReported, ConditionStatus, WorkloadConditionChanged
from moorage_schemas.envelope import Meta, to_headers
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.placement import (
    FilterResult,
    PlacementCondition,
    PlacementState,
    TargetScore,
    WorkloadBound,
    WorkloadPlaced,
)
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.taint import Taint, Toleration
from moorage_schemas.timer import SetTimer, TimerFired
from moorage_schemas.topics import (
    BINDINGS,
    CONDITIONS,
    EVICTIONS,
    PLACEMENTS,
    TIMER_FIRED,
    TIMERS,
    WORKLOAD_CONDITIONS,
    Topic,
)

ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)
M = TypeVar("M", bound=Model)

SETTINGS = Settings(bootstrap_servers="nowhere:1", partitions=1)
SERVICES: tuple[Callable[[], Service[Any]], ...] = (
    lambda: ConditionIngest(SETTINGS),
    lambda: Eviction(SETTINGS),
    lambda: PlacementService(SETTINGS),
    TimerService,
)
READERS: Mapping[Topic, RowFormat] = {topic: reader for new in SERVICES for topic, reader in new().rows.items()}


def built(model: type[M], **given_fields: st.SearchStrategy[Any]) -> st.SearchStrategy[M]:
    """Valid models. `st.builds` would pass the names on the wire, too."""
    return st.fixed_dictionaries(given_fields).map(lambda found: model(**found))


names = st.text(min_size=1, max_size=8)
clusters = st.sampled_from(["", "paris", "rome.example"])
times = st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=2))])).filter(
    lambda time: 1 < time.year < 9999
)
targets = built(TargetRef, kind=st.sampled_from(TargetKind), name=names, cluster=clusters)
workloads = built(WorkloadRef, kind=names, namespace=st.text(max_size=8), name=names, cluster=clusters)
tolerations = built(
    Toleration, key=st.sampled_from(["", "a", "b"]), effect=names, toleration_seconds=st.none() | st.integers(-1, 3)
)
texts = st.sampled_from(["", "a", "b"])
maybe = st.none() | times
conditions: Mapping[str, st.SearchStrategy[Any]] = {
    "target": targets,
    "target_uid": texts,
    "type": st.sampled_from(["Ready", "example.com/Disk"]),
    "status": st.sampled_from(ConditionStatus),
    "source": texts,
    "message": texts,
    "last_transition_time": times,
    "last_heartbeat_time": times,
    "generation": st.integers(1, 3),
    "report_id": texts,
    "accepted_time": maybe,
    "status_since": maybe,
    "unrecorded_heartbeats_ms": st.integers(0, 3),
}
MODELS: Mapping[Topic, st.SearchStrategy[Model]] = {
    BINDINGS: built(
        WorkloadBound,
        workload=workloads,
        uid=texts,
        owner=workloads,
        target=targets,
        generation=st.integers(1, 3) | st.just(2**40),
        revision=st.integers(1, 3),
        tolerations=st.lists(tolerations, max_size=2).map(tuple),
        requests=st.dictionaries(names, st.integers(0, 2**70), max_size=2),
        bypassed=st.booleans(),
        bound_time=times,
        labels=st.dictionaries(names, names, max_size=2),
        replicas=st.integers(-3, 3),
        purge_mode=texts,
    ),
    CONDITIONS: built(ConditionChanged, **conditions),
    WORKLOAD_CONDITIONS: built(WorkloadConditionChanged, **conditions, workload=workloads),
    EVICTIONS: built(
        EvictionDecided,
        workload=workloads,
        workload_uid=texts,
        owner=workloads,
        target=targets,
        generation=st.integers(1, 3),
        revision=st.integers(1, 3),
        state=st.sampled_from(EvictionState),
        deadline=maybe,
        held_by=st.lists(names, max_size=2).map(tuple),
        asked=st.integers(0, 3),
        taints=st.lists(built(Taint, key=names, effect=names, time_added=maybe), max_size=2).map(tuple),
        reason=texts,
        decided_time=times,
        report_time=maybe,
    ),
    TIMERS: built(
        SetTimer,
        id=names,
        target=targets,
        owner=st.sampled_from(["eviction", "condition-ingest", "other"]),
        generation=st.integers(1, 3),
        deadline=maybe,
        subject=texts,
        correlation_id=texts,
    ),
    TIMER_FIRED: built(
        TimerFired,
        id=names,
        target=targets,
        owner=texts,
        generation=st.integers(1, 3),
        deadline=times,
        fired_time=times,
        subject=texts,
    ),
    PLACEMENTS: built(
        WorkloadPlaced,
        workload=workloads,
        uid=texts,
        owner=workloads,
        owner_uid=texts,
        template_hash=texts,
        index=st.integers(0, 3),
        generation=st.integers(1, 3),
        state=st.sampled_from(PlacementState),
        target=st.none() | targets,
        previous_target=st.none() | targets,
        binding_generation=st.integers(0, 3),
        reason=texts,
        message=st.sampled_from(["", "no room", "replaces Pod/a/b, evicted"]),
        filters=st.lists(built(FilterResult, filter=names, reason=names, count=st.integers(1, 3)), max_size=2).map(
            tuple
        ),
        scores=st.lists(
            built(TargetScore, target=names, total=st.integers(0, 3), scores=st.dictionaries(names, st.integers())),
            max_size=1,
        ).map(tuple),
        replaces=texts,
        decided_time=times,
        report_time=maybe,
        conditions=st.lists(
            built(PlacementCondition, type=names, status=names, last_transition_time=times), max_size=1
        ).map(tuple),
        decide_again=maybe,
    ),
}


def fields(found: Any) -> Any:
    """The fields of a model, or of a row, at every depth."""
    if isinstance(found, tuple):
        return tuple(map(fields, found))
    if isinstance(found, dict):
        return {name: fields(part) for name, part in found.items()}
    if isinstance(found, Model):
        return {name: fields(getattr(found, name)) for name in type(found).model_fields}
    if hasattr(found, "__struct_fields__"):
        return {name: fields(getattr(found, name)) for name in found.__struct_fields__}
    return found


@pytest.mark.parametrize("topic", READERS, ids=lambda topic: topic.short)
@given(data=st.data())
def test_a_row_equals_the_model(topic: Topic, data: st.DataObject) -> None:
    event = data.draw(MODELS[topic])
    value = event.model_dump_json().encode()
    row = READERS[topic].read(value)
    if row is None:  # numbers that do not fit into 64 bits are left to the model
        assert any(abs(number) >= 2**63 for number in numbers(ANYTHING.validate_json(value)))
        return
    assert fields(row) == fields(event)
    for name, found in vars(type(event)).items():
        if isinstance(found, property):
            assert getattr(row, name) == getattr(event, name)
    for name in ("workload", "owner", "target"):
        assert getattr(getattr(row, name, None), "key", "") == getattr(getattr(event, name, None), "key", "")


def numbers(value: Any) -> list[int]:
    """All numbers in a value."""
    if isinstance(value, dict):
        return [number for part in value.values() for number in numbers(part)]
    return [value] if isinstance(value, int) else []


wrong = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "1", "a\n", "x" * 400, "Node", "2026-01-01", "2026-01-01T00:00:00", "2026-01-01T00:00:00z"]),
    st.sampled_from(
        ["0001-01-01T00:00:00+14:00", "2026-01-01 00:00:00Z", "2026-01-01T00:00:00.1234567Z", "20260101T00Z"]
    ),
    st.lists(st.integers(0, 1), max_size=1),
    st.dictionaries(st.sampled_from(["a", "kind", "name"]), st.sampled_from(["b", "Node", 1]), max_size=2),
)


@pytest.mark.parametrize("topic", READERS, ids=lambda topic: topic.short)
@given(data=st.data())
def test_what_the_model_refuses_is_no_row(topic: Topic, data: st.DataObject) -> None:
    event = data.draw(MODELS[topic])
    value = ANYTHING.validate_json(event.model_dump_json())
    for _ in range(data.draw(st.integers(1, 2))):
        place = value
        name = data.draw(st.sampled_from(sorted(place)))
        if isinstance(place[name], dict) and place[name] and data.draw(st.booleans()):
            place = place[name]
            name = data.draw(st.sampled_from(sorted(place)))
        change = data.draw(st.sampled_from(["set", "drop", "rename", "add"]))
        if change == "set":
            place[name] = data.draw(wrong)
        elif change == "drop":
            del place[name]
        elif change == "rename":
            place["".join(f"_{c.lower()}" if c.isupper() else c for c in name)] = place.pop(name)
        else:
            place["later"] = data.draw(wrong)
        if not value:
            break
    raw = ANYTHING.dump_json(value)
    row = READERS[topic].read(raw)
    if row is not None:
        assert fields(row) == fields(type(event).model_validate_json(raw, extra="ignore"))


@pytest.mark.parametrize(
    "value",
    [b"", b"{", b"[]", b"null", b'{"uid": "\xff"}', b'{"uid": "\\ud800"}', b'{"generation": NaN}'],
    ids=["empty", "cut", "list", "null", "not UTF-8", "half a surrogate", "not a number"],
)
def test_what_is_no_object_is_no_row(value: bytes) -> None:
    for reader in READERS.values():
        assert reader.read(value) is None


def test_what_the_model_accepts_in_another_form_is_left_to_it() -> None:
    event = WorkloadBound.model_validate(
        {
            "workload": {"kind": "Pod", "namespace": "default", "name": "a"},
            "uid": "u",
            "owner": {"kind": "Pod", "namespace": "default", "name": "a"},
            "target": {"kind": "Node", "name": "n1"},
            "generation": 1,
            "boundTime": "2026-01-01T00:00:00Z",
        }
    )
    reader, plain = READERS[BINDINGS], event.model_dump(mode="json")
    assert fields(reader.read(orjson.dumps(plain))) == fields(event)
    for change in ({"generation": "1"}, {"boundTime": "2026-01-01T01:00:00+01:00"}, {"later": 1}):
        value = orjson.dumps({**plain, **change})
        assert reader.read(value) is None
        assert WorkloadBound.model_validate_json(value, extra="ignore") == event
    snake = {"purge_mode": "Directly", **{name: found for name, found in plain.items() if name != "purgeMode"}}
    assert reader.read(orjson.dumps(snake)) is None
    assert WorkloadBound.model_validate_json(orjson.dumps(snake)).purge_mode == "Directly"


def test_rows_share_the_objects_of_fields_with_few_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moorage.runtime.wire.row_reader._SHARED", 3)

    class Labelled(Model):
        labels: dict[str, str] = Field(default_factory=dict)

    reader = RowReader(Labelled, shared=("labels",))
    first, second, none = (reader.read(value) for value in (b'{"labels":{"a":"b"}}', b'{"labels": {"a":"b"}}', b"{}"))
    assert first is not None
    assert second is not None
    assert none is not None
    assert first.labels is second.labels
    assert none.labels == {}
    for number in range(9):  # more than are kept
        row = reader.read(orjson.dumps({"labels": {"n": str(number)}}))
        assert row is not None
        assert row.labels == {"n": str(number)}
    assert reader.read(b'{"labels": {"a": 1}}') is None


def test_a_model_that_rows_cannot_express_is_refused() -> None:
    class Even(Model):
        number: int = 0

        @field_validator("number")
        @classmethod
        def check(cls, number: int) -> int:
            return number

    class Pattern(Model):
        text: str = Field(pattern="^a$|^b$")

    class Fraction(Model):
        number: int = Field(multiple_of=2)

    class Free(Model):
        anything: Any = None

    class Times(Model):
        times: tuple[Timestamp, ...] = ()

    for model in (Even, Pattern, Fraction, Free, Times):
        with pytest.raises(TypeError):
            RowReader(model)


def test_a_model_is_read_only_if_its_composite_fields_are_shared() -> None:
    with pytest.raises(TypeError, match=r"ConditionReported\.workload: is composite"):
        ModelReader(ConditionReported, shared=("target",))


# Services, with rows and without.


def restored(service: Service[Any]) -> PartitionEngine[Any]:
    """An engine that has restored a partition without records."""
    engine = PartitionEngine(service, 0, rules=EngineRules(partitions=1), form=KafkaFormat())
    steps, answer = engine.restore(dict.fromkeys(service.sources), service.new_globals()), None
    while True:
        try:
            request = steps.send(answer)
        except StopIteration:
            return engine
        answer = None
        if isinstance(request, Bounds):
            answer = Bounded(dict.fromkeys(request.begin, 0), dict.fromkeys((*request.end, *request.committed), 0))


def consumed(topic: Topic, offset: int, key: bytes | None, value: bytes | None) -> SimpleNamespace:
    """A record as it is consumed."""
    headers = tuple(to_headers(Meta(f"e{offset}", "moorage/placement", topic.event_type)))
    return SimpleNamespace(key=key, value=value, headers=headers, partition=0, offset=offset, timestamp=0)


few = st.sampled_from(["a", "b"])
pods = built(WorkloadRef, kind=st.sampled_from(["Pod", "Placement"]), namespace=st.just("default"), name=few)
nodes = built(TargetRef, kind=st.just(TargetKind.NODE), name=few)
HOW = ("written", "written", "written", "ended", "newer", "malformed", "foreign", "no key")


def key_of(topic: Topic, event: Any) -> str:
    """The key of an event's record."""
    match topic.short:
        case "bindings":
            return f"{event.workload}|{event.target}"
        case "evictions":
            return f"{event.workload}|{event.target}|{event.generation}"
        case "conditions":
            return f"{event.target}|{event.type}"
        case "workload-conditions":
            return f"{event.workload}|{event.target}|{event.type}"
        case "placements":
            return str(event.workload)
        case _:
            return str(event.id)


@st.composite
def histories(draw: st.DrawFn, topic: Topic) -> list[tuple[SimpleNamespace, bool]]:
    """Records of a topic about few keys, each with whether it is to be skipped."""
    found = []
    for offset in range(draw(st.integers(0, 10))):
        event: Any = draw(MODELS[topic])
        same: dict[str, Any] = {
            name: draw(refs)
            for name, refs in (("workload", pods), ("owner", pods), ("target", nodes))
            if getattr(event, name, None) is not None
            and name in type(event).model_fields
            and not isinstance(getattr(event, name), str)
        }
        if "id" in type(event).model_fields:
            same["id"] = draw(st.sampled_from(["a", "heartbeat|Node/a|uid|Ready|1|probe"]))
        event, how = event.model_copy(update=same), draw(st.sampled_from(HOW))
        record = consumed(topic, offset, key_of(topic, event).encode(), event.model_dump_json().encode())
        if how == "ended":
            record.value = None
        elif how == "newer":
            record.value = record.value.replace(b"{", b'{"later":1,', 1)
        elif how == "malformed":
            record.value = record.value.replace(b'"generation":', b'"generation":-')
        elif how == "foreign":
            record.headers = tuple((name, b"other" if name == "ce_type" else value) for name, value in record.headers)
        elif how == "no key":
            record.key = None
        found.append((record, how in {"malformed", "foreign"}))
    return found


def content(found: Any) -> Any:
    """What a state contains, as values that can be compared."""
    if isinstance(found, PlacementPartition):
        found = (found.pods.state.last, found.pods.state.pending)
    elif isinstance(found, EvictionPartition):
        found = (found.targets, found.timers, found.ended)
    if isinstance(found, dict):
        return {key: content(part) for key, part in found.items()}
    if isinstance(found, (list, set, tuple)):
        parts = [repr(content(part)) for part in found]
        return sorted(parts) if isinstance(found, set) else parts
    if isinstance(found, Model):
        return fields(found)
    slots = [name for kind in type(found).__mro__ for name in getattr(kind, "__slots__", ())]
    attributes = [*slots, *getattr(found, "__dict__", ())]
    if type(found).__module__.startswith("moorage.") and not isinstance(found, StrEnum):
        return {name: content(getattr(found, name)) for name in attributes}
    return found


CASES = [(new, topic) for new in SERVICES for topic in new().rows]


@pytest.mark.parametrize(("new", "topic"), CASES, ids=[f"{new().name}-{topic.short}" for new, topic in CASES])
@settings(max_examples=40)
@given(data=st.data())
def test_a_state_that_is_restored_from_rows_is_the_state_that_is_restored_from_models(
    new: Callable[[], Service[Any]], topic: Topic, data: st.DataObject
) -> None:
    history = data.draw(histories(topic))
    bad = [skipped for _, skipped in (*history, *history[-3:])].count(True)
    records = [record for record, _ in history]
    states = []
    for with_rows in (True, False):
        service = new()
        if not with_rows:
            vars(service)["rows"] = {}
        engine, skipped = restored(service), metrics.TABLE_RECORDS_SKIPPED.labels(service.name)
        before = skipped._value.get()
        with capture_logs() as logged:
            engine.fold(topic, records)
            engine.fold(topic, records[-3:])  # records that are read again
        # Where a key is missing, some services fail, and some do nothing.
        assert len([entry for entry in logged if entry["event"] == "tables.record_not_applied"]) >= bad
        assert skipped._value.get() - before == len(logged)
        states.append((content(engine.state), len(logged)))
    assert states[0] == states[1]


def test_a_record_whose_key_is_not_text_is_skipped() -> None:
    engine = restored(Eviction(SETTINGS))
    event = WorkloadBound(
        workload=WorkloadRef(kind="Pod", name="a"),
        uid="u",
        owner=WorkloadRef(kind="Pod", name="a"),
        target=TargetRef(kind=TargetKind.NODE, name="n1"),
        generation=1,
        bound_time=datetime(2026, 1, 1, tzinfo=UTC),
    )
    value = event.model_dump_json().encode()
    engine.fold(BINDINGS, [consumed(BINDINGS, 0, b"\xff", value), consumed(BINDINGS, 1, b"Pod//a|Node/n1", value)])
    assert list(engine.state.targets) == ["Node/n1"]


def test_a_shared_field_keeps_its_constraints_and_is_still_required() -> None:
    class Few(Model):
        labels: tuple[str, ...] = Field(default=(), max_length=2)
        needed: dict[str, str]

    reader = RowReader(Few, shared=("labels", "needed"))
    row = reader.read(b'{"labels":["a"],"needed":{"a":"b"}}')
    assert row is not None
    assert (row.labels, row.needed) == (("a",), {"a": "b"})
    assert reader.read(b'{"labels":["a","b","c"],"needed":{}}') is None
    assert reader.read(b'{"labels":["a"]}') is None


def test_a_long_value_of_a_shared_field_is_not_kept() -> None:
    class Labelled(Model):
        labels: dict[str, str] = Field(default_factory=dict)

    reader = RowReader(Labelled, shared=("labels",))
    value = orjson.dumps({"labels": {"a": "b" * 5000}})
    first, second = reader.read(value), reader.read(value)
    assert first is not None
    assert second is not None
    assert first.labels == second.labels
    assert first.labels is not second.labels


def test_a_timer_is_kept_in_the_same_form_from_a_row_and_from_a_model() -> None:
    service = TimerService()
    engine = restored(service)
    event = SetTimer(
        id="t",
        target=TargetRef(kind=TargetKind.NODE, name="n1"),
        owner="eviction",
        generation=2,
        deadline=datetime(2026, 1, 1, tzinfo=UTC),
        subject="s",
    )
    engine.fold(TIMERS, [consumed(TIMERS, 0, b"t", event.model_dump_json().encode())])
    plain = service.new_state(0)
    service.apply(plain, TIMERS, "t", event)
    late = datetime(2026, 1, 2, tzinfo=UTC)
    (due,) = engine.state.table.take_due(late, 2)
    assert [due] == plain.table.take_due(late, 2)
    assert TargetRef.model_validate_json(bytes(due.target)) == event.target
    assert due.target_key == event.target.key
    for name in ("id", "owner", "generation", "deadline", "subject", "correlation_id"):
        assert getattr(due, name) == getattr(event, name)


def test_only_decisions_on_pods_are_rows() -> None:
    keys = PlacementService(SETTINGS).rows[PLACEMENTS].keys
    assert keys is not None
    of_pods = (b"Pod/shop/a", b"paris:Pod/shop/a")
    others = (
        b"ResourceBinding.work.karmada.io/shop/a",
        b"paris:ResourceBinding.work.karmada.io/shop/a",
        b"Pods/shop/a",
    )
    assert [keys(key) for key in (*of_pods, *others)] == [True, True, False, False, False]
