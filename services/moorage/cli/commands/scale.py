"""`moorage scale`: with the arguments and messages of kubectl and oc."""

from __future__ import annotations

from typing import Annotated

import typer

from moorage.cli import completion
from moorage.cli.api import resource_arguments
from moorage.cli.api.client import Client
from moorage.cli.api.endpoints import connect
from moorage.cli.errors import FAILED, CliError, ServerError, warn
from moorage.cli.render import output
from moorage.core.apimachinery.unstructured import at
from moorage.kinds.kind import ServedKind

_TRIES = 8
_NEVER = -1  # kubectl's default of --current-replicas: any number


def scale(
    ctx: typer.Context,
    what: Annotated[
        list[str],
        typer.Argument(metavar="KIND NAME… | KIND/NAME…", show_default=False, autocompletion=completion.objects),
    ],
    *,
    replicas: Annotated[int, typer.Option(help="The new number of replicas.", min=0, show_default=False)],
    current: Annotated[
        int, typer.Option("--current-replicas", help="Scale only if this is the present number.", show_default=False)
    ] = _NEVER,
    namespace: Annotated[
        str, typer.Option("-n", "--namespace", help="Namespace of the objects.", autocompletion=completion.namespaces)
    ] = "default",
    selector: Annotated[str, typer.Option("-l", "--selector", help="Objects with these labels, such as app=web.")] = "",
    every: Annotated[bool, typer.Option("--all", help="All objects of the kind in the namespace.")] = False,
    form: output.FormatOption = output.Format.TABLE,
) -> None:
    """Set the number of replicas of an object."""
    failed = False
    with connect(ctx) as client:
        for kind, name in _named(client, what, namespace, selector, every=every):
            try:
                _scale(client, (kind, namespace, name), replicas, current)
            except (ServerError, _UnexpectedError) as error:
                warn(str(error))
                failed = True
                continue
            if form in {output.Format.JSON, output.Format.YAML}:
                output.write(output.document(client.get(kind, namespace, name), form))
            else:
                output.line(kind.called(name) if form is output.Format.NAME else f"{kind.called(name)} scaled")
    if failed:
        raise typer.Exit(FAILED)


def _named(
    client: Client, what: list[str], namespace: str, selector: str, *, every: bool
) -> list[tuple[ServedKind, str]]:
    found: list[tuple[ServedKind, str]] = []
    for one in resource_arguments.parse(what):
        found += [
            (one.kind, name) for name in resource_arguments.chosen_names(client, one, namespace, selector, every=every)
        ]
    if not found:
        warn("No resources found")
    return found


class _UnexpectedError(CliError):
    """The present number of replicas is not the expected one."""


def _scale(client: Client, place: tuple[ServedKind, str, str], replicas: int, current: int) -> None:
    """Set the number. If the present number is checked, the write is valid only for the version that was read."""
    change = {"spec": {"replicas": replicas}}
    if current == _NEVER:
        client.patch(*place, change, subresource="scale")
        return
    for left in reversed(range(_TRIES)):
        found = client.get(*place, subresource="scale")
        there = at(found, "spec", "replicas") or 0
        if there != current:
            raise _UnexpectedError(f"Expected replicas to be {current}, was {there}")
        version = at(found, "metadata", "resourceVersion")
        try:
            client.patch(*place, {**change, "metadata": {"resourceVersion": version}}, subresource="scale")
        except ServerError as error:
            if error.reason != "Conflict" or not left:
                raise
        else:
            return
