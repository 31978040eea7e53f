"""`moorage adm`: commands on nodes and roles, named as in OpenShift's `oc adm`, so that its commands can be copied."""

from __future__ import annotations

import typer

from moorage.cli.commands import cordon, drain, policy, taint

app = typer.Typer(no_args_is_help=True, help="The same commands on targets as `oc adm` has them.")

app.command("taint")(taint.taint)
app.command("cordon")(cordon.cordon)
app.command("uncordon")(cordon.uncordon)
app.command("drain")(drain.drain)
app.add_typer(policy.app, name="policy")
