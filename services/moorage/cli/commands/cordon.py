"""`moorage cordon` and `uncordon`."""

from __future__ import annotations

from typing import Annotated

import typer

from moorage.cli import output, targets
from moorage.cli.client import JsonObject
from moorage.cli.errors import FAILED, CliError
from moorage.cli.where import connect

_Names = Annotated[list[str] | None, typer.Argument(metavar="NODE…", show_default=False)]
_Selector = Annotated[str, typer.Option("-l", "--selector", help="Nodes with these labels.")]


def cordon(ctx: typer.Context, names: _Names = None, selector: _Selector = "") -> None:
    """Mark nodes as unschedulable."""
    _mark(ctx, names or [], selector, unschedulable=True)


def uncordon(ctx: typer.Context, names: _Names = None, selector: _Selector = "") -> None:
    """Mark nodes as schedulable."""
    _mark(ctx, names or [], selector, unschedulable=False)


def _mark(ctx: typer.Context, words: list[str], selector: str, *, unschedulable: bool) -> None:
    word = "cordoned" if unschedulable else "uncordoned"

    def decide(found: JsonObject) -> tuple[JsonObject | None, str]:
        if bool((found.get("spec") or {}).get("unschedulable")) == unschedulable:
            return None, f"already {word}"
        return {"spec": {"unschedulable": unschedulable or None}}, word

    names = [targets.split_names([one])[1][0] if "/" in one else one for one in words]
    failed = False
    with connect(ctx) as client:
        for name in targets.select(client, targets.NODE, names, selector, every=False):
            try:
                said = targets.change(client, targets.NODE, name, decide)
            except CliError as error:
                output.warn(str(error))
                failed = True
            else:
                output.line(f"{targets.NODE.called(name)} {said}")
    if failed:
        raise typer.Exit(FAILED)
