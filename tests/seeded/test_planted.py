"""The checker is itself tested: each bug that is planted into the shipped code is found by some seed."""

from __future__ import annotations

import pytest
from tests.seeded.bugs import BUGS
from tests.seeded.bugs.found import FOUND, UNFOUND
from tests.seeded.planted import find

_OTHERS = 250
"""Seeds that are tried where the known one finds the bug no more."""


@pytest.mark.parametrize("name", FOUND)
def test_a_planted_bug_is_found(name: str) -> None:
    """By the seed that is known to find it, or by one beside it, or by another: any change of the services moves them.

    `tests.seeded.planted --all` measures anew which seed is the first.
    """
    seed = FOUND[name]
    assert find(name, [seed, seed + 1, max(0, seed - 1), *range(_OTHERS)]).seed is not None, BUGS[name].what


def test_every_bug_has_its_seed_or_its_reason() -> None:
    assert {*FOUND, *UNFOUND} == {*BUGS}
    assert not {*FOUND} & {*UNFOUND}


def test_nothing_is_left_of_a_bug() -> None:
    def code() -> list[tuple[str, object]]:
        return [(name, vars(owner)[what]) for name, bug in BUGS.items() for owner, what, _ in bug.changes()]

    before = code()
    for bug in BUGS.values():
        with bug.planted():
            pass
    assert [one is other for (_, one), (_, other) in zip(before, code(), strict=True)] == [True] * len(before)
