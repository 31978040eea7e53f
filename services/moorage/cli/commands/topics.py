"""`moorage topics`: compare, create or list Moorage's topics, and show or change their ACLs."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from itertools import groupby
from typing import Annotated, Any, Final

import typer

from moorage.cli.api import endpoints, topics
from moorage.cli.contract import kafka_roles
from moorage.cli.contract.kafka_roles import KafkaRole
from moorage.cli.errors import FAILED, CliError, UsageError
from moorage.cli.render import output
from moorage.cli.render.output import Format
from moorage.insight.copy.snapshot import partitions_of
from moorage.runtime.identities import kafka_identities
from moorage.runtime.kafka.admin.acls import AclEntry, AclPattern, AclResource, created, deleted, listed, tool_commands
from moorage.runtime.kafka.admin.topic_plan import PlannedAction, TopicDifference, planned
from moorage.runtime.kafka.admin.topic_settings import change
from moorage.runtime.kafka.admin.topics_admin import ensure_topics
from moorage.runtime.settings import environment
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import TOPICS

app = typer.Typer(no_args_is_help=True, help="Compare, create or list Moorage's topics.")


OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Also change settings that have another value on the topic.")
]
ShortenOption = Annotated[bool, typer.Option("--shorten", help="Also let records be kept for a shorter time than now.")]


@app.command("plan")
def plan(
    form: output.FormatOption = Format.TABLE,
    *,
    overwrite: OverwriteOption = False,
    shorten: ShortenOption = False,
) -> None:
    """Show the differences between the topics of this version and those of the cluster.

    Each difference has what `apply` does about it: create a topic, change a setting, keep the present value, or refuse,
    with the remedy. The exit code is 1 if there is anything to create, change or remedy, and 0 otherwise.
    """
    settings = endpoints.kafka_settings()
    found = _planned(settings, overwrite=overwrite, shorten=shorten)
    _show_plan(found, form)
    if any(one.action is not PlannedAction.KEEP for one in found):
        raise typer.Exit(FAILED)


@app.command("make", hidden=True)  # the former name
@app.command("apply")
def apply(
    form: output.FormatOption = Format.TABLE,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Change settings without confirmation.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, and change nothing.")] = False,
    overwrite: OverwriteOption = False,
    shorten: ShortenOption = False,
) -> None:
    """Create the topics that are missing, and give all topics the settings of Moorage's table.

    The plan is shown first. Nothing that is done loses records: no topic is deleted or gets more partitions, and no
    record is kept for a shorter time unless --shorten is given. A value that is set on the topic itself is kept, unless
    --overwrite is given. Settings that the table does not have are never changed.
    """
    settings = endpoints.kafka_settings()
    found = _planned(settings, overwrite=overwrite, shorten=shorten)
    if dry_run:
        _show_plan(found, form)
        return
    wanted = [one.setting for one in found if one.setting is not None and one.action is PlannedAction.CHANGE]
    shown = [one for one in found if one.action is not PlannedAction.CREATE]
    if shown:
        typer.echo(_plan_table(shown), err=True, nl=False)
    if wanted and not yes:
        if not sys.stdin.isatty():
            raise CliError(f"not a terminal: pass --yes to change {len(wanted)} settings")
        typer.confirm(f"Change {len(wanted)} settings?", abort=True, err=True)
    counts = topics.run(settings, ensure_topics(settings))
    if wanted:
        topics.run(settings, change(settings, wanted))
        typer.echo(f"{len(wanted)} settings changed", err=True)
    elif all(one.action is PlannedAction.KEEP for one in found):
        typer.echo("nothing to change", err=True)
    _show(_rows(settings, counts), form)


@app.command("list")
def list_topics(form: output.FormatOption = Format.TABLE) -> None:
    """List the topics, with the number of partitions that each has in Kafka."""
    settings = endpoints.kafka_settings()
    _show(_rows(settings, topics.run(settings, _counts(settings))), form)


def _planned(settings: Settings, *, overwrite: bool, shorten: bool) -> list[TopicDifference]:
    partitions = settings.partitions if environment.text("partitions") is not None else None
    return topics.run(settings, planned(settings, partitions=partitions, overwrite=overwrite, shorten=shorten))


def _show_plan(found: Sequence[TopicDifference], form: Format) -> None:
    match form:
        case Format.JSON | Format.YAML:
            items = [
                {
                    "topic": one.topic,
                    "difference": one.subject,
                    "present": one.present,
                    "wanted": one.wanted,
                    "action": one.action.value,
                    "remedy": one.remedy,
                }
                for one in found
            ]
            output.write(output.document({"items": items}, form))
        case Format.NAME:
            done = {PlannedAction.CREATE: "created", PlannedAction.CHANGE: "configured"}
            for name, action in dict.fromkeys((one.topic, one.action) for one in found if one.action in done):
                output.line(f"topic/{name} {done[action]} (dry run)")
        case _ if found:
            output.write(_plan_table(found))
        case _:
            output.line("nothing to change")


def _plan_table(found: Sequence[TopicDifference]) -> str:
    """Return differences as a table, with the remedies below it."""
    rows = [[one.topic, one.subject, one.present, one.wanted, one.action.value] for one in found]
    whole = output.table(["TOPIC", "DIFFERENCE", "PRESENT", "WANTED", "ACTION"], rows)
    remedies: dict[tuple[str, str], list[str]] = {}
    for one in found:
        if one.remedy:
            remedies.setdefault((one.subject, one.remedy), []).append(one.topic)
    for (subject, remedy), names in remedies.items():
        where = names[0] if len(names) == 1 else f"{len(names)} topics"
        whole += f"{subject} of {where}: {remedy}\n"
    return whole


async def _counts(settings: Settings) -> dict[str, int]:
    names = {topic.name(settings.topic_prefix): topic.short for topic in TOPICS}
    return {names[name]: count for name, count in (await partitions_of(settings, names)).items()}


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


_KAFKA_USERS: Final = "kafka.strimzi.io/v1"
_CLUSTER_LABEL: Final = "strimzi.io/cluster"

_KINDS: Final = {
    AclResource.TOPIC: "topic",
    AclResource.GROUP: "group",
    AclResource.CLUSTER: "cluster",
    AclResource.TRANSACTIONAL_ID: "transactionalId",
}
_PATTERNS: Final = {AclPattern.LITERAL: "literal", AclPattern.PREFIXED: "prefix"}


class AclFormat(StrEnum):
    """How permissions are written."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    COMMANDS = "commands"
    STRIMZI = "strimzi"


