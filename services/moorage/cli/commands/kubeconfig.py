"""`moorage kubeconfig`: a kubeconfig with which kubectl uses the gateway."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from moorage.cli import completion
from moorage.cli.api import endpoints, kubeconfig
from moorage.cli.errors import UsageError, warn
from moorage.cli.render import output


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

    For example: `moorage kubeconfig > config`, then `KUBECONFIG=config kubectl get nodes`. Commands of `moorage` use
    the context, too, when it is the current one and no `moorage up` runs here. With `--fleet-cluster east` it is for
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
