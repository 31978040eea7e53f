"""Unknown, repeated and mistyped fields, in the words of an API server."""

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
from moorage.apiserver.machinery.openapi.registry import Origin, origin_of, schema_of
from moorage.apiserver.machinery.openapi.strict import Decoded, decode, decode_document, strict_message
from moorage.apiserver.machinery.schema import Form, Schema

RECORDED = [
    json.loads(line) for line in (Path(__file__).parent / "vectors" / "strict.jsonl").read_text("utf-8").splitlines()
]
"""What kube-apiserver 1.37 answered to a body with `fieldValidation=Strict`, and of which fields it warned with `Warn`.
Causes that its validation adds to those of the definition are left out."""


def pod(spec: str, more: str = "") -> bytes:
    return f'{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"a"}},"spec":{{{spec}}}{more}}}'.encode()


def refusal(body: bytes, *, is_yaml: bool = False) -> str:
    with pytest.raises(DecodeError) as error:
        decode("", "v1", "Pod", body, is_yaml=is_yaml)
    return str(error.value)


@table("recorded", RECORDED, ids=lambda recorded: f"{recorded['kind']}-{recorded['status']}")
def test_answers_are_those_of_an_api_server(recorded: dict[str, Any]) -> None:
    kind, version, body = recorded["kind"], recorded["version"], recorded["body"].encode()
    if recorded["status"] == 400 and "strict decoding error" not in recorded["message"]:
        with pytest.raises(DecodeError) as error:
            decode(recorded["group"], version, kind, body)
        assert str(error.value) == recorded["message"]
        return
    found = decode(recorded["group"], version, kind, body)
    prefix = f'{kind} in version "{version}" cannot be handled as a {kind}: '
    assert (prefix + strict_message(found.problems) if found.problems else "") == recorded["message"]
    told = [warning for warning in recorded["warnings"] if " field " in warning]
    assert recorded["status"] == 422 or list(found.problems) == told
    if origin_of(recorded["group"], kind) is Origin.CUSTOM and recorded["status"] == 422:
        assert {error.path for error in found.violations} == {path for path, _, _ in recorded["causes"]}


def test_the_recorded_answers_contain_every_sort_of_finding() -> None:
    words = " ".join(one["message"] for one in RECORDED)
    for sort in ("unknown field", "duplicate field", "cannot unmarshal", "quantities must match", "parsing time"):
        assert sort in words
    assert {one["kind"] for one in RECORDED} >= {
        "Pod",
        "Deployment",
        "ManagedCluster",
        "PropagationPolicy",
        "Placement",
    }


def test_a_misspelt_field_is_found_and_does_not_remain() -> None:
    found = decode("", "v1", "Pod", pod('"tolerations":[{"key":"a","operator":"Exists","tolerationSecond":5}]'))
    assert found.problems == ('unknown field "spec.tolerations[0].tolerationSecond"',)
    assert found.document["spec"]["tolerations"] == [{"key": "a", "operator": "Exists"}]


def test_a_repeated_field_is_found_and_the_last_counts() -> None:
    found = decode("", "v1", "Pod", pod('"nodeName":"a","nodeName":"b","nodeSelector":{"x":"1","x":"2"}'))
    assert found.problems == ('duplicate field "spec.nodeName"', 'duplicate field "spec.nodeSelector.x"')
    assert found.document["spec"] == {"nodeName": "b", "nodeSelector": {"x": "2"}}


def test_no_more_than_a_hundred_fields_are_told() -> None:
    found = decode("", "v1", "Pod", pod(",".join(f'"u{i}":1' for i in range(150))))
    assert len(found.problems) == 100


def test_null_is_absent() -> None:
    assert decode("", "v1", "Pod", pod('"nodeName":null,"priority":0')).document["spec"] == {"priority": 0}


def test_yaml_is_read_as_upstream_reads_it() -> None:
    text = b"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  nodeName: a\n  nodeName: b\n  foo: 1\n"
    found = decode("", "v1", "Pod", text, is_yaml=True)
    assert found.problems == ('line 6: key "nodeName" already set in map', 'unknown field "spec.foo"')
    assert strict_message(found.problems) == (
        'strict decoding error: yaml: unmarshal errors:\n  line 6: key "nodeName" already set in map, '
        'unknown field "spec.foo"'
    )


@table(
    ("scalar", "value"),
    [
        *(("12:30:45", "12:30:45"), ("2001-01-01", "2001-01-01"), ("=", "="), ("1e400", "1e400"), ("0x", "0x")),
        *(("!!str 5", "5"), ("'5'", "5"), ("!foo x", "x"), ("tRue", "tRue"), ("<<", "<<"), ("1.5e", "1.5e")),
    ],
)
def test_scalars_of_yaml_that_are_texts(scalar: str, value: str) -> None:
    assert decode("", "v1", "ConfigMap", f"data: {{a: {scalar}}}".encode(), is_yaml=True).document["data"] == {
        "a": value
    }


