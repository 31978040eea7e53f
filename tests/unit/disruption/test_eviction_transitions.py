"""The table of evictions' transitions: each combination of values has exactly one row, and that row is found."""

from __future__ import annotations

from collections import Counter
from enum import Enum
from functools import partial
from itertools import product

from moorage.decide.disruption.eviction_transitions import COLUMNS, TABLE, Move, Transition, TransitionTable

Values = tuple[Enum, ...]


def combinations(row: Transition) -> set[Values]:
    """The combinations of values for which a row holds."""
    return set(product(*(row.when[column] for column in COLUMNS)))


def test_each_combination_has_exactly_one_row_and_that_row_is_found() -> None:
    columns = {column: (lambda values, place=place: values[place]) for place, column in enumerate(COLUMNS)}
    transitions: TransitionTable[Values] = TransitionTable(columns)
    rows = Counter[Values]()
    for row in TABLE:
        found = combinations(row)
        rows.update(found)
        assert {transitions.row(values[0], values).name for values in found} == {row.name}  # type: ignore[arg-type]  # the first column is the occasion
    assert rows == Counter(product(*COLUMNS))


def test_only_the_columns_that_matter_are_determined() -> None:
    determined: list[type[Enum]] = []

    def first(column: type[Enum], _about: None) -> Enum:
        determined.append(column)
        return next(iter(column))

    transitions = TransitionTable[None]({column: partial(first, column) for column in COLUMNS})
    (occasion, *_) = COLUMNS[0]
    assert transitions.row(occasion, None).name == "unbound"  # type: ignore[arg-type]  # the first column is the occasion
    assert determined == [COLUMNS[1]]


def test_rows_have_names_of_their_own_and_impossible_ones_no_steps() -> None:
    names = [row.name for row in TABLE if row.name]
    assert len(set(names)) == len(names)
    assert not any(row.moves or row.again for row in TABLE if not row.name)
    assert {move for row in TABLE for move in row.moves} == set(Move)
