"""The gateway logs who has changed what, for pauses, budgets and the configuration at info."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from moorage.apiserver.storage.durable_log import Write
from moorage.apiserver.storage.kafka.object_lines import object_lines
from moorage.runtime.process.decision_log import DecisionLog
from moorage.runtime.process.logs import configure_logs
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.dead_letter import Audited
from moorage_schemas.envelope import Meta
from moorage_schemas.topics import AUDIT, RESOURCES


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    found = io.StringIO()
    configure_logs(Settings(log_format="json"), stream=found)
    yield found
    root.handlers[:] = before
    root.setLevel(level)
    structlog.reset_defaults()


def audit(resource: str, verb: str) -> Write:
    audited = Audited(actor="kubectl", verb=verb, resource=resource, user="ann", time="2026-01-01T00:00:00Z")
    meta = Meta("a1", "moorage/gateway", AUDIT.event_type, correlation_id="c1", causation_id="e1")
    return Write(AUDIT, resource, resource, audited, meta)


@pytest.mark.parametrize(
    ("resource", "verb", "event"),
    [
        ("EvictionPause//all", "create", "pause.declared"),
        ("EvictionPause//all", "delete", "pause.ended"),
        ("EvictionBudget//slow", "update", "object.written"),
        ("MoorageConfiguration//cluster", "patch", "object.written"),
        ("Pod/shop/web", "create", None),
    ],
)
def test_changes_of_brakes_have_a_line(out: io.StringIO, resource: str, verb: str, event: str | None) -> None:
    log = DecisionLog(0)
    object_lines(log, [Write(RESOURCES, resource, resource, None, Meta("e1", "s", "t")), audit(resource, verb)])
    log.flush()
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    if event is None:
        assert lines == []
        return
    (line,) = lines
    assert (line["event"], line["key"], line["verb"], line["user"], line["actor"]) == (
        event,
        resource,
        verb,
        "ann",
        "kubectl",
    )
    assert (line["event_id"], line["correlation"]) == ("e1", "c1"), "the ids are those of the change"
