"""`moorage describe`: an object in detail, with the reasons for decisions on it."""

from __future__ import annotations

from typing import Annotated

import typer

from moorage.apiserver.kinds.kind import ServedKind
from moorage.cli import completion
from moorage.cli.api.client import Client
from moorage.cli.api.endpoints import connect
from moorage.cli.commands import options
from moorage.cli.errors import FAILED, ServerError, UsageError, warn
from moorage.cli.render import describe as describing
from moorage.cli.render import output, tables
from moorage.decide.kubernetes.unstructured import at


def describe(
    ctx: typer.Context,
    what: Annotated[
        list[str] | None,
        typer.Argument(metavar="KIND [NAME…] | KIND/NAME…", show_default=False, autocompletion=completion.objects),
    ] = None,
    *,
    files: options.Files = None,
    recursive: options.Recursive = False,
    namespace: options.Namespace = "default",
    all_namespaces: Annotated[bool, typer.Option("-A", "--all-namespaces", help="Objects of all namespaces.")] = False,
    selector: Annotated[str, typer.Option("-l", "--selector", help="Objects with these labels, such as app=web.")] = "",
) -> None:
    """Show an object in detail, with the reasons for decisions on it."""
    asked = options.named(what, files, recursive=recursive)
    if all_namespaces and any(one.names and not one.namespace for one in asked):
        raise UsageError("a resource cannot be retrieved by name across all namespaces")
    if selector and any(one.names for one in asked):
        raise UsageError("name cannot be provided when a selector is specified")
    told, failed = 0, False
    with connect(ctx) as client:
        for one in asked:
            places = [(one.namespace or namespace, name) for name in one.names]
            if not one.names:
                places = _listed(client, one.kind, None if all_namespaces else namespace, selector)
            for place, name in places:
                try:
                    found = client.get(one.kind, place, name)
                except ServerError as error:
                    if error.reason != "NotFound":
                        raise
                    warn(str(error))
                    failed = True
                    continue
                lines = "".join(f"{line}\n" for line in describing.lines(client, one.kind, found))
                output.write(("\n\n" if told else "") + lines)
                told += 1
    if not told and not failed:
        warn(tables.nothing(None if all_namespaces else namespace, [one.kind for one in asked]))
    if failed:
        raise typer.Exit(FAILED)


def _listed(client: Client, kind: ServedKind, namespace: str | None, selector: str) -> list[tuple[str, str]]:
    """Return the namespaces and names of the objects of a kind. With `namespace` None, those of all namespaces."""
    items = tables.listed(kind, client.list(kind, namespace, selector))
    return [(str(at(one, "metadata", "namespace") or ""), str(at(one, "metadata", "name"))) for one in items]
