"""`moorage wait`: wait until objects have a condition or a value, exist or are deleted."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Annotated, Final

import typer

from moorage.cli import completion
from moorage.cli.api.client import Client, JsonObject
from moorage.cli.api.endpoints import connect
from moorage.cli.commands import options
from moorage.cli.commands.options import ObjectPlace
from moorage.cli.errors import FAILED, CliError, UsageError, warn
from moorage.cli.render import printing
from moorage.cli.render.durations import parse_duration

PAUSE: Final = 0.2
"""Seconds between two checks."""

_WEEK: Final = 7 * 86_400.0
_JSONPATH: Final = re.compile(r"(\{.*\}|[^=]*)(?:=(.*))?", re.DOTALL)

Met = Callable[[JsonObject | None], bool]
"""Whether an object, None if it does not exist, fulfils the condition."""


def wait(
    ctx: typer.Context,
    what: options.Words = None,
    *,
    until: Annotated[
        str,
        typer.Option(
            "--for",
            help="condition=TYPE[=STATUS], jsonpath=PATH[=VALUE], create or delete.",
            show_default=False,
            autocompletion=completion.words("condition=", "jsonpath=", "create", "delete"),
        ),
    ],
    timeout: Annotated[
        str, typer.Option(help="How long to wait, such as 90s. 0 checks once, and less than 0 waits a week.")
    ] = "30s",
    files: options.Files = None,
    recursive: options.Recursive = False,
    namespace: options.Namespace = "default",
    all_namespaces: options.AllNamespaces = False,
    selector: options.Selector = "",
    fields: options.FieldSelector = "",
    every: options.Every = False,
    form: options.FormOption = printing.TABLE,
) -> None:
    """Wait until objects have a condition or a value, exist or are deleted."""
    met = condition(until)
    seconds = _WEEK if timeout.startswith("-") else parse_duration(timeout, "--timeout").total_seconds()
    results = printing.Results(form)
    place = None if all_namespaces else namespace
    end = time.monotonic() + seconds
    with connect(ctx) as client:
        places = options.Choice(what or [], files, place, selector, fields, every, recursive).places(client)
        if not places:
            if until == "delete":
                return
            raise CliError("no matching resources found")
        failed = False
        for one in places:
            found = until_met(client, one, met, end, missing_is_fine=until in {"create", "delete"})
            if found is None:
                warn(f"error: timed out waiting for the condition on {one.kind.plural}/{one.name}")
                failed = True
            else:
                results.show(one.kind, one.name, "condition met", found)
    if failed:
        raise typer.Exit(FAILED)


def condition(text: str) -> Met:
    """Return what a value of `--for` waits for. Raises UsageError if it is not one of the forms."""
    if text == "delete":
        return lambda found: found is None
    if text == "create":
        return lambda found: found is not None
    word, _, rest = text.partition("=")
    if word == "condition" and rest:
        kind, _, status = rest.partition("=")
        return lambda found: _has_condition(found, kind, status or "true")
    if word == "jsonpath" and rest:
        match = _JSONPATH.fullmatch(rest)
        if match and match[1]:
            from moorage.cli.render.jsonpath import relaxed  # noqa: PLC0415 - few commands need it
            from moorage.decide.kubernetes.jsonpath import as_text  # noqa: PLC0415 - see above

            path, value = relaxed(match[1]), match[2]

            def has(found: JsonObject | None) -> bool:
                values = path.values(found) if found is not None else []
                return bool(values) if value is None else [as_text(one) for one in values] == [value.strip("'\"")]

            return has
    raise UsageError(f"unrecognized condition: {text!r}")


def until_met(
    client: Client, place: ObjectPlace, met: Met, end: float, *, missing_is_fine: bool = False
) -> JsonObject | None:
    """Return an object when it fulfils the condition, empty if it is deleted. None after the timeout.

    `end` is by the monotonic clock in seconds. `missing_is_fine`: whether a missing object may appear.

    Raises:
        ServerError: the object does not exist.
    """
    uid = ""
    while True:
        found = client.find(*place) if missing_is_fine else client.get(*place)
        now = str(((found or {}).get("metadata") or {}).get("uid") or "")
        if uid and now != uid and met(None):
            return {}  # another object has its name now
        uid = uid or now
        if met(found):
            return found or {}
        if time.monotonic() >= end:
            return None
        time.sleep(PAUSE)


def _has_condition(found: JsonObject | None, kind: str, status: str) -> bool:
    conditions = ((found or {}).get("status") or {}).get("conditions") or []
    return any(
        str(one.get("type")).lower() == kind.lower() and str(one.get("status")).lower() == status.lower()
        for one in conditions
    )
