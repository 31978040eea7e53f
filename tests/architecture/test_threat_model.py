"""Each line of the threat model names tests, and they exist."""

from __future__ import annotations

import ast
import re
from functools import cache

from tests.architecture.files import ROOT
from tests.support.tables import table

PAGE = (ROOT / "docs/threat-model.md").read_text("utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| threat |")
]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@cache
def functions(path: str) -> frozenset[str]:
    """The names of the functions of a file."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_there_are_lines() -> None:
    assert len(ROWS) > 20


@table("row", ROWS, ids=lambda row: row[0][:40])
def test_each_line_names_tests_that_exist(row: list[str]) -> None:
    assert len(row) == 3, row
    threat, stopped_by, tests = row
    assert threat
    assert stopped_by
    found = NAMED.findall(tests)
    assert found, "a line without a test"
    assert NAMED.sub("", tests).strip(" ,") == "", "only tests are named"
    missing = [f"{path}::{name}" for path, name in found if name not in functions(path)]
    assert missing == []
