"""`moorage describe`: an object in detail, with the reasons for decisions on it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from moorage.apiserver.kinds.kind import ServedKind
from moorage.cli import completion
from moorage.cli.api import kinds
from moorage.cli.api.client import Client, JsonObject
from moorage.cli.api.endpoints import chosen_cluster, connect
from moorage.cli.commands import options
from moorage.cli.errors import FAILED, CliError, ServerError, UsageError, warn
from moorage.cli.render import describe as describing
from moorage.cli.render import output, printing
from moorage.decide.kubernetes.durations import age
from moorage.decide.kubernetes.unstructured import at


def describe(
    ctx: typer.Context,
    what: Annotated[
        list[str] | None,
        typer.Argument(metavar="KIND [NAME…] | KIND/NAME…", show_default=False, autocompletion=completion.objects),
    ] = None,
    *,
    files: options.Files = None,
    recursive: options.Recursive = False,
    namespace: options.Namespace = "default",
    all_namespaces: options.AllNamespaces = False,
    selector: Annotated[str, typer.Option("-l", "--selector", help="Objects with these labels, such as app=web.")] = "",
) -> None:
    """Show an object in detail, with the reasons for decisions on it."""
    asked = options.named(what, files, recursive=recursive)
    if all_namespaces and any(one.names and not one.namespace for one in asked):
        raise UsageError("a resource cannot be retrieved by name across all namespaces")
    if selector and any(one.names for one in asked):
        raise UsageError("name cannot be provided when a selector is specified")
    told, failed = 0, False
    with connect(ctx) as client:
        for one in asked:
            places = [(one.namespace or namespace, name) for name in one.names]
            if not one.names:
                places = _listed(client, one.kind, None if all_namespaces else namespace, selector)
            for place, name in places:
                try:
                    found = client.get(one.kind, place, name)
                except ServerError as error:
                    if error.reason != "NotFound":
                        raise
                    warn(str(error))
                    failed = True
                    continue
                lines = "".join(f"{line}\n" for line in describing.lines(client, one.kind, found))
                output.write(("\n\n" if told else "") + lines)
                told += 1
    if not told and not failed:
        warn(output.nothing(None if all_namespaces else namespace, [one.kind for one in asked]))
    if failed:
        raise typer.Exit(FAILED)


def _listed(client: Client, kind: ServedKind, namespace: str | None, selector: str) -> list[tuple[str, str]]:
    """Return the namespaces and names of the objects of a kind. With `namespace` None, those of all namespaces."""
    items = output.listed(kind, client.list(kind, namespace, selector))
    return [(str(at(one, "metadata", "namespace") or ""), str(at(one, "metadata", "name"))) for one in items]


def events(
    ctx: typer.Context,
    *,
    about: Annotated[str, typer.Option("--for", help="Only events of this KIND/NAME.", show_default=False)] = "",
    types: Annotated[str, typer.Option(help="Only events of these types, such as Warning.", show_default=False)] = "",
    namespace: options.Namespace = "default",
    all_namespaces: options.AllNamespaces = False,
    no_headers: options.NoHeaders = False,
    form: options.FormOption = printing.TABLE,
) -> None:
    """List the events of objects, the newest last."""
    fields = {}
    if about:
        word, slash, name = about.partition("/")
        if not slash or not name:
            raise UsageError(f"--for must be KIND/NAME, not {about!r}")
        fields = {"kind": kinds.find(word).kind, "name": name}
    with connect(ctx) as client:
        try:
            listed = client.read("/api/v1/events" if all_namespaces else f"/api/v1/namespaces/{namespace}/events")
        except ServerError as error:
            if error.reason == "NotFound":
                raise CliError('the server doesn\'t have a resource type "events"') from None
            raise
    wanted = {word.lower() for word in types.split(",") if word}
    found = [
        one
        for one in listed.get("items") or []
        if all((one.get("involvedObject") or {}).get(field) == value for field, value in fields.items())
        and (not wanted or str(one.get("type")).lower() in wanted)
    ]
    found.sort(key=_time)
    if not form.is_table:
        output.write(printing.renderer(form)({"apiVersion": "v1", "kind": "List", "items": found}))
        return
    if not found and (cluster := chosen_cluster(ctx)):
        output.line(
            f"Events are not recorded for the objects of the cluster {cluster}. `moorage explain` shows the causes of "
            "decisions, and the cluster itself has its own events."
        )
        return
    if not found:
        place = None if all_namespaces else namespace
        output.line(output.nothing(place, [kinds.find("pods")]).replace("resources", "events"))
        return
    head = [*(["NAMESPACE"] if all_namespaces else []), "LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    now = datetime.now(UTC)
    rows = [_row(one, now)[0 if all_namespaces else 1 :] for one in found]
    table = output.table(head, rows)
    output.write(table.partition("\n")[2] if no_headers else table)


def _row(one: JsonObject, now: datetime) -> list[str]:
    target = one.get("involvedObject") or {}
    seen = age(_time(one) or None, now)
    count = int(at(one, "series", "count") or one.get("count") or 1)
    if count > 1:
        first = age(one.get("firstTimestamp") or one.get("eventTime"), now)
        seen = f"{seen} (x{count} over {first})"
    called = f"{target.get('kind')}/{target.get('name')}"
    message = str(one.get("message") or "").strip()
    return [
        str(at(one, "metadata", "namespace") or ""),
        seen,
        str(one.get("type")),
        str(one.get("reason")),
        called,
        message,
    ]


def _time(one: JsonObject) -> str:
    """Return when an event was seen last, in RFC 3339, which sorts by time. Empty if it has no time."""
    places = (("series", "lastObservedTime"), ("lastTimestamp",), ("eventTime",), ("metadata", "creationTimestamp"))
    return next((str(found) for path in places if (found := at(one, *path))), "")
