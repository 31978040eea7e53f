"""`moorage config`, `kubeconfig` and `kubectl`: contexts of the kubeconfig, and kubectl for the gateway."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Annotated

import typer

from moorage.cli import completion
from moorage.cli.api import endpoints, kubeconfig
from moorage.cli.commands import options
from moorage.cli.errors import CliError, UsageError, warn
from moorage.cli.render import output
from moorage.runtime.settings.environment import state_folder

app = typer.Typer(no_args_is_help=True, help="Show and choose contexts of the kubeconfig.")


@app.command("view")
def view(ctx: typer.Context) -> None:
    """Show the kubeconfig without its secrets, and the server that commands use."""
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
    no_headers: options.NoHeaders = False,
    form: Annotated[str, typer.Option("-o", "--output", help="name.", autocompletion=completion.words("name"))] = "",
) -> None:
    """List the contexts. Those for gateways of Moorage have a server in the last column."""
    config = kubeconfig.load(kubeconfig.path())
    current = config.get("current-context")
    ours = {one.name: one.server for one in kubeconfig.contexts(config)}
    rows = []
    for name, body in kubeconfig.entries(config, "contexts").items():
        parts = [str(body.get(part) or "") for part in ("cluster", "user", "namespace")]
        rows.append(["*" if name == current else "", name, *parts, ours.get(name, "")])
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
    _check_exists(config, name)
    kubeconfig.save(file, {**config, "current-context": name})
    output.line(f'Switched to context "{name}".')
    if name not in {one.name for one in kubeconfig.contexts(config)}:
        warn("Commands of `moorage` ignore it, because it is not for a gateway of Moorage.")


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
    _check_exists(config, wanted)
    changed = [
        {**one, "context": {**(one.get("context") or {}), "namespace": namespace}} if one.get("name") == wanted else one
        for one in config["contexts"]
    ]
    kubeconfig.save(file, {**config, "contexts": changed})
    output.line(f'Context "{wanted}" modified.')


def _check_exists(config: kubeconfig.Config, name: str) -> None:
    if name not in kubeconfig.entries(config, "contexts"):
        raise CliError(f'no context exists with the name: "{name}"')


def kubeconfig_command(
    ctx: typer.Context,
    *,
    merge: Annotated[
        bool,
        typer.Option("--merge", help="Add the context to the file that kubectl reads, and make it the current one."),
    ] = False,
    into: Annotated[
        Path | None,
        typer.Option(help="Like --merge, for another file.", show_default=False, autocompletion=completion.files),
    ] = None,
    name: Annotated[
        str,
        typer.Option(
            help="The name of the context, the cluster and the user. With --fleet-cluster, the cluster's is added."
        ),
    ] = kubeconfig.NAME,
    namespace: Annotated[
        str,
        typer.Option("-n", "--namespace", help="The namespace of the context.", autocompletion=completion.namespaces),
    ] = "",
) -> None:
    """Print a kubeconfig for kubectl, or write it to a file.

    For example: `moorage kubeconfig > config`, then `KUBECONFIG=config kubectl get nodes`. Commands of `moorage`
    also use the context when it is the current one and no `moorage up` runs here. With `--fleet-cluster east` it is for
    the API of that cluster.
    """
    if not name:
        raise UsageError("--name: Required value")
    chosen = endpoints.server(ctx)
    if chosen.cluster and name == kubeconfig.NAME:
        name = f"{name}-{chosen.cluster}"
    if chosen.guessed:
        warn(f"Nothing names a server. This is for {chosen.address}.")
    document = kubeconfig.document(chosen.address, name, namespace, chosen.credentials())
    file = into or (kubeconfig.path() if merge else None)
    if file is None:
        output.write(output.to_yaml(document))
        return
    kubeconfig.save(file, kubeconfig.merged(kubeconfig.load(file), document))
    output.line(f'Context "{name}" for {chosen.address} written to {file}, and made the current one.')


_READS = frozenset(
    {
        *("get", "describe", "explain", "diff", "wait", "events", "version", "api-resources", "api-versions"),
        *("cluster-info", "completion", "config", "help", "options", "plugin", "kustomize", "auth"),
    }
)
"""Commands of kubectl that change nothing on a server."""

_VALUED = frozenset({"-n", "--namespace", "--context", "--cluster", "--user", "--request-timeout", "-v", "--as"})
"""Options of kubectl that may come before its command, and take their value from the next word."""

_OTHER_SERVER = ("--server", "-s", "--kubeconfig")
"""Options of kubectl with which the user names a server."""


def kubectl(ctx: typer.Context) -> None:
    """Run kubectl with the gateway as its server.

    All words after it are kubectl's. kubectl must be installed and on the PATH. Its own help is shown by
    `moorage kubectl help`.
    """
    words = list(ctx.args)
    if words in ([], ["--help"], ["-h"]):
        typer.echo(ctx.get_help())
        return
    program = shutil.which("kubectl")
    if program is None:
        raise CliError(
            "kubectl is not installed, or not on the PATH. `moorage --help` lists the commands of `moorage` itself."
        )
    chosen = endpoints.server(ctx)
    if chosen.guessed and not _names_another(words):
        with endpoints.connect(ctx) as client:
            client.claim(writing=_command(words) not in _READS)
    namespace = str(ctx.find_root().params.get("namespace") or "") or chosen.namespace
    file = kubeconfig.own_file(chosen.address, namespace, chosen.credentials())
    os.environ["KUBECONFIG"] = str(file)
    # Its cache of discovery is kept by address, which the next gateway may have as well.
    os.environ.setdefault("KUBECACHEDIR", str(state_folder() / "kubectl"))
    os.execv(program, ["kubectl", *words])  # noqa: S606 - the user's own kubectl, with the user's own words


def _command(words: list[str]) -> str:
    """Return the command of kubectl in these words. Empty if they have none."""
    rest = iter(words)
    for word in rest:
        if word in _VALUED:
            next(rest, None)
        elif not word.startswith("-"):
            return word
    return "help"


def _names_another(words: list[str]) -> bool:
    return any(word.partition("=")[0] in _OTHER_SERVER for word in words)
