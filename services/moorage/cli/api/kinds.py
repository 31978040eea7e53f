"""The words that the command line takes for kinds."""

from __future__ import annotations

from functools import cache
from typing import Any

from moorage.cli.errors import CliError
from moorage.kinds import kind as definitions
from moorage.kinds.kind import Kind, ServedKind


def all_kinds() -> tuple[ServedKind, ...]:
    """Return every kind at its preferred version, in the order of discovery."""
    return _preferred(definitions.discovered())


def workloads() -> tuple[ServedKind, ...]:
    """Return the kinds that `all` stands for, as in kubectl's category of that name."""
    return tuple(kind for kind in all_kinds() if kind.definition.in_all)


@cache
def _preferred(found: tuple[Kind[Any], ...]) -> tuple[ServedKind, ...]:
    return tuple(ServedKind(one, one.versions[0]) for one in found)


def find(word: str) -> ServedKind:
    """Return the kind of `nodes`, `node`, `no`, `Node`, `deployments.apps`, `deployments.v1.apps`.

    Raises:
        CliError: no kind has that name. The message is kubectl's.
    """
    plain, dot, rest = word.partition(".")
    kind = definitions.called(plain)
    if kind is not None:
        if not dot or rest == kind.group:
            return ServedKind(kind, kind.versions[0])
        for version in kind.versions:
            if rest in {f"{version}.{kind.group}", version}:
                return ServedKind(kind, version)
    raise CliError(f'the server doesn\'t have a resource type "{word}"')


def of_object(api_version: str, kind: str) -> ServedKind | None:
    """Return the kind of a manifest. None if Moorage does not know it, or manifests must not contain it."""
    known = definitions.named(kind)
    if known is None or (known.read_only and not known.repeatable) or api_version not in known.api_versions:
        return None
    return ServedKind(known, api_version.rpartition("/")[2])


def words() -> str:
    """Return the plurals of all kinds, for messages."""
    return ", ".join(kind.plural for kind in all_kinds())