@table(
    ("scalar", "name"),
    [
        *(("y", "bool"), ("Off", "bool"), ("017", "number"), ("0o17", "number"), ("09", "number"), ("1_000", "number")),
        *(
            ("1e3", "number"),
            (".5", "number"),
            ("0b11", "number"),
            ("+1", "number"),
            ("99999999999999999999", "number"),
        ),
    ],
)
def test_scalars_of_yaml_that_are_none(scalar: str, name: str) -> None:
    with pytest.raises(
        DecodeError, match=f"cannot unmarshal {name} into Go struct field ConfigMap.data of type string"
    ):
        decode("", "v1", "ConfigMap", f"data:\n  a: {scalar}\n".encode(), is_yaml=True)


def test_keys_of_yaml_are_texts_and_merged_keys_are_no_repetition() -> None:
    text = b"base: &b {x: '1'}\ndata:\n  1: a\n  true: b\n  null: c\n  <<: {x: d, z: e}\n  x: f\n"
    found = decode("", "v1", "ConfigMap", text, is_yaml=True)
    assert found.problems == ('unknown field "base"',)
    assert found.document["data"] == {"1": "a", "true": "b", "null": "c", "x": "f", "z": "e"}


@table(
    ("body", "message"),
    [
        (b"", "couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)"),
        (b"{", "couldn't get version/kind; json parse error: unexpected end of JSON input ({)"),
        (b"{}x", "couldn't get version/kind; json parse error: invalid character 'x' after top-level value ({}x)"),
        (b"[]", "json: cannot unmarshal array into Go value of type struct { APIVersion string"),
        (b'{"apiVersion":5}', "cannot unmarshal number into Go struct field .apiVersion of type string"),
        (b"\xff", "invalid UTF-8 at byte 0"),
        (b'{"a":NaN}', "invalid character 'N' looking for beginning of value"),
        (b'{"a":1e999}', "cannot unmarshal number 1e999 into Go value of type float64"),
        (b'{"a":"\\ud800"}', "half of a surrogate pair in a string"),
        (b"[" * 5000 + b"]" * 5000, "exceeded max depth"),
        (b"[" * 100_000, "exceeded max depth"),
    ],
)
def test_what_is_no_document_is_refused(body: bytes, message: str) -> None:
    found = refusal(body)
    assert found.startswith("the object provided is unrecognized (must be of type Pod): ")
    assert message in found


def test_numbers_beyond_64_bits_become_the_nearest() -> None:
    found = decode("apps", "v1", "ControllerRevision", b'{"data":{"a":123456789012345678901234567890}}')
    assert found.document["data"]["a"] == pytest.approx(1.2345678901234568e29)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a: [", "yaml: line 2: did not find expected node content"),
        (b"&a [*a]", "exceeded max depth"),
        (b"[" * 100_000, "exceeded max depth"),
        (b"? [a]\n: b", "yaml: invalid map key"),
        (b"a: .inf", "json: unsupported value: +Inf"),
        (
            b"\n".join(
                b"%c: &%c [%s]" % (97 + i, 97 + i, b",".join([b"x" if i == 0 else b"*%c" % (96 + i)] * 9))
                for i in range(9)
            ),
            "yaml: document contains excessive aliasing",
        ),
    ],
)
def test_yaml_that_is_no_document_is_refused(text: bytes, message: str) -> None:
    assert message in refusal(text, is_yaml=True)


def test_a_custom_resource_is_pruned_and_validated() -> None:
    body = {
        "apiVersion": "cluster.open-cluster-management.io/v1",
        "kind": "ManagedCluster",
        "metadata": {"name": "a", "foo": 1},
        "spec": {"taints": [{"key": 5, "effect": "Bad", "x": 1}], "leaseDurationSeconds": "x", "bar": 1},
    }
    found = decode("cluster.open-cluster-management.io", "v1", "ManagedCluster", json.dumps(body).encode())
    assert found.problems == (
        'unknown field "metadata.foo"',
        'unknown field "spec.bar"',
        'unknown field "spec.taints[0].x"',
    )
    assert found.document["metadata"] == {"name": "a"}
    assert [str(error) for error in found.violations] == [
        (
            'spec.leaseDurationSeconds: Invalid value: "string": '
            'spec.leaseDurationSeconds in body must be of type integer: "string"'
        ),
        (
            'spec.taints[0].effect: Unsupported value: "Bad": supported values: "NoSelect", "PreferNoSelect", '
            '"NoSelectIfNew"'
        ),
        'spec.taints[0].key: Invalid value: "integer": spec.taints[0].key in body must be of type string: "integer"',
    ]


def test_limits_of_a_definition_are_violations() -> None:
    spec = {"resourceSelectors": [], "conflictResolution": "x"}
    found = decode_document("policy.karmada.io", "v1alpha1", "PropagationPolicy", {"metadata": {}, "spec": spec})
    told = {str(error) for error in found.violations}
    assert (
        "spec.resourceSelectors: Invalid value: 0: spec.resourceSelectors in body should have at least 1 items" in told
    )


