from __future__ import annotations

import pytest

from moorage.apiserver.rules.validation.core import (
    validate_labels,
    validate_metadata,
    validate_name,
    validate_taints,
    validate_tolerations,
)
from moorage.decide.kubernetes.field_errors import ErrorKind, FieldError, quote
from moorage_schemas.taint import Taint, Toleration

NAME_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def texts(errors: list[FieldError]) -> list[str]:
    return [str(error) for error in errors]


def test_good_taints_pass() -> None:
    taints = [
        Taint(key="a", effect="NoSchedule"),
        Taint(key="a", effect="NoExecute"),
        Taint(key=f"{'p' * 189}/{'n' * 63}", value="V_1.x", effect="PreferNoSchedule"),
    ]
    assert validate_taints(taints) == []


@pytest.mark.parametrize(
    ("taint", "message"),
    [
        (Taint(key="", effect="NoSchedule"), 'spec.taints[0].key: Invalid value: "": name part must be non-empty'),
        (Taint(key="a b", effect="NoSchedule"), f'spec.taints[0].key: Invalid value: "a b": {NAME_RULE}'),
        (
            Taint(key="k" * 64, effect="NoSchedule"),
            f'spec.taints[0].key: Invalid value: "{"k" * 64}": name part must be no more than 63 bytes',
        ),
        (
            Taint(key=f"{'p' * 200}/{'n' * 60}", effect="NoSchedule"),
            f'spec.taints[0].key: Invalid value: "{"p" * 200}/{"n" * 60}": must be no more than 253 bytes',
        ),
        (Taint(key="a", effect=""), "spec.taints[0].effect: Required value"),
        (
            Taint(key="a", effect="NoSelect"),
            (
                'spec.taints[0].effect: Unsupported value: "NoSelect": '
                'supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"'
            ),
        ),
        (
            Taint(key="a", value="v" * 64, effect="NoExecute"),
            f'spec.taints[0].value: Invalid value: "{"v" * 64}": must be no more than 63 bytes',
        ),
    ],
)
def test_a_bad_taint_is_refused_by_path_value_and_rule(taint: Taint, message: str) -> None:
    assert message in texts(validate_taints([taint]))


def test_a_taint_twice_is_refused() -> None:
    taints = [Taint(key="a", effect="NoExecute"), Taint(key="a", value="v", effect="NoExecute")]
    assert texts(validate_taints(taints)) == [
        (
            'spec.taints[1]: Duplicate value: {"Key":"a","Value":"v","Effect":"NoExecute","TimeAdded":null}: '
            "taints must be unique by key and effect pair"
        )
    ]


def test_errors_come_in_the_order_of_the_fields() -> None:
    bad = Toleration(key="-", operator="Exists", value="v", effect="NoSchedule", toleration_seconds=3)
    assert [(e.path, e.kind) for e in validate_tolerations([Toleration(operator="Exists"), bad], strict=False)] == [
        ("spec.tolerations[1].key", ErrorKind.INVALID),
        ("spec.tolerations[1].effect", ErrorKind.INVALID),
        ("spec.tolerations[1].operator", ErrorKind.INVALID),
    ]


@pytest.mark.parametrize(
    ("toleration", "message"),
    [
        (
            Toleration(value="x"),
            (
                'spec.tolerations[0].operator: Invalid value: "": operator must be Exists when `key` is empty, '
                'which means "match all values and all keys"'
            ),
        ),
        (
            Toleration(key="a", operator="Exists", value="x"),
            "spec.tolerations[0].operator: Invalid value: \"x\": value must be empty when `operator` is 'Exists'",
        ),
        (
            Toleration(key="a", operator="Has"),
            'spec.tolerations[0].operator: Unsupported value: "Has": supported values: "Equal", "Exists"',
        ),
        (
            Toleration(key="a", operator="Gt", value="9" * 5000),
            (
                f'spec.tolerations[0].value: Invalid value: "{"9" * 5000}": '
                f'strconv.ParseInt: parsing "{"9" * 5000}": value out of range'
            ),
        ),
    ],
)
def test_a_bad_toleration_is_refused_by_path_value_and_rule(toleration: Toleration, message: str) -> None:
    assert texts(validate_tolerations([toleration])) == [message]


@pytest.mark.parametrize("operator", ["Gt", "Lt"])
def test_comparisons_are_allowed_unless_turned_off(operator: str) -> None:
    toleration = Toleration(key="a", operator=operator, value="-5", effect="NoExecute", toleration_seconds=-1)
    assert validate_tolerations([toleration]) == []
    assert texts(validate_tolerations([toleration], comparison=False)) == [
        (
            f'spec.tolerations[0].operator: Unsupported value: "{operator}": '
            'supported values: "Equal", "Exists", "Lt", "Gt"'
        )
    ]


@pytest.mark.parametrize("name", ["a", "node-1.example.com", "0", "a" * 253])
def test_good_names(name: str) -> None:
    assert validate_name(name) == []


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("", "metadata.name: Required value: name or generateName is required"),
        ("A", 'metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of'),
        ("a..b", "regex used for validation is"),
        ("a\n", r'metadata.name: Invalid value: "a\n": a lowercase'),
        ("a" * 254, "must be no more than 253 characters"),
    ],
)
def test_bad_names(name: str, part: str) -> None:
    assert part in texts(validate_name(name))[0]


def test_metadata_of_namespaced_and_other_kinds() -> None:
    assert validate_metadata("a", "ns", {"app": "web"}, namespaced=True) == []
    assert texts(validate_metadata("a", "ns", {}, namespaced=False)) == [
        "metadata.namespace: Forbidden: not allowed on this type"
    ]
    assert texts(validate_metadata("a", "", {}, namespaced=True)) == ["metadata.namespace: Required value"]
    assert texts(validate_metadata("a", "n.s", {}, namespaced=True)) == [
        'metadata.namespace: Invalid value: "n.s": must not contain dots'
    ]


def test_labels_are_checked_by_key_and_value() -> None:
    errors = validate_labels({"z": "ok", "b/": "x", "a": "-"}, "metadata.labels")
    assert [(e.path, e.value) for e in errors] == [
        ("metadata.labels", "-"),
        ("metadata.labels", "b/"),
        ("metadata.labels", "b/"),
    ]


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("a", '"a"'),
        ('"\\', r'"\"\\"'),
        ("\x00\t\x7f", r'"\x00\t\x7f"'),
        ("é😀", '"é😀"'),
        ("\u2028\U000e0001", r'"\u2028\U000e0001"'),
    ],
)
def test_values_are_quoted_as_go_does(text: str, quoted: str) -> None:
    assert quote(text) == quoted


def test_seconds_beside_an_effect_that_does_not_evict_are_refused_only_as_upstream() -> None:
    toleration = Toleration(key="a", operator="Exists", effect="NoSchedule", toleration_seconds=0)
    assert validate_tolerations([toleration]) == []
    assert texts(validate_tolerations([toleration], strict=False)) == [
        (
            'spec.tolerations[0].effect: Invalid value: "NoSchedule": '
            "effect must be 'NoExecute' when `tolerationSeconds` is set"
        )
    ]
