"""`moorage cordon` and `uncordon`: for a node the field `spec.unschedulable`, for a cluster karmadactl's taint."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated

import typer

from moorage.apiserver.kinds.kind import ServedKind
from moorage.cli import completion
from moorage.cli.api import targets
from moorage.cli.api.client import JsonObject
from moorage.cli.api.endpoints import connect
from moorage.cli.errors import FAILED, CliError, UsageError, warn
from moorage.cli.render import output
from moorage.decide.kubernetes.unstructured import at

_Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NODE… | KIND NAME… | KIND/NAME…",
        help="KIND is node or cluster. A name alone is the name of a node.",
        show_default=False,
        autocompletion=completion.nodes_and_clusters,
    ),
]
_Selector = Annotated[str, typer.Option("-l", "--selector", help="Labels of the nodes, or of objects of KIND.")]


def cordon(ctx: typer.Context, names: _Names = None, selector: _Selector = "") -> None:
    """Mark nodes or clusters as unschedulable."""
    _mark(ctx, names or [], selector, unschedulable=True)


def uncordon(ctx: typer.Context, names: _Names = None, selector: _Selector = "") -> None:
    """Mark nodes or clusters as schedulable."""
    _mark(ctx, names or [], selector, unschedulable=False)


def _mark(ctx: typer.Context, words: list[str], selector: str, *, unschedulable: bool) -> None:
    of, named = _named(words, selector)
    failed = False
    with connect(ctx) as client:
        if selector or not any(named.values()):
            named[of] = targets.select(client, of, named[of], selector, every=False)
        for kind, names in named.items():
            decide = _decide_cluster if kind == targets.CLUSTER else decide_node
            for name in dict.fromkeys(names):
                try:
                    said = targets.change(client, kind, name, partial(decide, unschedulable=unschedulable)).word
                except CliError as error:
                    warn(str(error))
                    failed = True
                else:
                    output.line(f"{targets.called(kind, name)} {said}")
    if failed:
        raise typer.Exit(FAILED)


def _named(words: Sequence[str], selector: str) -> tuple[ServedKind, dict[ServedKind, list[str]]]:
    """Return the kind that a selector chooses from, and the names of clusters and of nodes.

    A bare name is a node's, as in kubectl, and each `KIND/NAME` may be of another kind. A first word that is a kind
    counts as one when names or a selector follow it.
    """
    of = targets.NODE
    if words and not any("/" in word for word in words) and (len(words) > 1 or selector):
        kind = targets.kind_or_none(words[0])
        if kind is not None:
            of, words = kind, [f"{words[0]}/{name}" for name in words[1:]]
    found = [targets.split_names([word]) if "/" in word else (targets.NODE, [word]) for word in words]
    if targets.MANAGED in {of, *(kind for kind, _ in found)}:
        raise UsageError(
            "managed clusters cannot be cordoned; taint them instead: moorage taint managedcluster NAME key:NoSelect"
        )
    return of, {
        kind: [name for known, names in found if known == kind for name in names]
        for kind in (targets.CLUSTER, targets.NODE)
    }


def decide_node(found: JsonObject, *, unschedulable: bool) -> tuple[JsonObject | None, str]:
    """Return the merge patch that cordons or uncordons a node, None if it is so already, and the word to print."""
    word = _word(unschedulable=unschedulable)
    if bool(at(found, "spec", "unschedulable")) == unschedulable:
        return None, f"already {word}"
    return {"spec": {"unschedulable": unschedulable or None}}, word


def _decide_cluster(found: JsonObject, *, unschedulable: bool) -> tuple[JsonObject | None, str]:
    from moorage.decide.taints.dialects.karmada import UNSCHEDULABLE  # noqa: PLC0415 - nodes need no models
    from moorage_schemas.taint import TaintEffect  # noqa: PLC0415 - as above

    word = _word(unschedulable=unschedulable)
    cordoned = {"key": UNSCHEDULABLE, "effect": TaintEffect.NO_SCHEDULE.value}
    taints = at(found, "spec", "taints") or []
    others = [one for one in taints if (one.get("key"), one.get("effect")) != tuple(cordoned.values())]
    if (len(others) < len(taints)) == unschedulable:
        return None, f"already {word}"
    return {"spec": {"taints": [*others, cordoned] if unschedulable else others}}, word


def _word(*, unschedulable: bool) -> str:
    return "cordoned" if unschedulable else "uncordoned"
