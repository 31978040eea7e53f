"""`moorage label` and `annotate`: with the arguments, words and errors of kubectl."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from moorage.cli import completion
from moorage.cli.api.client import Client
from moorage.cli.api.endpoints import connect
from moorage.cli.commands import options
from moorage.cli.commands.options import ObjectPlace
from moorage.cli.errors import CliError, UsageError
from moorage.cli.render import output, printing

_What = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KIND NAME… KEY=VALUE… KEY-…",
        help="KEY=VALUE sets, KEY- removes.",
        show_default=False,
        autocompletion=completion.objects,
    ),
]
_Overwrite = Annotated[bool, typer.Option("--overwrite", help="Change existing values.")]
_List = Annotated[bool, typer.Option("--list", help="Show the present ones.")]
_Version = Annotated[
    str, typer.Option("--resource-version", help="Change the object only if this is its version.", show_default=False)
]


def _command(field: str) -> Callable[..., None]:
    """Return the command that changes one of the two maps of an object's metadata."""

    def command(
        ctx: typer.Context,
        what: _What = None,
        *,
        files: options.Files = None,
        recursive: options.Recursive = False,
        namespace: options.Namespace = "default",
        all_namespaces: options.AllNamespaces = False,
        selector: options.Selector = "",
        fields: options.FieldSelector = "",
        every: options.Every = False,
        overwrite: _Overwrite = False,
        listing: _List = False,
        version: _Version = "",
        dry_run: options.DryRun = options.NONE,
        field_manager: options.FieldManager = "",
        form: options.FormOption = printing.TABLE,
    ) -> None:
        words, changes = split(what or [], files)
        place = None if all_namespaces else namespace
        choice = options.Choice(words, files, place, selector, fields, every, recursive)
        edit = _Edit(field, changes, overwrite, version, listing)
        _run(ctx, choice, edit, options.Writing(form, dry_run, field_manager))

    command.__doc__ = f"Set, change or remove {field}."
    return command


label = _command("labels")
annotate = _command("annotations")


@dataclass(frozen=True, slots=True)
class _Edit:
    field: str
    """`labels` or `annotations`."""

    changes: Mapping[str, str | None]
    """The new value of each key. None if it is removed."""

    overwrite: bool
    version: str
    listing: bool


def split(words: list[str], files: list[str] | None) -> tuple[list[str], dict[str, str | None]]:
    """Split the words into resources and changes.

    Raises:
        UsageError: a key has two changes, or a resource comes after a change.
    """
    named: list[str] = []
    changes: dict[str, str | None] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals and not word.endswith("-"):
            if changes or files:
                raise UsageError(f"all resources must be specified before changes: {word}")
            named.append(word)
            continue
        key = key if equals else word.removesuffix("-")
        if key in changes:
            raise UsageError(f"cannot set or remove {key!r} twice in one command")
        changes[key] = value if equals else None
    return named, changes


def _run(ctx: typer.Context, choice: options.Choice, edit: _Edit, writing: options.Writing) -> None:
    if not edit.changes and not edit.listing:
        raise UsageError(f"at least one {edit.field.removesuffix('s')} update is required")
    with connect(ctx) as client:
        options.each(choice.places(client), lambda place: _one(client, place, edit, writing))


def _one(client: Client, place: ObjectPlace, edit: _Edit, writing: options.Writing) -> None:
    kind, namespace, name = place
    found = client.get(kind, namespace, name)
    there: Mapping[str, str] = (found.get("metadata") or {}).get(edit.field) or {}
    taken = [key for key, value in edit.changes.items() if value is not None and there.get(key, value) != value]
    if taken and not edit.overwrite:
        raise CliError(
            "; ".join(f"'{key}' already has a value ({there[key]}), and --overwrite is false" for key in taken)
        )
    for key, value in edit.changes.items():
        if value is None and key not in there:
            output.line(f'{edit.field.removesuffix("s")} "{key}" not found.')
    new = {key: value for key, value in edit.changes.items() if there.get(key) != value}
    if new and writing.sends:
        metadata: dict[str, Any] = {edit.field: new} | ({"resourceVersion": edit.version} if edit.version else {})
        found = client.patch(kind, namespace, name, {"metadata": metadata}, options=writing.parameters)
    elif new:
        after = {key: value for key, value in {**there, **new}.items() if value is not None}
        found = {**found, "metadata": {**(found.get("metadata") or {}), edit.field: after}}
    if edit.listing:
        now: Mapping[str, str] = (found.get("metadata") or {}).get(edit.field) or {}
        output.write("".join(f"{key}={value}\n" for key, value in sorted(now.items())))
        return
    writing.results.show(kind, name, _word(edit, new), found)


def _word(edit: _Edit, new: Mapping[str, str | None]) -> str:
    if edit.field == "annotations":
        return "annotated"
    if not new:
        return "not labeled"
    return "labeled" if any(value is not None for value in new.values()) else "unlabeled"
