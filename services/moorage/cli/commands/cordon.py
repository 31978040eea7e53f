"""`moorage cordon` and `uncordon`: of a node its own field, of a cluster the taint that karmadactl puts there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from moorage.cli.api import targets
from moorage.cli.api.client import JsonObject
from moorage.cli.api.endpoints import connect
from moorage.cli.api.kinds import Kind
from moorage.cli.errors import FAILED, CliError, UsageError
from moorage.cli.render import output

_Names = Annotated[list[str] | None, typer.Argument(metavar="NODE… | cluster/NAME…", show_default=False)]
_Selector = Annotated[str, typer.Option("-l", "--selector", help="Nodes with these labels.")]


def cordon(ctx: typer.Context, names: _Names = None, selector: _Selector = "") -> None:
    """Mark nodes or clusters as unschedulable."""
    _mark(ctx, names or [], selector, unschedulable=True)


def uncordon(ctx: typer.Context, names: _Names = None, selector: _Selector = "") -> None:
    """Mark nodes or clusters as schedulable."""
    _mark(ctx, names or [], selector, unschedulable=False)


def _taint_of_a_cordon() -> dict[str, str]:
    """What a cordon puts on a cluster."""
    from moorage.core.taints.dialects.karmada import UNSCHEDULABLE  # noqa: PLC0415 - nodes need no models
    from moorage_schemas.taint import TaintEffect  # noqa: PLC0415 - as above

    return {"key": UNSCHEDULABLE, "effect": TaintEffect.NO_SCHEDULE.value}


def _refuse_managed(found: Sequence[Kind]) -> None:
    if targets.MANAGED in found:
        raise UsageError(
            "managed clusters are not cordoned but tainted: moorage taint managedcluster NAME key:NoSelect"
        )


def _mark(ctx: typer.Context, words: list[str], selector: str, *, unschedulable: bool) -> None:
    word = "cordoned" if unschedulable else "uncordoned"

    def decide_node(found: JsonObject) -> tuple[JsonObject | None, str]:
        if bool((found.get("spec") or {}).get("unschedulable")) == unschedulable:
            return None, f"already {word}"
        return {"spec": {"unschedulable": unschedulable or None}}, word

    def decide_cluster(found: JsonObject) -> tuple[JsonObject | None, str]:
        cordoned = _taint_of_a_cordon()
        taints = (found.get("spec") or {}).get("taints") or []
        others = [one for one in taints if (one.get("key"), one.get("effect")) != tuple(cordoned.values())]
        if (len(others) < len(taints)) == unschedulable:
            return None, f"already {word}"
        return {"spec": {"taints": [*others, cordoned] if unschedulable else others}}, word

    # A bare name is a node's, as in kubectl; each word may name another kind.
    named = [targets.split_names([one]) if "/" in one else (targets.NODE, [one]) for one in words]
    _refuse_managed([kind for kind, _ in named])
    clusters = [name for kind, names in named for name in names if kind == targets.CLUSTER]
    nodes = [name for kind, names in named for name in names if kind == targets.NODE]
    failed = False
    with connect(ctx) as client:
        work = [(targets.CLUSTER, name, decide_cluster) for name in dict.fromkeys(clusters)]
        if nodes or selector or not clusters:
            chosen = targets.select(client, targets.NODE, nodes, selector, every=False)
            work += [(targets.NODE, name, decide_node) for name in chosen]
        for kind, name, decide in work:
            try:
                said = targets.change(client, kind, name, decide)
            except CliError as error:
                output.warn(str(error))
                failed = True
            else:
                output.line(f"{targets.called(kind, name)} {said}")
    if failed:
        raise typer.Exit(FAILED)
