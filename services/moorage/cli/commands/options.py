"""Options that many commands share, with kubectl's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from moorage.apiserver.kinds.kind import ServedKind
from moorage.cli import completion
from moorage.cli.api import kinds
from moorage.cli.api.client import Client
from moorage.cli.api.kinds import Named
from moorage.cli.errors import FAILED, CliError, UnreachableError, UsageError, warn
from moorage.cli.render import printing

if TYPE_CHECKING:
    from moorage.cli.api.manifests import Manifest

Namespace = Annotated[
    str, typer.Option("-n", "--namespace", help="Namespace of the objects.", autocompletion=completion.namespaces)
]
ItemNamespace = Annotated[
    str,
    typer.Option(
        "-n", "--namespace", help="Namespace of objects that name none.", autocompletion=completion.namespaces
    ),
]
NoHeaders = Annotated[bool, typer.Option("--no-headers", help="Omit the line with the column names.")]
IgnoreNotFound = Annotated[bool, typer.Option("--ignore-not-found", help="Succeed if an object does not exist.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace taints of the same key and effect.")]
Selector = Annotated[
    str,
    typer.Option("-l", "--selector", help="Objects with these labels, such as app=web,tier!=test or 'zone in (a, b)'."),
]
FieldSelector = Annotated[
    str, typer.Option("--field-selector", help="Objects with these fields, such as spec.nodeName=n1.")
]
Files = Annotated[
    list[str] | None,
    typer.Option(
        "-f",
        "--filename",
        help="A file, a folder, or - for standard input. Repeatable.",
        show_default=False,
        autocompletion=completion.manifests,
    ),
]
Recursive = Annotated[bool, typer.Option("-R", "--recursive", help="Also read subfolders.")]
Every = Annotated[bool, typer.Option("--all", help="All objects of the kind in the namespace.")]
AllNamespaces = Annotated[bool, typer.Option("-A", "--all-namespaces", help="Objects of all namespaces.")]
Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="KIND NAME… | KIND/NAME…", show_default=False, autocompletion=completion.objects),
]
DryRun = Annotated[
    str,
    typer.Option(
        "--dry-run",
        help="client: send nothing. server: the server checks everything and stores nothing.",
        metavar="none|client|server",
        autocompletion=completion.words("none", "client", "server"),
    ),
]
FieldManager = Annotated[
    str, typer.Option("--field-manager", help="Name of the manager of the fields that are set.", show_default=False)
]
FormOption = Annotated[
    printing.OutputForm,
    typer.Option(
        "-o",
        "--output",
        parser=printing.parse,
        metavar="FORM",
        autocompletion=completion.words(*printing.WORDS),
        show_default=False,
        help="json, yaml, name, wide (more columns), jsonpath=TEMPLATE, custom-columns=HEAD:PATH,… or "
        "go-template=TEMPLATE; or the last three from a file, such as jsonpath-file=FILE.",
    ),
]

Validate = Annotated[
    str,
    typer.Option(
        "--validate",
        help="Unknown and repeated fields: strict refuses them, warn warns about them, ignore "
        "drops them without a word.",
        metavar="strict|warn|ignore",
        autocompletion=completion.words("strict", "warn", "ignore"),
    ),
]

STRICT: Final = "strict"
"""The default of `Validate`, as kubectl's."""

NONE: Final = "none"
CLIENT: Final = "client"
SERVER: Final = "server"


def parameters(dry_run: str, field_manager: str = "", validate: str = "") -> dict[str, str]:
    """Return the query parameters of a write. Raises UsageError if a value is not one of those that the option has."""
    if dry_run not in {NONE, CLIENT, SERVER}:
        raise UsageError(f'invalid dry-run value ({dry_run}). Must be "none", "server", or "client"')
    known = {"": "", "true": "Strict", "strict": "Strict", "warn": "Warn", "false": "Ignore", "ignore": "Ignore"}
    if validate.lower() not in known:
        raise UsageError(
            f'invalid - validate option "{validate}"; must be one of: strict (or true), warn, ignore (or false)'
        )
    found = {
        "dryRun": "All" if dry_run == SERVER else "",
        "fieldManager": field_manager,
        "fieldValidation": known[validate.lower()],
    }
    return {name: value for name, value in found.items() if value}


