"""`moorage get`: list objects, or show one."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass
from typing import Annotated

import typer

from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.kinds.printing.columns import LABELS, TableColumn, of, text
from moorage.cli import completion
from moorage.cli.api import kinds
from moorage.cli.api.client import CHUNK, Client, JsonObject
from moorage.cli.api.endpoints import chosen_cluster, connect
from moorage.cli.api.kinds import Named
from moorage.cli.api.watching import Watching
from moorage.cli.commands import options
from moorage.cli.errors import FAILED, ServerError, UsageError, warn
from moorage.cli.render import output, printing
from moorage.cli.render.printing import OutputForm


def get(
    ctx: typer.Context,
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KIND[,KIND] [NAME…] | KIND/NAME…", show_default=False, autocompletion=completion.objects
        ),
    ] = None,
    *,
    files: options.Files = None,
    recursive: options.Recursive = False,
    namespace: options.Namespace = "default",
    all_namespaces: options.AllNamespaces = False,
    selector: options.Selector = "",
    fields: options.FieldSelector = "",
    watch: Annotated[bool, typer.Option("-w", "--watch", help="After listing, show changes as they happen.")] = False,
    watch_only: Annotated[
        bool, typer.Option("--watch-only", help="Show changes as they happen, without a list.")
    ] = False,
    watch_events: Annotated[
        bool, typer.Option("--output-watch-events", help="Show the kind of each change: ADDED, MODIFIED or DELETED.")
    ] = False,
    no_headers: options.NoHeaders = False,
    show_labels: Annotated[bool, typer.Option("--show-labels", help="Show all labels as the last column.")] = False,
    label_columns: Annotated[
        list[str] | None,
        typer.Option("-L", "--label-columns", help="Show these labels as columns.", show_default=False),
    ] = None,
    show_kind: Annotated[bool, typer.Option("--show-kind", help="Show the kind before each name.")] = False,
    sort_by: Annotated[
        str, typer.Option("--sort-by", help="Sort by the value at this path, such as .metadata.creationTimestamp.")
    ] = "",
    ignore_not_found: options.IgnoreNotFound = False,
    chunk: Annotated[
        int, typer.Option("--chunk-size", help="Objects of a list in one request. 0 for all.", min=0)
    ] = CHUNK,
    raw: Annotated[str, typer.Option(help="Show the answer of the server to this path.", metavar="PATH")] = "",
    form: options.FormOption = printing.TABLE,
) -> None:
    """List objects, or show one.

    For example: `moorage get pods -A`, `moorage get nodes -l disk=ssd -o wide`, or
    `moorage get deployment/web -o jsonpath='{.spec.replicas}'`. Without a kind, the command lists the kinds.
    """
    if raw:
        if what or files:
            raise UsageError("arguments may not be passed when --raw is specified")
        with connect(ctx) as client:
            sys.stdout.write(client.raw(raw).decode("utf-8", "replace"))
        return
    asked = options.named(what, files, recursive=recursive)
    named = any(one.names for one in asked)
    follow = watch or watch_only
    if follow and (len(asked) > 1 or len(asked[0].names) > 1):
        raise UsageError("you may only specify a single resource type, or a single object, with --watch")
    if (selector or fields) and named:
        raise UsageError("name cannot be provided when a selector is specified")
    place = None if all_namespaces else namespace
    if place is None and any(one.names and not one.namespace for one in asked):
        raise UsageError("a resource cannot be retrieved by name across all namespaces")
    want = _Want(place, selector, fields, chunk, sort_by, ignore_not_found, chosen_cluster(ctx))
    with connect(ctx) as client:
        watching = None
        if follow:
            one = asked[0]
            watching = Watching(
                client,
                one.kind,
                one.namespace or place,
                selector=selector,
                fields=fields,
                name=one.names[0] if one.names else "",
                tell=warn,
            )
        columns = _Columns(
            form=form,
            several=show_kind or len(asked) > 1,
            everywhere=place is None,
            labels=[*printing.label_columns(label_columns or []), *([LABELS] if show_labels else [])],
            custom=printing.custom_columns(form) if form.is_custom else [],
            events=watch_events and follow,
        )
        view = _View(client, want, columns, no_headers=no_headers)
        failed = view.show(asked, watching, silently=watch_only)
        if watching is not None and not failed:
            with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C is the way to stop it
                view.follow(asked[0].kind, watching)
    if failed:
        raise typer.Exit(FAILED)


@dataclass(frozen=True, slots=True)
class _Want:
    """The objects to show, and their order."""

    namespace: str | None
    selector: str
    fields: str
    chunk: int
    sort_by: str
    ignore_not_found: bool
    cluster: str
    """The real cluster that is chosen. Empty for the home fleet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """The columns of a table."""

    form: OutputForm
    several: bool
    everywhere: bool
    labels: list[TableColumn]
    custom: list[TableColumn]
    events: bool

    def of(self, kind: ServedKind) -> list[TableColumn]:
        """Return the columns of the objects of a kind."""
        head = [TableColumn("EVENT", text("event"))] if self.events else []
        if self.custom:
            return [*head, *self.custom]
        name = TableColumn("NAME", of(lambda item: kinds.shown_name(kind, item)))
        if self.several:
            name = TableColumn("NAME", of(lambda item: kind.called(kinds.shown_name(kind, item))))
        if self.everywhere and kind.namespaced:
            head.append(TableColumn("NAMESPACE", text("metadata", "namespace")))
        own = [column for column in output.columns_of(kind, wide=self.form.word == "wide") if column != LABELS]
        return [*head, name, *own, *self.labels]


