"""`moorage adm`: the commands on nodes that OpenShift's `oc adm` has, so that a line of its pages can be copied."""

from __future__ import annotations

import typer

from moorage.cli.commands import cordon, taint

app = typer.Typer(no_args_is_help=True, help="The commands on targets under the names that oc adm gives them.")

app.command("taint")(taint.taint)
app.command("cordon")(cordon.cordon)
app.command("uncordon")(cordon.uncordon)
