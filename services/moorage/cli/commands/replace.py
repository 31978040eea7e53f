"""`moorage replace`: replace objects by those of files."""

from __future__ import annotations

from typing import Annotated

import typer

from moorage.cli.api import last_applied
from moorage.cli.api.client import Client
from moorage.cli.api.endpoints import connect
from moorage.cli.api.manifests import Manifest
from moorage.cli.commands import options
from moorage.cli.errors import FAILED, CliError, ServerError, UnreachableError, warn
from moorage.cli.render import printing


def replace(
    ctx: typer.Context,
    *,
    files: options.Files = None,
    kustomize: options.Kustomize = "",
    recursive: options.Recursive = False,
    namespace: options.Namespace = "default",
    force: Annotated[bool, typer.Option("--force", help="Delete each object first, and create it anew.")] = False,
    dry_run: options.DryRun = options.NONE,
    field_manager: options.FieldManager = "",
    validate: options.Validate = options.STRICT,
    form: options.FormOption = printing.TABLE,
) -> None:
    """Replace objects by those of files."""
    parameters = options.parameters(dry_run, field_manager, validate)
    good, refused = options.manifests_of(files, kustomize, recursive=recursive)
    failed = bool(refused)
    for document in refused:
        warn(str(document))
    results = printing.Results(form, dry_run)
    with connect(ctx) as client:
        for item in good:
            if item.kind is None:
                continue
            try:
                found = item.document
                if dry_run != options.CLIENT:
                    found = _one(client, item, namespace, parameters, force=force)
            except UnreachableError:
                raise
            except CliError as error:
                warn(f"error when replacing {item.place}: {error}")
                failed = True
            else:
                results.show(item.kind, item.name, "replaced", found)
    if failed:
        raise typer.Exit(FAILED)


def _one(client: Client, item: Manifest, default: str, parameters: dict[str, str], *, force: bool) -> dict[str, object]:
    if item.kind is None:
        raise CliError("kind is not known")
    place = item.namespace(default)
    document = last_applied.as_written(item, item.kind, place)
    if not force:
        metadata = {**document["metadata"], **_version(item)}
        return client.replace(item.kind, place, {**document, "metadata": metadata}, options=parameters)
    try:
        client.delete(item.kind, place, item.name, options=parameters)
    except ServerError as error:
        if error.reason != "NotFound":
            raise
    return client.create(item.kind, place, document, options=parameters)


def _version(item: Manifest) -> dict[str, str]:
    """Return the version in the file: the object is replaced only if it is still the one that was read."""
    version = (item.document.get("metadata") or {}).get("resourceVersion")
    return {"resourceVersion": str(version)} if version else {}