def _chooser(selector: str) -> Callable[[Manifest], bool]:
    """Return whether an object of a file is selected. As in kubectl, the labels in the file decide."""
    from moorage.apiserver.http.messages.selectors import selector as selecting  # noqa: PLC0415 - as above
    from moorage.apiserver.machinery.api_errors import StatusError  # noqa: PLC0415 - only needed for files with a selector

    try:
        chosen = selecting(selector, "")
    except StatusError as error:
        raise UsageError(str(error)) from None
    return lambda item: chosen(item.document)


def manifests_of(files: Sequence[str] | None, selector: str = "", *, recursive: bool) -> tuple[list[Manifest], bool]:
    """Return the selected objects of `-f`, and whether there are documents that cannot be used. These are printed.

    Raises:
        UsageError: no file is given.
        CliError: a file cannot be read.
    """
    from moorage.cli.api import manifests  # noqa: PLC0415 - YAML loads slowly

    if not files:
        raise UsageError("must specify -f")
    good, refused = manifests.read(files, recursive=recursive)
    for document in refused:
        warn(str(document))
    return list(filter(_chooser(selector), good)) if selector else good, bool(refused)


def named(words: Sequence[str] | None, files: Sequence[str] | None, *, recursive: bool) -> list[Named]:
    """Return the objects that the words of a command or its files name.

    Raises:
        UsageError: both are given.
        CliError: a file cannot be used.
    """
    if not files:
        return kinds.parse(words or [])
    if words:
        raise UsageError(
            "when paths, URLs, or stdin is provided as resource input, you may not specify resource arguments as well"
        )
    from moorage.cli.api import manifests  # noqa: PLC0415 - YAML loads slowly

    good, refused = manifests.read(files, recursive=recursive)
    if refused:
        raise CliError("\n".join(str(one) for one in refused), prefix="")
    return [Named(item.kind, (item.name,), item.namespace("")) for item in good if item.kind]


class Writing:
    """The way in which a command writes objects and shows them.

    Raises:
        UsageError: a value is not one of those that the option has.
    """

    def __init__(self, form: printing.OutputForm, dry_run: str = NONE, field_manager: str = "") -> None:
        self.parameters: Mapping[str, str] = parameters(dry_run, field_manager)
        self.sends = dry_run != CLIENT
        """Whether anything is sent to the server."""

        self.results = printing.Results(form, dry_run)


class ObjectPlace(NamedTuple):
    """One object that a command is about."""

    kind: ServedKind
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Choice:
    """The objects that the words and options of a command select."""

    words: Sequence[str] = ()
    files: Sequence[str] | None = None
    namespace: str | None = "default"
    """None means all namespaces."""

    selector: str = ""
    fields: str = ""
    every: bool = False
    recursive: bool = False

    def places(self, client: Client) -> list[ObjectPlace]:
        """Return the objects.

        Raises:
            UsageError: they are missing, or contradict each other.
            CliError: a kind is not known, or a file cannot be used.
        """
        asked = named(self.words, self.files, recursive=self.recursive)
        selecting = self.every or self.selector or self.fields
        if self.every and self.selector:
            raise UsageError("setting 'all' parameter with a non empty selector is prohibited")
        if any(one.names for one in asked) and selecting and not self.files:
            raise UsageError("name cannot be provided when --all or a selector is specified")
        if not all(one.names for one in asked) and not selecting:
            raise UsageError("resource(s) were provided, but no name was specified")
        found: list[ObjectPlace] = []
        for one in asked:
            if one.names:
                place = one.namespace or self.namespace or "default"
                found += [ObjectPlace(one.kind, place if one.kind.namespaced else "", name) for name in one.names]
                continue
            for item in client.list(one.kind, self.namespace, self.selector, fields=self.fields).get("items") or []:
                metadata = item.get("metadata") or {}
                found.append(
                    ObjectPlace(one.kind, str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))
                )
        return found


def each(places: Sequence[ObjectPlace], act: Callable[[ObjectPlace], None]) -> None:
    """Do something with each object. The error of one is printed, and the others continue.

    Raises:
        Exit: something went wrong, with code 1.
        UnreachableError: the gateway does not answer.
    """
    failed = False
    for place in places:
        try:
            act(place)
        except UnreachableError:
            raise
        except CliError as error:
            warn(str(error))
            failed = True
    if failed:
        raise typer.Exit(FAILED)
