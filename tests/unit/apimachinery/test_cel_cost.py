"""What evaluating a CEL expression may cost, its limits, and its regular expressions."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tables import table

from moorage.decide.kubernetes.cel import CLUSTER, Evaluation, ExpressionError, compiled, limit_of
from moorage.decide.kubernetes.cel_cost import BUDGET, PER_CALL_LIMIT, _Walk, cost, extent_of
from moorage.decide.kubernetes.cel_functions import pattern_size
from moorage.decide.kubernetes.cel_syntax import (
    DEEPEST,
    LONGEST,
    NESTED,
    Call,
    Comprehension,
    IndexInto,
    Items,
    Literal,
    Name,
    Select,
    SyntaxTreeError,
    TooDeepError,
    parse,
    renamed,
)

CLAIMS = [{"name": f"claim{i}", "value": f"value {i}"} for i in range(60)]
DOCUMENT: dict[str, Any] = {
    "metadata": {"name": "c1", "labels": {"r": "eu", "v": "1.2"}, "annotations": {"text": "ab" * 500}},
    "status": {"clusterClaims": CLAIMS},
}
ALL = "managedCluster.status.clusterClaims"


def spent(text: str, document: Any = None) -> int:
    return cost(parse(text), {CLUSTER: DOCUMENT if document is None else document})


# The syntax.


@table(
    ("text", "tree"),
    [
        ("1", Literal(1, 1)),
        ("0x1f", Literal(None, 1)),
        ("1.5", Literal(None, 1)),
        ("true", Literal(None, 1)),
        (r"'a\x62\'c'", Literal("ab'c", 8)),
        (r"r'a\d'", Literal(r"a\d", 3)),
        ("b'ab'", Literal(None, 2)),
        ('"""a\n"b"""', Literal('a\n"b', 4)),
        ("a.b", Select(Name("a"), "b")),
        ("a[b]", IndexInto(Name("a"), Name("b"))),
        ("a.`b-c`", Select(Name("a"), "b-c")),
        ("f(a, b)", Call("f", (Name("a"), Name("b")))),
        ("a.f(b)", Call("f", (Name("a"), Name("b")))),
        ("[a, b,]", Items((Name("a"), Name("b")))),
        ("{a: b}", Items((Name("a"), Name("b")), is_map=True)),
        ("a.all(x, y)", Comprehension("all", Name("a"), "x", (Name("y"),))),
        ("a || b || c", Call("||", (Name("a"), Name("b"), Name("c")))),
        ("a || b && c", Call("||", (Name("a"), Call("&&", (Name("b"), Name("c")))))),
        ("a - b - c", Call("-", (Call("-", (Name("a"), Name("b"))), Name("c")))),
        ("a + b * c", Call("+", (Name("a"), Call("*", (Name("b"), Name("c")))))),
        ("a * b + c", Call("+", (Call("*", (Name("a"), Name("b"))), Name("c")))),
        ("a in b == c", Call("==", (Call("in", (Name("a"), Name("b"))), Name("c")))),
        ("!!a", Call("!!", (Name("a"),))),
        ("a ? b : c ? d : e", Call("?:", (Name("a"), Name("b"), Call("?:", (Name("c"), Name("d"), Name("e")))))),
        ("(a) // all", Name("a")),
    ],
)
def test_an_expression_is_a_tree(text: str, tree: Any) -> None:
    assert parse(text) == tree


@table("text", ["", "a b", "(a", "a)", "[a b]", "{a}", "a.", "a ?", "a ? b", "a.1", "#", "'a", "M{a: 1}"])
def test_what_is_no_expression_has_no_tree(text: str) -> None:
    with pytest.raises(SyntaxTreeError):
        parse(text)


DEEP = {
    "sum": lambda n: "1" + "+1" * (n - 1),
    "fields": lambda n: "a" + ".b" * (n - 1),
    "indexes": lambda n: "a" + "[0]" * (n - 1),
    "calls": lambda n: "a" + ".f()" * (n - 1),
}
BRACKETS = {
    "brackets": lambda n: "(" * n + "1" + ")" * n,
    "lists": lambda n: "[" * n + "]" * n,
    "maps": lambda n: "{1:" * n + "1" + "}" * n,
    "macros": lambda n: "[1].all(x, " * n + "true" + ")" * n,
    "operators": lambda n: "a+(" * n + "1" + ")" * n,
}


