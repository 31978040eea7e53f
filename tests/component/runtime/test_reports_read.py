"""Reports of third parties are read without pydantic where they are as Moorage's own clients write them.

Whatever is read in this way is what pydantic makes of it. Everything else is left to pydantic, so that a refused report
is refused in the same words.
"""

from __future__ import annotations

import functools
import json
from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.support.tables import table

from moorage.runtime.service import Input, Malformed
from moorage.runtime.wire import codec
from moorage.runtime.wire.record_format import dead_letter
from moorage.runtime.wire.row_reader import ModelReader
from moorage_schemas.condition import ConditionReported, ConditionStatus
from moorage_schemas.dead_letter import DeadLettered
from moorage_schemas.envelope import Meta, to_headers
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.topics import CONDITION_REPORTS

READER = ModelReader(ConditionReported, shared=("target", "type", "workload"))
PLAIN: dict[str, Any] = {
    "target": {"kind": "Node", "name": "n1"},
    "type": "Ready",
    "status": "True",
    "reason": "KubeletReady",
    "message": "kubelet is posting ready status",
    "observedTime": "2026-01-01T00:00:00Z",
    "source": "probe/kubelet",
}
VALUE = orjson.dumps(PLAIN)


def changed(**fields: Any) -> bytes:
    """The value of a plain report with other fields."""
    return orjson.dumps({**PLAIN, **fields})


def decoded(value: bytes, readers: Any) -> Input | Malformed:
    """What a record with this value is decoded to."""
    headers = tuple(to_headers(Meta("e1", "probe/kubelet", CONDITION_REPORTS.event_type)))
    record = SimpleNamespace(key=b"Node/n1", value=value, headers=headers, partition=0, offset=1, timestamp=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "_READERS", readers)
        return codec.decode(CONDITION_REPORTS, record, third_party=True, max_bytes=1 << 20)


def agree(value: bytes) -> ConditionReported | None:
    """Check that a value is read or refused as by pydantic. Returns the report that was read without it."""
    found = READER.read(value)
    if found is not None:
        checked = ConditionReported.model_validate_json(value, extra="forbid")
        assert found == checked
        assert list(vars(found).items()) == list(vars(checked).items())
        assert [type(part) for part in vars(found).values()] == [type(part) for part in vars(checked).values()]
        assert found.model_dump_json() == checked.model_dump_json()
        assert found.observed_time.tzinfo is checked.observed_time.tzinfo
    assert decoded(value, {CONDITION_REPORTS.short: READER}) == decoded(value, {})
    return found


text = st.text(max_size=8)
clusters = st.sampled_from(["", "paris", "rome.example"])
targets = st.builds(
    functools.partial(TargetRef.model_validate),
    st.fixed_dictionaries(
        {"kind": st.sampled_from(TargetKind), "name": st.text(min_size=1, max_size=8), "cluster": clusters}
    ),
)
workloads = st.builds(
    functools.partial(WorkloadRef.model_validate),
    st.fixed_dictionaries(
        {"kind": st.just("Pod"), "namespace": text, "name": st.text(min_size=1, max_size=8), "cluster": clusters}
    ),
)
times = st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=2))])).filter(
    lambda time: 1 < time.year < 9999
)
reports = st.builds(
    functools.partial(ConditionReported.model_validate),
    st.fixed_dictionaries(
        {
            "target": targets,
            "type": st.sampled_from(["Ready", "example.com/Disk", "A" * 316]),
            "status": st.sampled_from(ConditionStatus),
            "reason": text,
            "message": text,
            "observed_time": times,
            "source": text,
            "workload": st.none() | workloads,
        }
    ),
)


@given(report=reports)
def test_a_report_that_moorage_would_write_is_read_without_pydantic(report: ConditionReported) -> None:
    found = agree(report.model_dump_json().encode())
    assert found == report


wrong = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=4),
    st.sampled_from(["x" * 254, "é" * 253, "Node", "True", "true", "2026-01-01", "2026-01-01T00:00:00", "1767225600"]),
    st.sampled_from(["0001-01-01T00:00:00+14:00", "2026-01-01 00:00:00Z", "2026-01-01T01:00:00+01:00", "2026-W01-1"]),
    st.lists(st.integers(0, 1), max_size=1),
    st.dictionaries(st.sampled_from(["kind", "name", "cluster"]), st.sampled_from(["b", "Node", 1]), max_size=3),
)