@app.command("acls")
def acls(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ROLE]…",
            help="Services, webhooks, query, gateway, targets (the chain), probe, deployer, bridge, operator, viewer. "
            "[default: all]",
        ),
    ] = None,
    form: Annotated[
        AclFormat,
        typer.Option(
            "-o", "--output", help="json, yaml, commands: those of Kafka's own tool, or strimzi: its KafkaUsers."
        ),
    ] = AclFormat.TABLE,
    principals: Annotated[
        str, typer.Option("--principal-prefix", help="The prefix of the principals' names.")
    ] = kafka_roles.PRINCIPALS,
    *,
    cluster: Annotated[
        str, typer.Option("--strimzi-cluster", help="With -o strimzi: the name of the Kafka that the users belong to.")
    ] = "moorage",
    check: Annotated[
        bool, typer.Option("--check", help="Compare with Kafka. Exit with 1 if something differs.")
    ] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Add the permissions that are missing in Kafka.")] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="With --apply: remove further permissions of these principals.")
    ] = False,
) -> None:
    """Show the Kafka permissions of each part of a fleet, compare them with Kafka's ACLs, or add missing ones.

    Each part is a principal of its own. Its permissions are derived from the services' classes and the table of topics.
    Comparing needs the right to describe the cluster, and adding the right to alter it.
    """
    if form is AclFormat.STRIMZI and (check or apply):
        raise UsageError("-o strimzi: not with --check or --apply, because Strimzi's operator makes the ACLs")
    if not principals.partition(":")[2] or (apply and check) or (prune and not apply):
        raise UsageError(
            "--prune: only with --apply"
            if prune and not apply
            else "--apply: only one of it and --check"
            if apply and check
            else f"--principal-prefix: invalid value {principals!r}: must be like User:moorage-"
        )
    chosen = _roles(names or [])
    if not apply and not check:
        settings = endpoints.load_settings()
        wanted = kafka_roles.entries(settings.topic_prefix, principals, chosen)
        if form is AclFormat.STRIMZI:
            output.write("---\n".join(output.to_yaml(user) for user in kafka_users(wanted, cluster)))
            return
        _show_acls(sorted(wanted), form, settings)
        return
    settings = endpoints.kafka_settings(kafka_role=kafka_identities.ADMIN)
    wanted = kafka_roles.entries(settings.topic_prefix, principals, chosen)
    present = topics.run(settings, listed(settings, {entry.principal for entry in wanted}))
    missing, beyond = sorted(wanted - present), sorted(present - wanted)
    if apply:
        _apply(settings, missing, beyond, prune=prune)
        return
    _compare(missing, beyond, form)
    if missing or beyond:
        raise typer.Exit(FAILED)


