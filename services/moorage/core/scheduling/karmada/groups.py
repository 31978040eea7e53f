"""Which groups of clusters together make the best choice, as upstream's search over them finds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_STEPS: Final = 100_000
"""Combinations that are looked at, at most: with many groups there are more than anyone could wait for, and then the
best of these is taken."""


@dataclass(frozen=True, slots=True)
class SpreadGroup:
    """A region, a zone or a provider."""

    name: str
    clusters: int
    score: int


@dataclass(frozen=True, slots=True)
class _Path:
    groups: tuple[SpreadGroup, ...]
    number: int

    @property
    def order(self) -> tuple[int, int, int]:
        return (-sum(one.score for one in self.groups), -sum(one.clusters for one in self.groups), self.number)


def best_groups(groups: Sequence[SpreadGroup], least: int, most: int, clusters: int) -> tuple[str, ...]:
    """The names of the best combination, best group first; empty when none will do.

    Args:
        groups: all there are.
        least: groups at least.
        most: groups at most.
        clusters: clusters that the groups must have together.
    """
    paths = _feasible(sorted(groups, key=lambda one: (one.clusters, -one.score, one.name)), least, most, clusters)
    if not paths:
        return ()
    paths.sort(key=lambda path: path.order)
    best = paths[0]
    for path in paths[1:]:
        # A shorter one that the best begins with is better: what it lacks was not needed.
        if len(path.groups) < len(best.groups) and best.groups[: len(path.groups)] == path.groups:
            best = path
    return tuple(one.name for one in best.groups)


def _feasible(groups: Sequence[SpreadGroup], least: int, most: int, clusters: int) -> list[_Path]:
    found: list[_Path] = []
    steps = 0
    # (the groups taken, their clusters, the next to look at), deepest and first ones on top.
    stack: list[tuple[tuple[SpreadGroup, ...], int, int]] = [((), 0, 0)]
    while stack and steps < _STEPS:
        steps += 1
        taken, have, begin = stack.pop()
        if have >= clusters and least <= len(taken) <= most:
            ordered = tuple(sorted(taken, key=lambda one: (-one.score, one.name)))
            found.append(_Path(ordered, len(found)))
        elif len(taken) < most and len(taken) + len(groups) - begin >= least:
            stack.extend(
                ((*taken, groups[index]), have + groups[index].clusters, index + 1)
                for index in reversed(range(begin, len(groups)))
            )
    return found
