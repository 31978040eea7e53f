"""The metrics of reports and their sources."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from moorage.runtime.measures import Contribution, FleetGauge, Measure
from moorage.workers.condition_ingest.state import ConditionIngestPartition
from moorage_schemas.condition import ConditionStatus
from moorage_schemas.keys import TargetKey

SOURCES: Final = FleetGauge(
    "moorage_source_targets",
    "Targets about which a source reports, by its state: Reporting, or Silent after its grace period",
    ("kind", "source", "state"),
    limits={"source": 50},
)
LAST_REPORT: Final = FleetGauge(
    "moorage_last_report_timestamp_seconds", "Unix time at which the last report was read", (), max
)


def counted(state: ConditionIngestPartition, target: str) -> Iterator[Contribution]:
    """Yield the series to which a target contributes."""
    uid = state.targets.get(target)
    sources: dict[str, bool] = {}
    for held in state.conditions.get(target, {}).values():
        if held.target_uid == uid:
            # only silence writes a condition without a report
            is_silent = held.status is ConditionStatus.UNKNOWN and not held.report_id
            sources[held.source] = sources.get(held.source, False) or is_silent
    if sources:
        kind = TargetKey.parse(target).kind
        for source, is_silent in sources.items():
            yield Contribution(SOURCES, (kind, source, "Silent" if is_silent else "Reporting"))


def measures(state: ConditionIngestPartition) -> Iterator[Measure]:
    """Yield the values of a partition."""
    yield from state.tally.measures()
    if state.reported is not None:
        yield Measure(LAST_REPORT, (), state.reported.timestamp())