@table(
    ("make", "most"),
    [*((one, DEEPEST) for one in DEEP.values()), *((one, NESTED) for one in BRACKETS.values())],
    ids=[*DEEP, *BRACKETS],
)
def test_an_expression_has_a_greatest_depth(make: Any, most: int) -> None:
    node = parse(make(most))
    assert cost(node, {}) >= 0, "it can be visited"
    for depth in (most + 1, 5_000):
        with pytest.raises(TooDeepError, match=f"expression recursion limit exceeded: {most}"):
            parse(make(depth))


@table("make", [*DEEP.values(), *BRACKETS.values()], ids=[*DEEP, *BRACKETS])
def test_no_depth_ends_the_process(make: Any) -> None:
    """The library that evaluates expressions would crash."""
    with pytest.raises(ExpressionError, match="expression recursion limit exceeded"):
        compiled(make(5_000))


def test_an_expression_has_a_greatest_length() -> None:
    text = "'" + "x" * (LONGEST - 1)
    with pytest.raises(ExpressionError, match="expression code point size exceeds limit: size: 100001, limit 100000"):
        compiled(text + "'")
    with pytest.raises(ExpressionError, match="Syntax error"):
        compiled("(" + "x" * 50_000)


def test_long_chains_of_conditions_are_flat() -> None:
    text = " || ".join(f"managedCluster.metadata.name == 'c{i}'" for i in range(1, 501))
    assert compiled(text).holds(DOCUMENT)
    assert compiled(" && ".join(["true"] * 2_000)).holds(DOCUMENT)


def test_functions_are_renamed_where_they_are_called() -> None:
    text = "a.matches ('matches(') && matches(a, b) && a.matches == matches"
    assert renamed(text, {"matches": "m"}) == "a.m ('matches(') && m(a, b) && a.matches == matches"


# The costs.


def test_costs_are_those_of_upstream_where_nothing_is_repeated() -> None:
    assert spent("managedCluster.metadata.name == 'c1'") == 4  # three names, and a comparison
    assert spent("[1, 2]") == 10 + 2
    assert spent("{1: 2}") == 30 + 2


def test_a_macro_costs_its_body_for_each_element() -> None:
    once = spent(f"{ALL}.exists(c, c.name == 'x')", {"status": {"clusterClaims": CLAIMS[:1]}})
    many = spent(f"{ALL}.exists(c, c.name == 'x')")
    assert 40 * once < 60 * many < 60 * 60 * once
    assert spent(f"{ALL}.exists(c, {ALL}.exists(d, c.name == d.name))") > 60 * 60 * 4
    assert spent(f"{ALL}.exists(c, true)", {}) < 50, "a path that leads nowhere has no elements"


@table(
    "text",
    [
        f"{ALL}.all(a, {ALL}.all(b, {ALL}.all(c, a.name != b.value && b.value != c.name)))",
        "[0,1,2,3,4,5,6,7,8,9].all(a, " * 7 + "true" + ")" * 7,
        "[0,1,2,3,4,5,6,7,8,9].map(a, " * 7 + "0" + ")" * 7 + " == []",
        "'aaaaaaaaaa'" + ".replace('a', 'aaaaaaaaaa')" * 9 + " == ''",
        f"{ALL}.map(c, {ALL}.map(d, {ALL})) == []",
        "managedCluster.metadata.annotations.text" + ".replace('', 'aaaaaaaaaaaaaaaaaa')" * 4 + ".matches('a')",
        f"{ALL}.all(c, {ALL}.all(d, 'a'.matches(c.name + d.name)))",
        f"{ALL}.all(c, managedCluster.scores(c.name).size() == 0)",
    ],
)
def test_what_may_cost_too_much_is_false_and_takes_no_time(text: str) -> None:
    expression = compiled(f"{text} || true")
    assert expression.cost(DOCUMENT, Evaluation(lambda _cluster, _resource: None)) > PER_CALL_LIMIT
    before = time.process_time()
    assert not expression.holds(DOCUMENT)
    assert time.process_time() - before < 0.5, "it is not evaluated"


