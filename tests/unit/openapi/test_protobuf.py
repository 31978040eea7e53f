"""Kubernetes' protobuf, held to what upstream's own types write."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.tables import table

from moorage.apiserver.machinery.openapi.built_in import DecodeError
from moorage.apiserver.machinery.protobuf import wire
from moorage.apiserver.machinery.protobuf.encoding import NotEncodableError
from moorage.apiserver.machinery.protobuf.messages import decode_object, encode_event, encode_object
from moorage.apiserver.machinery.protobuf.wire import BYTES, FIXED64, VARINT

VECTORS = [
    json.loads(line) for line in (Path(__file__).parent / "vectors" / "protobuf.jsonl").read_text("utf-8").splitlines()
]
"""Random objects of upstream's Go types, as JSON and in protobuf (`make upstream-schemas`)."""

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {}, "status": {}}


def said(value: Any) -> Any:
    """A value without what protobuf cannot tell from absence: null, and empty lists, maps and bytes."""
    if isinstance(value, dict):
        inner = {key: said(one) for key, one in value.items()}
        return {key: one for key, one in inner.items() if one is not None and one not in ([], "")}
    return [said(one) for one in value] if isinstance(value, list) else value


def enveloped(raw: bytes, api_version: str = "v1", kind: str = "Pod", encoding: str = "") -> bytes:
    """An envelope with any bytes in it."""
    named = wire.field(1, BYTES, api_version.encode()) + wire.field(2, BYTES, kind.encode())
    parts = wire.field(1, BYTES, named) + wire.field(2, BYTES, raw)
    return b"k8s\x00" + parts + wire.field(3, BYTES, encoding.encode())


@table("vector", VECTORS, ids=lambda vector: vector["kind"])
def test_objects_are_read_as_upstream_wrote_them(vector: dict[str, Any]) -> None:
    found = decode_object(base64.b64decode(vector["protobuf"]))
    assert said(found) == said(vector["document"])
    assert decode_object(encode_object(vector["document"])) == decode_object(encode_object(found)) == found


def test_the_vectors_contain_every_sort_of_value() -> None:
    text = json.dumps(VECTORS)
    for one in (
        '"500m"',
        "25%",
        '"f:metadata"',
        '"thing"',
        '"renewTime"',
        "-9223372036854775808",
        '"emptyDir"',
        '"extra"',
    ):
        assert one in text
    assert len({vector["kind"] for vector in VECTORS}) > 35


def test_a_list_is_an_object_of_its_kind() -> None:
    listed = {"apiVersion": "v1", "kind": "NodeList", "metadata": {"resourceVersion": "7"}, "items": [NODE]}
    inner = {key: value for key, value in NODE.items() if key not in {"apiVersion", "kind"}}
    found = decode_object(encode_object(listed))
    assert found["metadata"] == {"resourceVersion": "7"}
    assert {key: value for key, value in found["items"][0].items() if key != "status"} == {
        "metadata": inner["metadata"],
        "spec": {},
    }
    assert decode_object(encode_object({**listed, "items": []}))["items"] == []


def test_a_list_of_any_kind_contains_objects_in_their_envelopes() -> None:
    inside = wire.field(2, BYTES, wire.field(1, BYTES, encode_object(NODE)))
    found = decode_object(enveloped(inside, kind="List"))
    assert found["items"][0]["kind"] == "Node"
    assert found["items"][0]["metadata"] == {"name": "n"}


def test_envelopes_within_envelopes_come_to_an_end() -> None:
    body = encode_object(NODE)
    for _ in range(6):
        body = enveloped(wire.field(2, BYTES, wire.field(1, BYTES, body)), kind="List")
    with pytest.raises(DecodeError, match="nested too deeply"):
        decode_object(body)