def test_a_custom_resource_gets_the_defaults_of_its_definition_and_of_what_is_written_alone() -> None:
    group, version = "cluster.open-cluster-management.io", "v1beta1"
    document = {"kind": "Placement", "spec": {"tolerations": [{"key": "a"}, {"key": "b", "operator": "Exists"}]}}
    found = decode_document(group, version, "Placement", document).document
    assert found["spec"]["tolerations"] == [{"key": "a", "operator": "Equal"}, {"key": "b", "operator": "Exists"}]
    assert "prioritizerPolicy" not in found["spec"], "a default is given within what is there"
    written = {"kind": "Placement", "spec": {"tolerations": [{"key": "a"}]}, "status": {}}
    status = decode_document(group, version, "Placement", written, subresource="status").document
    assert status["spec"] == written["spec"]
    assert decode_document(group, "v1beta2", "ManagedClusterSet", {"kind": "ManagedClusterSet"}).document["spec"] == {
        "clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}
    }


def test_fields_that_a_definition_leaves_open_are_kept() -> None:
    provider = {"value": {"any": {"thing": 1}}}
    document = {"kind": "MachineSet", "spec": {"replicas": 2, "template": {"spec": {"providerSpec": provider}}}}
    found = decode_document("machine.openshift.io", "v1beta1", "MachineSet", document)
    assert found == Decoded(document)


def test_unknown_fields_of_own_kinds_are_left_to_admission() -> None:
    document = {"kind": "EvictionPause", "metadata": {"name": "a"}, "spec": {"scop": {"zones": ["a"]}}}
    found = decode_document("moorage.io", "v1alpha1", "EvictionPause", document)
    assert found == Decoded(document, ('unknown field "spec.scop"',))


def test_a_custom_resource_must_name_its_kind() -> None:
    with pytest.raises(DecodeError, match="Object 'Kind' is missing in"):
        decode("cluster.open-cluster-management.io", "v1", "ManagedCluster", b"{}")


SCALARS: dict[Form, st.SearchStrategy[Any]] = {
    Form.INTEGER: st.integers(-(2**31), 2**31 - 1),
    Form.NUMBER: st.floats(allow_nan=False, allow_infinity=False),
    Form.BOOLEAN: st.booleans(),
    Form.QUANTITY: st.sampled_from(["1", "500m", "1Gi", 2, 0.5]),
    Form.TIME: st.sampled_from(["2026-01-01T00:00:00.000001Z", "2026-01-01T00:00:00.5+01:00"]),
    Form.INT_OR_STRING: st.integers(0, 9) | st.text(max_size=3),
    Form.ANY: st.dictionaries(st.text(max_size=3), st.integers(0, 9), max_size=2),
}


def of(schema: Schema, depth: int) -> st.SearchStrategy[Any]:
    """Values that comply with a schema, down to a depth."""
    if schema.form is Form.STRUCT:
        whole = {Form.STRUCT, Form.LIST, Form.MAP}
        shallow = [field for field in schema.fields.values() if depth or field.schema.form not in whole]
        if not shallow:
            return st.just({})
        chosen = st.lists(st.sampled_from(shallow), max_size=3, unique_by=lambda field: field.name)
        return chosen.flatmap(
            lambda fields: st.fixed_dictionaries({field.name: of(field.schema, depth - 1) for field in fields})
        )
    if schema.items is not None:
        inner = of(schema.items, depth)
        return st.lists(inner, max_size=2) if schema.form is Form.LIST else st.dictionaries(st.text(max_size=3), inner)
    if schema.format == "byte":
        return st.binary(max_size=5).map(lambda found: base64.b64encode(found).decode())
    return SCALARS.get(schema.form, st.text(max_size=5))


@given(st.data())
def test_what_complies_passes_unchanged_and_one_more_field_is_found(data: st.DataObject) -> None:
    group, version, kind = data.draw(
        st.sampled_from([("", "v1", "Pod"), ("apps", "v1", "Deployment"), ("", "v1", "Node")])
    )
    document = data.draw(of(schema_of(group, version, kind), 6))
    document = {**document, "apiVersion": "v1", "kind": kind}
    assert decode(group, version, kind, json.dumps(document).encode()) == Decoded(document)
    more = {**document, "spec": {**document.get("spec", {}), "x-y": 1}}
    found = decode(group, version, kind, json.dumps(more).encode())
    assert found.problems == ('unknown field "spec.x-y"',)


@given(st.binary(max_size=200), st.booleans())
def test_no_body_is_too_strange_for_an_answer(body: bytes, is_yaml: bool) -> None:  # noqa: FBT001 - hypothesis passes it
    try:
        found = decode("", "v1", "Pod", body, is_yaml=is_yaml)
    except DecodeError as error:
        assert str(error)  # noqa: PT017 - either of the two is an answer
    else:
        assert isinstance(found.document, dict)
