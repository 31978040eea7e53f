"""Output of lists: kubectl's tables, JSON, YAML, names."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.kinds.printing.columns import Object, TableColumn
from moorage.cli.render import colors
from moorage.cli.render.durations import to_the_second

_LINES: Final = re.compile(r"[\n\r\f]")


class Format(StrEnum):
    """How objects are written."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


class DocumentFormat(StrEnum):
    """How a document is written that is a table otherwise."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


FormatOption = Annotated[Format, typer.Option("-o", "--output", help="json, yaml, wide (more columns) or name.")]


class LogFormat(StrEnum):
    """How lines of logs are written."""

    TEXT = "text"
    JSON = "json"


class EventFormat(StrEnum):
    """How events are written."""

    LINES = "lines"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"
    WIDE = "wide"


def to_yaml(document: Any) -> str:
    """Return a document as YAML."""
    from moorage.cli.render.yaml_text import dump  # noqa: PLC0415 - a table does without PyYAML, which loads slowly

    return dump(document)


def to_json(document: Any) -> str:
    """Return a document as indented JSON."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def write(text: str) -> None:
    """Write to stdout at once, so that a reader of a pipe sees it."""
    sys.stdout.write(text)
    sys.stdout.flush()


def line(text: str) -> None:
    """Write one line to stdout at once."""
    write(text + "\n")


def document(value: Mapping[str, Any], form: StrEnum) -> str:
    """Return a document as JSON or YAML, without the owners of its fields."""
    shown = without_owners(value)
    return to_yaml(shown) if form == "yaml" else to_json(shown)


def without_owners(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object or a list without `managedFields`, which kubectl does not show either."""
    shown = dict(value)
    metadata = shown.get("metadata")
    if isinstance(metadata, dict) and "managedFields" in metadata:
        shown["metadata"] = {name: one for name, one in metadata.items() if name != "managedFields"}
    if isinstance(items := shown.get("items"), list):
        shown["items"] = [without_owners(item) if isinstance(item, dict) else item for item in items]
    return shown


def escaped(text: str) -> str:
    """Return a text without control sequences of a terminal. As in kubectl, ESC becomes `^[`."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in "\n\t" else _escape(one) for one in text)


def cell(text: str) -> str:
    """Return a text for a cell of a table: escaped, and only its first line, as in kubectl."""
    if text.isprintable():
        return text
    first, *rest = _LINES.split(text, maxsplit=1)
    return escaped(first) + ("..." if rest else "")


def _escape(one: str) -> str:
    return "^[" if one == "\x1b" else repr(one)[1:-1]


def widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the width of each column."""
    return [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]


def columns(row: Sequence[str], wide: Sequence[int], head: Sequence[str] = ()) -> str:
    """Return one row of a table: three blanks between the columns, none at the end.

    Cells are coloured by the titles in `head`, where colours are wanted.
    """
    fill = [" " * (width - len(cell)) for cell, width in zip(row, wide, strict=True)]
    if head and colors.wanted():
        row = [colors.paint(title, cell) for title, cell in zip(head, row, strict=True)]
    return "   ".join(cell + blanks for cell, blanks in zip(row, fill, strict=True)).rstrip()


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as kubectl writes it, with times to the second."""
    every = [[cell(to_the_second(one)) for one in row] for row in rows]
    wide = widths([head, *every])
    return "".join(f"{line}\n" for line in (columns(head, wide), *(columns(row, wide, head) for row in every)))


def columns_of(kind: ServedKind, *, wide: bool) -> tuple[TableColumn, ...]:
    """Return the columns of a kind after the name."""
    return tuple(column for column in kind.definition.columns if wide or not column.wide)


def listed(kind: ServedKind, answer: Object) -> list[dict[str, Any]]:
    """Return the items of a list that a table shows, in their order."""
    return kind.definition.listed(answer.get("items") or [])


def nothing(namespace: str | None, kinds: Sequence[ServedKind]) -> str:
    """Return the message that no object was found. A namespace of None stands for all namespaces."""
    if namespace is not None and any(kind.namespaced for kind in kinds):
        return f"No resources found in {namespace} namespace."
    return "No resources found"  # without a full stop, as kubectl has it


def row(found: Object, shown: Sequence[TableColumn]) -> list[str]:
    """Return the cells of one object, with times to the second."""
    now = datetime.now(UTC)
    return [cell(to_the_second(column.cell(found, now))) for column in shown]