def _roles(names: Collection[str]) -> list[KafkaRole]:
    known = {role.name: role for role in kafka_roles.roles()}
    for name in names:
        if name not in known:
            raise UsageError(f"role {name!r} does not exist: expected one of {', '.join(known)}")
    return [role for name, role in known.items() if not names or name in names]


def _apply(settings: Settings, missing: Sequence[AclEntry], beyond: Sequence[AclEntry], *, prune: bool) -> None:
    topics.run(settings, created(settings, missing))
    for entry in missing:
        output.line(f"{entry} added")
    if prune:
        topics.run(settings, deleted(settings, beyond))
    for entry in beyond:
        output.line(f"{entry} removed" if prune else f"{entry} is beyond what is needed; --prune removes it")
    if not missing and not (prune and beyond):
        output.line("nothing to change")


def _compare(missing: Sequence[AclEntry], beyond: Sequence[AclEntry], form: AclFormat) -> None:
    if form in {AclFormat.JSON, AclFormat.YAML}:
        found = {"missing": _documents(missing), "beyond": _documents(beyond)}
        output.write(output.document(found, form))
        return
    for entry in missing:
        output.line(f"missing: {entry}")
    for entry in beyond:
        output.line(f"beyond what is needed: {entry}")
    if not missing and not beyond:
        output.line("Kafka allows exactly the needed permissions")


def _show_acls(entries: Sequence[AclEntry], form: AclFormat, settings: Settings) -> None:
    match form:
        case AclFormat.COMMANDS:
            for command in tool_commands(entries, settings.bootstrap_servers):
                output.line(command)
        case AclFormat.JSON | AclFormat.YAML:
            output.write(output.document({"items": _documents(entries)}, form))
        case AclFormat.TABLE:
            rows = [[one["principal"], one["resource"], one["name"], one["operation"]] for one in _documents(entries)]
            output.write(output.table(["PRINCIPAL", "RESOURCE", "NAME", "OPERATION"], rows))


def _documents(entries: Sequence[AclEntry]) -> list[dict[str, Any]]:
    """Return entries as documents. A name that ends with `*` stands for all that begin so."""
    return [
        {
            "principal": entry.principal,
            "resource": entry.resource.word,
            "name": entry.shown_name,
            "operation": entry.operation.word,
        }
        for entry in entries
    ]


def kafka_users(entries: Iterable[AclEntry], cluster: str) -> list[dict[str, Any]]:
    """Return a KafkaUser for each principal, by name. Each shows a certificate, which Strimzi makes and renews."""
    return [
        {
            "apiVersion": _KAFKA_USERS,
            "kind": "KafkaUser",
            "metadata": {"name": _user_name(principal), "labels": {_CLUSTER_LABEL: cluster}},
            "spec": {
                "authentication": {"type": "tls"},
                "authorization": {"type": "simple", "acls": [_acl(*one) for one in _by_resource(own)]},
            },
        }
        for principal, own in groupby(sorted(entries), key=lambda entry: entry.principal)
    ]


def _user_name(principal: str) -> str:
    """Return the name of the KafkaUser of a principal, such as `moorage-timer` of `User:moorage-timer`."""
    return principal.partition(":")[2].removeprefix("CN=")


def _by_resource(entries: Iterable[AclEntry]) -> Iterable[tuple[AclEntry, list[str]]]:
    for _, alike in groupby(entries, key=lambda entry: (entry.resource, entry.name, entry.pattern)):
        first, *others = alike
        yield first, [entry.operation.word for entry in (first, *others)]


def _acl(entry: AclEntry, operations: list[str]) -> dict[str, Any]:
    resource = {"type": _KINDS[entry.resource]}
    if entry.resource is not AclResource.CLUSTER:  # there is only one
        resource |= {"name": entry.name, "patternType": _PATTERNS[entry.pattern]}
    return {"resource": resource, "operations": operations}
