"""The log has one line for each decision, after its commit, in the words of docs/logs.md."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from tests.support.worlds.flow import Crash
from tests.support.worlds.karmada import KarmadaWorld
from tests.support.worlds.nodes import NodeWorld
from tests.support.worlds.ocm import OcmWorld
from tests.support.worlds.world import World, lifted, tolerate

from moorage.insight.copy.stack import CopyTask, MemoryStack
from moorage.runtime.engine.batch import BatchDecision
from moorage.runtime.engine.committed import Committed
from moorage.runtime.engine.encode import Encoder
from moorage.runtime.process.decision_log import DecisionLog
from moorage.runtime.process.logs import configure_logs
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.condition import ConditionStatus
from moorage_schemas.topics import CONDITION_REPORTS

PAGE = (Path(__file__).parents[3] / "docs" / "logs.md").read_text("utf-8")
IDS = {"time", "level", "event", "service", "event_id", "correlation"}
TRACED = {"trace_id"}
"""Fields of lines while traces are recorded."""


class Lines:
    """The lines that the decisions of worlds have."""

    def __init__(self, level: str) -> None:
        self._out = io.StringIO()
        configure_logs(Settings.model_validate({"log_format": "json", "log_level": level}), stream=self._out)
        self.log = DecisionLog(0)

    def commit(self, owner: CopyTask, decision: BatchDecision) -> None:
        encoder = Encoder(owner.service, prefix="moorage", partitions=3)
        committed = Committed(owner.service, encoder, self.log, prefix="moorage")
        committed(decision, encoder.records(decision, {}), decision.now)

    def take(self, *events: str) -> list[dict[str, Any]]:
        """Return the lines of decisions since the last call; of all events if none is named."""
        text = self._out.getvalue()
        self._out.seek(0)
        self._out.truncate()
        found = [json.loads(line) for line in text.splitlines()]
        return [line for line in found if "event_id" in line and (not events or line["event"] in events)]


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Lines]]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    commit = MemoryStack._commit

    def begin(lowest: str = "info") -> Lines:
        made = Lines(lowest)

        def committing(stack: MemoryStack, owner: CopyTask, decision: BatchDecision) -> None:
            commit(stack, owner, decision)
            made.commit(owner, decision)

        monkeypatch.setattr(MemoryStack, "_commit", committing)
        return made

    yield begin
    root.handlers[:] = before
    root.setLevel(level)
    structlog.reset_defaults()


def shop(**settings: Any) -> NodeWorld:
    """Two nodes, and a pod on one of them that tolerates its failure for a while."""
    world = NodeWorld("n1", "n2", "witness", settings=lifted(partitions=3, **settings))
    world.taint("n2", "closed", effect="NoSchedule")
    world.taint("witness", "closed", effect="NoSchedule")
    spec = {"containers": [{"name": "c"}], "tolerations": [seconds(30)]}
    world.declare("Pod", "web", spec)
    world.run()
    return world


def seconds(number: int) -> dict[str, Any]:
    toleration = tolerate("node.kubernetes.io/not-ready", number)
    return {"key": toleration.key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": number}


def events(found: list[dict[str, Any]]) -> list[str]:
    return [line["event"] for line in found]


def test_an_outage_is_told_line_by_line(lines: Callable[..., Lines]) -> None:
    log = lines()
    world = shop()
    assert events(log.take("workload.placed", "binding.ended")) == ["workload.placed"]
    world.report("n1", status=ConditionStatus.FALSE, reason="KubeletStopped")
    world.run()
    found = log.take()
    assert sorted(events(found)) == [
        "condition.changed",
        "eviction.scheduled",
        "taint.added",
        "taint.added",
        "taint.granted",
        "taint.waiting",
    ]
    by = {line["event"]: line for line in found}
    assert by["condition.changed"]["target"] == "Node/n1"
    assert (by["condition.changed"]["status"], by["condition.changed"]["reason"]) == ("False", "KubeletStopped")
    assert [line["effect"] for line in found if line["event"] == "taint.added"] == ["NoSchedule", "NoExecute"]
    scheduled = by["eviction.scheduled"]
    assert (scheduled["workload"], scheduled["target"]) == ("Pod/default/web", "Node/n1")
    assert scheduled["taints"] == ["node.kubernetes.io/not-ready:NoExecute"]
    assert scheduled["deadline"].startswith("2026-01-01T00:00:")
    assert len({line["correlation"] for line in found}) == 1, "all of it follows from one report"
    world.advance(31)
    assert events(log.take()) == [
        "eviction.requested",
        "binding.ended",
        "workload.evicted",
        "eviction.completed",
    ]
    world.report("n1", status=ConditionStatus.TRUE)
    world.run()
    assert events(log.take()) == ["condition.changed", "taint.removed", "taint.removed"]


def test_an_eviction_that_is_not_needed_any_more_is_cancelled_with_its_reason(lines: Callable[..., Lines]) -> None:
    log = lines()
    world = shop()
    world.report("n1", status=ConditionStatus.FALSE)
    world.run().advance(5)
    world.report("n1", status=ConditionStatus.TRUE)
    world.run()
    (cancelled,) = log.take("eviction.cancelled")
    assert cancelled["reason"] == "TaintRemoved"


def test_what_holds_an_eviction_is_named_once(lines: Callable[..., Lines]) -> None:
    log = lines()
    world = shop()
    world.declare("EvictionPause", "all", {"reason": "audit"})
    world.report("n1", status=ConditionStatus.FALSE)
    world.run().advance(31)
    held = log.take("eviction.held")
    assert [line.get("held_by") for line in held] == [None, ["EvictionPause/all"]]
    world.advance(300)
    assert log.take("eviction.held") == [], "it asks again and again, and nothing is new"


def test_heartbeats_and_what_waits_for_the_same_reason_have_no_line(lines: Callable[..., Lines]) -> None:
    log = lines()
    world = shop()
    world.report("n1", status=ConditionStatus.TRUE)
    world.declare("Pod", "big", {"containers": [{"name": "c"}], "nodeSelector": {"disk": "none"}})
    world.run()
    assert events(log.take("workload.unscheduled", "condition.changed")) == [
        "condition.changed",
        "workload.unscheduled",
    ]
    for second in range(1, 6):
        world.report("n1", status=ConditionStatus.TRUE)
        world.node(f"more-{second}")
        world.taint(f"more-{second}", "closed", effect="NoSchedule")
        world.advance(40)
    assert log.take("workload.unscheduled", "condition.changed") == []


def test_a_decision_that_was_not_committed_has_no_line_and_a_restart_has_none(lines: Callable[..., Lines]) -> None:
    log = lines()
    world = shop()
    log.take()
    flow = world.flow
    deaths = iter([Crash.BEFORE_COMMIT])
    flow.crash_when = lambda service, _: next(deaths, None) if service == "taint-manager" else None
    world.report("n1", status=ConditionStatus.FALSE)
    world.run()
    assert events(log.take("taint.added", "eviction.scheduled")) == ["taint.added", "taint.added", "eviction.scheduled"]
    for name in ("condition-ingest", "taint-manager", "governor", "eviction", "timer", "placement"):
        flow.crash_process(name)
    world.run()
    assert log.take() == []


def test_a_refused_record_has_one_line_with_the_reason(lines: Callable[..., Lines]) -> None:
    log = lines("warning")
    world = shop()
    world.flow.produce_raw(CONDITION_REPORTS, 0, key=b"Node/n1", value=b"{")
    world.run()
    (line,) = log.take()
    assert (line["event"], line["reason"], line["topic"]) == ("record.refused", "InvalidEnvelope", "condition-reports")


def table(heading: str) -> list[list[str]]:
    """Return the rows of a table of the page, without their quotes."""
    part = PAGE.partition(f"## {heading}")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in part.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in row] for row in rows]


def names(row: list[str]) -> list[str]:
    """Return the events in a row of the table of decisions."""
    return re.findall(r"`([\w.]+)`", row[0])


def _worlds() -> Iterator[World]:
    world = shop()
    yield world
    world.report("n1", status=ConditionStatus.FALSE)
    world.run().advance(31)
    world.delete("Pod", "web")
    world.delete_target("n1")
    world.flow.produce_raw(CONDITION_REPORTS, 0, key=b"Node/n1", value=b"{")
    world.run()
    clusters = KarmadaWorld("c1", "c2")
    clusters.deploy("web", 2)
    clusters.policy()
    clusters.run()
    hub = OcmWorld("c1", "c2")
    hub.placement()
    hub.run()


def test_every_line_has_the_fields_of_the_page(lines: Callable[..., Lines]) -> None:
    log = lines("debug")
    list(_worlds())
    known = {name: set(re.findall(r"`(\w+)`", row[3])) for row in table("Decisions") for name in names(row)}
    levels = {name: row[1] for row in table("Decisions") for name in names(row)}
    meanings = {name.strip("`") for name, _ in table("Fields")}
    found = log.take()
    wrong = [
        (line["event"], line["level"], sorted(line.keys() - IDS - known.get(line["event"], set())))
        for line in found
        if line.keys() - IDS - known.get(line["event"], set()) or line["level"] not in levels[line["event"]]
    ]
    assert wrong == []
    assert all(list(line)[:4] == ["time", "level", "event", "service"] for line in found)
    assert all({"event_id", "correlation"} <= line.keys() for line in found)
    assert set().union(*known.values()) | IDS | TRACED == meanings
    assert len({line["event"] for line in found}) >= 18


def test_the_page_has_every_line_of_the_code() -> None:
    root = Path(__file__).parents[3] / "services" / "moorage"
    places = [*root.glob("**/*_lines.py"), root / "runtime/engine/committed.py"]
    written = {name for place in places for name in re.findall(r'"([a-z]+\.[a-z_]+)"', place.read_text("utf-8"))} | {
        f"eviction.{state}" for state in ("scheduled", "held", "requested", "completed", "cancelled")
    }
    assert written | {"decisions.left_out"} == {name for row in table("Decisions") for name in names(row)}
