"""The checker is itself tested: each bug that is planted into the shipped code is found by some seed."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest
from tests.chaos.seeded.bugs import BUGS
from tests.chaos.seeded.planted import find, likely
from tests.support.tiers import turn

PAGE = Path(__file__).parents[3] / "docs" / "simulation.md"


def rows() -> dict[str, list[str]]:
    """The cells of the page's table, by the bugs' names."""
    found = [line.removeprefix("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return {cells[0]: cells for cells in found if len(cells) == 5 and cells[0] in BUGS}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "name" in metafunc.fixturenames:
        metafunc.parametrize("name", turn(list(BUGS), metafunc.config.option.tier))


def test_a_planted_bug_is_found(name: str) -> None:
    """By a seed of the 2,000 whose stories have a theme in which it is likely to show.

    The one that found it when the page was written is tried first. Any change of the services may move which of them it
    is; `tests.chaos.seeded.planted --all` measures how many it takes.
    """
    needed = rows()[name][2]
    first = [int(needed) - 1] if needed.isdecimal() else []
    assert find(name, chain(first, likely(name))).seed is not None, BUGS[name].what


def test_the_page_lists_every_bug() -> None:
    assert {name: cells[1] for name, cells in rows().items()} == {name: bug.what for name, bug in BUGS.items()}


def test_nothing_is_left_of_a_bug() -> None:
    def code() -> list[tuple[str, object]]:
        return [(name, vars(owner)[what]) for name, bug in BUGS.items() for owner, what, _ in bug.changes()]

    before = code()
    for bug in BUGS.values():
        with bug.planted():
            pass
    assert [one is other for (_, one), (_, other) in zip(before, code(), strict=True)] == [True] * len(before)
