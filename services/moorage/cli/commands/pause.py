"""`moorage pause evictions` and `resume evictions`: create and delete the EvictionPause of a scope."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from moorage.cli import completion
from moorage.cli.api import kinds
from moorage.cli.api.client import Client, JsonObject
from moorage.cli.api.endpoints import chosen_cluster, connect_home
from moorage.cli.errors import CliError, ServerError, UsageError
from moorage.cli.render import output
from moorage.decide.disruption.object_names import normal_scope, pause_name, zone_of_object
from moorage.decide.kubernetes.unstructured import at

_PAUSES = kinds.find("evictionpauses")
_FLEET = "fleet"
_FIELDS = {"zone": "zones", "namespace": "namespaces", "workload": "workloads", "target": "targets"}
_OF_CLUSTERS = ("zone=", "workload=", "target=")
_SCOPES = "fleet, zone=REGION/ZONE, namespace=NAME, workload=KIND/NAMESPACE/NAME or target=KIND/NAME"

_What = Annotated[
    str, typer.Argument(metavar="evictions", show_default=False, autocompletion=completion.words("evictions"))
]
_Scope = Annotated[
    list[str] | None,
    typer.Option(
        help=f"{_SCOPES}. The default is the whole fleet. Repeatable: an eviction is in scope if it matches one value "
        "of each part that is given.",
        show_default=False,
        autocompletion=completion.words(_FLEET, *(f"{part}=" for part in _FIELDS)),
    ),
]


def pause(
    ctx: typer.Context,
    what: _What,
    *,
    scope: _Scope = None,
    reason: Annotated[str, typer.Option(help="The reason, shown with the evictions that are held.")] = "",
) -> None:
    """Hold evictions. Deadlines keep running.

    Creates an EvictionPause. Evictions that become due are held until `moorage resume evictions`. With --fleet-cluster,
    the scope names zones, workloads and targets of that cluster.
    """
    _check(what)
    wanted = parse_scope(scope or [], chosen_cluster(ctx))
    called = words(wanted)
    with connect_home(ctx) as client:
        for found in _same(client, wanted):
            name = str(at(found, "metadata", "name"))
            if reason and reason != at(found, "spec", "reason"):
                client.patch(_PAUSES, "", name, {"spec": {"reason": reason}})
                output.line(
                    f"evictions of {called} were already paused; the reason has been changed ({_PAUSES.called(name)})"
                )
            else:
                output.line(f"evictions of {called} are already paused ({_PAUSES.called(name)})")
            return
        name = pause_name(wanted)
        try:
            create(client, wanted, reason)
        except ServerError as error:
            if error.reason != "AlreadyExists":
                raise
            if not _same(client, wanted):
                raise CliError(f"{_PAUSES.called(name)} exists with another scope; delete it first") from None
            output.line(f"evictions of {called} are already paused ({_PAUSES.called(name)})")
            return
    output.line(f"evictions of {called} paused ({_PAUSES.called(name)})")


def create(client: Client, scope: JsonObject, reason: str) -> None:
    """Create the pause of a scope."""
    spec = {"scope": scope, **({"reason": reason} if reason else {})}
    head = {"apiVersion": _PAUSES.api_version, "kind": _PAUSES.kind, "metadata": {"name": pause_name(scope)}}
    client.create(_PAUSES, "", {**head, "spec": spec})


def resume(
    ctx: typer.Context,
    what: _What,
    *,
    scope: _Scope = None,
    every: Annotated[
        bool, typer.Option("--all", help="Delete all pauses, or with --fleet-cluster those of that cluster.")
    ] = False,
) -> None:
    """Resume evictions that were paused.

    Deletes the EvictionPauses with exactly this scope. Other pauses stay. With --fleet-cluster, the scope names zones,
    workloads and targets of that cluster.
    """
    _check(what)
    if every and scope:
        raise UsageError("--scope cannot be given together with --all")
    cluster = chosen_cluster(ctx)
    wanted = {} if every else parse_scope(scope or [], cluster)
    with connect_home(ctx) as client:
        before = [one for one in client.list(_PAUSES, None).get("items") or [] if not cluster or _is_in(cluster, one)]
        chosen = before if every else [one for one in before if _scope_of(one) == normal_scope(wanted)]
        for found in chosen:
            name = str(at(found, "metadata", "name"))
            try:
                client.delete(_PAUSES, "", name)
            except ServerError as error:
                if error.reason != "NotFound":
                    raise
            output.line(f"evictions of {words(at(found, 'spec', 'scope') or {})} resumed ({_PAUSES.called(name)})")
    if not chosen:
        output.line("evictions are not paused" if every else f"evictions of {words(wanted)} are not paused")
    others = [one for one in before if one not in chosen]
    if others:
        names = ", ".join(f"{words(at(one, 'spec', 'scope') or {})}" for one in others)
        output.line(f"still paused: {names}")


def parse_scope(texts: Iterable[str], cluster: str = "") -> JsonObject:
    """Return the `scope` of an EvictionPause from the words of the command line. Empty means the fleet.

    With a `cluster`, they name its zones, targets and workloads.

    Raises:
        UsageError: a word is no scope, or it cannot be one of a cluster; names it and the rule.
    """
    found: dict[str, list[str]] = {}
    for text in texts or ([_FLEET] if cluster else []):
        if cluster and not text.startswith(_OF_CLUSTERS):
            raise UsageError(
                f"--scope: invalid value {text!r}: expected a zone, a workload or a target of the cluster {cluster}. "
                "Pauses of the whole fleet, and of namespaces, hold evictions of all clusters"
            )
        if text == _FLEET:
            continue
        part, equals, value = text.partition("=")
        if not equals or part not in _FIELDS or not value:
            raise UsageError(f"--scope: invalid value {text!r}: must be {_SCOPES}")
        values = found.setdefault(_FIELDS[part], [])
        normal = _value(part, value, text)
        if cluster:
            normal = f"{cluster}:{normal}"
        if normal not in values:
            values.append(normal)
    return {field: sorted(values) for field, values in sorted(found.items())}


def words(scope: JsonObject) -> str:
    """Return a scope in words: `the whole fleet`, `zone eu/eu-1`."""
    parts = []
    singular = {plural: one for one, plural in _FIELDS.items()}
    for field, values in scope.items():
        if field in singular and values:
            parts.append(f"{singular[field] if len(values) == 1 else field} {', '.join(values)}")
        elif field == "selector" and values is not None:
            parts.append("workloads with certain labels")
    return " and ".join(parts) or "the whole fleet"


def _value(part: str, value: str, text: str) -> str:
    pieces = (zone_of_object(value) if part == "zone" else value).split("/")
    match part:
        case "zone":
            if len(pieces) != 2:  # noqa: PLR2004 - region and zone
                raise UsageError(
                    f"--scope: invalid value {text!r}: a zone is REGION/ZONE, as `moorage get zones` shows it"
                )
            return "/".join(pieces)
        case "target" if len(pieces) == 2 and all(pieces):  # noqa: PLR2004 - kind and name
            return f"{kinds.find(pieces[0]).kind}/{pieces[1]}"
        case "workload" if len(pieces) == 3 and all(pieces):  # noqa: PLR2004 - kind, namespace and name
            return f"{kinds.find(pieces[0]).kind}/{pieces[1]}/{pieces[2]}"
        case "namespace" if len(pieces) == 1:
            return value
        case _:
            raise UsageError(f"--scope: invalid value {text!r}: must be {_SCOPES}")


def _same(client: Client, wanted: JsonObject) -> list[JsonObject]:
    """Return the pauses that have exactly this scope."""
    return [one for one in client.list(_PAUSES, None).get("items") or [] if _scope_of(one) == normal_scope(wanted)]


def _scope_of(found: JsonObject) -> Any:
    return normal_scope(at(found, "spec", "scope") or {})


def _is_in(cluster: str, found: JsonObject) -> bool:
    """Return whether a pause holds evictions of one cluster alone."""
    scope = at(found, "spec", "scope") or {}
    values = [value for field in ("zones", "targets", "workloads") for value in scope.get(field) or ()]
    return bool(values) and all(value.startswith(f"{cluster}:") for value in values)


def _check(what: str) -> None:
    if what not in {"evictions", "eviction", "ev"}:
        raise UsageError(f"invalid value {what!r}: only evictions can be paused and resumed")
