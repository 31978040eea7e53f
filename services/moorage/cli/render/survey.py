"""Texts of `moorage status` and `moorage doctor`."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from moorage.cli.errors import CliError, ServerError
from moorage.cli.render import colors, output
from moorage.decide.kubernetes.durations import human, rate_text
from moorage.decide.kubernetes.object_texts import TARGET_STATES
from moorage.insight.survey.findings import Finding, Level
from moorage.insight.survey.fleet_survey import OPEN_STATES, FleetSurvey
from moorage.insight.survey.service_survey import ServiceState
from moorage.insight.survey.status_report import StatusReport

GATEWAY: Final = "gateway"
"""The name of the check of the gateway."""

_NONE: Final = "<none>"
_ZONES: Final = 20
"""The most zones that are listed, those in trouble first."""

_WIDTH: Final = 100
_MARKS: Final = {Level.OK: "ok", Level.UNKNOWN: "unknown", Level.WARNING: "WARNING", Level.ERROR: "ERROR"}


def status_text(report: StatusReport) -> str:
    """Return the report of `moorage status` as text."""
    head = f"Gateway  {report.server}  {report.gateway or 'does not answer'}\n"
    query = f"Query    {report.query}\n" if report.query else ""
    parts = [f"{head}{query}Kafka    {report.kafka or 'address unknown'}\n"]
    if report.services is not None:
        parts.append(_services(report.services, report.now))
    if report.fleet is not None:
        parts += _fleet(report.fleet)
    parts.append(findings_text(report.findings) if report.findings else "Nothing needs attention.\n")
    return "\n".join(parts)


def findings_text(found: Sequence[Finding]) -> str:
    """Return findings, the worst first, each with its remedy below it."""
    order = list(Level)
    lines = []
    for one in sorted(found, key=lambda one: -order.index(one.level)):
        mark = f"{_MARKS[one.level]:<7}"
        if colors.wanted():
            mark = colors.level(one.level.value, mark)
        texts = textwrap.wrap(f"{one.check}: {output.escaped(one.message)}", _WIDTH - 9, break_long_words=False)
        if one.remedy:
            remedy = f"-> {output.escaped(one.remedy)}"
            texts += textwrap.wrap(remedy, _WIDTH - 9, subsequent_indent="   ", break_long_words=False)
        lines += [f"{mark if not number else ' ' * 7}  {text}\n" for number, text in enumerate(texts)]
    return "".join(lines)


def gateway_finding(error: CliError) -> Finding:
    """Return the finding about a gateway that cannot be used, in the words of the error."""
    problem, _, remedy = error.message.partition("\n")
    return Finding(Level.ERROR, GATEWAY, problem.removesuffix("."), remedy.removesuffix("."))


def not_ready(address: str, error: ServerError) -> Finding:
    """Return the finding about a gateway that answers, and is not ready."""
    return Finding(Level.ERROR, GATEWAY, f"the gateway at {address} is not ready: {error.message}", "look at its logs")


def _services(found: Iterable[ServiceState], now: datetime) -> str:
    rows = [
        [
            one.name,
            one.word,
            str(one.members),
            f"{one.assigned}/{one.partitions}",
            _lag(one),
            _NONE if one.decided is None else f"{human((now - one.decided).total_seconds())} ago",
        ]
        for one in found
    ]
    return output.table(["SERVICE", "STATE", "PROCESSES", "PARTITIONS", "LAG", "LAST-DECISION"], rows)


def _lag(one: ServiceState) -> str:
    if one.lag is None:
        return _NONE
    return str(one.lag.records) if one.lag.is_exact else f"about {one.lag.records}"


def _fleet(fleet: FleetSurvey) -> Iterable[str]:
    """Yield the parts of a fleet that have anything."""
    head = [state.upper() for state in TARGET_STATES]
    if fleet.targets:
        rows = [
            [plural, str(counts.total()), *(str(counts[state]) for state in TARGET_STATES), str(fleet.cordoned[plural])]
            for plural, counts in fleet.targets.items()
            if counts or plural == "nodes"
        ]
        yield output.table(["TARGETS", "TOTAL", *head, "CORDONED"], rows)
    if fleet.zones:
        yield _zones(fleet)
    rows = [
        ["evictions", _counted(fleet.evictions, OPEN_STATES)],
        ["held by", ", ".join(f"{name} ({number})" for name, number in fleet.held_by.most_common()) or _NONE],
        ["unscheduled", _counted(fleet.unscheduled)],
        ["sources", f"{fleet.sources}, {len(fleet.silent)} silent"],
        ["pauses", str(len(fleet.pauses))],
        ["dead letters", _letters(fleet)],
    ]
    yield "".join(f"{name:<14}{text}\n" for name, text in rows)


def _zones(fleet: FleetSurvey) -> str:
    listed = sorted(fleet.zones, key=lambda zone: (zone.state == "Normal", -zone.not_ready, zone.name))
    rows = [
        [zone.name, zone.state, str(zone.nodes), str(zone.not_ready), str(zone.waiting), rate_text(zone.rate)]
        for zone in listed[:_ZONES]
    ]
    text = output.table(["ZONE", "STATE", "NODES", "NOT-READY", "WAITING", "RATE"], rows)
    more = len(listed) - _ZONES
    return text if more <= 0 else f"{text}… and {more} more: moorage get zones\n"


def _letters(fleet: FleetSurvey) -> str:
    if fleet.dead_letters is None:
        return "unknown"
    text = _counted(fleet.dead_letters)
    return f"{text}{' or more' * fleet.more_dead_letters} in the last hour"


def _counted(counts: Counter[str], words: Sequence[str] = ()) -> str:
    """Return a number with its parts, such as `5 (3 Scheduled, 2 Held)`."""
    found = [(word, counts[word]) for word in words if counts[word]] if words else counts.most_common()
    parts = ", ".join(f"{number} {word}" for word, number in found)
    return f"{counts.total()} ({parts})" if parts else "0"
