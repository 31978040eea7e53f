"""`moorage doctor`: checks of everything around the services, each finding with its remedy."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import typer
from aiokafka.errors import KafkaError

from moorage.cli.api import endpoints, runfile, topics
from moorage.cli.api.client import Client
from moorage.cli.contract import kafka_roles
from moorage.cli.errors import FAILED, CliError, ServerError
from moorage.cli.render import colors, output, survey
from moorage.insight.survey import certificate_checks, process_checks
from moorage.insight.survey.broker_checks import DISK, check_brokers, gib
from moorage.insight.survey.certificate_checks import Presented
from moorage.insight.survey.findings import Finding, Level, worst
from moorage.insight.survey.process_checks import RunningProcess
from moorage.runtime.identities import kafka_identities
from moorage.runtime.kafka.admin.acls import listed
from moorage.runtime.kafka.clients.refusals import describe
from moorage.runtime.process.failures import RuntimeFailure
from moorage.runtime.process.versions import own_version
from moorage.runtime.settings.environment import state_folder
from moorage.runtime.settings.kafka_settings import are_on_loopback
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.settings.unknown_variables import unknown_variables

_PATIENCE: Final = 10.0  # seconds that the gateway may take for an answer
_LOW, _VERY_LOW = 2 * 2**30, 2**29  # bytes of free disk for a warning, and for an error
_SETTINGS: Final = "settings"
_PERMISSIONS: Final = "permissions"
_BROKERS: Final = "brokers"
_CERTIFICATE_SETTINGS: Final = ("kafka_ca_file", "kafka_cert_file", "tls_cert_file", "client_ca_file")


def doctor(
    ctx: typer.Context,
    *,
    form: Annotated[output.DocumentFormat, typer.Option("-o", "--output", help="table, json or yaml.")] = (
        output.DocumentFormat.TABLE
    ),
    principals: Annotated[
        str, typer.Option("--principal-prefix", help="The prefix of the principals' names in Kafka's ACLs.")
    ] = kafka_roles.PRINCIPALS,
) -> None:
    """Check brokers, topics, permissions, clocks, certificates and settings, with remedies.

    Nothing is changed. Exit code 0 means that no check found an error, 1 that one did. What you may not read is
    reported as unknown. `moorage status` shows the services and the fleet themselves.
    """
    with colors.waiting("checking"):
        found = _all_findings(ctx, principals)
    if form is output.DocumentFormat.TABLE:
        output.write(survey.findings_text(found))
    else:
        document = {"level": worst(found).value, "findings": [one.document() for one in found]}
        output.write(output.document(document, form))
    if worst(found) is Level.ERROR:
        raise typer.Exit(FAILED)


def _all_findings(ctx: typer.Context, principals: str) -> list[Finding]:
    settings, found = _settings()
    processes: list[RunningProcess] = []
    if settings is not None:
        found += topics.run(settings, check_brokers(settings))
        if not any(one.level is Level.ERROR and one.check == _BROKERS for one in found):
            found += _permissions(settings, principals)
            processes, problems = _processes(settings)
            found += problems
    version, ahead, gateway = _gateway(ctx)
    found += gateway
    found += process_checks.clock_findings(processes, ahead) if settings is not None else []
    found += process_checks.version_findings(processes, own_version(), version)
    found += certificate_checks.certificate_findings(_certificates(ctx, settings), datetime.now(UTC))
    found += _disk()
    return found


def _settings() -> tuple[Settings | None, list[Finding]]:
    """Return the settings with Kafka's address, and the findings about the environment."""
    found = [
        Finding(
            Level.WARNING,
            _SETTINGS,
            f"{name} has no effect",
            f"did you mean {near}?" if near else "remove it, or check its name in docs/operations.md",
        )
        for name, near in unknown_variables().items()
    ]
    try:
        settings = endpoints.kafka_settings(kafka_role=kafka_identities.ADMIN)
    except CliError as error:
        first, _, advice = error.message.partition("\n")
        return None, [*found, Finding(Level.ERROR, _SETTINGS, first, advice)]
    return settings, found or [Finding(Level.OK, _SETTINGS, "all variables MOORAGE_… are known and valid")]


def _permissions(settings: Settings, principals: str) -> list[Finding]:
    """Return the permissions in Kafka that roles of the fleet lack."""
    wanted = kafka_roles.entries(settings.topic_prefix, principals, kafka_roles.roles())
    try:
        present = topics.run(settings, listed(settings, {entry.principal for entry in wanted}))
    except CliError as error:
        return [_no_acls(settings, error)]
    missing = sorted(wanted - present)
    if not present:
        text = f"Kafka has no permissions for principals {principals}…"
        remedy = "moorage topics acls --apply, or name their prefix with --principal-prefix"
        return [Finding(Level.WARNING, _PERMISSIONS, text, remedy)]
    if missing:
        text = f"{len(missing)} permissions are missing in Kafka, such as {missing[0]}"
        return [Finding(Level.WARNING, _PERMISSIONS, text, "moorage topics acls --check, then --apply")]
    return [Finding(Level.OK, _PERMISSIONS, f"Kafka has all {len(wanted)} permissions of the roles")]


