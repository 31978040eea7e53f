"""`moorage scale`: with the arguments and messages of kubectl and oc."""

from __future__ import annotations

from typing import Annotated

import typer

from moorage.cli.api.endpoints import connect
from moorage.cli.commands import options
from moorage.cli.render import output


def scale(
    ctx: typer.Context,
    what: options.Words = None,
    *,
    replicas: Annotated[int, typer.Option(help="The new number of replicas.", min=0, show_default=False)],
    namespace: options.Namespace = "default",
) -> None:
    """Set the number of replicas of an object."""

    def one(place: options.ObjectPlace) -> None:
        client.patch(*place, {"spec": {"replicas": replicas}}, subresource="scale")
        output.line(f"{place.kind.called(place.name)} scaled")

    with connect(ctx) as client:
        options.each(options.Choice(what or [], namespace=namespace).places(client), one)