class _View:
    """Fetches objects and writes them in one form."""

    def __init__(self, client: Client, want: _Want, columns: _Columns, *, no_headers: bool) -> None:
        self._client = client
        self._want = want
        self._columns = columns
        self._form = columns.form
        self._no_headers = no_headers
        self._tabular = self._form.is_table or self._form.is_custom
        self._render = None if self._tabular or self._form.word == "name" else printing.renderer(self._form)
        self._widths: list[int] = []
        self._headed = False

    def show(self, asked: list[Named], watching: Watching | None, *, silently: bool) -> bool:
        """Write the objects, then the errors of those that are missing, and return whether one is missing."""
        missing: list[str] = []
        groups: list[tuple[ServedKind, list[JsonObject]]] = []
        for one in asked:
            found, errors = self._fetch(one) if watching is None else self._fetch_to_watch(one, watching)
            missing += errors
            if groups and groups[-1][0] == one.kind and one.names:
                groups[-1][1].extend(found)
            else:
                groups.append((one.kind, found))
        if silently:
            return False
        single = len(asked) == 1 and len(asked[0].names) == 1
        self._write_groups(groups, single=single, quiet=bool(missing) or self._want.ignore_not_found)
        for error in missing:  # after the table, as kubectl does
            warn(error)
        return bool(missing)

    def _warn_of_nothing(self, asked: list[ServedKind]) -> None:
        warn(output.nothing(self._want.namespace, asked))
        if not (self._want.selector or self._want.fields):
            for text in filter(None, (kind.definition.when_none for kind in asked)):
                warn(text)
        for kind in asked if self._want.cluster else ():
            if not (kind.definition.mirrorable or kind.read_only):
                warn(f"A cluster has no {kind.plural}. --fleet-cluster '' shows those of the home fleet.")

    def _write_groups(self, groups: list[tuple[ServedKind, list[JsonObject]]], *, single: bool, quiet: bool) -> None:
        if self._want.sort_by:
            from moorage.cli.render.jsonpath import sorted_by  # noqa: PLC0415 - few commands sort

            groups = [(kind, sorted_by(found, self._want.sort_by)) for kind, found in groups]
        everything = [item for _, found in groups for item in found]
        if self._render is not None:
            if single and not everything:
                return
            head = {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}}
            output.write(self._render(everything[0] if single else {**head, "items": everything}))
        elif not everything and not quiet:
            self._warn_of_nothing([kind for kind, _ in groups])
        elif self._form.is_custom:
            # All kinds have the same columns, so there is one table.
            self._write(groups[0][0], everything)
        else:
            first = True
            for kind, found in groups:
                if found:
                    if not first and self._form.word != "name":
                        output.line("")
                    self._write(kind, found)
                    first = False

    def follow(self, kind: ServedKind, watching: Watching) -> None:
        """Write changes as they happen, until the user stops it. Raises CliError if the watch cannot go on."""
        for event, found in watching.changes():
            if self._render is not None:
                output.write(self._render({"type": event, "object": found} if self._columns.events else found))
            else:
                self._write(kind, [found], event=event, head=not self._headed)

    def _fetch(self, one: Named) -> tuple[list[JsonObject], list[str]]:
        """Return the objects, and an error for each that is missing."""
        want = self._want
        if not one.names:
            listed = self._client.list(one.kind, want.namespace, want.selector, fields=want.fields, chunk=want.chunk)
            head = {"apiVersion": one.kind.api_version, "kind": one.kind.kind}
            return [{**head, **item} for item in output.listed(one.kind, listed)], []
        found: list[JsonObject] = []
        missing: list[str] = []
        for name in one.names:
            try:
                found.append(self._client.get(one.kind, one.namespace or want.namespace or "default", name))
            except ServerError as error:
                if error.reason != "NotFound":
                    raise
                missing.append(str(error))
        return found, [] if want.ignore_not_found else missing

    def _fetch_to_watch(self, one: Named, watching: Watching) -> tuple[list[JsonObject], list[str]]:
        items = watching.start()
        gone = one.names and not items and not self._want.ignore_not_found
        missing = [f'Error from server (NotFound): {one.kind.plural} "{one.names[0]}" not found'] if gone else []
        return output.listed(one.kind, {"items": items}), missing

    def _write(self, kind: ServedKind, found: list[JsonObject], *, event: str = "ADDED", head: bool = True) -> None:
        if self._form.word == "name":
            for item in found:
                output.line(kind.called(kinds.shown_name(kind, item)))
            return
        columns = self._columns.of(kind)
        if self._columns.events:
            found = [{**item, "event": event} for item in found]
        rows = [output.row(item, columns) for item in found]
        title = [column.title for column in columns]
        if head:
            self._headed = True
            self._widths = output.widths([title, *rows] if not self._no_headers else rows)
            if not self._no_headers:
                output.line(output.columns(title, self._widths))
        for row in rows:
            output.line(output.columns(row, self._widths or output.widths([title, row]), title))
