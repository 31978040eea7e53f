"""The checker shares no code with what it checks."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
from tests.support.tables import table

FOLDER = Path(__file__).parent / "checker"
ALLOWED = ("tests.chaos.seeded.checker", "tests.chaos.seeded.history")


def imported(source: str) -> set[str]:
    """Every module that a source imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found |= {one.name for one in names}
            case ast.ImportFrom(module=str(module), level=0):
                found.add(module)
            case ast.ImportFrom():
                found.add("." * node.level)
            case ast.Call(func=ast.Name(id="__import__")) | ast.Call(func=ast.Attribute(attr="import_module")):
                found.add("what is named at run time")
    return found


def strange(source: str) -> set[str]:
    """What a source imports that is neither the standard library's nor the checker's own."""
    return {
        name
        for name in imported(source)
        if name.split(".")[0] not in sys.stdlib_module_names and not name.startswith(ALLOWED)
    }


@table("path", sorted(FOLDER.glob("**/*.py")), ids=lambda path: path.stem)
def test_the_checker_imports_nothing_of_what_it_checks(path: Path) -> None:
    assert strange(path.read_text(encoding="utf-8")) == set()


def test_the_history_that_it_reads_imports_nothing_either() -> None:
    assert strange((FOLDER.parent / "history.py").read_text(encoding="utf-8")) == set()


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import json\nfrom tests.chaos.seeded.history import Entry", set()),
        ("def late():\n    from moorage_schemas.topics import TOPICS", {"moorage_schemas.topics"}),
        ("import moorage.decide.taints.matching as m", {"moorage.decide.taints.matching"}),
        ("from tests.support.worlds.flow import Flow", {"tests.support.worlds.flow"}),
        ("from . import other", {"."}),
        ("import importlib\nimportlib.import_module('moorage')", {"what is named at run time"}),
    ],
)
def test_a_strange_import_is_seen(source: str, found: set[str]) -> None:
    assert strange(source) == found
