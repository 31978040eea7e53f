"""`moorage deadletters` and `moorage webhooks`: refused records and undelivered events, and sending them again.

`get` and `describe` also show dead letters. A list of this command ends after some of the newest, for there may be
millions.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from moorage.apiserver.kinds.printing.columns import TableColumn, text
from moorage.apiserver.kinds.views import REPLAY
from moorage.cli.api import kinds
from moorage.cli.api.client import CHUNK, Client, JsonObject, list_path, object_path
from moorage.cli.api.endpoints import connect_home
from moorage.cli.errors import FAILED, CliError, ServerError, UsageError, warn
from moorage.cli.render import describe as describing
from moorage.cli.render import output
from moorage.cli.render.durations import parse_instant, parse_wait
from moorage.decide.kubernetes.unstructured import at
from moorage_schemas.times import format_time

_LETTERS: Final = kinds.find("deadletters")
_WORDS: Final = {"Counted": "and counts", "Unchanged": "and repeats what is known"}
_FORBIDDEN: Final = 403

app = typer.Typer(no_args_is_help=True, help="Show records that were refused, and send reports among them again.")

_Reason = Annotated[str, typer.Option(help="The reason, such as UnknownTarget.")]
_Service = Annotated[str, typer.Option(help="The service that refused it.")]
_Topic = Annotated[str, typer.Option(help="The topic from which it came.")]
_Source = Annotated[str, typer.Option(help="The sender: the source of the CloudEvent.")]
_Key = Annotated[str, typer.Option(help="The key of the record, such as Node/n1.")]
_Since = Annotated[str, typer.Option(help="The earliest time: RFC 3339, or a duration ago such as 2h.")]


@app.callback()
def _deadletters() -> None:
    """Show records that were refused, and send reports among them again."""


@app.command("list")
def list_letters(
    ctx: typer.Context,
    *,
    reason: _Reason = "",
    service: _Service = "",
    topic: _Topic = "",
    source: _Source = "",
    key: _Key = "",
    since: _Since = "",
    limit: Annotated[int, typer.Option(help="How many at most. 0 for all.", min=0)] = 100,
    form: output.FormatOption = output.Format.TABLE,
) -> None:
    """List dead letters, the newest first."""
    chosen = _chosen({"service": service, "reason": reason, "topic": topic, "key": key, "source": source}, since)
    with connect_home(ctx) as client:
        found = _Found(client, chosen)
        items = list(found.items(limit))
    if form in {output.Format.JSON, output.Format.YAML}:
        output.write(output.document({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}, form))
    elif form is output.Format.NAME:
        for item in items:
            output.line(_LETTERS.called(_name(item)))
    elif not items:
        warn("No dead letters found.")
    else:
        columns = [
            TableColumn("NAME", text("metadata", "name")),
            *output.columns_of(_LETTERS, wide=form is output.Format.WIDE),
        ]
        rows = [output.row(item, columns) for item in items]
        title = [column.title for column in columns]
        widths = output.widths([title, *rows])
        for row in (title, *rows):
            output.line(output.columns(row, widths))
    if found.more:
        warn(f"There are more than these {limit}. --limit 0 lists all; --since and --reason select.")


@app.command("describe")
def describe_letters(
    ctx: typer.Context,
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help="Their names.", show_default=False)],
) -> None:
    """Show dead letters with their originals. Secrets are left out of these."""
    failed = False
    with connect_home(ctx) as client:
        for number, name in enumerate(names):
            try:
                found = client.get(_LETTERS, "", _plain(name))
            except ServerError as error:
                if error.reason != "NotFound":
                    raise
                warn(str(error))
                failed = True
                continue
            lines = "".join(f"{one}\n" for one in describing.lines(client, _LETTERS, found))
            output.write(("\n\n" if number else "") + lines)
    if failed:
        raise typer.Exit(FAILED)


@app.command("replay")
def replay(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME…]", help="Their names.", show_default=False)
    ] = None,
    *,
    reason: _Reason = "",
    service: _Service = "",
    source: _Source = "",
    key: _Key = "",
    since: _Since = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Send selected letters without confirmation.")] = False,
    dry_run: Annotated[
        str,
        typer.Option(
            "--dry-run",
            help="client: only list the letters. server: check each, and send nothing.",
            metavar="none|client|server",
        ),
    ] = "none",
    timeout: Annotated[
        str,
        typer.Option(help="How long to wait for the outcome of a report, at most 30s. 0 to not wait."),
    ] = "10s",
) -> None:
    """Send refused reports again: those that you name, or those that options select.

    A report keeps its id, so it does not count twice. It is checked again, with its seal or signature.
    Records of services, and events of webhooks, are not sent again.
    """
    chosen = {"service": service, "reason": reason, "key": key, "source": source}
    has_options = any(chosen.values()) or bool(since)
    if bool(names) is has_options:
        raise UsageError("name the letters, or select them by --reason, --service, --source, --key or --since")
    if dry_run not in {"none", "client", "server"}:
        raise UsageError(f"--dry-run: invalid value {dry_run!r}: must be none, client or server")
    wait = parse_wait(timeout)
    failed = False
    with connect_home(ctx) as client:
        # The oldest come first, as they came.
        wanted = [_plain(name) for name in names or ()]
        if has_options:
            found = _Found(client, _chosen({**chosen, "topic": "condition-reports"}, since))
            wanted = [_name(item) for item in found.items(0)][::-1]
        if not wanted:
            warn("No dead letters found.")
        elif has_options and not yes and dry_run == "none":
            if not sys.stdin.isatty():
                raise CliError(f"not a terminal: pass --yes to send {len(wanted)} reports again")
            typer.confirm(f"Send {len(wanted)} reports again?", abort=True, err=True)
        for name in wanted:
            failed |= not _sent_again(client, name, dry_run, wait)
    if failed:
        raise typer.Exit(FAILED)


class _Found:
    """The letters that options choose."""

    def __init__(self, client: Client, chosen: dict[str, str]) -> None:
        self._client = client
        self._chosen = chosen
        self.more = False
        """Whether there are more than were wanted."""

    def items(self, most: int) -> Iterator[JsonObject]:
        """Yield the newest letters. 0 means all."""
        token, count = "", 0
        while True:
            limit = min(CHUNK, most - count) if most else CHUNK
            params = {**self._chosen, "limit": str(limit), **({"continue": token} if token else {})}
            part = self._client.read(list_path(_LETTERS, None), params)
            for item in part.get("items") or []:
                count += 1
                yield {"apiVersion": _LETTERS.api_version, "kind": _LETTERS.kind, **item}
            token = str(at(part, "metadata", "continue") or "")
            if not token or (most and count >= most):
                self.more = bool(token)
                return


def _sent_again(client: Client, name: str, dry_run: str, wait: float) -> bool:
    """Send a letter again, print the outcome, and return whether it was accepted."""
    called = _LETTERS.called(name)
    if dry_run == "client":
        output.line(f"{called} would be sent again (dry run)")
        return True
    asked = {"dryRun": "All"} if dry_run == "server" else {"waitSeconds": f"{wait:g}"} if wait else {}
    try:
        answer = client.post(object_path(_LETTERS, "", name, REPLAY), {}, options=asked)
    except ServerError as error:
        if error.status == _FORBIDDEN and not (error.details or {}).get("causes"):
            raise  # the user may send none of them again
        warn(f"error: {called}: {error}")
        return False
    outcome: dict[str, Any] = at(answer, "status", "replay") or {}
    word, why = str(outcome.get("outcome")), str(outcome.get("message") or "")
    if word == "Ignored":
        warn(f"error: {called} ignored: {why}")
        return False
    tail = " (server dry run)" if dry_run == "server" else f", {_WORDS[word]}" if word in _WORDS else ""
    output.line(f"{called} sent again{tail}")
    return True


def _chosen(fields: dict[str, str], since: str) -> dict[str, str]:
    """Return the parameters of a list that choose letters."""
    pairs = ",".join(f"{name}={_escaped(value)}" for name, value in fields.items() if value)
    found = {"fieldSelector": pairs} if pairs else {}
    if since:
        found["sinceTime"] = _begin(since, datetime.now(UTC))
    return found


def _begin(since: str, now: datetime) -> str:
    """Return the time of `--since`."""
    begin = parse_instant(since, now)
    if begin > now:
        raise UsageError(f"--since: invalid time {since!r}: must not be in the future")
    return format_time(begin)


def _escaped(value: str) -> str:
    """Return a value as a field selector has it."""
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


def _name(item: JsonObject) -> str:
    return str(at(item, "metadata", "name"))


def _plain(name: str) -> str:
    """Return a name without the kind before it, as `-o name` writes it."""
    return name.rpartition("/")[2]


_WEBHOOKS = kinds.find("webhooks")

webhooks = typer.Typer(no_args_is_help=True, help="Send events again that a webhook did not accept.")


@webhooks.callback()
def _webhooks() -> None:
    """Send events again that a webhook did not accept."""


@webhooks.command("replay")
def replay_webhook(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="The Webhook.", show_default=False)],
    *,
    since: Annotated[
        str, typer.Option(help="The earliest time: RFC 3339, or a duration ago. Dead letters are kept for 30 days.")
    ] = "30d",
) -> None:
    """Send the undelivered events of a webhook again, which are in dead-letters.

    Sets `spec.replay` of the Webhook; the webhook worker does the rest. Events keep their ids.
    """
    now = datetime.now(UTC)
    times = {"since": _begin(since, now), "until": format_time(now)}
    with connect_home(ctx) as client:
        client.patch(_WEBHOOKS, "", name, {"spec": {"replay": times}})
    output.line(f"{_WEBHOOKS.called(name)}: undelivered events since {times['since']} will be sent again")
