"""`moorage kubectl`: an installed kubectl with the gateway as its server."""

from __future__ import annotations

import os
import shutil

import typer

from moorage.cli.api import endpoints, kubeconfig
from moorage.cli.errors import CliError
from moorage.runtime.settings.environment import state_folder

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
            "kubectl is not installed, or not on the PATH. What `moorage` itself can do is shown by `moorage --help`."
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
    """Return the command of kubectl in these words. Empty if there is none."""
    rest = iter(words)
    for word in rest:
        if word in _VALUED:
            next(rest, None)
        elif not word.startswith("-"):
            return word
    return "help"


def _names_another(words: list[str]) -> bool:
    return any(word.partition("=")[0] in _OTHER_SERVER for word in words)
