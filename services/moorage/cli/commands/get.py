"""`moorage get`: list objects, or show one."""

from __future__ import annotations

import contextlib
from typing import Annotated

import typer

from moorage.cli import completion
from moorage.cli.api import object_names, resource_arguments
from moorage.cli.api.client import Client, JsonObject
from moorage.cli.api.endpoints import connect
from moorage.cli.api.resource_arguments import Named
from moorage.cli.api.watching import Watching
from moorage.cli.errors import FAILED, ServerError, UsageError, warn
from moorage.cli.render import output, tables
from moorage.cli.render.output import Format
from moorage.kinds.kind import ServedKind
from moorage.kinds.printing.columns import TableColumn, of, text


def get(
    ctx: typer.Context,
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KIND[,KIND] [NAME…] | KIND/NAME…", show_default=False, autocompletion=completion.objects
        ),
    ] = None,
    *,
    namespace: Annotated[
        str, typer.Option("-n", "--namespace", help="Namespace of the objects.", autocompletion=completion.namespaces)
    ] = "default",
    all_namespaces: Annotated[bool, typer.Option("-A", "--all-namespaces", help="Objects of all namespaces.")] = False,
    selector: Annotated[
        str, typer.Option("-l", "--selector", help="Objects with these labels, such as app=web,tier!=test.")
    ] = "",
    watch: Annotated[bool, typer.Option("-w", "--watch", help="After listing, show changes as they happen.")] = False,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Omit the line with the column names.")] = False,
    form: output.FormatOption = Format.TABLE,
) -> None:
    """List objects, or show one.

    For example: `moorage get pods -A`, `moorage get nodes -l disk=ssd -o wide`, or
    `moorage get deployment/web -o yaml`. Without a kind, the command lists the kinds.
    """
    asked = resource_arguments.parse(what or [])
    if watch and (len(asked) > 1 or len(asked[0].names) > 1):
        raise UsageError("you may only specify a single resource type, or a single object, with --watch")
    if selector and any(one.names for one in asked):
        raise UsageError("name cannot be provided when a selector is specified")
    place = None if all_namespaces else namespace
    if place is None and any(one.names for one in asked):
        raise UsageError("a resource cannot be retrieved by name across all namespaces")
    with connect(ctx) as client:
        watching = None
        if watch:
            name = asked[0].names[0] if asked[0].names else ""
            watching = Watching(client, asked[0].kind, place, selector=selector, name=name, tell=warn)
        view = _View(client, place, selector, form, no_headers=no_headers, several=len(asked) > 1)
        failed = view.show(asked, watching)
        if watching is not None and not failed:
            with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C is the way to stop it
                view.follow(asked[0].kind, watching)
    if failed:
        raise typer.Exit(FAILED)


class _View:
    """Fetches objects and writes them in one format."""

    def __init__(
        self,
        client: Client,
        namespace: str | None,
        selector: str,
        form: Format,
        *,
        no_headers: bool,
        several: bool,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._selector = selector
        self._form = form
        self._no_headers = no_headers
        self._several = several
        self._widths: list[int] = []

    def show(self, asked: list[Named], watching: Watching | None) -> bool:
        """Write the objects, then the errors of those that are missing, and return whether one is missing.

        Args:
            asked: the objects.
            watching: what is to be watched from then on.
        """
        missing: list[str] = []
        groups: list[tuple[ServedKind, list[JsonObject]]] = []
        for one in asked:
            found, errors = self._fetch(one) if watching is None else self._fetch_to_watch(one, watching)
            missing += errors
            if groups and groups[-1][0] == one.kind and one.names:
                groups[-1][1].extend(found)
            else:
                groups.append((one.kind, found))
        single = len(asked) == 1 and len(asked[0].names) == 1
        self._write_groups(groups, single=single, missing=bool(missing))
        for error in missing:  # after the table, as kubectl does
            warn(error)
        return bool(missing)

    def _write_groups(self, groups: list[tuple[ServedKind, list[JsonObject]]], *, single: bool, missing: bool) -> None:
        everything = [item for _, found in groups for item in found]
        if self._form in {Format.JSON, Format.YAML}:
            if single and not everything:
                return
            whole = (
                everything[0] if single else {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": everything}
            )
            output.write(output.document(whole, self._form))
        elif not everything and not missing:
            warn(tables.nothing(self._namespace, [kind for kind, _ in groups]))
        else:
            first = True
            for kind, found in groups:
                if found:
                    if not first and self._form is not Format.NAME:
                        output.line("")
                    self._write(kind, found)
                    first = False

    def follow(self, kind: ServedKind, watching: Watching) -> None:
        """Write changes as they happen, until the user stops it.

        Raises:
            CliError: the watch cannot go on.
        """
        for _, found in watching.changes():
            if self._form in {Format.JSON, Format.YAML}:
                output.write(output.document(found, self._form))
            else:
                self._write(kind, [found], head=not self._widths)

    def _fetch(self, one: Named) -> tuple[list[JsonObject], list[str]]:
        """Return the objects, and an error for each that is missing."""
        if not one.names:
            items = tables.listed(one.kind, self._client.list(one.kind, self._namespace, self._selector))
            head = {"apiVersion": one.kind.api_version, "kind": one.kind.kind}
            return [{**head, **item} for item in items], []
        found: list[JsonObject] = []
        missing: list[str] = []
        for name in one.names:
            try:
                found.append(self._client.get(one.kind, self._namespace or "default", name))
            except ServerError as error:
                if error.reason != "NotFound":
                    raise
                missing.append(str(error))
        return found, missing

    @staticmethod
    def _fetch_to_watch(one: Named, watching: Watching) -> tuple[list[JsonObject], list[str]]:
        items = watching.start()
        gone = one.names and not items
        missing = [f'Error from server (NotFound): {one.kind.plural} "{one.names[0]}" not found'] if gone else []
        return tables.listed(one.kind, {"items": items}), missing

    def _write(self, kind: ServedKind, found: list[JsonObject], *, head: bool = True) -> None:
        if self._form is Format.NAME:
            for item in found:
                output.line(kind.called(object_names.shown(kind, item)))
            return
        columns = self._columns(kind)
        rows = [tables.row(item, columns) for item in found]
        title = [column.title for column in columns]
        if head:
            self._widths = output.widths([title, *rows])
            if not self._no_headers:
                output.line(output.columns(title, self._widths))
        for row in rows:
            output.line(output.columns(row, self._widths or output.widths([title, row]), title))

    def _columns(self, kind: ServedKind) -> list[TableColumn]:
        name = TableColumn("NAME", of(lambda item: object_names.shown(kind, item)))
        if self._several:
            name = TableColumn("NAME", of(lambda item: kind.called(object_names.shown(kind, item))))
        head = [name]
        if self._namespace is None and kind.namespaced:
            head = [TableColumn("NAMESPACE", text("metadata", "namespace")), name]
        return [*head, *tables.columns(kind, wide=self._form is Format.WIDE)]
