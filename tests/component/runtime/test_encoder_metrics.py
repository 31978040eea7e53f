"""What is counted when a decision is committed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from moorage.runtime.engine.batch import BatchDecision
from moorage.runtime.engine.encode import Encoder
from moorage.runtime.process import metrics
from moorage.runtime.service import Emit, Malformed, RawRecord
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire.record_format import dead_letter
from moorage.workers import condition_ingest, eviction
from moorage.workers.eviction import eviction_measures
from moorage_schemas.dead_letter import RefusalReason
from moorage_schemas.envelope import Meta
from moorage_schemas.eviction import EvictionDecided
from moorage_schemas.topics import CONDITION_REPORTS, EVICTIONS

NOW = datetime(2026, 1, 1, tzinfo=UTC)
POD = {"kind": "Pod", "namespace": "shop", "name": "web"}
SAID = {"source": "deployer/mine", "time": NOW}


def counted(reason: str) -> float:
    return float(eviction_measures.ESCALATIONS.labels("eviction", reason)._value.get())


@pytest.mark.parametrize(
    ("fields", "reason", "more"),
    [
        ({"escalated": {**SAID, "reason": "Failed"}}, "Failed", 1),
        ({"escalated": {**SAID, "reason": "Refused"}}, "Refused", 1),
        ({"escalated": {**SAID, "reason": "Any text at all"}}, "other", 1),
        ({"escalated": {**SAID, "reason": "Failed"}, "acknowledged": SAID}, "Failed", 0),
        ({"escalated": {**SAID, "reason": "Failed"}, "state": "Completed"}, "Failed", 0),
        ({}, "Failed", 0),
    ],
)
def test_each_report_that_work_was_not_removed_is_counted_once(fields: dict[str, Any], reason: str, more: int) -> None:
    given = {"workload": POD, "owner": POD, "target": {"kind": "Node", "name": "n1"}, "decidedTime": NOW}
    event = EvictionDecided.model_validate(
        {**given, "generation": 1, "revision": 2, "state": "Requested", "deployer": "deployer/mine", **fields}
    )
    decision = BatchDecision(NOW)
    decision.emits.append((Emit(EVICTIONS, "k", "Node/n1", event, Meta("c", "s", "t")), None))
    before = counted(reason)
    Encoder(eviction.service(Settings()), prefix="moorage", partitions=1).count(decision)
    assert counted(reason) - before == more


def test_every_dead_letter_is_counted_by_its_reason_and_for_all_records_that_it_stands_for() -> None:
    raw = RawRecord(b"k", b"v", ())
    reason = RefusalReason.TOO_MANY_REQUESTS
    decision = BatchDecision(NOW)
    for count in (1, 4):
        bad = Malformed(CONDITION_REPORTS, 0, 7, raw, reason.value, "too many", count=count)
        decision.emits.append((dead_letter("condition-ingest", bad, NOW), None))
    counter = metrics.DEAD_LETTERS.labels("condition-ingest", reason.value)
    before = float(counter._value.get())
    Encoder(condition_ingest.service(Settings()), prefix="moorage", partitions=1).count(decision)
    assert float(counter._value.get()) - before == 5


def test_the_time_of_the_last_decision_is_that_of_the_last_one_with_output() -> None:
    encoder = Encoder(eviction.service(Settings()), prefix="moorage", partitions=1)
    decision = BatchDecision(NOW)
    decision.emits.append((Emit(EVICTIONS, "k", "Node/n1", None, Meta("c", "s", "t")), None))
    encoder.count(decision)
    encoder.count(BatchDecision(NOW + timedelta(hours=1)))
    assert float(metrics.LAST_DECISION.labels("eviction")._value.get()) == NOW.timestamp()
