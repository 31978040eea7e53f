"""Shell completion of kinds, names, namespaces, topics, services and files.

Names come from the gateway, with a short timeout. If anything fails, nothing is offered and nothing is printed, because
the user is in the middle of a line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

import typer

from moorage.apiserver.kinds.kind import ServedKind
from moorage.cli.api import endpoints, kinds, targets

PATIENCE: Final = 1.0
"""Seconds to wait for the gateway."""

_SUFFIXES: Final = (".yaml", ".yml", ".json")

Complete = Callable[[typer.Context, str], list[str]]
C = TypeVar("C", bound=Complete)


def _quiet(complete: C) -> C:
    """Make a completion offer nothing when it fails."""

    def wrapped(ctx: typer.Context, incomplete: str) -> list[str]:
        try:
            return complete(ctx, incomplete)
        except Exception:  # noqa: BLE001 - any traceback in the user's line would be worse
            return []

    return wrapped  # type: ignore[return-value]  # the same signature


@_quiet
def objects(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete `KIND NAME…`, `KIND/NAME…` and `KIND,KIND`."""
    words = _words(ctx)
    if "/" in incomplete:
        return _slashed(ctx, incomplete)
    if not words:
        return _kinds(incomplete, (kind.plural for kind in kinds.all_kinds()))
    if "/" in words[0]:
        return []  # another KIND/NAME follows, and before the slash there are too many to offer
    return _starting(incomplete, _names(ctx, kinds.find(words[0])), without=words[1:])


