"""`moorage watch`: show events from the topics, one per line."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import Annotated

import orjson
import typer

from moorage.apiserver.kinds.status.clusters import cluster_of
from moorage.cli import completion
from moorage.cli.api import endpoints
from moorage.cli.api.topics import BEGINNING, Seen, TopicReader, topics_named
from moorage.cli.errors import CliError
from moorage.cli.render import colors, output
from moorage.cli.render.durations import parse_duration, parse_instant
from moorage.cli.render.events import line
from moorage.cli.render.output import EventFormat
from moorage_schemas.topics import Topic

DEFAULT = ("conditions", "taints", "zones", "zone-grants", "timers", "timer-fired", "evictions", "placements")
"""The topics that are watched by default."""


def watch(
    ctx: typer.Context,
    topics: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TOPIC…]",
            help="Such as placements, evictions, taints, conditions, timers, bindings, zones, budgets or reports.",
            show_default=False,
            autocompletion=completion.topics,
        ),
    ] = None,
    *,
    form: Annotated[
        EventFormat,
        typer.Option("-o", "--output", help="lines, wide (with offsets), json (one event per line), yaml or name."),
    ] = EventFormat.LINES,
    since: Annotated[
        str,
        typer.Option(help="Start at an RFC 3339 time, a duration ago such as 5m, or `beginning`. The default is now."),
    ] = "",
    count: Annotated[
        int, typer.Option(min=0, help="Stop after this number of events. The exit code is 1 if --timeout ends first.")
    ] = 0,
    timeout: Annotated[str, typer.Option(help="Stop after this time, such as 30s.")] = "",
) -> None:
    """Show events from the topics as they happen.

    With --fleet-cluster, only those about that cluster.
    """
    cluster = endpoints.chosen_cluster(ctx)
    chosen = topics_named(topics or DEFAULT)
    now = datetime.now(UTC)
    start: datetime | None = None
    if since:
        start = BEGINNING if since == "beginning" else parse_instant(since, now)
    limit = parse_duration(timeout, "--timeout").total_seconds() if timeout else None
    bootstrap, prefix = endpoints.kafka()
    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C is the way to stop it
        seen = asyncio.run(_follow(bootstrap, prefix, chosen, start, cluster, count=count, limit=limit, form=form))
        if count and seen < count:
            raise CliError(f"timed out after {timeout} after {seen} of {count} events")


async def _follow(
    bootstrap: str,
    prefix: str,
    topics: list[Topic],
    since: datetime | None,
    cluster: str,
    *,
    count: int,
    limit: float | None,
    form: EventFormat,
) -> int:
    """Write events until enough were written or the time has run out, and return their number."""
    written = 0
    write = _writer(form, topics)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limit), TopicReader(bootstrap, prefix, topics, since) as reader:
            async for batch in reader.batches():
                for seen in batch:
                    if cluster and cluster_of(seen.topic.short, seen.key) != cluster:
                        continue
                    write(seen)
                    written += 1
                    if count and written >= count:
                        return written
    return written


class _writer:  # noqa: N801 - called as a function
    """Writes one event in one format, at once."""

    def __init__(self, form: EventFormat, topics: list[Topic]) -> None:
        self._form = form
        self._width = max(len(topic.short) for topic in topics)
        self._console = colors.console()

    def __call__(self, seen: Seen) -> None:
        if self._form is EventFormat.JSON:
            output.line(orjson.dumps(seen.document()).decode())
        elif self._form is EventFormat.YAML:
            output.write("---\n" + output.to_yaml(seen.document()))
        elif self._form is EventFormat.NAME:
            output.line(f"{seen.topic.short}/{seen.key}")
        else:
            text = line(seen, self._width)
            if self._form is EventFormat.WIDE:
                cause = seen.meta.correlation if seen.meta else "-"
                text.append(f"  [{seen.topic.short} {seen.partition}@{seen.offset}, chain {cause}]", "dim")
            self._console.print(text)
            self._console.file.flush()
