"""The words for what a strategic merge patch makes of an object of another type, as a kube-apiserver 1.37 has them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.tables import table

from moorage.apiserver.machinery.openapi import strict
from moorage.apiserver.machinery.openapi.built_in import DecodeError, conversion_flaw
from moorage.apiserver.machinery.patching.errors import shown


def in_template(**spec: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": spec}}}


@table(
    ("document", "words"),
    [
        ({"spec": {"replicas": "two"}}, "unrecognized type: int32"),
        ({"spec": {"replicas": 1.5}}, "cannot convert float64 to int32"),
        ({"spec": {"paused": 1}}, "unrecognized type: bool"),
        ({"spec": {"paused": "x"}}, "unrecognized type: bool"),
        ({"spec": {"template": "x"}}, "cannot restore struct from: string"),
        (in_template(containers="x"), "cannot restore slice from string"),
        (in_template(containers=[{"name": "c", "image": 5}]), "cannot convert int64 to string"),
        (in_template(containers=[{"name": "c", "image": ["b"]}]), "unrecognized type: string"),
        ({"metadata": {"labels": "x"}}, "cannot restore map from string"),
        ({"metadata": {"labels": {"a": 5}}}, "cannot convert int64 to string"),
        ({"metadata": {"labels": {"a": True}}}, "unrecognized type: string"),
        (in_template(nodeSelector=[1]), "cannot restore map from slice"),
        ({"metadata": 5}, "cannot restore struct from: int64"),
        (in_template(dnsPolicy=5), "cannot convert int64 to v1.DNSPolicy"),
        (in_template(activeDeadlineSeconds="x"), "unrecognized type: int64"),
        (
            {"metadata": {"creationTimestamp": "abc"}},
            'parsing time "abc" as "2006-01-02T15:04:05Z07:00": cannot parse "abc" as "2006"',
        ),
    ],
)
def test_the_words_are_those_of_a_conversion(document: dict[str, Any], words: str) -> None:
    with pytest.raises(DecodeError) as raised:
        strict.decode_document("apps", "v1", "Deployment", document)
    assert conversion_flaw(raised.value) == words


@table(
    ("value", "text"),
    [
        ({"image": ["b", None, 1.5, {"x": True}], "a": "c"}, "map[a:c image:[b <nil> 1.5 map[x:true]]]"),
        (1000000.0, "1e+06"),
        (123456.0, "123456"),
        (1e30, "1e+30"),
        (-1234567.5, "-1.2345675e+06"),
        (0.00001, "1e-05"),
        (0.0001, "0.0001"),
        (0.0, "0"),
        (3000000000, "3000000000"),
    ],
)
def test_a_patch_is_shown_as_upstream_shows_it(value: Any, text: str) -> None:
    assert shown(value) == text