@given(report=reports, data=st.data())
def test_a_report_that_was_changed_in_any_way_is_read_or_refused_as_by_pydantic(
    report: ConditionReported, data: st.DataObject
) -> None:
    value: dict[str, Any] = orjson.loads(report.model_dump_json())
    for _ in range(data.draw(st.integers(1, 2))):
        place, name = value, data.draw(st.sampled_from(sorted(value)))
        if isinstance(place[name], dict) and place[name] and data.draw(st.booleans()):
            place = place[name]
            name = data.draw(st.sampled_from(sorted(place)))
        match data.draw(st.sampled_from(["set", "drop", "rename", "add"])):
            case "set":
                place[name] = data.draw(wrong)
            case "drop":
                del place[name]
            case "rename":
                place["observed_time" if name == "observedTime" else name.upper()] = place.pop(name)
            case _:
                place["later"] = data.draw(wrong)
        if not value:
            break
    agree(json.dumps(value).encode())  # unlike orjson, it writes integers of any length


@given(value=st.binary(max_size=20), place=st.integers(0, len(VALUE)), cut=st.integers(0, 3))
@example(value=b"\xff", place=130, cut=0)
def test_bytes_that_were_changed_anywhere_are_read_or_refused_as_by_pydantic(
    value: bytes, place: int, cut: int
) -> None:
    agree(VALUE[:place] + value + VALUE[place + cut :])


STRANGE = {
    "empty": b"",
    "null": b"null",
    "list": b"[]",
    "cut": VALUE[:-1],
    "byte order mark": b"\xef\xbb\xbf" + VALUE,
    "spaces": b" \n\t" + VALUE + b" \n",
    "two values": VALUE + b"{}",
    "comma at the end": VALUE[:-1] + b",}",
    "unknown field": changed(colour="red"),
    "unknown field of the target": changed(target={"kind": "Node", "name": "n1", "colour": "red"}),
    "unknown field of the workload": changed(workload={"kind": "Pod", "name": "a", "colour": "red"}),
    "python name": VALUE.replace(b"observedTime", b"observed_time"),
    "both names": VALUE[:-1] + b',"observed_time":"2026-01-02T00:00:00Z"}',
    "twice": VALUE[:-1] + b',"status":"False"}',
    "twice, wrong last": VALUE[:-1] + b',"status":1}',
    "twice, wrong first": b'{"status":1,' + VALUE[1:],
    "target twice": VALUE[:-1] + b',"target":{"kind":"Node","name":"n2"}}',
    "time twice": VALUE[:-1] + b',"observedTime":"2026-01-02T00:00:00Z"}',
    "field of the target twice": VALUE.replace(b'"name":"n1"', b'"name":"n1","name":"n2"'),
    "escaped name": VALUE.replace(b'"status"', b'"st\\u0061tus"'),
    "escaped value": VALUE.replace(b'"Ready"', b'"Re\\u0061dy"'),
    "surrogate pair": VALUE.replace(b"kubelet is", b"\\ud83d\\ude00"),
    "half a surrogate": VALUE.replace(b"kubelet is", b"\\ud83d"),
    "half a surrogate in the target": VALUE.replace(b"n1", b"\\ud83d"),
    "half a surrogate in UTF-8": VALUE.replace(b"kubelet is", b"\xed\xa0\xbd"),
    "not UTF-8": VALUE.replace(b"kubelet is", b"\xff"),
    "not UTF-8 in the target": VALUE.replace(b"n1", b"\xff"),
    "not UTF-8 in the type": VALUE.replace(b"Ready", b"\xff", 1),
    "control character": VALUE.replace(b"kubelet is", b"a\nb"),
    "control character in the type": VALUE.replace(b'"Ready"', b'"Ready\n"'),
    "control character in the target": VALUE.replace(b"n1", b"n\n1"),
    "escaped newline after the type": VALUE.replace(b'"Ready"', b'"Ready\\n"'),
    "zero": VALUE.replace(b"kubelet is", b"\\u0000"),
    "big number": changed(status=0).replace(b'"status":0', b'"status":' + b"9" * 5000),
    "big number in an unknown field": VALUE[:-1] + b',"n":' + b"9" * 400 + b"}",
    "not a number": VALUE[:-1] + b',"n":NaN}',
    "status is not a number": VALUE.replace(b'"status":"True"', b'"status":NaN'),
    "deep": VALUE[:-1] + b',"n":' + b"[" * 300 + b"]" * 300 + b"}",
    "true": VALUE.replace(b'"status":"True"', b'"status":true'),
    "null fields": changed(reason=None),
    "no workload": changed(workload=None),
    "empty strings": changed(reason="", message="", source=""),
    "empty type": changed(type=""),
    "empty status": changed(status=""),
    "empty time": changed(observedTime=""),
    "empty name": changed(target={"kind": "Node", "name": ""}),
    "target as text": changed(target="Node/n1"),
    "target as a list": changed(target=["Node", "n1"]),
    "no target": orjson.dumps({name: part for name, part in PLAIN.items() if name != "target"}),
    "no type": orjson.dumps({name: part for name, part in PLAIN.items() if name != "type"}),
    "no time": orjson.dumps({name: part for name, part in PLAIN.items() if name != "observedTime"}),
    "number as time": changed(observedTime=1767225600),
    "time without zone": changed(observedTime="2026-01-01T00:00:00"),
    "time with an offset": changed(observedTime="2026-01-01T01:00:00+01:00"),
    "time with the offset 0": changed(observedTime="2026-01-01T00:00:00+00:00"),
    "time with the offset -0": changed(observedTime="2026-01-01T00:00:00-00:00"),
    "time in lower case": changed(observedTime="2026-01-01t00:00:00z"),
    "time of a week": changed(observedTime="2026-W01-1T00:00:00Z"),
    "time with a leap second": changed(observedTime="2016-12-31T23:59:60Z"),
    "time with a comma": changed(observedTime="2026-01-01T00:00:00,5Z"),
    "time with nanoseconds": changed(observedTime="2026-01-01T00:00:00.123456789Z"),
    "time at 24": changed(observedTime="2026-01-01T24:00:00Z"),
    "time that UTC cannot express": changed(observedTime="0001-01-01T00:00:00+14:00"),
    "reason of the maximum length": changed(reason="é" * 1024),
    "reason that is too long": changed(reason="é" * 1025),
    "message of the maximum length": changed(message="😀" * 32768),
    "message that is too long": changed(message="😀" * 32769),
    "source of the maximum length": changed(source="é" * 253),
    "source that is too long": changed(source="é" * 254),
    "type of the maximum length": changed(type="A" * 316),
    "type that is too long": changed(type="A" * 317),
    "type with other letters": changed(type="Réady"),
    "name of the maximum length": changed(target={"kind": "Node", "name": "😀" * 253}),
    "name that is too long": changed(target={"kind": "Node", "name": "😀" * 254}),
}