def test_options_are_found_in_the_group_of_the_request() -> None:
    body = encode_object({"apiVersion": "apps/v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "dryRun": ["All"]})
    assert decode_object(body) == {
        "apiVersion": "apps/v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "dryRun": ["All"],
    }


def test_an_object_that_does_not_name_its_kind_is_of_the_expected_one() -> None:
    body = enveloped(wire.field(1, BYTES, wire.field(1, BYTES, b"n")), "", "")
    assert decode_object(body, "apps", "v1", "Deployment")["kind"] == "Deployment"
    assert decode_object(body, "", "v1", "Node")["apiVersion"] == "v1"


def test_a_frame_of_a_watch_has_its_length_before_it() -> None:
    encoded = encode_object(NODE)
    frame = encode_event("ADDED", encoded)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    fields = {number: bytes(value) for number, _, value in wire.fields(memoryview(frame[4:])) if value}
    assert fields[1] == b"ADDED"
    assert fields[2] == wire.field(1, BYTES, encoded)


def test_unknown_fields_are_ignored() -> None:
    plain = wire.field(1, BYTES, wire.field(1, BYTES, b"a"))
    more = plain + wire.field(99, BYTES, b"x") + wire.field(98, VARINT, b"\x05") + wire.field(97, FIXED64, bytes(8))
    assert decode_object(enveloped(more)) == decode_object(enveloped(plain))


def test_numbers_are_read_packed_and_unpacked() -> None:
    security = b"".join((wire.field(4, BYTES, wire.varint(7) + wire.varint(300)), wire.field(4, VARINT, b"\x05")))
    found = decode_object(enveloped(wire.field(2, BYTES, wire.field(14, BYTES, security))))
    assert found["spec"]["securityContext"]["supplementalGroups"] == [7, 300, 5]


@table(
    ("body", "message"),
    [
        (b"", "does not appear to be a protobuf message"),
        (b"k8s\x01", "does not appear to be a protobuf message"),
        (b'{"kind":"Pod"}', "does not appear to be a protobuf message"),
        (b"k8s\x00\xff", "proto: unexpected EOF"),
        (b"k8s\x00" + b"\xff" * 11, "proto: integer overflow"),
        (b"k8s\x00\x0b", "proto: illegal wireType 3"),
        (b"k8s\x00\x00", "proto: illegal tag 0"),
        (enveloped(b"\x0a\x05"), "proto: unexpected EOF"),
        (enveloped(wire.field(1, VARINT, b"\x01")), "wrong wireType = 0"),
        (enveloped(wire.field(1, BYTES, wire.field(1, BYTES, b"\xff"))), "proto: 'utf-8' codec can't decode"),
        (enveloped(wire.field(1, BYTES, wire.field(11, VARINT, b"\x00"))), "an entry of a map"),
        (enveloped(b"", encoding="gzip"), 'the content encoding "gzip"'),
        (enveloped(b"", kind="Potato"), 'no kind "Potato" is registered for version "v1"'),
        (enveloped(b"", "moorage.io/v1alpha1", "EvictionPause"), 'no kind "EvictionPause"'),
        (
            enveloped(wire.field(1, BYTES, wire.field(8, BYTES, wire.field(1, VARINT, wire.varint(2**62))))),
            "a time is out of range",
        ),
        (
            enveloped(wire.field(2, BYTES, wire.field(1, BYTES, b"{")), "apps/v1", "ControllerRevision"),
            "embedded bytes are not JSON",
        ),
    ],
)
def test_what_is_no_object_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(DecodeError) as error:
        decode_object(body)
    assert message in str(error.value)


@table(
    ("document", "message"),
    [
        ({"apiVersion": "moorage.io/v1alpha1", "kind": "EvictionPause"}, "does not implement the protobuf"),
        ({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster"}, "does not implement the protobuf"),
        ({}, "does not implement the protobuf"),
        ({**NODE, "spec": 5}, "Node.spec: a int cannot be encoded"),
        ({**NODE, "spec": {"unschedulable": 1}}, "Node.spec.unschedulable: a int"),
        ({**NODE, "spec": {"taints": [{"key": True}]}}, "Node.spec.taints[0].key: a bool"),
        ({**NODE, "metadata": {"labels": {"a": 5}}}, "Node.metadata.labels.a: a int"),
        ({**NODE, "metadata": {"creationTimestamp": "now"}}, "'now' is no time"),
        ({**NODE, "metadata": {"name": "\ud800"}}, "it is not UTF-8"),
        ({"apiVersion": "v1", "kind": "ConfigMap", "binaryData": {"a": "?"}}, "it is not base64"),
        ({"apiVersion": "apps/v1", "kind": "ControllerRevision", "data": float("nan")}, "it is not JSON"),
    ],
)
def test_what_protobuf_cannot_say_is_refused(document: dict[str, Any], message: str) -> None:
    with pytest.raises(NotEncodableError) as error:
        encode_object(document)
    assert message in str(error.value)


def test_fields_that_the_kind_does_not_have_are_left_out() -> None:
    assert encode_object({**NODE, "metadata": {"name": "n", "foo": 1}, "bar": {}}) == encode_object(NODE)


BODIES = [base64.b64decode(vector["protobuf"]) for vector in VECTORS]


@given(st.sampled_from(BODIES), st.data())
def test_no_change_of_a_body_is_too_strange_for_an_answer(body: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(4, len(body) - 1))
    changed = body[:at] + data.draw(st.binary(max_size=4)) + body[at + data.draw(st.integers(0, 4)) :]
    try:
        found = decode_object(changed)
    except DecodeError as error:
        assert str(error)  # noqa: PT017 - either of the two is an answer
    else:
        assert decode_object(encode_object(found)) == found


@given(st.integers(-(2**63), 2**63 - 1))
def test_integers_survive(value: int) -> None:
    encoded = wire.varint(value)
    unsigned, end = wire.read_varint(memoryview(encoded), 0)
    assert (wire.signed(unsigned, 64), end) == (value, len(encoded))
