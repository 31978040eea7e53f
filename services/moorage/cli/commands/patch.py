"""`moorage patch`: change objects by a strategic merge patch, a JSON merge patch or a JSON patch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer
import yaml

from moorage.cli import completion
from moorage.cli.api import manifests
from moorage.cli.api.client import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, Client
from moorage.cli.api.endpoints import connect
from moorage.cli.commands import options
from moorage.cli.commands.options import ObjectPlace
from moorage.cli.errors import CliError, UsageError
from moorage.cli.render import printing
from moorage.kinds.kind import ServedKind

_TYPES: Final = {"strategic": STRATEGIC_MERGE_PATCH, "merge": MERGE_PATCH, "json": JSON_PATCH}


def patch(
    ctx: typer.Context,
    what: options.Words = None,
    *,
    text: Annotated[str, typer.Option("-p", "--patch", help="The patch, as JSON or YAML.", show_default=False)] = "",
    file: Annotated[
        Path | None,
        typer.Option(
            "--patch-file", help="A file with the patch.", show_default=False, autocompletion=completion.files
        ),
    ] = None,
    way: Annotated[
        str,
        typer.Option(
            "--type",
            help="strategic, merge or json. The default is strategic for kinds of Kubernetes, and merge for others.",
            metavar="TYPE",
            show_default=False,
            autocompletion=completion.words(*_TYPES),
        ),
    ] = "",
    subresource: Annotated[
        str, typer.Option(help="Change this subresource, such as status or scale.", show_default=False)
    ] = "",
    files: options.Files = None,
    recursive: options.Recursive = False,
    namespace: options.Namespace = "default",
    dry_run: options.DryRun = options.NONE,
    field_manager: options.FieldManager = "",
    form: options.FormOption = printing.TABLE,
) -> None:
    """Change fields of objects by a patch."""
    if bool(text) == (file is not None):
        raise UsageError("must specify --patch or --patch-file containing the contents of the patch")
    if way and way not in _TYPES:
        raise UsageError(f"--type must be one of {list(_TYPES)}, not {way!r}")
    change = _read(text if file is None else manifests.read_file(file))
    parameters = options.parameters(dry_run, field_manager)
    results = printing.Results(form, dry_run)

    def one(client: Client, place: ObjectPlace) -> None:
        kind, where, name = place
        before = client.get(kind, where, name, subresource=subresource)
        if dry_run == options.CLIENT:
            results.show(kind, name, "patched", before)
            return
        after = client.patch(
            kind,
            where,
            name,
            change,
            subresource=subresource,
            content_type=_TYPES[way or _usual(kind)],
            options=parameters,
        )
        same = before.get("metadata", {}).get("resourceVersion") == after.get("metadata", {}).get("resourceVersion")
        results.show(kind, name, "patched (no change)" if same else "patched", after)

    with connect(ctx) as client:
        places = options.Choice(what or [], files, namespace, recursive=recursive).places(client)
        options.each(places, lambda place: one(client, place))


def _usual(kind: ServedKind) -> str:
    """Return the type of patches that a kind has by default. Only Kubernetes' own kinds have a strategic one."""
    from moorage.kinds.openapi.registry import Origin, origin_of  # noqa: PLC0415 - few commands need it

    return "strategic" if origin_of(kind.group, kind.kind) is Origin.BUILT_IN else "merge"


def _read(text: str) -> Any:
    try:
        found = manifests.load(text)
    except yaml.YAMLError as error:
        raise CliError(f"unable to parse {text!r}: {manifests.problem(error)}") from None
    if not isinstance(found, dict | list):
        raise CliError(f"unable to parse {text!r}: must be an object, or a list for --type json")
    return found