def _no_acls(settings: Settings, error: CliError) -> Finding:
    """Return the finding about a Kafka whose ACLs cannot be read."""
    if "authorizer" not in error.message:
        return Finding(Level.UNKNOWN, _PERMISSIONS, error.message.splitlines()[0])
    if are_on_loopback(settings.bootstrap_servers):
        return Finding(Level.OK, _PERMISSIONS, "this local Kafka has no authorizer: every local program may use it")
    remedy = "set up authentication and ACLs: docs/operations.md, Kafka authentication"
    return Finding(Level.WARNING, _PERMISSIONS, "the brokers have no authorizer: every client may write", remedy)


def _processes(settings: Settings) -> tuple[list[RunningProcess], list[Finding]]:
    async def read() -> list[RunningProcess] | str:
        try:
            return await process_checks.running_processes(settings)
        except (KafkaError, RuntimeFailure, TimeoutError, KeyError) as error:
            return describe(error, settings)

    found = topics.run(settings, read())
    if isinstance(found, str):
        return [], [Finding(Level.UNKNOWN, process_checks.CLOCKS_CHECK, f"not checked: {found}")]
    return found, []


def _gateway(ctx: typer.Context) -> tuple[str, timedelta | None, list[Finding]]:
    """Return the gateway's version, by how much its clock is ahead of this machine's, and the findings about it."""
    try:
        with endpoints.connect(ctx, patience=_PATIENCE, quietly=True) as client:
            version, ahead = _version(client)
            return version, ahead, list(_access(client, endpoints.server(ctx).address))
    except CliError as error:
        return "", None, [survey.gateway_finding(error)]


def _version(client: Client) -> tuple[str, timedelta | None]:
    began = time.monotonic()
    document, date = client.dated("/version")
    took = timedelta(seconds=time.monotonic() - began)
    version = str(document.get("gitVersion") or "").partition("+moorage-")[2]
    if not date:
        return version, None
    # The header has whole seconds, so its time is half a second later on average.
    then = parsedate_to_datetime(date) + timedelta(seconds=0.5)
    return version, then - (datetime.now(UTC) - took / 2)


def _access(client: Client, address: str) -> Iterator[Finding]:
    try:
        client.raw("/readyz")
    except ServerError as error:
        yield survey.not_ready(address, error)
        return
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", review, reading=True)
    except ServerError as error:
        remedy = "check the token or the certificate: docs/authentication.md"
        yield Finding(Level.ERROR, survey.GATEWAY, f"{address} refuses these credentials: {error.message}", remedy)
        return
    user = (answer.get("status") or {}).get("userInfo") or {}
    yield Finding(Level.OK, survey.GATEWAY, f"{address} is ready; you are {user.get('username')}")


def _certificates(ctx: typer.Context, settings: Settings | None) -> Iterator[Presented | Finding]:
    """Yield the certificates of the gateway, of Kafka and of the settings."""
    try:
        server = endpoints.server(ctx)
    except CliError:
        return
    parts, running = urlsplit(server.address), runfile.read()
    if parts.scheme == "https" and parts.hostname:
        own = running is not None and bool(running.gateway_ca_file) and running.server.rstrip("/") == server.gateway
        yield certificate_checks.of_server(parts.hostname, parts.port or 443, renewed=own)
    if file := _client_certificate(ctx):
        yield certificate_checks.in_file(file)
    if settings is None:
        return
    if settings.kafka_security_protocol.endswith("SSL"):
        host, _, port = settings.bootstrap_servers.split(",")[0].strip().rpartition(":")
        yield certificate_checks.of_server(host.strip("[]"), int(port))
    for name in _CERTIFICATE_SETTINGS:
        if file := str(getattr(settings, name)):
            yield certificate_checks.in_file(file)


def _client_certificate(ctx: typer.Context) -> str:
    try:
        return endpoints.server(ctx).credentials().cert_file
    except CliError:
        return ""


def _disk() -> list[Finding]:
    """Return whether the disk of the local state has room. There is none to check if Moorage has no state here."""
    folder: Path = state_folder()
    if not folder.is_dir():
        return []
    usage = shutil.disk_usage(folder)
    text = f"{gib(usage.free)} of {gib(usage.total)} free for {folder}"
    if usage.free >= _LOW:
        return [Finding(Level.OK, DISK, text)]
    level = Level.ERROR if usage.free < _VERY_LOW else Level.WARNING
    return [Finding(level, DISK, text, "free disk; the embedded Kafka stops when it is full")]
