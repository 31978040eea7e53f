"""`moorage topics`: creates or lists Moorage's topics."""

from __future__ import annotations

import asyncio
from typing import Any

import typer
from aiokafka.errors import KafkaError

from moorage.cli.api import endpoints, topics
from moorage.cli.errors import CliError
from moorage.cli.render import output
from moorage.cli.render.output import Format
from moorage.runtime.errors import RuntimeFailure
from moorage.runtime.kafka import clients
from moorage.runtime.kafka.topics_admin import ensure_topics
from moorage.runtime.settings import Settings
from moorage_schemas.topics import TOPICS

app = typer.Typer(no_args_is_help=True, help="Create or list Moorage's topics.")


@app.command("make")
def make(form: output.FormatOption = Format.TABLE) -> None:
    """Create the topics that are missing."""
    settings = _settings()
    counts = _run(settings, ensure_topics(settings))
    _show(_rows(settings, counts), form)


@app.command("list")
def list_topics(form: output.FormatOption = Format.TABLE) -> None:
    """List the topics, with the number of partitions that each has in Kafka."""
    settings = _settings()
    _show(_rows(settings, _run(settings, _counts(settings))), form)


def _settings() -> Settings:
    bootstrap, prefix = endpoints.kafka()
    return endpoints.load_settings(bootstrap_servers=bootstrap, topic_prefix=prefix)


def _run(settings: Settings, work: Any) -> dict[str, int]:
    topics.quiet()
    try:
        counts: dict[str, int] = asyncio.run(work)
    except RuntimeFailure as error:
        raise CliError(str(error)) from None
    except (KafkaError, OSError) as error:
        raise topics.unreachable(settings.bootstrap_servers, error) from None
    return counts


async def _counts(settings: Settings) -> dict[str, int]:
    admin = clients.admin_client(settings, client_id="moorage-cli")
    names = {topic.name(settings.topic_prefix): topic.short for topic in TOPICS}
    try:
        await admin.start()
        described = await admin.describe_topics(list(names))
    finally:
        await admin.close()
    return {names[found["topic"]]: len(found["partitions"]) for found in described if not found["error_code"]}


def _rows(settings: Settings, counts: dict[str, int]) -> list[dict[str, Any]]:
    return [
        {
            "name": topic.name(settings.topic_prefix),
            "partitions": counts.get(topic.short, 0),
            "cleanup": topic.cleanup.value,
            "key": topic.key,
            "partitionBy": topic.partition_by,
            "event": topic.event_type,
            "writer": topic.writer,
        }
        for topic in TOPICS
    ]


def _show(rows: list[dict[str, Any]], form: Format) -> None:
    if form in {Format.JSON, Format.YAML}:
        output.write(output.document({"items": rows}, form))
        return
    if form is Format.NAME:
        for row in rows:
            output.line(row["name"])
        return
    shown = ["name", "partitions", "cleanup", "key"]
    if form is Format.WIDE:
        shown += ["partitionBy", "event", "writer"]
    head = {"partitionBy": "PARTITION BY"}
    output.write(
        output.table(
            [head.get(name, name.upper()) for name in shown], [[str(row[name]) for name in shown] for row in rows]
        )
    )
