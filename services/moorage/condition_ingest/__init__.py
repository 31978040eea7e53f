"""condition-ingest: checks, orders and de-duplicates reports of conditions."""

from moorage.condition_ingest.service import ConditionIngest, service

__all__ = ["ConditionIngest", "service"]
