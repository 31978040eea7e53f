"""The syntax of CEL expressions: trees, literals, and the limits of the parser."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from tests.support.tables import table

from moorage.decide.kubernetes.cel.expressions import ExpressionError, compiled
from moorage.decide.kubernetes.cel.syntax import (
    DEEPEST,
    LONGEST,
    NESTED,
    Call,
    Entries,
    Fold,
    Items,
    Literal,
    Message,
    Name,
    Node,
    OptionalMap,
    Select,
    SyntaxTreeError,
    TooDeepError,
    parse,
)


def shown(node: Node) -> Any:  # noqa: PLR0911 - one for each kind of node
    """A tree as nested tuples."""
    match node:
        case Literal():
            return node.value
        case Name():
            return f"${node.name}"
        case Select():
            return ("has" if node.test else ".", shown(node.operand), node.field)
        case Call():
            target = () if node.target is None else (shown(node.target),)
            return (node.function, *target, *map(shown, node.arguments))
        case Items():
            return ("[]", *map(shown, node.items), *sorted(node.optional))
        case Entries():
            return ("{}", *(part for key, value in node.items for part in (shown(key), shown(value))))
        case Fold():
            return (node.macro, shown(node.over), node.name, *map(shown, node.bodies))
        case OptionalMap():
            return ("optFlatMap" if node.flat else "optMap", shown(node.target), node.name, shown(node.body))
        case Message():
            return ("message", node.name)


@table(
    ("text", "tree"),
    [
        ("0x1f", 31),
        ("1.5", 1.5),
        ("-1", -1),
        ("- 1", -1),
        ("--1", 1),
        ("!!a", "$a"),
        ("!a", ("!_", "$a")),
        ("-a", ("-_", "$a")),
        ("1 - -1", ("_-_", 1, -1)),
        ("true", True),
        (r"'a\x62\'\u00e9\101'", "ab'éA"),
        (r"r'a\d'", r"a\d"),
        (r"b'a\xff'", b"a\xff"),
        ("b'é'", "é".encode()),
        ('"""a\n"b"""', 'a\n"b'),
        ("a.b", (".", "$a", "b")),
        ("a.?b.c", (".", ("_?._", "$a", "b"), "c")),
        ("a[?b]", ("_[?_]", "$a", "$b")),
        ("a[b]", ("_[_]", "$a", "$b")),
        ("has(a.b)", ("has", "$a", "b")),
        ("f(a, b)", ("f", "$a", "$b")),
        ("a.f(b)", ("f", "$a", "$b")),
        ("[a, ?b,]", ("[]", "$a", "$b", 1)),
        ("[,]", ("[]",)),
        ("{a: b, ?c: d}", ("{}", "$a", "$b", "$c", "$d")),
        ("{,}", ("{}",)),
        ("M{a: 1}", ("message", "M")),
        ("a.all(x, y)", ("all", "$a", "x", "$y")),
        ("a.map(x, y, z)", ("map", "$a", "x", "$y", "$z")),
        ("a.all(x)", ("all", "$a", "$x")),
        ("a.optMap(x, y)", ("optMap", "$a", "x", "$y")),
        ("a || b || c", ("_||_", "$a", "$b", "$c")),
        ("a || b && c", ("_||_", "$a", ("_&&_", "$b", "$c"))),
        ("a - b - c", ("_-_", ("_-_", "$a", "$b"), "$c")),
        ("a + b * c", ("_+_", "$a", ("_*_", "$b", "$c"))),
        ("a * b + c", ("_+_", ("_*_", "$a", "$b"), "$c")),
        ("a in b == c", ("_==_", ("@in", "$a", "$b"), "$c")),
        ("a ? b : c ? d : e", ("_?_:_", "$a", "$b", ("_?_:_", "$c", "$d", "$e"))),
        ("(a) // all", "$a"),
    ],
)
def test_an_expression_is_a_tree(text: str, tree: Any) -> None:
    found = shown(parse(text))
    assert (found, type(found)) == (tree, type(tree))


@table(
    "text",
    [
        *(
            "",
            "a b",
            "(a",
            "a)",
            "[a b]",
            "{a}",
            "a.",
            "a ?",
            "a ? b",
            "a.1",
            "#",
            "'a",
            "f(a,)",
            "!-a",
            "a.?f()",
            "a.in",
        ),
        *(
            "`a`",
            "'\\q'",
            "b'\\u0061'",
            "'\\ud800'",
            "99999999999999999999",
            "1e999",
            "18446744073709551616u",
            "1u.",
            "if",
        ),
        *("has(a)", "a.all(1, b)", "a.all(__result__, b)", "a.optMap(1, b)", "0x", "\N{NO-BREAK SPACE}a", "'a\nb'"),
    ],
)
def test_other_texts_have_no_tree(text: str) -> None:
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
    "operators": lambda n: "1+(" * n + "1" + ")" * n,
}


@table("make", [*DEEP.values()], ids=[*DEEP])
def test_an_expression_has_the_greatest_depth_of_upstream(make: Any) -> None:
    parse(make(DEEPEST))
    for depth in (DEEPEST + 1, 5_000):
        with pytest.raises(ExpressionError, match=f"expression recursion limit exceeded: {DEEPEST}") as error:
            compiled(make(depth))
        assert error.value.as_upstream


@table("make", [*BRACKETS.values()], ids=[*BRACKETS])
def test_brackets_have_a_limit_that_upstream_does_not_have(make: Any) -> None:
    parse(make(NESTED))
    with pytest.raises(TooDeepError, match=f"more than {NESTED} brackets within each other"):
        parse(make(NESTED + 1))
    with pytest.raises(ExpressionError) as error:
        compiled(make(NESTED + 1))
    assert not error.value.as_upstream


@table("make", [*DEEP.values(), *BRACKETS.values()], ids=[*DEEP, *BRACKETS])
def test_the_deepest_expressions_can_be_compiled_and_evaluated(make: Any) -> None:
    depth = NESTED if make in BRACKETS.values() else DEEPEST
    with suppress(ExpressionError):  # some have names that are not declared
        assert not compiled(f"[{make(depth - 1)}] == []" if depth == NESTED else make(depth)).holds({})


def test_an_expression_has_a_greatest_length() -> None:
    text = "'" + "x" * (LONGEST - 1)
    with pytest.raises(ExpressionError, match="expression code point size exceeds limit: size: 100001, limit 100000"):
        compiled(text + "'")
    with pytest.raises(ExpressionError, match="Syntax error"):
        compiled("(" + "x" * 50_000)


def test_long_chains_of_conditions_are_flat() -> None:
    document = {"metadata": {"name": "c500"}}
    text = " || ".join(f"managedCluster.metadata.name == 'c{i}'" for i in range(1, 501))
    assert compiled(text).holds(document)
    assert compiled(" && ".join(["true"] * 2_000)).holds(document)
