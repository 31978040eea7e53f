"""`moorage taint`: with the syntax, messages and errors of kubectl."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from moorage.apiserver.kinds.kind import ServedKind
from moorage.cli import completion
from moorage.cli.api import targets
from moorage.cli.api.client import JsonObject
from moorage.cli.api.endpoints import connect
from moorage.cli.commands import options
from moorage.cli.errors import FAILED, CliError, UsageError, warn
from moorage.cli.render import output
from moorage.decide.kubernetes.unstructured import at
from moorage.decide.taints.dialects.table import DIALECTS
from moorage.decide.taints.kubectl_syntax import TaintSpecError, TaintSpecs, apply_specs, parse_taints
from moorage_schemas.taint import Taint


def taint(
    ctx: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="node|cluster|managedcluster NAME… SPEC…",
            help="SPEC adds a taint (key=value:Effect or key:Effect) or removes it (key:Effect- or key-).",
            show_default=False,
            autocompletion=completion.targets_of_taints,
        ),
    ],
    *,
    overwrite: options.Overwrite = False,
    every: Annotated[bool, typer.Option("--all", help="All targets of the kind.")] = False,
    selector: Annotated[str, typer.Option("-l", "--selector", help="Targets with these labels, such as zone=a.")] = "",
    form: output.FormatOption = output.Format.TABLE,
) -> None:
    """Add, change or remove taints of nodes, clusters or managed clusters.

    The effects are NoSchedule, PreferNoSchedule and NoExecute for nodes; NoSchedule and NoExecute for clusters; and
    NoSelect, PreferNoSelect and NoSelectIfNew for managed clusters.
    """
    named, specs = split(words)
    kind, names = targets.split_names(named)
    try:
        wanted = parse_taints(specs, DIALECTS[kind.kind])
        # An error that every target would have is reported before the server is asked.
        apply_specs(kind.singular, _there(wanted, DIALECTS[kind.kind].effects[0]), wanted, overwrite=True)
    except TaintSpecError as error:
        raise CliError(str(error)) from None
    failed = False
    with connect(ctx) as client:
        for name in targets.select(client, kind, names, selector, every=every):
            try:
                changed = targets.change(
                    client, kind, name, lambda found: decide(kind, found, wanted, overwrite=overwrite)
                )
            except CliError as error:
                warn(str(error))
                failed = True
                continue
            called = targets.called(kind, name)
            for stays in not_removed(changed, wanted) if kind.kind != _NODE else ():  # of nodes, the gateway warns
                warn(f"Warning: {stays} was not removed, because the state of {called} or a policy determines it")
            if form in {output.Format.JSON, output.Format.YAML}:
                output.write(output.document(client.get(kind, "", name), form))
            else:
                word = changed.word if overwrite or _taints(changed.after) != _taints(changed.before) else "unchanged"
                output.line(called if form is output.Format.NAME else f"{called} {word}")
    if failed:
        raise typer.Exit(FAILED)


def split(words: list[str]) -> tuple[list[str], list[str]]:
    """Split the words into resources and specs. A spec contains `=` or `:`, or ends in `-`.

    Raises:
        UsageError: a resource comes after a spec.
    """
    named: list[str] = []
    specs: list[str] = []
    for word in words:
        if "=" in word or ":" in word or word.endswith("-"):
            specs.append(word)
        elif specs:
            raise UsageError(f"all resources must be specified before taint changes: {word}")
        else:
            named.append(word)
    return named, specs


def operation(before: tuple[Taint, ...], after: tuple[Taint, ...], wanted: TaintSpecs, *, overwrite: bool) -> str:
    """Return kubectl's word for a change: tainted, untainted or modified."""
    added = bool(wanted.add) and {t.identity for t in after} - {t.identity for t in before}
    if overwrite or (wanted.add and wanted.remove):
        return "modified"
    return "tainted" if added else "untainted"


_NODE: Final = "Node"


def not_removed(changed: targets.Changed, wanted: TaintSpecs) -> list[str]:
    """Return the taints that a change was to remove, and that the target still has, as `key:Effect`."""
    new = {one.identity for one in wanted.add}
    return [
        f"{one.key}:{one.effect}"
        for one in _taints(changed.after)
        if one.identity not in new
        and any(one.key == spec.key and spec.effect in {"", one.effect} for spec in wanted.remove)
    ]


def _taints(found: JsonObject) -> tuple[Taint, ...]:
    return tuple(Taint.model_validate(one) for one in at(found, "spec", "taints") or [])


def _there(wanted: TaintSpecs, effect: str) -> tuple[Taint, ...]:
    """Return taints with which every removal finds something to remove."""
    return tuple(Taint(key=one.key, effect=one.effect or effect) for one in wanted.remove)


def decide(
    kind: ServedKind, found: JsonObject, wanted: TaintSpecs, *, overwrite: bool
) -> tuple[JsonObject | None, str]:
    """Return the merge patch for a target and kubectl's word for the change.

    Raises:
        CliError: the specs do not fit the taints that the target has.
    """
    before = _taints(found)
    name = str((found.get("metadata") or {}).get("name", ""))
    try:
        update = apply_specs(f"{kind.singular} {name}", before, wanted, overwrite=overwrite)
    except TaintSpecError as error:
        raise CliError(str(error)) from None
    # A new or overwritten taint has no timeAdded, because the server sets it.
    after = [
        {key: value for key, value in one.model_dump(mode="json").items() if value not in (None, "")}
        for one in update.taints
    ]
    word = operation(before, update.taints, wanted, overwrite=overwrite)
    return {"spec": {"taints": after}}, word
