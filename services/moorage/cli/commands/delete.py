"""`moorage delete`: delete objects by name or by file."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from moorage.cli import completion
from moorage.cli.api.client import Client
from moorage.cli.api.endpoints import connect
from moorage.cli.commands import options
from moorage.cli.commands.wait import condition, until_met
from moorage.cli.errors import FAILED, CliError, ServerError, UnreachableError, UsageError, warn
from moorage.cli.render import output, printing
from moorage.cli.render.durations import parse_duration

_WORKERS: Final = 8
_FOREVER: Final = float("inf")


def delete(
    ctx: typer.Context,
    what: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KIND NAME… | KIND/NAME…]", show_default=False, autocompletion=completion.objects),
    ] = None,
    files: options.Files = None,
    *,
    namespace: options.ItemNamespace = "default",
    all_namespaces: options.AllNamespaces = False,
    selector: Annotated[
        str, typer.Option("-l", "--selector", help="Delete the objects with these labels, such as app=web.")
    ] = "",
    fields: options.FieldSelector = "",
    every: Annotated[bool, typer.Option("--all", help="Delete all objects of the kind in the namespace.")] = False,
    recursive: options.Recursive = False,
    ignore_not_found: options.IgnoreNotFound = False,
    cascade: Annotated[
        str,
        typer.Option(
            help="Deletion of owned objects: background and foreground delete them, orphan keeps them.",
            metavar="background|foreground|orphan",
            show_default=False,
            autocompletion=completion.words("background", "foreground", "orphan"),
        ),
    ] = "",
    grace: Annotated[
        int, typer.Option("--grace-period", help="Seconds until it is deleted. Less than 0 for its own.")
    ] = -1,
    now: Annotated[bool, typer.Option("--now", help="Like --grace-period=1.")] = False,
    force: Annotated[bool, typer.Option("--force", help="With --grace-period=0: remove it at once.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the objects are deleted.")] = False,
    timeout: Annotated[str, typer.Option(help="With --wait: how long, such as 90s. 0 for ever.")] = "0s",
    dry_run: options.DryRun = options.NONE,
    form: options.FormOption = printing.TABLE,
) -> None:
    """Delete objects by name or by file."""
    if bool(what) == bool(files):
        raise UsageError("name the objects as KIND NAME or KIND/NAME, or give files with -f")
    if files and every:
        raise UsageError("--all needs a kind and cannot be used together with files")
    deletion = _Deletion(_body(cascade, 1 if now else grace, force=force), dry_run, form, ignore_not_found)
    seconds = parse_duration(timeout, "--timeout").total_seconds() or _FOREVER
    refused = False
    with connect(ctx) as client:
        if files:
            good, refused = options.manifests_of(files, selector, recursive=recursive)
            targets = [
                options.ObjectPlace(item.kind, item.namespace(namespace), item.name)
                for item in reversed(good)
                if item.kind
            ]
        else:
            place = None if all_namespaces else namespace
            targets = _named(client, options.Choice(what or [], None, place, selector, fields, every))
        if not targets and not refused:
            warn("No resources found")
        failed = _delete_all(client, targets, deletion)
        if wait and dry_run == options.NONE:
            failed = _await(client, targets, seconds) or failed
    if failed or refused:
        raise typer.Exit(FAILED)


@dataclass(frozen=True, slots=True)
class _Deletion:
    """The way in which objects are deleted and shown."""

    body: Mapping[str, Any] | None
    """DeleteOptions. None for those of the server."""

    dry_run: str
    form: printing.OutputForm
    ignore_not_found: bool


def _body(cascade: str, grace: int, *, force: bool) -> dict[str, Any] | None:
    policies = {"": "", "true": "", "background": "Background", "foreground": "Foreground", "orphan": "Orphan"}
    if cascade not in policies:
        raise UsageError(f'invalid cascade value ({cascade}). Must be "background", "foreground", or "orphan"')
    if force and grace < 0:
        grace = 0
    found: dict[str, Any] = {"propagationPolicy": policies[cascade]} if policies[cascade] else {}
    found |= {"gracePeriodSeconds": grace} if grace >= 0 else {}
    return {"apiVersion": "v1", "kind": "DeleteOptions", **found} if found else None


def _await(client: Client, targets: list[options.ObjectPlace], seconds: float) -> bool:
    """Wait until the objects are deleted, and return whether one remains."""
    end, failed = time.monotonic() + seconds, False
    for place in targets:
        if until_met(client, place, condition("delete"), end, missing_is_fine=True) is None:
            warn(f"error: timed out waiting for the condition on {place.kind.plural}/{place.name}")
            failed = True
    return failed


def _delete_all(client: Client, targets: list[options.ObjectPlace], deletion: _Deletion) -> bool:
    """Delete objects, several at a time, print each, and return whether one failed."""
    failed = False
    suffix = printing.dry_run_suffix(deletion.dry_run)
    forced = " force" if (deletion.body or {}).get("gracePeriodSeconds") == 0 else ""
    with ThreadPoolExecutor(_WORKERS) as pool:
        problems = pool.map(lambda place: _delete_one(client, place, deletion), targets)
        for (kind, _, name), problem in zip(targets, problems, strict=True):
            if isinstance(problem, ServerError) and problem.reason == "NotFound" and deletion.ignore_not_found:
                continue
            if problem is not None:
                failed = True
                warn(str(problem))
            elif deletion.form.word == "name":
                output.line(kind.called(name))
            else:
                output.line(f'{kind.called(name).partition("/")[0]} "{name}"{forced} deleted{suffix}')
    return failed


def _named(client: Client, choice: options.Choice) -> list[options.ObjectPlace]:
    targets = choice.places(client)
    if read_only := next((place.kind for place in targets if place.kind.read_only), None):
        raise CliError(f"{read_only.plural} are written by the services and cannot be deleted")
    return targets


def _delete_one(client: Client, place: options.ObjectPlace, deletion: _Deletion) -> CliError | None:
    try:
        if deletion.dry_run == options.CLIENT:
            client.get(*place)
        else:
            client.delete(*place, body=deletion.body, options=options.parameters(deletion.dry_run))
    except UnreachableError:
        raise
    except CliError as error:
        return error
    return None
