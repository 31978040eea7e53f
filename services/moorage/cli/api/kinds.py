"""The words that the command line takes for kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from moorage.apiserver.kinds import kind as definitions
from moorage.apiserver.kinds.kind import Kind, ServedKind
from moorage.cli.errors import CliError, UsageError

_SHORT: Final = 3
"""Words of up to this length, such as `po` and `svc`, are not suggested."""

_NEAR: Final = 0.75
"""How alike a suggested word must be, from 0 to 1, as `difflib` counts it."""


def all_kinds() -> tuple[ServedKind, ...]:
    """Return every kind at its preferred version, in the order of discovery."""
    return _preferred(definitions.discovered())


def in_all() -> tuple[ServedKind, ...]:
    """Return the kinds that `all` stands for: kubectl's, and targets, policies and guards of evictions."""
    return tuple(kind for kind in all_kinds() if kind.definition.in_all or kind.definition.in_own_all)


@cache
def _preferred(found: tuple[Kind[Any], ...]) -> tuple[ServedKind, ...]:
    return tuple(ServedKind(one, one.versions[0]) for one in found)


def find(word: str) -> ServedKind:
    """Return the kind of `nodes`, `node`, `no`, `Node`, `deployments.apps`, `deployments.v1.apps`.

    Raises:
        CliError: no kind has that name. The message is kubectl's, with the nearest name.
    """
    plain, dot, rest = word.partition(".")
    kind = definitions.called(plain)
    if kind is not None:
        if not dot or rest == kind.group:
            return ServedKind(kind, kind.versions[0])
        for version in kind.versions:
            if rest in {f"{version}.{kind.group}", version}:
                return ServedKind(kind, version)
        for group, version in kind.other_groups:
            if rest in {group, f"{version}.{group}"}:
                return ServedKind(kind, version, group)
        nearest = f"{plain}.{kind.group}" if kind.group else plain
    else:
        nearest = _nearest(plain.lower())
    meant = f'; did you mean "{nearest}"?' if nearest else ""
    raise CliError(f'the server doesn\'t have a resource type "{word}"{meant}')


def _nearest(word: str) -> str:
    """Return the word that is most like a mistyped one. Empty if none is."""
    import difflib  # noqa: PLC0415 - only needed for this error, and every command loads this module

    offered = sorted(known for kind in definitions.discovered() for known in kind.words if len(known) > _SHORT)
    return next(iter(difflib.get_close_matches(word, offered, n=1, cutoff=_NEAR)), "")


def of_object(api_version: str, kind: str) -> ServedKind | None:
    """Return the kind of a manifest. None if Moorage does not support it, or manifests must not contain it."""
    known = definitions.named(kind)
    if known is None or (known.read_only and not known.repeatable):
        return None
    group, _, version = api_version.rpartition("/")
    if (group, version) in known.other_groups:
        return ServedKind(known, version, group)
    return ServedKind(known, version) if api_version in known.api_versions else None


def every_word() -> str:
    """Return the plurals of all kinds, for messages."""
    return ", ".join(kind.plural for kind in all_kinds())


def shown_name(kind: ServedKind, found: Mapping[str, Any]) -> str:
    """Return the name of an object as it is shown, and as users may type it. Of zones, it is not that in the API."""
    return kind.definition.shown_name(str((found.get("metadata") or {}).get("name")))


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
        raise UsageError(f"You must specify the type of resource. The kinds are {every_word()}")
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
            named = find(kind)
            found.append(Named(named, (named.definition.api_name(name),)))
        return found
    first, *names = words
    if first == "all" and not names:
        return [Named(kind) for kind in in_all()]
    every = [find(word) for word in first.split(",") if word]
    if not every:
        raise UsageError(f"invalid resource type {first!r}")
    return [Named(kind, tuple(dict.fromkeys(kind.definition.api_name(name) for name in names))) for kind in every]


def _named_with_slashes(word: str) -> bool:
    """Return whether a word names a kind whose objects have names with a slash: `zone eu/eu-1`."""
    try:
        return find(word).definition.slash_in_names
    except CliError:
        return False
