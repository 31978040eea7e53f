"""`moorage delete`: delete objects by name or by file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import typer

from moorage.cli import completion
from moorage.cli.api import manifests, resource_arguments
from moorage.cli.api.client import Client
from moorage.cli.api.endpoints import connect
from moorage.cli.errors import FAILED, CliError, ServerError, UnreachableError, UsageError, warn
from moorage.cli.render import output
from moorage.kinds.kind import ServedKind

_WORKERS = 8


def delete(
    ctx: typer.Context,
    what: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KIND NAME… | KIND/NAME…]", show_default=False, autocompletion=completion.objects),
    ] = None,
    files: Annotated[
        list[str] | None,
        typer.Option(
            "-f",
            "--filename",
            help="A file, a folder, or - for standard input. Repeatable.",
            autocompletion=completion.manifests,
        ),
    ] = None,
    *,
    namespace: Annotated[
        str,
        typer.Option(
            "-n", "--namespace", help="Namespace of objects that name none.", autocompletion=completion.namespaces
        ),
    ] = "default",
    selector: Annotated[
        str, typer.Option("-l", "--selector", help="Delete the objects with these labels, such as app=web.")
    ] = "",
    every: Annotated[bool, typer.Option("--all", help="Delete all objects of the kind in the namespace.")] = False,
    recursive: Annotated[bool, typer.Option("-R", "--recursive", help="Read subfolders, too.")] = False,
    ignore_not_found: Annotated[
        bool, typer.Option("--ignore-not-found", help="Succeed if an object does not exist.")
    ] = False,
    form: output.FormatOption = output.Format.TABLE,
) -> None:
    """Delete objects by name or by file."""
    if bool(what) == bool(files):
        raise UsageError("name the objects as KIND NAME or KIND/NAME, or give files with -f")
    if files and every:
        raise UsageError("--all needs a kind and cannot be used together with files")
    refused: list[manifests.Refused] = []
    with connect(ctx) as client:
        if files:
            chosen = _chooser(selector)
            good, refused = manifests.read(files, recursive=recursive)
            for document in refused:
                warn(str(document))
            targets = [
                (item.kind, item.namespace(namespace), item.name)
                for item in reversed(good)
                if item.kind and chosen(item.document)
            ]
        else:
            targets = _named(client, what or [], namespace, selector, every=every)
        if not targets and not refused:
            warn("No resources found")
        failed = _delete_all(client, targets, form, ignore_not_found=ignore_not_found)
    if failed or refused:
        raise typer.Exit(FAILED)


def _chooser(selector: str) -> Callable[[Mapping[str, Any]], bool]:
    """Return whether an object of a file is selected. As in kubectl, the labels in the file decide.

    Raises:
        UsageError: the selector cannot be read.
    """
    from moorage.gateway.errors import StatusError  # noqa: PLC0415 - only needed for files with a selector
    from moorage.gateway.http.selectors import selector as selecting  # noqa: PLC0415 - as above

    try:
        return selecting(selector, "")
    except StatusError as error:
        raise UsageError(str(error)) from None


def _delete_all(
    client: Client, targets: list[tuple[ServedKind, str, str]], form: output.Format, *, ignore_not_found: bool
) -> bool:
    """Delete objects, several at a time, print each, and return whether one failed."""
    failed = False
    with ThreadPoolExecutor(_WORKERS) as pool:
        problems = pool.map(lambda target: _delete_one(client, *target), targets)
        for (kind, _, name), problem in zip(targets, problems, strict=True):
            if isinstance(problem, ServerError) and problem.reason == "NotFound" and ignore_not_found:
                continue
            if problem is not None:
                failed = True
                warn(str(problem))
            elif form is output.Format.NAME:
                output.line(kind.called(name))
            else:
                output.line(f'{kind.called(name).partition("/")[0]} "{name}" deleted')
    return failed


def _named(
    client: Client, what: list[str], namespace: str, selector: str, *, every: bool
) -> list[tuple[ServedKind, str, str]]:
    targets = []
    for one in resource_arguments.parse(what):
        if one.kind.read_only:
            raise CliError(f"{one.kind.plural} are written by the services and cannot be deleted")
        names = resource_arguments.chosen_names(client, one, namespace, selector, every=every)
        targets += [(one.kind, namespace if one.kind.namespaced else "", name) for name in names]
    return targets


def _delete_one(client: Client, kind: ServedKind, namespace: str, name: str) -> CliError | None:
    try:
        client.delete(kind, namespace, name)
    except UnreachableError:
        raise
    except CliError as error:
        return error
    return None
