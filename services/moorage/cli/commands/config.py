"""`moorage config`: the contexts of the kubeconfig, with kubectl's words."""

from __future__ import annotations

from typing import Annotated

import typer

from moorage.cli import completion
from moorage.cli.api import endpoints, kubeconfig
from moorage.cli.errors import CliError, warn
from moorage.cli.render import output

app = typer.Typer(no_args_is_help=True, help="Show and choose contexts of the kubeconfig.")


@app.command("view")
def view(ctx: typer.Context) -> None:
    """Show the kubeconfig without its secrets, and which server commands use."""
    output.write(output.to_yaml(kubeconfig.redacted(kubeconfig.load(kubeconfig.path()))))
    found = endpoints.server(ctx)
    warn(f"Commands use {found.address} ({found.origin}).")


@app.command("current-context")
def current_context() -> None:
    """Show the name of the current context."""
    current = str(kubeconfig.load(kubeconfig.path()).get("current-context") or "")
    if not current:
        raise CliError("current-context is not set")
    output.line(current)


@app.command("get-contexts")
def get_contexts(
    *,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Omit the line with the column names.")] = False,
    form: Annotated[str, typer.Option("-o", "--output", help="name.", autocompletion=completion.words("name"))] = "",
) -> None:
    """List the contexts. Those for gateways of Moorage have a server in the last column."""
    config = kubeconfig.load(kubeconfig.path())
    current = config.get("current-context")
    ours = {one.name: one.server for one in kubeconfig.contexts(config)}
    rows = []
    for one in config.get("contexts") or []:
        name, body = str(one.get("name")), one.get("context") or {}
        mark = "*" if name == current else ""
        told = [str(body.get(part) or "") for part in ("cluster", "user", "namespace")]
        rows.append([mark, name, *told, ours.get(name, "")])
    if form == "name":
        output.write("".join(f"{row[1]}\n" for row in rows))
        return
    head = ["CURRENT", "NAME", "CLUSTER", "AUTHINFO", "NAMESPACE", "GATEWAY"]
    table = output.table(head, rows)
    output.write(table.partition("\n")[2] if no_headers else table)


@app.command("use-context")
def use_context(name: Annotated[str, typer.Argument(metavar="NAME", show_default=False)]) -> None:
    """Make a context the current one."""
    file = kubeconfig.path()
    config = kubeconfig.load(file)
    if name not in {one.get("name") for one in config.get("contexts") or []}:
        raise CliError(f'no context exists with the name: "{name}"')
    kubeconfig.save(file, {**config, "current-context": name})
    output.line(f'Switched to context "{name}".')
    if name not in {one.name for one in kubeconfig.contexts(config)}:
        warn("Commands of moorage do not use it, because it is not for a gateway of Moorage.")


@app.command("set-context")
def set_context(
    name: Annotated[str, typer.Argument(metavar="[NAME]", show_default=False)] = "",
    *,
    current: Annotated[bool, typer.Option("--current", help="The current context.")] = False,
    namespace: Annotated[
        str, typer.Option("-n", "--namespace", help="Its namespace.", autocompletion=completion.namespaces)
    ] = "",
) -> None:
    """Set the namespace of a context."""
    file = kubeconfig.path()
    config = kubeconfig.load(file)
    wanted = str(config.get("current-context") or "") if current else name
    if not wanted:
        raise CliError("name the context, or give --current")
    every = config.get("contexts") or []
    if wanted not in {one.get("name") for one in every}:
        raise CliError(f'no context exists with the name: "{wanted}"')
    changed = [
        {**one, "context": {**(one.get("context") or {}), "namespace": namespace}} if one.get("name") == wanted else one
        for one in every
    ]
    kubeconfig.save(file, {**config, "contexts": changed})
    output.line(f'Context "{wanted}" modified.')