@_quiet
def explained(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete `KIND [NAMESPACE/]NAME`. Namespaces are offered with the slash, so that a name can follow."""
    words = _words(ctx)
    if not words or "/" in words[0]:
        return objects(ctx, incomplete)
    kind = kinds.find(words[0])
    namespace, slash, name = incomplete.rpartition("/")
    if slash:
        return [f"{namespace}/{found}" for found in _starting(name, _names(ctx, kind, namespace))]
    places = (f"{found}/" for found in _names(ctx, kinds.find("namespaces")) if kind.namespaced)
    return _starting(incomplete, [*_names(ctx, kind), *places], without=words[1:])


@_quiet
def targets_of_taints(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete `KIND NAME…` and `KIND/NAME…` of targets."""
    words = _words(ctx)
    if "/" in incomplete:
        return _slashed(ctx, incomplete)
    if not words:
        return _starting(incomplete, (kind.singular for kind in targets.KINDS))
    return _starting(incomplete, _names(ctx, targets.target_kind(words[0])), without=words[1:])


@_quiet
def nodes_and_clusters(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete `NODE…`, `KIND NAME…` and `KIND/NAME…` of nodes and clusters."""
    words = _words(ctx)
    if "/" in incomplete:
        return _slashed(ctx, incomplete)
    kind = targets.kind_or_none(words[0]) if words else None
    if kind is not None:
        return _starting(incomplete, _names(ctx, kind), without=words[1:])
    first = [] if words else [targets.NODE.singular, targets.CLUSTER.singular]
    return _starting(incomplete, [*_names(ctx, targets.NODE), *first], without=words)


@_quiet
def target(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete one `KIND/NAME` of a target. Kinds are offered with the slash, so that a name can follow."""
    if "/" in incomplete:
        return _slashed(ctx, incomplete)
    return _starting(incomplete, (f"{kind.singular}/" for kind in targets.KINDS))


@_quiet
def conditions(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete `TYPE=STATUS` of `report`: the conditions from which the dialects make taints, or `Healthy`.

    Bash splits a word at the equals sign and completes what follows it. Other shells complete the whole word.
    """
    from moorage.decide.taints.desired.managed_taints import AVAILABLE  # noqa: PLC0415 - only `report` needs the dialects
    from moorage.decide.taints.dialects.kubernetes import CONDITION_TAINTS  # noqa: PLC0415 - as above
    from moorage_schemas.condition import HEALTHY, ConditionStatus  # noqa: PLC0415 - as above

    before = ctx.params.get("statuses") or []
    if before and before[-1].partition("=")[2:] == ("",):  # the type, or the sign alone
        return _starting(incomplete, ConditionStatus)
    kind = targets.kind_or_none(str(ctx.params.get("about") or "").partition("/")[0])
    if ctx.params.get("on"):
        types = [HEALTHY]
    elif kind == targets.NODE:
        types = [one.condition for one in CONDITION_TAINTS]
    else:
        types = [AVAILABLE if kind == targets.MANAGED else CONDITION_TAINTS[0].condition]
    return _starting(incomplete, (f"{name}={status.value}" for name in types for status in ConditionStatus))


@_quiet
def slashed(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete one `KIND/NAME` of any kind that can be written."""
    if "/" in incomplete:
        return _slashed(ctx, incomplete)
    return _starting(incomplete, (f"{kind.singular}/" for kind in kinds.all_kinds() if not kind.read_only))


@_quiet
def nodes(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete names of nodes."""
    return _starting(incomplete, _names(ctx, targets.NODE))


@_quiet
def clusters(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete names of clusters and managed clusters."""
    return _starting(incomplete, [*_names(ctx, targets.CLUSTER), *_names(ctx, targets.MANAGED)])


@_quiet
def namespaces(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete names of namespaces."""
    return _starting(incomplete, _names(ctx, kinds.find("namespaces")))


@_quiet
def topics(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete topics, as `watch` names them."""
    from moorage_schemas.topics import TOPICS  # noqa: PLC0415 - loads every event's model

    return _starting(incomplete, (topic.short for topic in TOPICS), without=ctx.params.get("topics") or [])


@_quiet
def services(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete services of `run`."""
    from moorage.cli.local import services as known  # noqa: PLC0415 - only these commands need the services

    return _starting(incomplete, [*known.names(), known.GATEWAY, "all"], without=ctx.params.get("names") or [])


@_quiet
def replayed_services(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete services that can be replayed."""
    from moorage.cli.local import services as known  # noqa: PLC0415 - only these commands need the services

    return _starting(incomplete, known.names(), without=ctx.params.get("service") or [])


@_quiet
def manifests(ctx: typer.Context, incomplete: str) -> list[str]:  # noqa: ARG001 - the signature is that of all
    """Complete folders and files of manifests."""
    return [path for path in _paths(incomplete) if path.endswith(("/", *_SUFFIXES))]


@_quiet
def files(ctx: typer.Context, incomplete: str) -> list[str]:  # noqa: ARG001 - the signature is that of all
    """Complete files and folders."""
    return list(_paths(incomplete))


def words(*offered: str) -> Complete:
    """Return a completion of fixed words."""
    return lambda ctx, incomplete: _starting(incomplete, offered)  # noqa: ARG005 - the signature is that of all


def _words(ctx: typer.Context) -> list[str]:
    """Return the arguments that have been typed, under any of the names that commands have for them."""
    for name in ("what", "words", "names"):
        if found := ctx.params.get(name):
            return list(found)
    return []


def _kinds(incomplete: str, offered: Iterable[str]) -> list[str]:
    before, comma, last = incomplete.rpartition(",")
    return [before + comma + word for word in _starting(last, offered, without=before.split(","))]


def _slashed(ctx: typer.Context, incomplete: str) -> list[str]:
    word, _, name = incomplete.partition("/")
    return [f"{word}/{found}" for found in _starting(name, _names(ctx, kinds.find(word)))]


def _names(ctx: typer.Context, kind: ServedKind, place: str = "") -> Iterator[str]:
    """Yield the names of objects in a namespace. The default is the namespace of the command line."""
    chosen = place or str(ctx.params.get("namespace") or "default")
    namespace = None if ctx.params.get("all_namespaces") else chosen
    with endpoints.connect(ctx, patience=PATIENCE, quietly=True) as client:
        listed = client.list(kind, namespace)
    for found in listed.get("items") or []:
        yield kinds.shown_name(kind, found)


def _starting(incomplete: str, offered: Iterable[str], *, without: Sequence[str] = ()) -> list[str]:
    return [word for word in dict.fromkeys(offered) if word.startswith(incomplete) and word not in without]


def _paths(incomplete: str) -> Iterator[str]:
    import os  # noqa: PLC0415 - only these completions look at files
    from pathlib import Path  # noqa: PLC0415 - as above

    folder, name = os.path.split(incomplete)
    with os.scandir(Path(folder or ".").expanduser()) as entries:
        for entry in sorted(entries, key=lambda one: one.name):
            if entry.name.startswith(name) and (name.startswith(".") or not entry.name.startswith(".")):
                yield os.path.join(folder, entry.name) + ("/" if entry.is_dir() else "")  # noqa: PTH118 - text as typed
