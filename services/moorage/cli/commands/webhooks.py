"""`moorage webhooks`: sends events again that a webhook has not taken."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from moorage.cli.api import kinds
from moorage.cli.api.endpoints import connect_home
from moorage.cli.errors import UsageError
from moorage.cli.render import output
from moorage.cli.render.durations import parse_instant
from moorage_schemas.times import format_time

_WEBHOOKS = kinds.find("webhooks")

app = typer.Typer(no_args_is_help=True, help="Send events again that a webhook has not taken.")


@app.callback()
def _webhooks() -> None:
    """Send events again that a webhook has not taken."""


@app.command("replay")
def replay(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="The Webhook.", show_default=False)],
    *,
    since: Annotated[
        str, typer.Option(help="From when on: RFC 3339, or a duration ago. Dead letters are kept for 30 days.")
    ] = "30d",
) -> None:
    """Send the events again that were given up for a webhook until now, and are in dead-letters.

    Sets `spec.replay` of the Webhook; the webhook worker does the rest. Events keep their ids.
    """
    now = datetime.now(UTC)
    begin = parse_instant(since, now)
    if begin > now:
        raise UsageError(f"--since: invalid time {since!r}: must not be in the future")
    times = {"since": format_time(begin), "until": format_time(now)}
    with connect_home(ctx) as client:
        client.patch(_WEBHOOKS, "", name, {"spec": {"replay": times}})
    output.line(f"{_WEBHOOKS.called(name)}: what was given up since {times['since']} will be sent again")
