"""The result of `moorage status`."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from moorage.insight.survey.findings import Finding, worst
from moorage.insight.survey.fleet_survey import FleetSurvey
from moorage.insight.survey.service_survey import ServiceState
from moorage_schemas.times import format_time


@dataclass(slots=True)
class StatusReport:
    """Gateway, services and fleet, with what needs attention."""

    now: datetime
    server: str
    """The gateway's address."""

    gateway: str = ""
    """The state of the gateway in a word or two. Empty if it does not answer."""

    kafka: str = ""
    """Kafka's addresses. Empty if they are not known."""

    services: list[ServiceState] | None = None
    """None if Kafka does not answer, or its address is not known."""

    fleet: FleetSurvey | None = None
    """None if the gateway does not answer."""

    query: str = ""
    """The state of the query worker. Empty if the gateway does not answer."""

    findings: list[Finding] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            "time": format_time(self.now),
            "level": worst(self.findings).value,
            "gateway": {"address": self.server, "state": self.gateway or None},
            "query": {"state": self.query or None},
            "kafka": {"address": self.kafka or None},
            "services": None if self.services is None else [one.document() for one in self.services],
            "fleet": None if self.fleet is None else self.fleet.document(),
            "findings": [one.document() for one in self.findings],
        }
