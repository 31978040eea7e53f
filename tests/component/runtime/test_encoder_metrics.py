"""What is counted when a decision is committed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from moorage.runtime.engine.batch import BatchDecision
from moorage.runtime.engine.encode import Encoder
from moorage.runtime.process import metrics
from moorage.runtime.service import Emit
from moorage.runtime.settings.process_settings import Settings
from moorage.workers import eviction
from moorage_schemas.envelope import Meta
from moorage_schemas.eviction import EvictionDecided
from moorage_schemas.topics import EVICTIONS

NOW = datetime(2026, 1, 1, tzinfo=UTC)
POD = {"kind": "Pod", "namespace": "shop", "name": "web"}
SAID = {"source": "deployer/mine", "time": NOW}


def counted(reason: str) -> float:
    return float(metrics.ESCALATIONS.labels("eviction", reason)._value.get())


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
