"""The CloudEvents envelope of every event, compared with the CloudEvents project's own package."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from cloudevents.core.bindings.kafka import (
    KafkaMessage,
    from_binary_event,
    from_structured_event,
    to_binary_event,
    to_structured_event,
)
from cloudevents.core.v1.event import CloudEvent
from hypothesis import given
from hypothesis import strategies as st
from tests.support.tables import table
from tests.unit.contract.strategies import INSTANTS, instances

from moorage_schemas.condition import ConditionReported
from moorage_schemas.envelope import (
    EnvelopeError,
    Meta,
    event_id,
    from_headers,
    is_structured,
    parse_structured,
    to_headers,
    to_structured,
)

WHEN = datetime(2026, 1, 1, 12, 0, 0, 250_000, tzinfo=UTC)
META = Meta(
    id="a1",
    source="probe/disk",
    type=ConditionReported.event_type,
    time=WHEN,
    subject="Node/n1",
    correlation_id="c1",
    causation_id="p1",
    traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
)
_TEXT = st.text(min_size=1, max_size=20)
METAS = st.builds(
    Meta,
    id=_TEXT,
    source=_TEXT,
    type=_TEXT,
    time=st.none() | INSTANTS,
    subject=st.text(max_size=20),
    correlation_id=st.text(max_size=20),
    causation_id=st.text(max_size=20),
    traceparent=st.just("") | st.just(META.traceparent),
    configuration=st.integers(0, 10**17),
    proofs=st.just(()),
)
DOCUMENT = {"specversion": "1.0", "id": "a1", "source": "probe/disk", "type": "t", "data": {"status": "True"}}


@given(meta=METAS)
def test_headers_round_trip(meta: Meta) -> None:
    assert from_headers(to_headers(meta)) == meta


@given(meta=METAS, report=instances(ConditionReported))
def test_structured_round_trip(meta: Meta, report: ConditionReported) -> None:
    document = json.loads(json.dumps(to_structured(meta, report)))
    read, data = parse_structured(document)
    assert read == meta
    assert ConditionReported.model_validate(data) == report


def test_the_package_reads_what_we_write_in_binary_mode() -> None:
    event = from_binary_event(KafkaMessage(dict(to_headers(META)), b"Node/n1", b'{"status":"True"}'))
    assert isinstance(event, CloudEvent)
    assert (event.get_id(), event.get_source(), event.get_type()) == (META.id, META.source, META.type)
    assert event.get_specversion() == "1.0"
    assert event.get_time() == META.time
    assert event.get_subject() == META.subject
    assert event.get_datacontenttype() == "application/json"
    assert event.get_extension("correlationid") == META.correlation_id
    assert event.get_extension("causationid") == META.causation_id
    assert event.get_data() == {"status": "True"}


def test_we_read_what_the_package_writes_in_binary_mode() -> None:
    message = to_binary_event(_event())
    assert not is_structured(list(message.headers.items()))
    meta = from_headers(list(message.headers.items()))
    assert (meta.id, meta.source, meta.type, meta.time) == (META.id, META.source, META.type, META.time)
    assert (meta.subject, meta.correlation_id, meta.causation_id) == ("Node/n1", "c1", "p1")
    assert json.loads(message.value) == {"status": "True"}


def test_we_read_what_the_package_writes_in_structured_mode() -> None:
    message = to_structured_event(_event())
    assert is_structured(list(message.headers.items()))
    meta, data = parse_structured(json.loads(message.value))
    assert (meta.id, meta.source, meta.type, meta.time) == (META.id, META.source, META.type, META.time)
    assert (meta.subject, meta.correlation_id, meta.causation_id) == ("Node/n1", "c1", "p1")
    assert data == {"status": "True"}


@given(meta=METAS, report=instances(ConditionReported))
def test_the_package_reads_what_we_write_in_structured_mode(meta: Meta, report: ConditionReported) -> None:
    value = json.dumps(to_structured(meta, report)).encode()
    event = from_structured_event(KafkaMessage({"content-type": b"application/cloudevents+json"}, None, value))
    assert (event.get_id(), event.get_source(), event.get_type()) == (meta.id, meta.source, meta.type)
    if meta.time is not None:  # the package uses the present time if there is none
        assert event.get_time() == meta.time
    assert event.get_data() == json.loads(report.model_dump_json())


@pytest.mark.parametrize(
    ("content_type", "structured"),
    [
        (b"application/cloudevents+json", True),
        (b"application/CloudEvents+JSON; charset=utf-8", True),
        (b"application/json", False),
        (b"application/cloudevents-batch+json", False),
        (b"\xff\xfe", False),
    ],
)
def test_what_counts_as_structured(content_type: bytes, *, structured: bool) -> None:
    assert is_structured([("Content-Type", content_type)]) is structured


@table(
    ("name", "value", "field", "rule"),
    [
        ("ce_specversion", b"0.3", "specversion", "must be 1.0"),
        ("ce_specversion", None, "specversion", "must be 1.0"),
        ("ce_id", None, "id", "is required"),
        ("ce_id", b"", "id", "is required"),
        ("ce_source", None, "source", "is required"),
        ("ce_type", None, "type", "is required"),
        ("ce_time", b"noon", "time", "RFC 3339"),
        ("ce_time", b"2026-01-01T00:00:00", "time", "time zone"),
        ("ce_subject", b"\xff\xfe", "headers", "UTF-8"),
    ],
)
def test_bad_headers_name_attribute_value_and_rule(name: str, value: bytes | None, field: str, rule: str) -> None:
    headers = [(header, text) for header, text in to_headers(META) if header != name]
    if value is not None:
        headers.append((name, value))
    with pytest.raises(EnvelopeError, match=rule) as refused:
        from_headers(headers)
    assert refused.value.field == field
    assert str(refused.value).startswith(f"{field}: invalid value {refused.value.value!r}: ")
    if value not in (None, b"\xff\xfe"):
        assert refused.value.value == (value or b"").decode()


@table(
    ("document", "field", "rule"),
    [
        ([], "event", "JSON object"),
        (None, "event", "JSON object"),
        ({**DOCUMENT, "specversion": "2.0"}, "specversion", "must be 1.0"),
        ({**DOCUMENT, "id": ""}, "id", "is required"),
        ({**DOCUMENT, "id": 7}, "id", "must be a string"),
        ({**DOCUMENT, "source": None}, "source", "must be a string"),
        ({**DOCUMENT, "type": ""}, "type", "is required"),
        ({**DOCUMENT, "time": "noon"}, "time", "RFC 3339"),
        ({**DOCUMENT, "data_base64": "e30="}, "data_base64", "must be JSON"),
    ],
)
def test_bad_documents_name_attribute_value_and_rule(document: object, field: str, rule: str) -> None:
    with pytest.raises(EnvelopeError, match=rule) as refused:
        parse_structured(document)
    assert refused.value.field == field
    assert str(refused.value).startswith(f"{field}: invalid value ")


def test_a_header_without_value_counts_as_absent() -> None:
    """Kafka allows them, and any program may write one."""
    assert from_headers([*to_headers(META), ("other", None)]) == META
    assert from_headers([("ce_subject", None), *(h for h in to_headers(META) if h[0] != "ce_subject")]).subject == ""
    assert not is_structured([("content-type", None)])
    with pytest.raises(EnvelopeError, match="id: invalid value '': is required"):
        from_headers([*to_headers(META), ("ce_id", None)])


@given(parts=st.lists(st.text(max_size=8) | st.integers(), min_size=1, max_size=5))
def test_event_id_is_the_same_for_the_same_cause(parts: list[Any]) -> None:
    assert event_id(*parts) == event_id(*parts)
    assert len(event_id(*parts)) == 32
    assert event_id(*parts) != event_id(*parts, 0)


def test_event_id_is_the_same_in_every_process_and_version() -> None:
    assert event_id("a1", "conditions", "Node/n1|Ready", 0) == "9fb7a7dffc9937643cd646df598a2858"
    assert event_id("ab", "c") != event_id("a", "bc")


def test_the_first_event_of_a_chain_is_its_correlation() -> None:
    assert Meta(id="a", source="s", type="t").correlation == "a"
    assert Meta(id="b", source="s", type="t", correlation_id="a").correlation == "a"


def _event() -> CloudEvent:
    attributes = {
        "id": META.id,
        "source": META.source,
        "type": META.type,
        "specversion": "1.0",
        "time": META.time,
        "subject": META.subject,
        "datacontenttype": "application/json",
        "correlationid": META.correlation_id,
        "causationid": META.causation_id,
    }
    return CloudEvent(attributes=attributes, data={"status": "True"})