@table("value", STRANGE.values(), ids=STRANGE)
def test_strange_json_is_read_or_refused_as_by_pydantic(value: bytes) -> None:
    for _ in range(2):  # also from what is kept of it
        agree(value)


@pytest.mark.parametrize(
    "name",
    [
        "twice",
        "spaces",
        "escaped value",
        "surrogate pair",
        "empty strings",
        "no workload",
        "message of the maximum length",
    ],
)
def test_these_are_read_without_pydantic(name: str) -> None:
    assert READER.read(STRANGE[name]) is not None


@pytest.mark.parametrize("field", ["target", "type", "workload"])
def test_a_report_without_a_field_is_read_as_by_pydantic(field: str) -> None:
    value = orjson.dumps({name: part for name, part in PLAIN.items() if name != field})
    if field == "workload":
        assert agree(value) is not None
    else:
        with pytest.raises(ValidationError):
            ConditionReported.model_validate_json(value)
        assert agree(value) is None


def test_a_header_without_a_value_is_empty_in_the_dead_letter() -> None:
    headers = (*to_headers(Meta("e1", "probe/kubelet", CONDITION_REPORTS.event_type)), ("none", None))
    record = SimpleNamespace(key=b"Node/n1", value=b"{}", headers=headers, partition=0, offset=1, timestamp=1)
    bad = codec.decode(CONDITION_REPORTS, record, third_party=True, max_bytes=1 << 20)
    assert isinstance(bad, Malformed)
    letter = dead_letter("condition-ingest", bad, datetime(2026, 1, 1, tzinfo=UTC)).event
    assert isinstance(letter, DeadLettered)
    assert letter.headers["none"] == ""
    assert letter.headers["ce_id"] == "e1"


def test_headers_count_with_their_names_whether_they_have_a_value_or_not() -> None:
    headers = to_headers(Meta("e1", "probe/kubelet", CONDITION_REPORTS.event_type))
    size = len("Node/n1") + sum(len(name) + len(value) for name, value in headers)
    rest = 8192 - size
    for extra, reason in (
        ([("n" * rest, None)], None),
        ([("n" * rest, None), ("m", None)], "TooLarge"),
        ([("n" * (rest - 1), b"v")], None),
        ([("n" * (rest - 2), b""), ("n", b"v" * 2)], "TooLarge"),
    ):
        record = SimpleNamespace(
            key=b"Node/n1", value=VALUE, headers=(*headers, *extra), partition=0, offset=1, timestamp=1
        )
        found = codec.decode(CONDITION_REPORTS, record, third_party=True, max_bytes=1 << 20)
        assert (found.reason if isinstance(found, Malformed) else None) == reason


@pytest.mark.parametrize("name", ["ce_subject", "ce_correlationid", "ce_causationid", "traceparent"])
def test_an_attribute_without_a_value_is_refused(name: str) -> None:
    headers = (*to_headers(Meta("e1", "probe/kubelet", CONDITION_REPORTS.event_type)), (name, None))
    record = SimpleNamespace(key=b"Node/n1", value=VALUE, headers=headers, partition=0, offset=1, timestamp=1)
    found = codec.decode(CONDITION_REPORTS, record, third_party=True, max_bytes=1 << 20)
    assert isinstance(found, Malformed)
    assert found.reason == "InvalidEnvelope"
