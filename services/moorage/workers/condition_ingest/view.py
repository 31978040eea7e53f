"""What all partitions of condition-ingest share: the configuration, and the ProbeGrants of the fleet."""

from __future__ import annotations

import structlog
from typing_extensions import override

from moorage.decide.conditions.grants import Grants
from moorage.runtime.service import Input
from moorage.runtime.settings.configuration import Configuration, ConfiguredView
from moorage_schemas.probe_grant import ProbeGrantChanged
from moorage_schemas.topics import PROBE_GRANTS, Topic

log = structlog.get_logger(__name__)


class IngestView(ConfiguredView):
    """The configuration, and the grants.

    Args:
        configuration: the settings to decide by.
        is_sealed: whether this process can tell which reports a gateway has accepted.
    """

    def __init__(self, configuration: Configuration, *, is_sealed: bool) -> None:
        super().__init__(configuration)
        self.grants = Grants()
        self._is_sealed = is_sealed
        self._told: bool | None = None

    @override
    def wants(self, topic: Topic, key: str) -> bool:
        return topic is PROBE_GRANTS or super().wants(topic, key)

    def apply(self, record: Input) -> None:
        """Fold in a grant, its end, or the configuration."""
        if record.topic is PROBE_GRANTS:
            event = record.event
            self.grants.put(record.key, event.spec if isinstance(event, ProbeGrantChanged) else None)
        else:
            super().apply(record)

    def tell(self) -> None:
        """Say in the log what counts, when that is known first and whenever it has changed."""
        if self._told is bool(self.grants):
            return
        self._told = bool(self.grants)
        if not self.grants:
            log.warning("probe_grants.none", consequence="every report counts, whoever has written it")
        elif self._is_sealed:
            log.info("probe_grants.in_force", consequence="only reports that a ProbeGrant covers count")
        else:
            log.warning(
                "probe_grants.not_checked",
                consequence="reports in Kafka without a signature count, whoever has written them",
                missing="MOORAGE_SERVICE_ACCOUNT_SIGNING_KEY_FILE",
            )
