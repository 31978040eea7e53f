"""Every event survives serialization and conforms to its JSON Schema."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker
from pydantic import ValidationError
from tests.support.tables import table
from tests.unit.contract.strategies import INSTANTS, instances

from moorage.apiserver.kinds import kind as kinds
from moorage.cli.contract.jsonschemas import event_schema
from moorage_schemas.condition import ConditionReported
from moorage_schemas.keys import binding_key, condition_key, eviction_key
from moorage_schemas.refs import TargetRef, WorkloadRef
from moorage_schemas.resource import resource_key, resource_partition_key, target_of_resource
from moorage_schemas.resources.audit import AuditEvent
from moorage_schemas.resources.bindings import ResourceBinding
from moorage_schemas.resources.managed import PlacementDecision
from moorage_schemas.resources.meta import Resource
from moorage_schemas.times import format_time, parse_time
from moorage_schemas.topics import CONDITION_REPORTS, TOPICS, Topic

EVENTS = pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.short)
REPORT = {
    "target": {"kind": "Node", "name": "n1"},
    "type": "Ready",
    "status": "False",
    "observedTime": "2026-01-01T00:00:00Z",
}


@EVENTS
@settings(max_examples=25)
@given(data=st.data())
def test_round_trip_and_schema(topic: Topic, data: st.DataObject) -> None:
    event = data.draw(instances(topic.event))
    text = event.model_dump_json()
    assert topic.event.model_validate_json(text) == event
    assert topic.event.model_validate_json(text).model_dump_json() == text
    validator = Draft202012Validator(event_schema(topic), format_checker=FormatChecker())
    assert [error.message for error in validator.iter_errors(json.loads(text))] == []


@EVENTS
@settings(max_examples=10)
@given(data=st.data())
def test_a_reader_by_the_schema_survives_a_new_field_in_what_moorage_writes(topic: Topic, data: st.DataObject) -> None:
    newer = {**json.loads(data.draw(instances(topic.event)).model_dump_json()), "addedLater": 1}
    schema = event_schema(topic)
    # Records from third parties with unknown fields are refused by the services and by the schema.
    assert Draft202012Validator(schema).is_valid(newer) is (topic is not CONDITION_REPORTS)
    closed = sum(one is False for one in _values("additionalProperties", schema))
    assert closed == (3 if topic is CONDITION_REPORTS else 0)


def _values(keyword: str, schema: Any) -> Iterator[Any]:
    """Every value of a keyword, anywhere in a schema."""
    if isinstance(schema, dict):
        yield from (value for name, value in schema.items() if name == keyword)
        schema = list(schema.values())
    for part in schema if isinstance(schema, list) else ():
        yield from _values(keyword, part)


@EVENTS
def test_wire_names_are_camel_case_and_types_are_named(topic: Topic) -> None:
    fields = topic.event.model_fields
    assert all("_" not in (field.alias or name) for name, field in fields.items())
    assert topic.event_type.startswith("io.moorage.")
    assert topic.event_type.endswith(".v1")
    assert len({each.event_type for each in TOPICS}) == len(TOPICS)


@table(
    ("change", "field"),
    [
        ({"colour": "red"}, "colour"),
        ({"status": "Perhaps"}, "status"),
        ({"type": ""}, "type"),
        ({"type": "a b"}, "type"),
        ({"type": "x" * 317}, "type"),
        ({"type": 7}, "type"),
        ({"target": {"kind": "Planet", "name": "n1"}}, "kind"),
        ({"target": {"kind": "Node", "name": ""}}, "name"),
        ({"target": {"kind": "Node", "name": "x" * 254}}, "name"),
        ({"message": "x" * 32769}, "message"),
        ({"observedTime": None}, "observedTime"),
    ],
)
def test_bad_report_is_refused_by_model_and_schema(change: dict[str, Any], field: str) -> None:
    document = {**REPORT, **change}
    with pytest.raises(ValidationError) as refused:
        ConditionReported.model_validate_json(json.dumps(document))
    assert any(field in map(str, error["loc"]) for error in refused.value.errors())
    report_topic = next(topic for topic in TOPICS if topic.event is ConditionReported)
    assert not Draft202012Validator(event_schema(report_topic)).is_valid(document)


@pytest.mark.parametrize("missing", sorted(REPORT))
def test_required_fields_of_a_report(missing: str) -> None:
    document = {name: value for name, value in REPORT.items() if name != missing}
    with pytest.raises(ValidationError) as refused:
        ConditionReported.model_validate_json(json.dumps(document))
    assert [error["loc"] for error in refused.value.errors()] == [(missing,)]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("yesterday", "is not an RFC 3339 time"),
        ("2026-01-01T00:00:00", "has no time zone"),
        ("2026-13-01T00:00:00Z", "is not an RFC 3339 time"),
        ("0001-01-01T00:00:00+14:00", "cannot be expressed in UTC"),
        ("9999-12-31T23:59:59-14:00", "cannot be expressed in UTC"),
    ],
)
def test_bad_time_is_refused_with_value_and_rule(text: str, rule: str) -> None:
    with pytest.raises(ValidationError) as refused:
        ConditionReported.model_validate_json(json.dumps({**REPORT, "observedTime": text}))
    (error,) = refused.value.errors()
    assert error["loc"] == ("observedTime",)
    assert rule in error["msg"]
    assert text in error["msg"]


@given(when=INSTANTS, hours=st.integers(-14, 14))
def test_times_round_trip_in_utc(when: datetime, hours: int) -> None:
    text = format_time(when.astimezone(timezone(timedelta(hours=hours))))
    assert text.endswith("Z")
    assert parse_time(text) == when
    assert parse_time(text).utcoffset() == timedelta(0)


def test_times_are_written_short() -> None:
    assert format_time(datetime(2026, 1, 1, tzinfo=UTC)) == "2026-01-01T00:00:00Z"
    assert format_time(datetime(2026, 1, 1, 0, 0, 0, 1500, tzinfo=UTC)) == "2026-01-01T00:00:00.001500Z"


@given(target=instances(TargetRef), workload=instances(WorkloadRef))
def test_keys_parse_back(target: TargetRef, workload: WorkloadRef) -> None:
    assert TargetRef.parse(str(target)) == target
    # A kind contains neither, and the name of a workload no slash.
    if ":" not in workload.kind and "/" not in workload.key.replace("/", "", 2):
        assert WorkloadRef.parse(str(workload)) == workload


@pytest.mark.parametrize("key", ["", "n1", "Planet/n1", "Node/"])
def test_bad_target_keys(key: str) -> None:
    with pytest.raises(ValueError, match=r"Node|Planet|name"):
        TargetRef.parse(key)


@pytest.mark.parametrize("key", ["", "Pod/p", "Pod/ns/p/x", "//"])
def test_bad_workload_keys(key: str) -> None:
    with pytest.raises(ValueError, match=r"Kind/namespace/name|at least 1 character"):
        WorkloadRef.parse(key)


def test_record_keys() -> None:
    node, pod = TargetRef.parse("Node/n1"), WorkloadRef.parse("Pod/shop/web-0")
    assert condition_key(node, "Ready") == "Node/n1|Ready"
    assert binding_key(pod, node) == "Pod/shop/web-0|Node/n1"
    assert eviction_key(pod, node, 3) == "Pod/shop/web-0|Node/n1|3"
    assert resource_key("Node", "", "n1") == "Node//n1"


def test_a_target_resource_is_partitioned_as_its_target() -> None:
    assert resource_partition_key("Node//n1") == "Node/n1"
    assert resource_partition_key("Pod/shop/web-0") == "Pod/shop/web-0"
    assert target_of_resource("Node//n1") == TargetRef.parse("Node/n1")
    assert target_of_resource("Pod/shop/web-0") is None


def test_every_typed_view_is_that_of_its_kind() -> None:
    typed = {kind.kind: kind.model for kind in kinds.declared() if kind.model is not Resource}
    # The first two are never declared here, and read from records of those that are mirrored. The third is only shown.
    typed |= {
        AuditEvent.__name__: AuditEvent,
        ResourceBinding.__name__: ResourceBinding,
        PlacementDecision.__name__: PlacementDecision,
    }
    assert all(model.__name__ == kind for kind, model in typed.items())
    # A view without a kind would never be used.
    # A module that another test created and removed is not part of the contract.
    present = [view for view in Resource.__subclasses__() if view.__module__ in sys.modules]
    views = {view.__name__ for view in present if view.__module__.startswith("moorage_schemas.")}
    assert set(typed) == views
