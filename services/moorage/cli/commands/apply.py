"""`moorage apply`: create or change the objects in files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from moorage.cli.api import applying
from moorage.cli.api.applying import Applied
from moorage.cli.api.client import JsonObject
from moorage.cli.api.endpoints import connect
from moorage.cli.commands import options
from moorage.cli.errors import FAILED, UsageError, warn
from moorage.cli.render import output, printing
from moorage.decide.kubernetes.unstructured import at


def apply(
    ctx: typer.Context,
    *,
    files: options.Files = None,
    namespace: options.ItemNamespace = "default",
    recursive: options.Recursive = False,
    server_side: Annotated[  # noqa: ARG001 - as kubectl's, of which it is the only way here
        bool, typer.Option("--server-side", hidden=True, help="The server always applies.")
    ] = True,
    force_conflicts: Annotated[
        bool, typer.Option("--force-conflicts", help="Take fields over from other managers.")
    ] = False,
    field_manager: options.FieldManager = applying.MANAGER,
    dry_run: options.DryRun = options.NONE,
    validate: options.Validate = options.STRICT,
    selector: Annotated[str, typer.Option("-l", "--selector", help="Only objects with these labels.")] = "",
    form: options.FormOption = printing.TABLE,
) -> None:
    """Create or change the objects in files.

    The server merges them, and records that their fields are yours. A field that was applied before and is left out now
    is removed. A field that another manager has set is a conflict, unless it is forced.
    """
    if dry_run == options.CLIENT:
        raise UsageError("--dry-run=client doesn't work, because the server merges; use --dry-run=server")
    parameters = options.parameters(dry_run, field_manager, validate)
    if force_conflicts:
        parameters["force"] = "true"
    good, refused = options.manifests_of(files, selector, recursive=recursive)
    with connect(ctx) as client:
        outcomes = applying.apply_all(client, good, namespace, options=parameters)
        failed = _write(outcomes, printing.Results(form, dry_run), form) or refused
    if failed:
        raise typer.Exit(FAILED)


def _write(outcomes: Iterable[Applied], results: printing.Results, form: printing.OutputForm) -> bool:
    """Write the outcomes as they come, and return whether one is a failure."""
    failed = False
    shown: list[JsonObject] = []
    for done in outcomes:
        if done.error:
            failed = True
            warn(done.error)
        elif results.wants_objects:
            shown.append(done.object)
        elif done.manifest.kind:
            name = done.manifest.name or str(at(done.object, "metadata", "name") or "")
            results.show(done.manifest.kind, name, done.word, done.object)
    if shown:
        whole = shown[0] if len(shown) == 1 else {"apiVersion": "v1", "kind": "List", "items": shown}
        output.write(printing.renderer(form)(whole))
    return failed
