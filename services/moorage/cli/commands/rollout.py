"""`moorage rollout`: status, history, undo, restart, pause and resume of what makes pods, in kubectl's words."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from moorage.cli.api import kinds
from moorage.cli.api.client import JSON_PATCH, Client, JsonObject
from moorage.cli.api.endpoints import connect
from moorage.cli.commands import options
from moorage.cli.commands.options import ObjectPlace
from moorage.cli.commands.wait import PAUSE
from moorage.cli.errors import CliError, UsageError
from moorage.cli.render import output, printing
from moorage.cli.render.durations import parse_duration
from moorage.core.apimachinery.unstructured import at

app = typer.Typer(no_args_is_help=True, help="Follow, restart, pause or undo the rollout of a deployment and the like.")

_REVISION: Final = "deployment.kubernetes.io/revision"
_CAUSE: Final = "kubernetes.io/change-cause"
_RESTARTED: Final = "kubectl.kubernetes.io/restartedAt"
_HASH: Final = "pod-template-hash"
_KINDS: Final = frozenset({"Deployment", "DaemonSet", "StatefulSet"})
_PAUSED: Final = frozenset({"Deployment"})
"""The kinds whose rollout can be paused."""

_FOREVER: Final = float("inf")


@app.command("status")
def status(
    ctx: typer.Context,
    what: options.Words = None,
    *,
    watch: Annotated[bool, typer.Option("--watch/--no-watch", help="Wait until it is over.")] = True,
    timeout: Annotated[str, typer.Option(help="How long to wait, such as 5m. 0 for ever.")] = "0s",
    namespace: options.Namespace = "default",
    selector: options.Selector = "",
) -> None:
    """Show how far a rollout is, and wait until it is over."""
    seconds = parse_duration(timeout, "--timeout").total_seconds() or _FOREVER

    def one(client: Client, place: ObjectPlace) -> None:
        _check(place)
        end = time.monotonic() + seconds
        told = ""
        while True:
            text, is_over = progress(client.get(*place))
            if text != told:
                output.line(text)
            told = text
            if is_over or not watch:
                return
            if time.monotonic() >= end:
                raise CliError("timed out waiting for the condition")
            time.sleep(PAUSE)

    with connect(ctx) as client:
        places = options.Choice(what or [], None, namespace, selector).places(client)
        options.each(places, lambda place: one(client, place))


@app.command("restart")
def restart(
    ctx: typer.Context,
    what: options.Words = None,
    *,
    namespace: options.Namespace = "default",
    selector: options.Selector = "",
    dry_run: options.DryRun = options.NONE,
    form: options.FormOption = printing.TABLE,
) -> None:
    """Replace all pods by new ones."""
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    change = {"spec": {"template": {"metadata": {"annotations": {_RESTARTED: now}}}}}
    choice = options.Choice(what or [], None, namespace, selector)
    _patch(ctx, choice, change, "restarted", options.Writing(form, dry_run))


@app.command("pause")
def pause(
    ctx: typer.Context,
    what: options.Words = None,
    *,
    namespace: options.Namespace = "default",
    selector: options.Selector = "",
    form: options.FormOption = printing.TABLE,
) -> None:
    """Mark deployments as paused."""
    choice = options.Choice(what or [], None, namespace, selector)
    _patch(ctx, choice, {"spec": {"paused": True}}, "paused", options.Writing(form))


@app.command("resume")
def resume(
    ctx: typer.Context,
    what: options.Words = None,
    *,
    namespace: options.Namespace = "default",
    selector: options.Selector = "",
    form: options.FormOption = printing.TABLE,
) -> None:
    """Resume paused deployments."""
    choice = options.Choice(what or [], None, namespace, selector)
    _patch(ctx, choice, {"spec": {"paused": None}}, "resumed", options.Writing(form))


@app.command("history")
def history(
    ctx: typer.Context,
    what: options.Words = None,
    *,
    revision: Annotated[int, typer.Option(help="Show the pods of this revision.", show_default=False)] = 0,
    namespace: options.Namespace = "default",
    selector: options.Selector = "",
) -> None:
    """List the revisions of deployments."""

    def one(client: Client, place: ObjectPlace) -> None:
        found = _revisions(client, place)
        called = place.kind.called(place.name)
        if revision:
            if revision not in found:
                raise CliError("unable to find the specified revision")
            output.line(f"{called} with revision #{revision}")
            output.write(output.to_yaml({"Pod Template": found[revision]["spec"]["template"]}))
            return
        rows = [
            [str(number), str(at(one, "metadata", "annotations", _CAUSE) or "<none>")]
            for number, one in sorted(found.items())
        ]
        output.line(f"{called} ")
        output.write(output.table(["REVISION", "CHANGE-CAUSE"], rows))
        output.line("")

    with connect(ctx) as client:
        places = options.Choice(what or [], None, namespace, selector).places(client)
        options.each(places, lambda place: one(client, place))


@app.command("undo")
def undo(
    ctx: typer.Context,
    what: options.Words = None,
    *,
    to_revision: Annotated[int, typer.Option("--to-revision", help="The revision. 0 for the last one.", min=0)] = 0,
    namespace: options.Namespace = "default",
    selector: options.Selector = "",
    dry_run: options.DryRun = options.NONE,
    form: options.FormOption = printing.TABLE,
) -> None:
    """Return to an earlier revision of deployments."""
    writing = options.Writing(form, dry_run)

    def one(client: Client, place: ObjectPlace) -> None:
        found = _revisions(client, place)
        before = client.get(*place)
        if at(before, "spec", "paused"):
            raise CliError(
                f'you cannot rollback a paused deployment; resume it first with "moorage rollout resume '
                f'deployment/{place.name}" and try again'
            )
        numbers = sorted(found)
        number = to_revision or (numbers[-2] if len(numbers) > 1 else 0)
        if number not in found:
            raise CliError(
                f"unable to find specified revision {number} in history" if number else "no rollout history found"
            )
        template = _template(found[number])
        if template == _template(before):
            word = f"skipped rollback (current template already matches revision {number})"
            writing.results.show(place.kind, place.name, word, before)
            return
        change = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": before["metadata"].get("resourceVersion")},
            {"op": "replace", "path": "/spec/template", "value": template},
        ]
        after = before
        if writing.sends:
            after = client.patch(*place, change, content_type=JSON_PATCH, options=writing.parameters)
        writing.results.show(place.kind, place.name, "rolled back", after)

    with connect(ctx) as client:
        places = options.Choice(what or [], None, namespace, selector).places(client)
        options.each(places, lambda place: one(client, place))


def progress(found: JsonObject) -> tuple[str, bool]:
    """Return how far the rollout of an object is, in words, and whether it is over.

    Raises:
        CliError: it has failed.
    """
    name, kind = at(found, "metadata", "name"), found.get("kind")
    called = {"DaemonSet": "daemon set", "StatefulSet": "statefulset"}.get(str(kind), "deployment")
    status: dict[str, Any] = found.get("status") or {}
    if (at(found, "metadata", "generation") or 0) > (status.get("observedGeneration") or 0):
        return f"Waiting for {called} spec update to be observed...", False
    waiting = f'Waiting for {called} "{name}" rollout to finish: '
    if kind == "DaemonSet":
        wanted, noun = int(status.get("desiredNumberScheduled") or 0), "pods"
        updated, available = status.get("updatedNumberScheduled") or 0, status.get("numberAvailable") or 0
    else:
        replicas = at(found, "spec", "replicas")
        wanted, noun = 1 if replicas is None else int(replicas), "replicas"
        updated, available = status.get("updatedReplicas") or 0, status.get("availableReplicas") or 0
    for one in status.get("conditions") or []:
        if one.get("type") == "Progressing" and one.get("reason") == "ProgressDeadlineExceeded":
            raise CliError(f'{called} "{name}" exceeded its progress deadline')
    if updated < wanted:
        return f"{waiting}{updated} out of {wanted} new {noun} have been updated...", False
    if kind == "Deployment" and (old := int(status.get("replicas") or 0) - updated) > 0:
        return f"{waiting}{old} old replicas are pending termination...", False
    if available < (updated if kind == "Deployment" else wanted):
        return f"{waiting}{available} of {updated} updated {noun} are available...", False
    return f'{called} "{name}" successfully rolled out', True


def _check(place: ObjectPlace, allowed: frozenset[str] = _KINDS) -> None:
    if place.kind.kind not in allowed:
        raise CliError(f"{place.kind.plural} {place.name!r}: this is not possible for objects of this kind")


def _patch(
    ctx: typer.Context, choice: options.Choice, change: dict[str, Any], word: str, writing: options.Writing
) -> None:
    pauses = word in {"paused", "resumed"}

    def one(client: Client, place: ObjectPlace) -> None:
        _check(place, _PAUSED if pauses else _KINDS)
        before = client.get(*place)
        if pauses and bool(at(before, "spec", "paused")) == (word == "paused"):
            already = "already" if word == "paused" else "not"
            raise CliError(f'{place.kind.plural}.{place.kind.group} "{place.name}" is {already} paused')
        after = client.patch(*place, change, options=writing.parameters) if writing.sends else before
        writing.results.show(place.kind, place.name, word, after)

    with connect(ctx) as client:
        options.each(choice.places(client), lambda place: one(client, place))


def _revisions(client: Client, place: ObjectPlace) -> dict[int, JsonObject]:
    """Return the ReplicaSets of a deployment by their revisions."""
    if place.kind.kind != "Deployment":
        raise UsageError("revisions are kept of deployments only")
    uid = at(client.get(*place), "metadata", "uid")
    found: dict[int, JsonObject] = {}
    for one in client.list(kinds.find("replicasets"), place.namespace).get("items") or []:
        owners = at(one, "metadata", "ownerReferences") or []
        if any(owner.get("controller") and owner.get("uid") == uid for owner in owners):
            number = str(at(one, "metadata", "annotations", _REVISION) or "")
            if number.isdigit():
                found[int(number)] = one
    return found


def _template(found: JsonObject) -> JsonObject:
    """Return the template of pods, without the label that tells those of a revision apart."""
    template: JsonObject = found["spec"]["template"]
    metadata = dict(template.get("metadata") or {})
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != _HASH}
    return {**template, "metadata": {**metadata, "labels": labels}}