def test_what_is_usual_is_far_below_the_limit() -> None:
    for text in (
        f"{ALL}.exists(c, c.name == 'claim1' && c.value.matches('^value [0-9]+$'))",
        "semver(managedCluster.metadata.labels.v + '.0').isLessThan(semver('2.0.0'))",
        f"{ALL}.filter(c, c.name.startsWith('claim')).all(c, c.value.size() > 0)",
    ):
        assert spent(text) < PER_CALL_LIMIT / 20
        assert compiled(text).holds(DOCUMENT)


def test_many_expressions_share_a_budget() -> None:
    assert limit_of(1) == limit_of(10) == PER_CALL_LIMIT
    assert limit_of(100) == BUDGET // 100
    text = f"{ALL}.all(a, {ALL}.all(b, a.name != 'x'))"
    assert compiled(text).holds(DOCUMENT)
    assert not compiled(text, limit_of(1000)).holds(DOCUMENT)


# No value is larger than its bound says.

_LEAVES = st.sampled_from(
    ["'ab'", "''", "'a,b'", "managedCluster.metadata.name", "managedCluster.metadata.annotations.text"]
)


def _texts(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({} + {})".format, inner, inner),
        st.builds("{}.replace({}, {})".format, inner, inner, inner),
        st.builds("{}.split({}).join({})".format, inner, inner, inner),
        st.builds("{}.upperAscii()".format, inner),
        st.builds("strings.quote({})".format, inner),
        st.builds("{}.find('[a-z]+')".format, inner),
        st.builds("(true ? {} : {})".format, inner, inner),
        st.builds("{}[0].name".format, st.just(ALL)),
        st.builds("[{}, {}].map(x, x + {})[0]".format, inner, inner, inner),
        st.builds("{}.findAll('a').filter(x, x != {}).map(x, x + x).join('')".format, inner, inner),
        st.builds("string({}.size())".format, inner),
    )


@given(
    st.recursive(_LEAVES, _texts, max_leaves=6),
    st.sampled_from(["{}", "[{0}, [{0}]]", "{}.split('')", ALL + ".map(c, {})"]),
)
@settings(max_examples=300, deadline=None)
def test_no_value_is_larger_than_its_bound(text: str, form: str) -> None:
    whole = form.format(text)
    expression = compiled(whole)
    within = Evaluation()
    known, extent = _Walk(None).visit(expression.tree, {CLUSTER: extent_of(DOCUMENT)})
    if known > PER_CALL_LIMIT:
        return
    within.context.add_variable(CLUSTER, DOCUMENT)
    try:
        value = expression.program.execute(within.context)
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
        return  # a name that is not there, for example
    real = extent_of(value)
    bound = extent_of(extent.value) if not extent.weight else extent
    assert real.size <= bound.size
    assert real.deep <= bound.deep
    assert real.weight <= bound.weight
    assert real.parts <= bound.parts


# Regular expressions.


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [("(a+)+$", "a" * 5_000 + "b", False), ("(x+x+)+y", "x" * 5_000, False), ("(a|aa)+$", "a" * 5_000, True)],
)
@pytest.mark.parametrize("function", ["matches", "find"])
def test_no_pattern_takes_long(pattern: str, text: str, function: str, *, found: bool) -> None:
    call = f"'{text}'.{function}('{pattern}')"
    before = time.process_time()
    assert compiled(call if function == "matches" else f"{call} != ''").holds({}) is found
    assert time.process_time() - before < 1


@pytest.mark.parametrize(
    "pattern", ["(a{1000}){1000}", "((a{100}){100}){100}", "a{1001}", "(\\\\pL{100}){10}", "[", "(?=a)"]
)
def test_a_pattern_that_is_too_large_or_invalid_holds_for_nothing(pattern: str) -> None:
    before = time.process_time()
    for function in ("matches", "find", "findAll"):
        assert not compiled(f"'aaaa'.{function}('{pattern}') == 'aaaa'.{function}('{pattern}')").holds({})
    assert time.process_time() - before < 1


def test_a_pattern_counts_by_its_size() -> None:
    assert pattern_size("a") * 100 < pattern_size("a{1000}")
    assert spent("managedCluster.metadata.annotations.text.matches('.{1000}')") > 100 * spent(
        "managedCluster.metadata.annotations.text.matches('.{1}')"
    )
