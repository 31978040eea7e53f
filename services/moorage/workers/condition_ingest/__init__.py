"""condition-ingest: checks, orders and de-duplicates reports of conditions.

`heartbeat_monitor` marks conditions Unknown when their source falls silent. The rules are in
`moorage.decide.conditions`.
"""

from moorage.workers.condition_ingest.service import ConditionIngest, service

__all__ = ["ConditionIngest", "service"]
