"""The costs of CEL expressions, and the limits of time and memory for what strangers write."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tables import table

from moorage.decide.kubernetes.cel.environments import PER_CALL_LIMIT
from moorage.decide.kubernetes.cel.expressions import (
    BUDGET,
    Evaluation,
    ExpressionError,
    Result,
    compiled,
    limit_of,
)

CLAIMS = [{"name": f"claim{i}", "value": f"value {i}"} for i in range(60)]
DOCUMENT: dict[str, Any] = {
    "metadata": {"name": "c1", "labels": {"r": "eu", "v": "1.2"}, "annotations": {"text": "ab" * 500}},
    "status": {"clusterClaims": CLAIMS},
}
ALL = "managedCluster.status.clusterClaims"
SHORT = 60.0
"""Seconds of processor time that compiling or evaluating stays below. It takes less than one, and some more on a busy
machine. Without the limits, these expressions take hours or all memory, so the number need not be exact."""


def evaluated(text: str) -> Result:
    return compiled(text).evaluate(DOCUMENT, Evaluation())


@table(
    ("text", "cost"),
    [
        ("managedCluster.metadata.name == 'c1'", 4),
        ("[1, 2] == [1, 2]", 21),
        ("{1: 2} == {}", 60),
        ("managedCluster.metadata.labels['r'] in ['eu', 'us']", 16),
        ("has(managedCluster.metadata.labels)", 3),
        ("managedCluster.metadata.?labels.?x.orValue('') == ''", 3),
        ("[1, 2, 3].exists(x, x == 2)", 26),
        ("[1, 2, 3].map(x, x) == []", 70),
        ("managedCluster.metadata.annotations.text.matches('^(ab)*$')", 206),
    ],
)
def test_costs_are_those_that_upstream_counts(text: str, cost: int) -> None:
    assert evaluated(text).cost == cost


@table(
    "text",
    [
        f"{ALL}.all(a, {ALL}.all(b, {ALL}.all(c, a.name != b.value && b.value != c.name)))",
        "[0,1,2,3,4,5,6,7,8,9].all(a, " * 7 + "true" + ")" * 7,
        "[0,1,2,3,4,5,6,7,8,9].map(a, " * 7 + "0" + ")" * 7 + " == []",
    ],
)
def test_expressions_that_cost_too_much_are_false_as_upstream(text: str) -> None:
    before = time.process_time()
    found = evaluated(f"{text} || true")
    assert (found.value, found.error, found.unsupported) == (
        False,
        "operation cancelled: actual cost limit exceeded",
        False,
    )
    assert time.process_time() - before < SHORT


@table(
    "text",
    [
        "'aaaaaaaaaa'" + ".replace('a', 'aaaaaaaaaa')" * 9 + " == ''",
        "managedCluster.metadata.annotations.text" + ".replace('', 'aaaaaaaaaaaaaaaaaa')" * 4 + ".matches('a')",
        "['x']" + ".map(x, x + x)" * 60 + " == ['']",
        "[[1]]" + ".map(x, x + x)" * 60 + ".size() == 1",
        "dyn([[1]]" + ".map(x, [x, x])" * 40 + "[0]) == dyn([[1]]" + ".map(x, [x, x])" * 40 + "[0])",
        "'%s'.format([[[1]]" + ".map(x, [x, x])" * 40 + "]) == ''",
        "'%.99999999999f'.format([1.0]) == ''",
        "quantity('1e999999999').isInteger()",
        "'" + "[" * 5000 + "'.parseJSON() == 1",
        f"{ALL}.all(c, {ALL}.all(d, 'a'.find(c.name + d.name + '{'x' * 50}') == ''))",
        "[" + "'x', " * 9_000 + "].join('" + "y" * 1_000 + "') == ''",
    ],
)
def test_expressions_that_upstream_would_evaluate_for_too_long_are_told_apart(text: str) -> None:
    before = time.process_time()
    found = evaluated(f"{text} || true")
    assert not found.value
    assert found.unsupported, found
    assert time.process_time() - before < SHORT


@table(
    ("text", "as_upstream"),
    [
        ("[{1: 1}]" + ".map(x, {x: x})" * 40 + " == []", False),
        ("[" + "[]," * 33_000 + "].size() > 0", None),
        ("[" + "1 == 1," * 12_000 + "].size() > 0", None),
        ("!" * 50_000 + "true", None),
        ("9" * 99_999, True),
        ("'" * 99_999, True),
        ("1.0" * 30_000, True),
        ("a ? b : " * 400 + "c", True),
        ("optional.of(1)" + ".optMap(x, x)" * 60 + ".value() == 1", None),
    ],
)
def test_compiling_never_takes_long(text: str, *, as_upstream: bool | None) -> None:
    before = time.process_time()
    try:
        compiled(text).holds(DOCUMENT)
        found = None
    except ExpressionError as error:
        found = error.as_upstream
    assert found is as_upstream
    assert time.process_time() - before < SHORT


def test_usual_expressions_are_far_below_the_limit() -> None:
    for text in (
        f"{ALL}.exists(c, c.name == 'claim1' && c.value.matches('^value [0-9]+$'))",
        "semver(managedCluster.metadata.labels.v + '.0').isLessThan(semver('2.0.0'))",
        f"{ALL}.filter(c, c.name.startsWith('claim')).all(c, c.value.size() > 0)",
    ):
        found = evaluated(text)
        assert found.value
        assert found.cost < PER_CALL_LIMIT / 200


def test_many_expressions_share_a_budget() -> None:
    assert limit_of(1) == limit_of(10) == PER_CALL_LIMIT
    assert limit_of(100) == BUDGET // 100
    text = f"{ALL}.all(a, {ALL}.all(b, a.name != 'x'))"
    assert compiled(text).holds(DOCUMENT)
    assert not compiled(text, limit_of(1000)).holds(DOCUMENT)


_TEXTS = st.recursive(
    st.sampled_from(
        ["'ab'", "''", "'a,b'", "managedCluster.metadata.name", "managedCluster.metadata.annotations.text"]
    ),
    lambda inner: st.one_of(
        st.builds("({} + {})".format, inner, inner),
        st.builds("{}.replace({}, {})".format, inner, inner, inner),
        st.builds("{}.split({}).join({})".format, inner, inner, inner),
        st.builds("[{}, {}].map(x, x + {})[0]".format, inner, inner, inner),
        st.builds("'%s%s'.format([{}, [{}, {}]])".format, inner, inner, inner),
        st.builds("{}.findAll('a').filter(x, x != {}).map(x, x + x).join('')".format, inner, inner),
    ),
    max_leaves=12,
)


@given(_TEXTS)
@settings(max_examples=200, deadline=None)
def test_no_text_grows_without_limit(text: str) -> None:
    before = time.process_time()
    evaluated(f"{text}.size() > 1000000")
    assert time.process_time() - before < SHORT


@given(st.text(alphabet="()[]{}.,?:!-+*/%<>=&|'\"\\ab1 x0in_\n", max_size=60))
@settings(max_examples=500, deadline=None)
def test_no_text_crashes_the_compiler(text: str) -> None:
    with suppress(ExpressionError):
        compiled(text).holds(DOCUMENT)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [("(a+)+$", "a" * 5_000 + "b", False), ("(x+x+)+y", "x" * 5_000, False), ("(a|aa)+$", "a" * 5_000, True)],
)
@pytest.mark.parametrize("function", ["matches", "find"])
def test_no_pattern_takes_long(pattern: str, text: str, function: str, *, found: bool) -> None:
    call = f"'{text}'.{function}('{pattern}')"
    before = time.process_time()
    assert compiled(call if function == "matches" else f"{call} != ''").holds({}) is found
    assert time.process_time() - before < SHORT


@pytest.mark.parametrize(
    "pattern", ["(a{1000}){1000}", "((a{100}){100}){100}", "a{1001}", "(\\\\pL{100}){10}", "[", "(?=a)"]
)
def test_a_pattern_that_is_too_large_or_invalid_holds_for_nothing(pattern: str) -> None:
    before = time.process_time()
    assert not compiled(f"'aaaa'.matches('{pattern}')").holds({})
    for function in ("find", "findAll"):
        with pytest.raises(ExpressionError, match="error parsing regexp"):
            compiled(f"'aaaa'.{function}('{pattern}') == 'aaaa'.{function}('{pattern}')")
    assert time.process_time() - before < SHORT
