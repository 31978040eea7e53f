"""Words that were replaced stay away from the texts of rooms and pages that are free of them."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from tests.architecture.files import ROOT

PAGES: Final = ("README.md", "CONTRIBUTING.md", "docs/*.md")
CORE: Final = ("services/moorage/decide", "services/moorage/runtime", "services/moorage/workers")
APISERVER: Final = "services/moorage/apiserver"
PLAIN: Final = (*CORE, APISERVER)
"""Rooms whose comments are texts as well, and that have plain verbs only."""

OTHERS: Final = ("services/moorage/bridges", "services/moorage/insight", "services/moorage/conformance")
ROOMS: Final = ("services/moorage/cli", "services/moorage/console", "sdk/moorage_sdk", *PLAIN, *OTHERS)

RECORDED: Final = frozenset(
    {
        " s is over",
        " seems to be silent; reports that are still waiting here go first",
        "what makes its pods does not say how many it wants",
    }
)
"""Texts of decisions that golden histories record, so that they stay as they are."""

UPSTREAMS: Final = frozenset({": asks for all devices, but "})
"""Texts that are upstream's."""

TABLES_OF_CODE: Final = frozenset({"docs/deviations.md", "docs/plugins.md", "docs/simulation.md"})
"""Pages whose tables repeat texts of code in other rooms."""

FORBIDDEN: Final[dict[str, tuple[str, ...]]] = {
    # headings and first words: a noun instead of a clause
    r"(?m)^#+ (?:Who|Whoever|What|Those)\b": PAGES,
    r"\A(?:Who|Whoever|What)\b(?! if\b)": ROOMS,
    # persons: a role, or you
    r"(?i)\b(?:whoever|somebody|everybody|anybody|nobody)\b": (*PAGES, *ROOMS),
    r"(?i)\bone's own\b|\boneself\b|\b(?:who|what) one (?:is|may|can)\b": (*PAGES, *ROOMS),
    # programs store, return, report, log, request
    r"\basks? who\b|\bwho asks\b|\basks? everybody\b": (*PAGES, *ROOMS),
    r"\b(?:is|are|was|were) told\b": (*PAGES, *ROOMS),
    r"\bsays so\b|\bsay so\b": (*PAGES, *ROOMS),
    # objects exist or do not
    r"\b(?:is|are|was|were) (?:gone|over)\b": (*PAGES, *ROOMS),
    r"(?i)\bthere is no (?:such )?(?:service|role|topic|kind|page)\b": ROOMS,
    r"\bnot there\b|\bare there or\b": ROOMS,
    # short sentences
    r", too\b(?! \w)": (*PAGES, *ROOMS),
    r"\bany more\b": ("services/moorage/cli", "services/moorage/console", *PLAIN, *OTHERS),
    # programs store, return, report, log, request: the core has no other verbs for them
    r"(?i)\b(?:tells?|told|knows?|says?|said)\b": PLAIN,
    r"\b(?:is|are|was|were|be|been) (?:asked|heard)\b|\basks (?:for|the|a|it|again)\b": PLAIN,
    r"(?i)\bsee `": PLAIN,
    r"\bnobody can be asked\b|\bis no kubeconfig\b|\bthose to look at first\b": (*PAGES, *ROOMS),
}
"""Patterns, each with the pages and rooms that are free of it. Add a room when it is clean."""

NOUNS: Final = frozenset(
    {
        "A",
        "All",
        "An",
        "Both",
        "Each",
        "Every",
        "How",
        "Returns",
        "Since",
        "That",
        "The",
        "Those",
        "Until",
        "What",
        "When",
    }
    | {"Whether", "Who", "Why"}
)
"""First words of docstrings of properties and classes, but not of functions, which are imperative."""

_CODE: Final = re.compile(r"^```.*?^```|`[^`\n]*`|\]\([^)]*\)", re.MULTILINE | re.DOTALL)
_TEMPLATES: Final = (".html", ".txt")


@cache
def texts(path: Path) -> tuple[tuple[int, str], ...]:
    """Return the texts of a file with their lines: prose of pages and templates, docstrings and strings of modules."""
    source = path.read_text("utf-8")
    if path.suffix == ".py":
        comments = _comments(source) if any(path.is_relative_to(ROOT / room) for room in PLAIN) else ()
        return (*_strings(ast.parse(source)), *comments)
    return ((1, _CODE.sub(lambda code: "`" + "\n" * code[0].count("\n"), source)),)


def _strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or node.value in RECORDED | UPSTREAMS:
            continue
        if " " in node.value:
            yield node.lineno, node.value


def _comments(source: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")


def _files(place: str) -> Iterator[Path]:
    found = ROOT.glob(place) if "*" in place or place.endswith(".md") else (ROOT / place).rglob("*")
    for path in sorted(found):
        if path.suffix in {".md", ".py", *_TEMPLATES} and str(path.relative_to(ROOT)) not in TABLES_OF_CODE:
            yield path


@pytest.mark.parametrize("pattern", FORBIDDEN)
def test_old_words_stay_away(pattern: str) -> None:
    sought = re.compile(pattern)
    found = [
        f"{path.relative_to(ROOT)}:{line + text.count(chr(10), 0, match.start())}: {match[0]}"
        for place in FORBIDDEN[pattern]
        for path in _files(place)
        for line, text in texts(path)
        for match in sought.finditer(text)
    ]
    assert found == []


@pytest.mark.parametrize("room", [*PLAIN, *OTHERS])
def test_docstrings_of_functions_are_imperative(room: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}"
        for path in _files(room)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if not any("property" in ast.unparse(one) for one in node.decorator_list)
        if (ast.get_docstring(node) or "").partition(" ")[0] in NOUNS
    ]
    assert found == []


def test_every_place_has_files() -> None:
    assert all(any(_files(place)) for places in FORBIDDEN.values() for place in places)


def test_a_pattern_is_found_in_prose_and_strings_and_not_in_code(tmp_path: Path) -> None:
    page, module = tmp_path / "page.md", tmp_path / "module.py"
    page.write_text("A `nobody_asks` test.\n```\nnobody\n```\nHere nobody is.\n", "utf-8")
    module.write_text('"""Returns for nobody."""\nnobody = f"of nobody {1}"  # nobody\n', "utf-8")
    sought = re.compile("nobody")
    assert [len(sought.findall(text)) for _, text in texts(page)] == [1]
    assert [len(sought.findall(text)) for _, text in texts(module)] == [1, 1]
