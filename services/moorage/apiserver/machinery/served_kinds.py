"""The served kinds: each kind at each of its API versions."""

from __future__ import annotations

from functools import cache
from typing import Any

from moorage.apiserver.kinds import kind
from moorage.apiserver.kinds.kind import Kind, ServedKind


def served() -> tuple[ServedKind, ...]:
    """Return every kind at every version, in the order of discovery."""
    return _served(kind.discovered())


def served_at(group: str, version: str, plural: str) -> ServedKind | None:
    """Return the kind that a path names. None if nothing is served there."""
    return _by_path(kind.discovered()).get((group, version, plural))


@cache
def _served(kinds: tuple[Kind[Any], ...]) -> tuple[ServedKind, ...]:
    return tuple(
        served
        for one in kinds
        for served in (
            *(ServedKind(one, version) for version in one.versions),
            *(ServedKind(one, version, group) for group, version in one.other_groups),
        )
    )


@cache
def _by_path(kinds: tuple[Kind[Any], ...]) -> dict[tuple[str, str, str], ServedKind]:
    return {(one.group, one.version, one.plural): one for one in _served(kinds)}
