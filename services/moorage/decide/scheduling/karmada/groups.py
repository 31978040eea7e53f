"""Finds the best combination of groups of clusters, with the same result as upstream's search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_STEPS: Final = 100_000
"""The maximum number of combinations that are examined. With many groups there are too many to examine them all; then
the best of those that were examined is used."""


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
        groups: all groups.
        least: the minimum number of groups.
        most: the maximum number of groups.
        clusters: the minimum number of clusters in all chosen groups together.
    """
    paths = _feasible(sorted(groups, key=lambda one: (one.clusters, -one.score, one.name)), least, most, clusters)
    if not paths:
        return ()
    paths.sort(key=lambda path: path.order)
    best = paths[0]
    for path in paths[1:]:
        # A shorter path that is a prefix of the best one is better: the remaining groups were not needed.
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
