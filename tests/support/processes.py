"""The processes that Moorage is deployed as: its chains, the services that are in none, the workers and the gateway."""

from __future__ import annotations

from typing import Final

from moorage.cli.contract.kafka_roles import service_classes
from moorage.cli.local.services import GATEWAY, QUERY, WEBHOOKS
from moorage.runtime.chains import grouped

SERVICES: Final = tuple(service.name for service in service_classes())

COMMANDS: Final[dict[str, list[str]]] = {
    name: ["run", *services] for name, services in grouped((*SERVICES, WEBHOOKS, QUERY, GATEWAY)).items()
}
"""The arguments of `moorage` for each process."""

COMMANDS_APART: Final[dict[str, list[str]]] = {name: ["run", name] for name in (*SERVICES, WEBHOOKS, QUERY, GATEWAY)}
"""The same if no services are chained."""

READS_SEALS: Final = "condition-ingest"
"""The service that verifies the gateway's seals with the signing key."""

INGEST: Final = next(name for name, words in COMMANDS.items() if READS_SEALS in words)
"""The process with that service."""
