"""`moorage topics`: creates or lists Moorage's topics."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

import typer

from moorage.cli.api import endpoints, topics
from moorage.cli.commands.topics_acls import acls
from moorage.cli.errors import CliError
from moorage.cli.render import output
from moorage.cli.render.output import Format
from moorage.runtime.kafka.admin.topic_settings import SettingDifference, change, differences
from moorage.runtime.kafka.admin.topics_admin import ensure_topics
from moorage.runtime.kafka.clients import clients
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import TOPICS

T = TypeVar("T")

app = typer.Typer(no_args_is_help=True, help="Create or list Moorage's topics.")


@app.command("make")
def make(
    form: output.FormatOption = Format.TABLE,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Change settings without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Also change settings that have another value on the topic.")
    ] = False,
) -> None:
    """Create the topics that are missing, and give all topics the settings of Moorage's table.

    What differs is shown first: topic, setting, present and wanted value. A value that is set on the topic itself is
    kept, unless --overwrite is given. Settings that the table does not have are never changed.
    """
    settings = _settings()
    if dry_run:
        _show_changes(settings, form, overwrite=overwrite)
        return
    counts = topics.run(settings, ensure_topics(settings))
    _change(settings, topics.run(settings, differences(settings)), yes=yes, overwrite=overwrite)
    _show(_rows(settings, counts), form)


@app.command("list")
def list_topics(form: output.FormatOption = Format.TABLE) -> None:
    """List the topics, with the number of partitions that each has in Kafka."""
    settings = _settings()
    _show(_rows(settings, topics.run(settings, _counts(settings))), form)


app.command("acls")(acls)


def _settings() -> Settings:
    bootstrap, prefix = endpoints.kafka()
    return endpoints.load_settings(bootstrap_servers=bootstrap, topic_prefix=prefix)


def _change(settings: Settings, found: Sequence[SettingDifference], *, yes: bool, overwrite: bool) -> None:
    """Show what differs, and change it if that is wanted.

    Raises:
        CliError: nobody can be asked.
        Abort: the answer is no.
    """
    wanted = [one for one in found if overwrite or not one.chosen]
    if found:
        typer.echo(_differences(found, overwrite=overwrite), err=True, nl=False)
    if not wanted:
        return
    if not yes:
        if not sys.stdin.isatty():
            raise CliError(f"{len(wanted)} settings were not changed: nobody can be asked; give --yes to change them")
        typer.confirm(f"Change {len(wanted)} settings?", abort=True, err=True)
    topics.run(settings, change(settings, wanted))
    typer.echo(f"{len(wanted)} settings changed", err=True)


def _show_changes(settings: Settings, form: Format, *, overwrite: bool) -> None:
    """Show what `make` would do."""
    counts = topics.run(settings, _counts(settings))
    missing = [topic.name(settings.topic_prefix) for topic in TOPICS if not counts.get(topic.short)]
    found = topics.run(settings, differences(settings))
    if form in {Format.JSON, Format.YAML}:
        items = [
            {
                "topic": one.topic,
                "setting": one.setting,
                "present": one.present,
                "wanted": one.wanted,
                "changes": overwrite or not one.chosen,
            }
            for one in found
        ]
        output.write(output.document({"missing": missing, "items": items}, form))
        return
    for name in missing:
        output.line(f"topic/{name} created (dry run)")
    if form is Format.NAME:
        for name in dict.fromkeys(one.topic for one in found if overwrite or not one.chosen):
            output.line(f"topic/{name} configured (dry run)")
    elif found:
        output.write(_differences(found, overwrite=overwrite))


def _differences(found: Sequence[SettingDifference], *, overwrite: bool) -> str:
    rows = [
        [one.topic, one.setting, one.present, one.wanted, "change" if overwrite or not one.chosen else "keep"]
        for one in found
    ]
    return output.table(["TOPIC", "SETTING", "PRESENT", "WANTED", "ACTION"], rows)


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
