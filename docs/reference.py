"""The reference pages of the docs site, made from the code whenever the site is built."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from typer.core import TyperGroup

from moorage.apiserver.kinds.kind import declared
from moorage.apiserver.machinery.served_kinds import served
from moorage.cli import app, flags
from moorage.cli.contract.jsonschemas import event_schema, resource_schema
from moorage.cli.contract.kafka_roles import participants
from moorage.decide.disruption import eviction_transitions as evictions
from moorage.runtime.settings.environment import variable
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.field_docs import field_docs
from moorage_schemas.topics import TOPICS, Topic

Row = Sequence[str]
_DAY_MS: Final = 86_400_000

_CLI: Final = """\
`moorage --help` and `moorage COMMAND --help` show the same. Each command also takes `--server`, the address of the
gateway."""

_SETTINGS: Final = """\
Every setting is an environment variable. Those with a flag can also be given to `moorage up` and `moorage run`; a flag
takes precedence. [Operations](../operations.md#settings) says how they are used."""

_EVENTS: Final = """\
The names in Kafka are `moorage.<topic>.v1`. [The contract](../contract.md) describes keys, headers and what may change.
JSON Schemas and an AsyncAPI document of the same are in `schemas/generated/`."""

_API: Final = """\
The gateway serves the kinds below as Kubernetes' API server does, at `/api/v1/…` for the core group and
`/apis/GROUP/VERSION/…` for the others: `[namespaces/NAMESPACE/]PLURAL[/NAME[/SUBRESOURCE]]`. Lists take
`labelSelector`, `fieldSelector` and `watch`. Errors are `Status` objects. `/api` and `/apis` are the discovery
documents.

`POST /v1/conditions` takes condition reports as CloudEvents: binary, structured or a batch. `/healthz`, `/livez`,
`/readyz`, `/metrics` and `/version` answer about the gateway itself."""


def cli() -> str:
    """The command line: each command with its arguments and options."""
    parts = [
        "# Command line",
        _CLI,
    ]
    panels: dict[str, list[str]] = {}
    for name, entry in app.COMMANDS.items():
        panels.setdefault(entry.panel, []).append(name)
    for panel, names in panels.items():
        parts.append(f"## {panel}")
        parts.append(
            _table(("command", ""), [(f"[`{name}`](#moorage-{name})", app.COMMANDS[name].help) for name in names])
        )
    for name in app.COMMANDS:
        parts += _command(f"moorage {name}", app.load(name), level=2)
    return _page(parts)


def _command(called: str, command: Any, *, level: int) -> Iterator[str]:
    yield f"{'#' * level} {called}"
    context = command.make_context(called, [], resilient_parsing=True)
    yield f"```text\n{' '.join([called, *command.collect_usage_pieces(context)])}\n```"
    yield from _paragraphs(command.help or "")
    options = [record for one in command.get_params(context) if (record := one.get_help_record(context)) is not None]
    if options:
        yield _table(("option", "meaning"), [(f"`{name}`", text) for name, text in options])
    if isinstance(command, TyperGroup):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None:
                yield from _command(f"{called} {name}", below, level=level + 1)


def _paragraphs(text: str) -> list[str]:
    return [" ".join(part.split()) for part in inspect.cleandoc(text).split("\n\n")]


def settings() -> str:
    """Every setting of the processes."""
    docs = field_docs(Settings)
    rows = [
        (
            f"`{variable(field)}`",
            f"`{flags.flag(field)}`" if field in flags.FIELDS else "",
            _annotation(info.annotation),
            f"`{info.default}`" if str(info.default) else "(empty)",
            docs[field],
        )
        for field, info in Settings.model_fields.items()
    ]
    return _page(
        [
            "# Settings",
            _SETTINGS,
            _table(("variable", "flag", "type", "default", "meaning"), rows),
        ]
    )


def _annotation(annotation: Any) -> str:
    return re.sub(r"typing\.|<class '|'>", "", str(annotation))


def events() -> str:
    """Topics, their events and who reads and writes them."""
    readers = {
        topic.short: [who.name for who in participants() if topic in {*who.consumes, *who.reads}] for topic in TOPICS
    }
    parts = [
        "# Events and topics",
        _EVENTS,
        _table(
            ("topic", "event", "record key", "partitioned by", "cleanup", "written by"),
            [
                (
                    f"[{topic.short}](#{topic.short})",
                    f"`{topic.event.__name__}`",
                    topic.key.replace("|", ", "),
                    topic.partition_by,
                    _cleanup(topic),
                    topic.writer,
                )
                for topic in TOPICS
            ],
        ),
    ]
    types: dict[str, Mapping[str, Any]] = {}
    for topic in TOPICS:
        schema = event_schema(topic)
        types |= schema.get("$defs", {})
        parts.append(f"## {topic.short}")
        parts += _paragraphs(inspect.getdoc(topic.event) or "")
        parts.append(
            f"CloudEvents type `{topic.event_type}`. Read by {', '.join(readers[topic.short]) or 'no service'}."
        )
        parts.append(_fields(schema))
    parts.append("## Types")
    parts += _types(types)
    return _page(parts)


def _cleanup(topic: Topic) -> str:
    kept = "" if topic.retention_ms < 0 else f" after {topic.retention_ms // _DAY_MS} d"
    return f"{topic.cleanup.value}{kept}"


def api() -> str:
    """The HTTP API: what is served, and the fields of each kind."""
    rows = [
        (
            f"[{one.kind}](#{one.kind.lower()})" if not one.definition.read_only else one.kind,
            f"`{one.api_version}`",
            f"`{one.plural}`",
            ", ".join(f"`{name}`" for name in one.definition.short_names),
            "namespace" if one.namespaced else "fleet",
            ", ".join(one.verbs) if not one.definition.read_only else "read only",
            ", ".join(one.definition.subresources),
        )
        for one in served()
    ]
    parts = [
        "# HTTP API",
        _API,
        _table(("kind", "version", "path", "short names", "scope", "verbs", "subresources"), rows),
    ]
    types: dict[str, Mapping[str, Any]] = {}
    for kind in declared():
        schema = resource_schema(kind)
        definitions = schema.get("$defs", {})
        parts.append(f"## {kind.kind}")
        parts += _paragraphs(inspect.getdoc(kind.model) or "")
        own = {
            name: one for name, one in schema["properties"].items() if name not in {"apiVersion", "kind", "metadata"}
        }
        parts.append(_fields({**schema, "properties": own}) if own else "It has no fields of its own.")
        types |= definitions
    parts.append("## Types")
    parts.append("Fields that are not listed here are kept as they come.")
    parts += _types(types)
    return _page(parts)


def _types(found: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for name in sorted(found):
        yield f"### {name}"
        yield from _paragraphs(str(found[name].get("description", "")))
        if "enum" in found[name]:
            yield "One of " + ", ".join(f"`{value}`" for value in found[name]["enum"]) + "."
        elif found[name].get("properties"):
            yield _fields(found[name])


def _fields(schema: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    rows = [
        (
            f"`{name}`",
            _type(field),
            "yes" if name in required else "",
            " ".join(str(field.get("description", "")).split()),
        )
        for name, field in schema.get("properties", {}).items()
    ]
    return _table(("field", "type", "required", "meaning"), rows) if rows else "It has no fields."


def _type(field: Mapping[str, Any]) -> str:  # noqa: PLR0911 - one answer for each form that a schema has
    """The type of a field in a word or two."""
    match field:
        case {"$ref": str(name)}:
            short = name.rpartition("/")[2]
            return f"[{short}](#{short.lower()})"
        case {"anyOf": [*options]} | {"allOf": [*options]}:
            return " or ".join(dict.fromkeys(_type(one) for one in options if one != {"type": "null"}))
        case {"const": value}:
            return f"`{value}`"
        case {"enum": [*values]}:
            return ", ".join(f"`{value}`" for value in values)
        case {"type": "array"}:
            return f"list of {_type(field.get('items') or {})}"
        case {"type": "object", "additionalProperties": dict(values)}:
            return f"map of {_type(values)}"
        case {"type": "string", "format": "date-time"}:
            return "time"
        case {"type": str(name)}:
            return name
        case _:
            return "any"


def transitions() -> str:
    """The transitions of evictions, as in docs/eviction.md."""
    rows = [row for row in evictions.TABLE if row.name]
    possible = [(f"`{row.name}`", *_when(row), row.because, _moves(row)) for row in rows]
    impossible = [(*_when(row), row.because) for row in evictions.TABLE if not row.name]
    when = ("occasion", "stage", "other columns")
    parts = [_table(("row", *when, "because", "moves"), possible), "### Impossible combinations"]
    return _page([*parts, _table((*when, "because"), impossible)])


def _when(row: evictions.Transition) -> Row:
    """The values of the first two columns, and of those others on which the row depends."""
    occasion, stage, *others = (
        (_COLUMN[column], ", ".join(str(value) for value in column if value in row.when[column]))
        if row.when[column] != frozenset(column)
        else ("", "any")
        for column in evictions.COLUMNS
    )
    return occasion[1], stage[1], "; ".join(f"{name}: {values}" for name, values in others if name)


_COLUMN: Final = dict(
    zip(evictions.COLUMNS, ("occasion", "stage", "reported", "demand", "timer", "lag", "guard"), strict=True)
)


def _moves(row: evictions.Transition) -> str:
    return "; ".join([*row.moves, *(["check again"] if row.again else [])])


def _table(head: Row, rows: Iterable[Row]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split()))


def _page(parts: Iterable[str]) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"


PAGES: Final = {
    "reference/cli.md": cli,
    "reference/settings.md": settings,
    "reference/events.md": events,
    "reference/api.md": api,
}
"""What makes each page."""
