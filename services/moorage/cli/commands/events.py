"""`moorage events`: the Kubernetes Events of objects, the newest last."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from moorage.cli.api import kinds
from moorage.cli.api.client import JsonObject
from moorage.cli.api.endpoints import chosen_cluster, connect
from moorage.cli.commands import options
from moorage.cli.errors import CliError, ServerError, UsageError
from moorage.cli.render import output, printing, tables
from moorage.decide.kubernetes.durations import age
from moorage.decide.kubernetes.unstructured import at


def events(
    ctx: typer.Context,
    *,
    about: Annotated[str, typer.Option("--for", help="Only events of this KIND/NAME.", show_default=False)] = "",
    types: Annotated[str, typer.Option(help="Only events of these types, such as Warning.", show_default=False)] = "",
    namespace: options.Namespace = "default",
    all_namespaces: options.AllNamespaces = False,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Omit the line with the column names.")] = False,
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
            f"No events are written about the objects of the cluster {cluster}. `moorage explain` has the causes of "
            "decisions, and the cluster itself has its own events."
        )
        return
    if not found:
        place = None if all_namespaces else namespace
        output.line(tables.nothing(place, [kinds.find("pods")]).replace("resources", "events"))
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
    """Return when an event was seen last, in RFC 3339, which sorts by time. Empty if it does not say so."""
    places = (("series", "lastObservedTime"), ("lastTimestamp",), ("eventTime",), ("metadata", "creationTimestamp"))
    return next((str(found) for path in places if (found := at(one, *path))), "")
