"""`moorage api-resources` and `api-versions`: the kinds and versions that the gateway serves."""

from __future__ import annotations

from typing import Annotated

import typer

from moorage.cli.api.client import Client
from moorage.cli.api.endpoints import connect
from moorage.cli.commands import options
from moorage.cli.errors import CliError, UsageError
from moorage.cli.render import output


def api_resources(
    ctx: typer.Context,
    *,
    namespaced: Annotated[
        str, typer.Option(help="true: only kinds in namespaces. false: only the others.", metavar="true|false")
    ] = "",
    group: Annotated[str | None, typer.Option("--api-group", help="Only this API group.", show_default=False)] = None,
    no_headers: options.NoHeaders = False,
    form: Annotated[str, typer.Option("-o", "--output", help="name or wide (with the verbs).")] = "",
) -> None:
    """List the kinds that the gateway serves."""
    if form not in {"", "name", "wide"}:
        raise UsageError(f"--output {form} is not available")
    rows = []
    with connect(ctx) as client:
        for version in _versions(client):
            served_group = version.rpartition("/")[0]
            if group is not None and group != served_group:
                continue
            for one in client.read(_path(version)).get("resources") or []:
                if "/" in one["name"] or (namespaced and str(one["namespaced"]).lower() != namespaced):
                    continue
                short = ",".join(one.get("shortNames") or [])
                row = [one["name"], short, version, str(one["namespaced"]).lower(), one["kind"]]
                rows.append([*row, ",".join(one.get("verbs") or [])])
    if form == "name":
        groups = [(row[0], row[2].rpartition("/")[0]) for row in rows]
        output.write("".join(f"{name}.{part}\n" if part else f"{name}\n" for name, part in dict.fromkeys(groups)))
        return
    head = ["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND", "VERBS"]
    end = len(head) if form == "wide" else -1
    table = output.table(head[:end], [row[:end] for row in rows])
    output.write(table.partition("\n")[2] if no_headers else table)


def api_versions(ctx: typer.Context) -> None:
    """List the API versions that the gateway serves."""
    with connect(ctx) as client:
        output.write("".join(f"{version}\n" for version in sorted(_versions(client, every=True))))


def _versions(client: Client, *, every: bool = False) -> list[str]:
    """Return the versions of each group: the preferred ones, or all."""
    try:
        found = list(client.read("/api")["versions"])
        for group in client.read("/apis")["groups"]:
            named = group["versions"] if every else [group["preferredVersion"]]
            found += [one["groupVersion"] for one in named]
    except (KeyError, TypeError):
        raise CliError(f"{client.server} does not answer as a gateway of Moorage does") from None
    return found


def _path(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"
