"""Parses the objects that a command names: `KIND NAME…`, `KIND/NAME…`, `KIND,KIND` and `all`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from moorage.cli.api import kinds, object_names
from moorage.cli.api.client import Client
from moorage.cli.errors import CliError, UsageError
from moorage.core.apimachinery.unstructured import at
from moorage.kinds.kind import ServedKind


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
            found.append(Named(named, (object_names.typed(named, name),)))
        return found
    first, *names = words
    if first == "all" and not names:
        return [Named(kind) for kind in kinds.workloads()]
    every = [kinds.find(word) for word in first.split(",") if word]
    if not every:
        raise UsageError(f"invalid resource type {first!r}")
    return [Named(kind, tuple(dict.fromkeys(object_names.typed(kind, name) for name in names))) for kind in every]


def _named_with_slashes(word: str) -> bool:
    """Return whether a word names a kind whose objects have names with a slash: `zone eu/eu-1`."""
    try:
        return kinds.find(word).definition.slash_in_names
    except CliError:
        return False


def chosen_names(client: Client, one: Named, namespace: str, selector: str, *, every: bool) -> tuple[str, ...]:
    """Return the given names, or the names of the objects that a selector or `--all` selects.

    Raises:
        UsageError: none or more than one of names, `--all` and a selector is given.
    """
    if every and selector:
        raise UsageError("setting 'all' parameter with a non empty selector is prohibited")
    if one.names and (every or selector):
        raise UsageError("name cannot be provided when --all or a selector is specified")
    if one.names:
        return one.names
    if not every and not selector:
        raise UsageError("resource(s) were provided, but no name was specified")
    listed = client.list(one.kind, namespace, selector).get("items") or []
    return tuple(str(at(item, "metadata", "name")) for item in listed)
