"""The checks of `moorage doctor`, on what brokers, processes and certificates report."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.certificates import Authority

from moorage.insight.survey.broker_checks import disk_findings, setting_findings, topic_findings
from moorage.insight.survey.certificate_checks import certificate_findings, in_file
from moorage.insight.survey.findings import Level, worst
from moorage.insight.survey.process_checks import RunningProcess, clock_findings, recent, version_findings
from moorage.insight.survey.service_survey import ServiceState, UndecidedRecords
from moorage.runtime.kafka.admin.log_dirs import LogDir
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.clock import ClockMeasured

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
GOOD = {
    "auto.create.topics.enable": "false",
    "group.min.session.timeout.ms": "1000",
    "add.partitions.to.txn.retry.backoff.ms": "1",
    "min.insync.replicas": "2",
}


def process(
    service: str, *, offset: float | None = 0.0, version: str = "1", ago: int = 0, since: int = 600, host: str = "h"
) -> RunningProcess:
    measured = ClockMeasured(services=(service,), host=host, version=version, offset_seconds=offset)
    return RunningProcess(f"{service}/{ago}", measured, NOW - timedelta(seconds=ago), NOW - timedelta(seconds=since))


# Brokers and topics


@pytest.mark.parametrize(
    ("setting", "value", "level"),
    [
        ("auto.create.topics.enable", "true", Level.WARNING),
        ("transaction.max.timeout.ms", "5000", Level.ERROR),
        ("group.min.session.timeout.ms", "6000", Level.WARNING),
        ("offsets.retention.minutes", "60", Level.ERROR),
        ("transaction.state.log.replication.factor", "1", Level.WARNING),
        ("min.insync.replicas", "1", Level.WARNING),
    ],
)
def test_a_setting_of_the_brokers_that_breaks_a_rule(setting: str, value: str, level: Level) -> None:
    (found,) = setting_findings({**GOOD, setting: value}, Settings(), 3)
    assert (found.level, found.message.startswith(f"{setting}={value}: ")) == (level, True)
    assert setting in found.remedy


def test_a_setting_that_the_brokers_do_not_report_has_kafkas_default() -> None:
    broken = {one.message.partition("=")[0] for one in setting_findings({}, Settings(), 1)}
    assert broken == {
        "auto.create.topics.enable",
        "group.min.session.timeout.ms",
        "add.partitions.to.txn.retry.backoff.ms",
    }


def test_one_broker_needs_no_replicas() -> None:
    alone = {**GOOD, "transaction.state.log.replication.factor": "1", "min.insync.replicas": "1"}
    (found,) = setting_findings({**alone, "offsets.topic.replication.factor": "1"}, Settings(), 1)
    assert found.level is Level.OK


def topic(name: str, *parts: tuple[int, int, int], error: int = 0) -> dict[str, Any]:
    """A topic of partitions, each with its leader, its number of replicas, and the number of those in sync."""
    described = [
        {"leader": leader, "replicas": list(range(replicas)), "isr": list(range(in_sync))}
        for leader, replicas, in_sync in parts
    ]
    return {"topic": name, "error_code": error, "partitions": described}


@pytest.mark.parametrize(
    ("described", "level", "text"),
    [
        ([topic("a", (0, 3, 3)), topic("b", (1, 3, 3))], Level.OK, "2 topics with 1 partition, all in sync"),
        ([topic("a", error=3), topic("b", error=3)], Level.WARNING, "has no fleet"),
        ([topic("a", (0, 3, 3)), topic("b", error=3)], Level.ERROR, "1 of 2 topics do not exist: b"),
        ([topic("a", (0, 3, 3)), topic("b", (0, 3, 3), (0, 3, 3))], Level.ERROR, "different numbers of partitions"),
        ([topic("a", (-1, 3, 3))], Level.ERROR, "without a leader, such as a"),
        ([topic("a", (0, 3, 2))], Level.WARNING, "not in sync, such as a"),
        ([topic("a", (0, 1, 1))], Level.WARNING, "one replica, such as a"),
    ],
)
def test_topics(described: list[dict[str, Any]], level: Level, text: str) -> None:
    (found,) = topic_findings(described, 3, "moorage")
    assert found.level is level
    assert text in found.message


def test_a_disk_of_a_broker_that_is_nearly_full() -> None:
    (found,) = disk_findings([LogDir(1, "/data", 100 * 2**30, 50 * 2**30)])
    assert (found.level, found.message) == (Level.OK, "the brokers have at least 50.0 GiB free")
    low, full = disk_findings([LogDir(1, "/data", 100 * 2**30, 10 * 2**30), LogDir(2, "/data", 100 * 2**30, 2**30)])
    assert (low.level, full.level) == (Level.WARNING, Level.ERROR)
    assert full.message == "broker 2 has 1.0 GiB of 100.0 GiB free in /data"
    assert disk_findings([]) == []


# Processes


def test_a_process_that_was_replaced_or_has_stopped_is_not_running() -> None:
    old, new = process("timer", ago=40, since=600), process("timer", ago=0, since=20)
    stopped, other = process("governor", ago=80), process("timer", ago=25, host="other")
    found = {str(number): one for number, one in enumerate((old, new, stopped, other))}
    assert recent(found) == [new, other]
    assert recent({}) == []


def test_two_processes_of_a_service_on_one_machine_both_run() -> None:
    first, second = process("timer", ago=10, since=600), process("timer", ago=0, since=60)
    assert recent({"a": first, "b": second}) == [first, second]


def test_clocks() -> None:
    (fine,) = clock_findings([process("timer", offset=0.2), process("governor", offset=-0.2)], timedelta(seconds=0.3))
    assert (fine.level, fine.message) == (Level.OK, "2 processes are within 0.40 s of each other")
    off, here = clock_findings([process("timer", offset=-7.0)], timedelta(seconds=9))
    assert off.message == "the clock of timer on h is 7.0 s behind the brokers'"
    assert here.message == "the clock of this machine is 9 s behind the gateway's"
    assert {off.level, here.level} == {Level.WARNING}
    (none,), (new,) = clock_findings([]), clock_findings([process("timer", offset=None)])
    assert {none.level, new.level} == {Level.UNKNOWN}


def test_versions() -> None:
    (same,) = version_findings([process("timer")], "1", "1")
    assert (same.level, same.message) == (Level.OK, "all run 1")
    (mixed,) = version_findings([process("timer"), process("governor", version="")], "2", "1")
    assert mixed.level is Level.WARNING
    assert mixed.message == "1: gateway, timer; 2: this command; an earlier version: governor"


# Services


def state(*, members: int = 1, assigned: int = 3, stable: bool = True, waits: float | None = None) -> ServiceState:
    since = None if waits is None else NOW - timedelta(seconds=waits)
    lag = UndecidedRecords(4 if since else 0, is_exact=True, since=since)
    return ServiceState("eviction", "", members, stable, assigned, 3, lag, None)


@pytest.mark.parametrize(
    ("found", "word", "level"),
    [
        (state(), "Running", Level.OK),
        (state(waits=3), "Running", Level.OK),
        (state(waits=20), "Running", Level.WARNING),
        (state(waits=90), "Running", Level.ERROR),
        (state(assigned=2), "Rebalancing", Level.WARNING),
        (state(stable=False), "Rebalancing", Level.WARNING),
        (state(members=0, assigned=0), "Stopped", Level.ERROR),
    ],
)
def test_the_state_of_a_service(found: ServiceState, word: str, level: Level) -> None:
    assert (found.word, worst(found.findings(NOW))) == (word, level)


def test_a_service_of_a_chain_can_be_started_in_two_ways() -> None:
    (found,) = state(members=0, assigned=0).findings(NOW)
    assert "moorage run eviction" in found.remedy
    assert "moorage run condition-ingest taint-manager eviction timer" in found.remedy


# Certificates


def test_certificates_in_files(tmp_path: Path) -> None:
    """Those of the tests are valid for a day."""
    file, _ = Authority(tmp_path).sign("gateway")
    now = datetime.now(UTC)

    def level(at: datetime, *, renewed: bool = False) -> Level:
        (found,) = certificate_findings([in_file(str(file), renewed=renewed)], at)
        return found.level

    assert level(now, renewed=True) is Level.OK
    assert level(now) is Level.WARNING
    assert level(now + timedelta(days=2), renewed=True) is Level.ERROR
    assert level(now - timedelta(days=400)) is Level.ERROR


def test_a_file_without_a_certificate(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no certificate")
    broken, missing = certificate_findings([in_file(str(tmp_path / name)) for name in ("text", "missing")], NOW)
    assert {broken.level, missing.level} == {Level.ERROR}
    assert "not a certificate in PEM" in broken.message
    assert "cannot be read" in missing.message
