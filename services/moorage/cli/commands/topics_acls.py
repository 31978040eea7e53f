"""`moorage topics acls`: what each part of a fleet may do in Kafka."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from itertools import groupby
from typing import Annotated, Any, Final, TypeVar

import typer

from moorage.cli.api import endpoints, topics
from moorage.cli.contract import kafka_roles
from moorage.cli.contract.kafka_roles import KafkaRole
from moorage.cli.errors import FAILED, UsageError
from moorage.cli.render import output
from moorage.runtime.identities import kafka_identities
from moorage.runtime.kafka.admin.acls import AclEntry, AclPattern, AclResource, created, deleted, listed, tool_commands
from moorage.runtime.settings.process_settings import Settings

T = TypeVar("T")

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


def acls(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ROLE]…",
            help="Services, webhooks, query, gateway, probe, deployer, operator, viewer. [default: all]",
        ),
    ] = None,
    form: Annotated[
        AclFormat,
        typer.Option(
            "-o", "--output", help="json, yaml, commands: those of Kafka's own tool, or strimzi: its KafkaUsers."
        ),
    ] = AclFormat.TABLE,
    principals: Annotated[
        str, typer.Option("--principal-prefix", help="What the names of the principals begin with.")
    ] = kafka_roles.PRINCIPALS,
    *,
    cluster: Annotated[
        str, typer.Option("--strimzi-cluster", help="With -o strimzi: the name of the Kafka that the users belong to.")
    ] = "moorage",
    check: Annotated[
        bool, typer.Option("--check", help="Compare with Kafka. Exit with 1 if something differs.")
    ] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Add what is missing in Kafka.")] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="With --apply: remove what these principals may do beyond it.")
    ] = False,
) -> None:
    """Show what each part of a fleet may do in Kafka, compare it with Kafka's ACLs, or add what is missing.

    Each part is a principal of its own, and may do what the services' classes and the table of topics say that it does,
    and no more. Comparing needs the right to describe the cluster, and adding the right to alter it.
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
        _show(sorted(wanted), form, settings)
        return
    bootstrap, prefix = endpoints.kafka()
    settings = endpoints.load_settings(
        kafka_role=kafka_identities.ADMIN, bootstrap_servers=bootstrap, topic_prefix=prefix
    )
    wanted = kafka_roles.entries(prefix, principals, chosen)
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
            raise UsageError(f"there is no role {name!r}; must be one of {', '.join(known)}")
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
        output.write(output.to_yaml(found) if form is AclFormat.YAML else output.to_json(found))
        return
    for entry in missing:
        output.line(f"missing: {entry}")
    for entry in beyond:
        output.line(f"beyond what is needed: {entry}")
    if not missing and not beyond:
        output.line("Kafka allows what is needed, and nothing else")


def _show(entries: Sequence[AclEntry], form: AclFormat, settings: Settings) -> None:
    match form:
        case AclFormat.COMMANDS:
            for command in tool_commands(entries, settings.bootstrap_servers):
                output.line(command)
        case AclFormat.JSON:
            output.write(output.to_json({"items": _documents(entries)}))
        case AclFormat.YAML:
            output.write(output.to_yaml({"items": _documents(entries)}))
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
    """Return a KafkaUser for each principal, by name. Each shows a certificate, which Strimzi makes and renews.

    Args:
        entries: what the principals may do.
        cluster: the name of the Kafka, as in Strimzi's label.
    """
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
    """The name of the KafkaUser of a principal, such as `moorage-timer` of `User:moorage-timer`."""
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
