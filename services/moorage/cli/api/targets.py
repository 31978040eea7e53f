"""The nodes, clusters or managed clusters that a command is about, and safe concurrent changes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from moorage.apiserver.kinds.kind import ServedKind
from moorage.cli.api import kinds
from moorage.cli.api.client import Client, JsonObject
from moorage.cli.errors import CliError, ServerError, UsageError, warn
from moorage.decide.kubernetes.unstructured import at

NODE = kinds.find("nodes")
CLUSTER = kinds.find("clusters")
MANAGED = kinds.find("managedclusters")

KINDS = (NODE, CLUSTER, MANAGED)
"""The kinds of targets, which have conditions and taints."""

_TRIES = 12


def called(kind: ServedKind, name: str) -> str:
    """Return a target as kubectl and karmadactl write it: `node/n1`, `cluster/m1`, `managedcluster.<group>/c1`."""
    return kind.called(name) if kind == MANAGED else f"{kind.singular}/{name}"


def kind_or_none(word: str) -> ServedKind | None:
    """Return the kind that a word names. None if it is not a kind with taints."""
    try:
        kind = kinds.find(word)
    except CliError:
        return None
    return kind if kind in KINDS else None


def target_kind(word: str) -> ServedKind:
    """Return the kind that a word names. Raises CliError if it is not a kind with taints."""
    kind = kind_or_none(word)
    if kind is None:
        raise CliError(f"invalid resource type {word}, only node, cluster and managedcluster types are supported")
    return kind


def split_names(words: Sequence[str]) -> tuple[ServedKind, list[str]]:
    """Return the kind and the names of `nodes n1 n2` or `cluster/m1 cluster/m2`.

    Raises:
        UsageError: nothing is named, or several kinds are.
    """
    if not words:
        raise UsageError("one or more resources must be specified as <resource> <name> or <resource>/<name>")
    if any("/" in word for word in words):
        found: list[tuple[ServedKind, str]] = []
        for word in words:
            kind, slash, name = word.partition("/")
            target = target_kind(kind)
            if not slash or not name:
                raise UsageError(f"there is no need to specify a resource type as a separate argument: {word!r}")
            found.append((target, name))
        if len({kind.kind for kind, _ in found}) > 1:
            raise UsageError("targets of several kinds cannot be named in one command, because their effects differ")
        return found[0][0], [name for _, name in found]
    return target_kind(words[0]), list(words[1:])


def select(client: Client, kind: ServedKind, names: Sequence[str], selector: str, *, every: bool) -> list[str]:
    """Return the names that a command is about.

    Raises:
        UsageError: none or more than one of names, `--all` and a selector is given.
    """
    if every and selector:
        raise UsageError("setting 'all' parameter with a non empty selector is prohibited")
    if names and (every or selector):
        raise UsageError("name cannot be provided when --all or a selector is specified")
    if names:
        return list(dict.fromkeys(names))
    if not every and not selector:
        raise UsageError("at least one resource name must be specified since 'all' parameter is not set")
    listed = client.list(kind, None, selector).get("items") or []
    if not listed:
        warn("No resources found")
    return [str(at(item, "metadata", "name")) for item in listed]


class Changed(NamedTuple):
    """The outcome of a command for one target."""

    word: str
    """The word to print."""

    before: JsonObject
    after: JsonObject
    """The object as the server answered. Not all that was sent need be applied."""


def change(
    client: Client, kind: ServedKind, name: str, decide: Callable[[JsonObject], tuple[JsonObject | None, str]]
) -> Changed:
    """Read a target, decide, and write with the version that was read. Repeat if someone else was faster.

    `decide` returns for the object the merge patch (None if there is nothing to do) and the word to print.

    Returns:
        The word, and the object before and after the change.
    """
    for left in reversed(range(_TRIES)):
        found = client.get(kind, "", name)
        patch, word = decide(found)
        if patch is None:
            return Changed(word, found, found)
        version = at(found, "metadata", "resourceVersion")
        metadata = {**(patch.get("metadata") or {}), "resourceVersion": version}
        try:
            written = client.patch(kind, "", name, {**patch, "metadata": metadata})
        except ServerError as error:
            if error.reason != "Conflict" or not left:
                raise
        else:
            return Changed(word, found, written)
    raise CliError(f"{called(kind, name)} is changed by others again and again; nothing was done")
