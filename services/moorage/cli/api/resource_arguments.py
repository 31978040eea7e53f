"""Parses the objects that a command names: `KIND NAME…`, `KIND/NAME…`, `KIND,KIND` and `all`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from moorage.apiserver.kinds.kind import ServedKind
from moorage.cli.api import kinds
from moorage.cli.errors import CliError, UsageError


@dataclass(frozen=True, slots=True)
class Named:
    """The objects that a command is about: those with these names, or all of a kind if there are no names."""

    kind: ServedKind
    names: tuple[str, ...] = ()
    namespace: str = ""
    """The namespace of the objects, if a file names it. Otherwise that of the command."""


def parse(words: Sequence[str]) -> list[Named]:
    """Return the objects that the words of a command name.

    Raises:
        UsageError: the two forms are mixed, or a name is missing.
        CliError: a kind is not known.
    """
    if not words:
        raise UsageError(f"You must specify the type of resource. The kinds are {kinds.words()}")
    if any("/" in word for word in words) and not _named_with_slashes(words[0]):
        found = []
        for word in words:
            kind, slash, name = word.partition("/")
            if not slash:
                raise UsageError(
                    "there is no need to specify a resource type as a separate argument when passing "
                    "arguments in resource/name form (e.g. 'moorage get resource/<name>' instead of "
                    "'moorage get resource resource/<name>'"
                )
            if not name:
                raise UsageError(f"arguments in resource/name form must have a single resource and name: {word!r}")
            named = kinds.find(kind)
            found.append(Named(named, (named.definition.api_name(name),)))
        return found
    first, *names = words
    if first == "all" and not names:
        return [Named(kind) for kind in kinds.workloads()]
    every = [kinds.find(word) for word in first.split(",") if word]
    if not every:
        raise UsageError(f"invalid resource type {first!r}")
    return [Named(kind, tuple(dict.fromkeys(kind.definition.api_name(name) for name in names))) for kind in every]


def _named_with_slashes(word: str) -> bool:
    """Return whether a word names a kind whose objects have names with a slash: `zone eu/eu-1`."""
    try:
        return kinds.find(word).definition.slash_in_names
    except CliError:
        return False
