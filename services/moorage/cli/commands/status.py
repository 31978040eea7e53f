"""`moorage status`: whether Moorage works, and the fleet in numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from moorage.apiserver.kinds.kind import ServedKind
from moorage.cli.api import endpoints, kinds, targets
from moorage.cli.api.client import CHUNK, Client, JsonObject, list_path
from moorage.cli.errors import FAILED, CliError, ServerError
from moorage.cli.render import colors, output, survey
from moorage.cli.render.durations import parse_instant
from moorage.insight.survey.findings import Finding, Level, worst
from moorage.insight.survey.fleet_survey import OPEN_STATES, FleetSurvey
from moorage.insight.survey.service_survey import ServiceState
from moorage.insight.survey.status_report import StatusReport
from moorage_schemas.placement import PlacementState
from moorage_schemas.times import format_time

_PATIENCE: Final = 15.0  # seconds that the gateway may take for an answer
_LETTERS_SINCE: Final = "1h"
_NO_NODE: Final = "-"  # no node may have this name

_Part = Callable[[], None]


def status(
    ctx: typer.Context,
    *,
    form: Annotated[output.DocumentFormat, typer.Option("-o", "--output", help="table, json or yaml.")] = (
        output.DocumentFormat.TABLE
    ),
    strict: Annotated[
        bool, typer.Option("--strict", help="Also exit with 1 when the fleet needs attention, not only for errors.")
    ] = False,
) -> None:
    """Show whether Moorage works: services, lag and last decisions, and the fleet in numbers.

    The services are read from Kafka, and the fleet from the gateway. Exit code 0 means that Moorage works, and 1 that a
    service does not run, is stuck or cannot be reached. What needs attention in the fleet, such as held evictions,
    silent probes and refused records, is listed at the end; with --strict it also gives 1.
    """
    report = StatusReport(datetime.now(UTC), endpoints.server(ctx).address)
    with colors.waiting("reading the services from Kafka, and the fleet from the gateway"):
        _add_services(report)
        _add_fleet(report, ctx)
    if form is output.DocumentFormat.TABLE:
        output.write(survey.status_text(report))
    else:
        output.write(output.document(report.document(), form))
    level = worst(report.findings)
    if level is Level.ERROR or (strict and level is not Level.OK):
        raise typer.Exit(FAILED)


def _add_services(report: StatusReport) -> None:
    """Add the state of the services, from Kafka."""
    # Kafka's client loads slowly, and --help does without it.
    from moorage.cli.api import topics  # noqa: PLC0415 - as above
    from moorage.cli.contract.kafka_roles import service_classes  # noqa: PLC0415 - as above
    from moorage.insight.copy.snapshot import partitions_of  # noqa: PLC0415 - as above
    from moorage.insight.survey import service_survey  # noqa: PLC0415 - as above
    from moorage_schemas.topics import TOPICS  # noqa: PLC0415 - as above

    try:
        settings = endpoints.kafka_settings()
    except CliError as error:
        advice = "set MOORAGE_BOOTSTRAP_SERVERS to see the services"
        report.findings.append(Finding(Level.UNKNOWN, "services", error.message.splitlines()[0], advice))
        return
    report.kafka = settings.bootstrap_servers
    classes = list(service_classes())

    async def survey_all() -> list[ServiceState]:
        names = [topic.name(settings.topic_prefix) for topic in TOPICS]
        counts = await partitions_of(settings, names)
        if missing := [name for name in names if name not in counts]:
            raise CliError(f"{len(missing)} of {len(names)} topics do not exist, such as {missing[0]}")
        return await service_survey.survey(settings, classes, max(counts.values()))

    try:
        report.services = topics.run(settings, survey_all())
    except CliError as error:
        first, _, advice = error.message.partition("\n")
        report.findings.append(Finding(Level.ERROR, "services", first, advice or "moorage doctor finds the reason"))
        return
    for one in report.services:
        report.findings += one.findings(report.now)


def _add_fleet(report: StatusReport, ctx: typer.Context) -> None:
    """Add the state of the gateway and the fleet in numbers."""
    fleet = FleetSurvey(report.now)
    try:
        with endpoints.connect(ctx, patience=_PATIENCE, quietly=True) as client:
            report.gateway = _readiness(client, report)
            report.query = _query(client, report)
            unknown = [(word, why) for word, part in _parts(client, fleet) if (why := _why_not(part))]
    except CliError as error:
        report.findings.append(survey.gateway_finding(error))
        return
    for why in dict.fromkeys(why for _, why in unknown):
        words = ", ".join(word for word, other in unknown if other == why)
        report.findings.append(Finding(Level.UNKNOWN, "fleet", f"{words} are not counted: {why}"))
    report.fleet = fleet
    report.findings += fleet.findings()


def _readiness(client: Client, report: StatusReport) -> str:
    try:
        client.raw("/readyz")
    except ServerError as error:
        report.findings.append(survey.not_ready(client.server, error))
        return "not ready"
    version = str(client.read("/version").get("gitVersion") or "").partition("+moorage-")[2]
    return f"ready, version {version}" if version else "ready"


def _query(client: Client, report: StatusReport) -> str:
    """Return the state of the query worker behind the gateway: it answers that a node of this name does not exist."""
    try:
        client.explain({"kind": "Node", "name": _NO_NODE})
    except ServerError as error:
        if error.reason == "ServiceUnavailable":
            advice = "start it: moorage run query, and set MOORAGE_QUERY_SERVER for the gateway"
            report.findings.append(Finding(Level.WARNING, "query", error.message, advice))
            return "does not answer"
    return "answers"


def _parts(client: Client, fleet: FleetSurvey) -> Iterator[tuple[str, _Part]]:
    """Yield each part of the fleet by its plural, with a function that requests it."""

    def items(kind: ServedKind, fields: str = "") -> list[JsonObject]:
        return list(client.list(kind, None, fields=fields).get("items") or ())

    def with_state(kind: ServedKind, states: tuple[str, ...]) -> Iterator[JsonObject]:
        for state in states:
            yield from items(kind, f"status.state={state}")

    def letters() -> None:
        since = format_time(parse_instant(_LETTERS_SINCE, fleet.now))
        found = client.read(list_path(kinds.find("deadletters"), None), {"limit": str(CHUNK), "sinceTime": since})
        more = bool((found.get("metadata") or {}).get("continue"))
        fleet.add_dead_letters(found.get("items") or (), more=more)

    def of_kind(kind: ServedKind) -> _Part:
        return lambda: fleet.add_targets(kind.plural, items(kind))

    for kind in targets.KINDS:
        yield kind.plural, of_kind(kind)
    zones = kinds.find("zones")
    yield "zones", lambda: fleet.add_zones((kinds.shown_name(zones, one), one) for one in items(zones))
    evictions, placements = kinds.find("evictions"), kinds.find("workloadplacements")
    yield "evictions", lambda: fleet.add_evictions(with_state(evictions, OPEN_STATES))
    yield (
        "workloadplacements",
        lambda: fleet.add_placements(with_state(placements, (PlacementState.PENDING.value,))),
    )
    yield "conditions", lambda: fleet.add_conditions(items(kinds.find("conditions")))
    yield "evictionpauses", lambda: fleet.add_pauses(items(kinds.find("evictionpauses")))
    yield "webhooks", lambda: fleet.add_webhooks(items(kinds.find("webhooks")))
    yield "deadletters", letters


def _why_not(part: _Part) -> str:
    """Request a part, and return why the gateway refuses it. Empty if it does not, or if a real cluster lacks it."""
    try:
        part()
    except ServerError as error:
        if error.reason == "Forbidden":
            return "you may not list them"
        return "" if error.reason == "NotFound" else error.message
    return ""
