"""Rules are cited by their section of docs/domain.md, and the section exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.architecture.files import ROOT, files, name

PAGE = "docs/domain.md"

# Composed of parts, so that the test does not find this file.
_ELSEWHERE = re.compile(r"\b(DO" + r"MAIN|DES" + r"IGN)\b")
"""Documents that are not in the repository."""

_QUOTED = r'\\?"([^"\\\n]+)\\?"'
_CITATION = re.compile(rf"{re.escape(PAGE)},\s+({_QUOTED}(?: and {_QUOTED})*)")
_HEADINGS = frozenset(re.findall(r"^#{2,3} (.+)$", (ROOT / PAGE).read_text("utf-8"), re.MULTILINE))


def cited(text: str) -> list[str]:
    """The headings that a text cites, in order."""
    return [heading for match in _CITATION.finditer(text) for heading in re.findall(_QUOTED, match[1])]


def test_no_file_cites_a_document_that_is_not_here() -> None:
    found = [
        f"{name(path)}:{number}: {line.strip()}"
        for path in files()
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if _ELSEWHERE.search(line)
    ]
    assert found == []


def test_every_section_that_is_cited_exists() -> None:
    found = [(name(path), heading) for path in files() for heading in cited(path.read_text("utf-8"))]
    assert [(where, heading) for where, heading in found if heading not in _HEADINGS] == []
    assert any(where.startswith("services/") for where, _ in found), "rules in the code name their section"


def test_code_cites_a_section_and_not_the_whole_page() -> None:
    texts = {name(path): path.read_text("utf-8") for path in files(".py", ".json", ".yaml")}
    whole = [where for where, text in texts.items() if text.count(PAGE) != len(_CITATION.findall(text))]
    assert [where for where in whole if where != name(Path(__file__))] == []


def test_headings_are_unique() -> None:
    headings = re.findall(r"^#+ (.+)$", (ROOT / PAGE).read_text("utf-8"), re.MULTILINE)
    assert len(set(headings)) == len(headings)


@pytest.mark.parametrize(
    ("text", "headings"),
    [
        (f'as in {PAGE}, "Zones".', ["Zones"]),
        (f'{PAGE}, "Matching" and "Deadlines", say so', ["Matching", "Deadlines"]),
        (f'{PAGE}, \\"Matching\\", says', ["Matching"]),
        (f'{PAGE},\n    "Node taints"', ["Node taints"]),
        (f"{PAGE} says so", []),
    ],
)
def test_what_counts_as_a_citation(text: str, headings: list[str]) -> None:
    assert cited(text) == headings
