"""`moorage diff`: what applying files would change, or what Moorage would do otherwise than a real cluster."""

from __future__ import annotations

import difflib
import sys
from typing import Annotated, Any

import typer

from moorage.cli.api import applying
from moorage.cli.api.client import APPLY_PATCH, Client, JsonObject
from moorage.cli.api.endpoints import chosen_cluster, connect
from moorage.cli.api.manifests import Manifest
from moorage.cli.commands import diff_cluster, options
from moorage.cli.commands.diff_cluster import DiffFormat
from moorage.cli.errors import CliError, UsageError, warn
from moorage.cli.render import output

_DIFFERS, _FAILED = 1, 2
"""Exit codes, as of diff(1)."""


_CLUSTER = "cluster"


def diff(
    ctx: typer.Context,
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[cluster [NAME]]",
            help="`cluster` compares a real cluster with what Moorage has decided on it. NAME is that of its bridge; "
            "without one it is that of --fleet-cluster, or the home fleet.",
            show_default=False,
        ),
    ] = None,
    *,
    files: options.Files = None,
    recursive: options.Recursive = False,
    namespace: options.Namespace = "default",
    selector: options.Selector = "",
    server_side: Annotated[  # noqa: ARG001 - as kubectl's, of which it is the only way here
        bool, typer.Option("--server-side", hidden=True, help="The server always compares.")
    ] = True,
    field_manager: options.FieldManager = applying.MANAGER,
    kubeconfig: Annotated[
        str,
        typer.Option(metavar="FILE", help="With `cluster`: the kubeconfig of the real cluster.", show_default=False),
    ] = "",
    kube_context: Annotated[
        str, typer.Option(metavar="NAME", help="With `cluster`: its context.", show_default=False)
    ] = "",
    form: Annotated[
        DiffFormat, typer.Option("--output", "-o", help="With `cluster`: how it is shown.")
    ] = DiffFormat.TABLE,
) -> None:
    """Show what applying files would change, or what Moorage would do otherwise than a real cluster does.

    Of files the server works the changes out and stores nothing. With `cluster`, the nodes and pods of a bridged
    cluster are read and compared with what Moorage has decided. The exit code is 0 if there are no differences, 1 if
    there are some, and 2 if something failed.
    """
    if what:
        _cluster(ctx, what, kubeconfig, kube_context, form)
        return
    good, refused = options.manifests_of(files, recursive=recursive)
    for document in refused:
        warn(str(document))
    if selector:
        good = list(filter(options.chooser(selector), good))
    code = _FAILED if refused else 0
    with connect(ctx) as client:
        for item in good:
            try:
                before, after = _both(client, item, namespace, field_manager)
            except CliError as error:
                warn(str(error))
                code = _FAILED
                continue
            place = f"{item.kind.api_version.replace('/', '.')}.{item.kind.kind}" if item.kind else ""
            name = f"{place}.{item.namespace(namespace)}.{item.name}"
            lines = list(difflib.unified_diff(_lines(before), _lines(after), f"LIVE/{name}", f"MERGED/{name}"))
            sys.stdout.writelines(lines)
            code = max(code, _DIFFERS if lines else 0)
    if code:
        raise typer.Exit(code)


def _cluster(ctx: typer.Context, what: list[str], kubeconfig: str, kube_context: str, form: DiffFormat) -> None:
    """Compare a real cluster with what was decided on it."""
    from moorage.bridges.kube.client import ClusterAccess  # noqa: PLC0415 - it loads slowly

    if what[0] != _CLUSTER or len(what) > 2:  # noqa: PLR2004 - `cluster` and its name
        raise UsageError(f"{' '.join(what)!r}: must be `cluster`, or `cluster NAME`; files are given with -f")
    chosen = chosen_cluster(ctx)
    name = what[1] if len(what) > 1 else chosen
    if chosen not in {"", name}:
        raise UsageError(f"{name!r}: must be {chosen}, the cluster of --fleet-cluster, or be left out")
    try:
        found = diff_cluster.differences(ctx, name, ClusterAccess(kubeconfig, kube_context))
    except CliError as error:
        warn(str(error))
        raise typer.Exit(_FAILED) from None
    diff_cluster.show(found, form)
    if found:
        raise typer.Exit(_DIFFERS)


def _both(client: Client, item: Manifest, default: str, field_manager: str) -> tuple[JsonObject | None, JsonObject]:
    """Return the object as it is, None if there is none, and as it would be."""
    kind = item.kind
    if kind is None or not item.name:
        raise CliError(f"{item.place}: an object without a name cannot be compared")
    namespace = item.namespace(default)
    parameters = {**options.parameters(options.SERVER, field_manager), "force": "true"}
    before = applying.present(client, kind, namespace, item.name)
    sent = applying.configuration(item, kind, namespace)
    after = client.patch(kind, namespace, item.name, sent, content_type=APPLY_PATCH, options=parameters)
    return before, after


def _lines(found: JsonObject | None) -> list[str]:
    """Return the lines to compare, without what only the server keeps of a write."""
    if found is None:
        return []
    metadata: dict[str, Any] = dict(found.get("metadata") or {})
    metadata.pop("managedFields", None)
    if annotations := metadata.pop("annotations", None):
        left = {key: value for key, value in annotations.items() if key not in applying.ANNOTATIONS}
        metadata |= {"annotations": left} if left else {}
    return output.to_yaml({**found, "metadata": metadata}).splitlines(keepends=True)
