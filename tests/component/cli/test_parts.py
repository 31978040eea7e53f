"""Separate parts of the command line: durations, the run file, manifests, lines about events, supervision."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.tables import table
from tests.support.waiting import until

from moorage.apiserver.kinds.views import acknowledged
from moorage.cli.api import manifests, runfile
from moorage.cli.api.runfile import Running
from moorage.cli.errors import CliError, UsageError
from moorage.cli.local import services
from moorage.cli.local.supervisor import ChildSpec, Supervisor
from moorage.cli.render.durations import parse_duration, parse_instant, to_the_second
from moorage.decide.kubernetes.durations import age, human
from moorage.decide.kubernetes.object_texts import toleration_text, why_evicted
from moorage.insight.explain.wording import words
from moorage_schemas.base import Model
from moorage_schemas.condition import ConditionReported, ConditionStatus
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.taint import TargetTainted
from moorage_schemas.timer import SetTimer, TimerFired

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
NODE = TargetRef(kind=TargetKind.NODE, name="n1")
POD = WorkloadRef(kind="Pod", namespace="shop", name="p")


@table(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (121, "2m1s"),
        (180, "3m"),
        (660, "11m"),
        (3 * 3600 + 60, "3h1m"),
        (9 * 3600, "9h"),
        (3 * 86400 + 4 * 3600, "3d4h"),
        (30 * 86400, "30d"),
        (800 * 86400, "2y70d"),
        (-5, "0s"),
    ],
)
def test_ages_are_written_as_kubectl_writes_them(seconds: int, text: str) -> None:
    assert human(seconds) == text
    assert age(NOW - timedelta(seconds=seconds), NOW) == text


def test_an_age_without_a_time_is_unknown() -> None:
    assert age(None, NOW) == age("", NOW) == age("yesterday", NOW) == "<unknown>"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2026-01-01T00:00:00.123456Z", "2026-01-01T00:00:00Z"),
        ("until 2026-01-01T00:00:00.5Z, from 2026-01-01T00:00:01.25+01:00", None),
        ("Ready=True 1.5s v1.2.3 12:00:00.123", "Ready=True 1.5s v1.2.3 12:00:00.123"),
    ],
)
def test_times_lose_their_fractions_and_nothing_else_does(text: str, shown: str | None) -> None:
    assert to_the_second(text) == (shown or "until 2026-01-01T00:00:00Z, from 2026-01-01T00:00:01+01:00")


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("1h30m", 5400), ("250ms", 0.25), ("2d", 172800), ("7", 7), ("1.5m", 90)]
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text).total_seconds() == seconds
    assert parse_instant(text, NOW) == NOW - timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "soon", "5 m", "-3s", "3x", "2026-01-01", "2026-01-01T00:00:00"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="invalid"):
        parse_instant(text, NOW)


def test_instants_are_read() -> None:
    assert parse_instant("2026-01-01T13:00:00+01:00", NOW) == NOW


MINE = Running(os.getpid(), "http://127.0.0.1:1", "127.0.0.1:2", "moorage", "2026-01-01T00:00:00Z")


def test_the_run_file_counts_while_its_process_runs(tmp_path: Path) -> None:
    assert runfile.read(tmp_path) is None
    assert list(tmp_path.iterdir()) == [], "a reader leaves nothing behind"
    with runfile.claimed(tmp_path):
        assert runfile.read(tmp_path) is None, "it is still starting"
        runfile.write(MINE, tmp_path)
        assert runfile.read(tmp_path) == MINE
        with pytest.raises(runfile.ClaimedError), runfile.claimed(tmp_path):
            pass
        assert runfile.read(tmp_path) == MINE
        runfile.path(tmp_path).write_text("[]")
        assert runfile.read(tmp_path) is None
    assert not runfile.path(tmp_path).exists()


def test_the_run_file_of_a_process_that_was_killed_does_not_count(tmp_path: Path) -> None:
    """Its process id does not matter: this process has the same one, as in a container that is started again."""
    killed = f"""
import os, signal
from pathlib import Path
from moorage.cli.api.runfile import Running, claimed, write
folder = Path({str(tmp_path)!r})
with claimed(folder):
    write(Running({os.getpid()}, "http://127.0.0.1:1", "127.0.0.1:2", "moorage", "2026-01-01T00:00:00Z"), folder)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", killed], check=False).returncode == -signal.SIGKILL
    assert runfile.path(tmp_path).exists()
    assert runfile.read(tmp_path) is None
    with runfile.claimed(tmp_path):
        assert runfile.read(tmp_path) is None, "what the other one wrote is not taken for what this one writes"


def test_services_are_found_by_their_folders() -> None:
    assert services.names() == ["condition-ingest", "eviction", "governor", "placement", "taint-manager", "timer"]
    assert services.check(["all", "timer", "gateway", "taint_manager"]) == [*services.names(), "gateway"]
    assert services.check(["webhooks", "query"]) == ["webhooks", "query"]
    assert services.check(["query", "timer"]) == ["query", "timer"], "it decides nothing, so `all` does not name it"


def test_lists_are_taken_apart_and_times_stay_text(tmp_path: Path) -> None:
    file = tmp_path / "list.json"
    file.write_text(
        '{"apiVersion": "v1", "kind": "List", "items": ['
        '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"a": "b"}}},'
        '{"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "p-"}}]}'
    )
    good, bad = manifests.read([str(file)])
    assert [(item.name, item.kind.kind if item.kind else "") for item in good] == [("n1", "Node"), ("", "Pod")]
    assert bad == []
    file.write_text("apiVersion: v1\nkind: Node\nmetadata: {name: n1, creationTimestamp: 2026-01-01T00:00:00Z}\n")
    good, _ = manifests.read([str(file)])
    assert good[0].document["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "bytes.yaml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CliError, match=r"bytes\.yaml: is not UTF-8"):
        manifests.read([str(file)])


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (None, "k deleted"),
        (
            ConditionReported(target=NODE, type="Ready", status=ConditionStatus.FALSE, observed_time=NOW, source="me"),
            "node/n1 Ready=False  (me)",
        ),
        (TargetTainted(target=NODE, generation=1), "node/n1 has no taints"),
        (SetTimer(id="t", target=NODE, owner="eviction", generation=1, deadline=None), "t cancelled"),
        (
            TimerFired(
                id="t",
                target=NODE,
                owner="eviction",
                generation=1,
                deadline=NOW,
                fired_time=NOW + timedelta(milliseconds=4),
            ),
            "t fired, 4 ms after its time",
        ),
        (
            EvictionDecided(
                workload=POD,
                owner=POD,
                target=NODE,
                generation=1,
                revision=1,
                state=EvictionState.REQUESTED,
                decided_time=NOW,
                reason="Why",
            ),
            "pod/p (shop) off node/n1: Requested  (Why)",
        ),
    ],
)
def test_events_in_words(event: Model | None, text: str) -> None:
    assert words("k", event) == text


@pytest.mark.parametrize(
    ("toleration", "text"),
    [
        ({"operator": "Exists"}, "op=Exists"),
        ({"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute"}, "k=v:NoExecute"),
        (
            {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0},
            "k:NoExecute op=Exists for 0s",
        ),
    ],
)
def test_tolerations_in_one_line(toleration: dict[str, object], text: str) -> None:
    assert toleration_text(toleration) == text


async def test_a_child_that_never_becomes_ready_is_told_with_its_log(tmp_path: Path) -> None:
    said: list[str] = []
    spec = ChildSpec("timer", ("run", "nonsense"), {}, tmp_path / "timer.log", "http://127.0.0.1:9/readyz")
    supervisor = Supervisor([spec], said.append)
    await supervisor.start()
    try:
        with pytest.raises(
            CliError, match=r"timer ended 3 times before it was ready(.|\n)*service 'nonsense' does not exist"
        ):
            await supervisor.until_ready(120)
    finally:
        await supervisor.stop()
    crashes = [line for line in said if not line.startswith("waiting for")]
    assert [line.split(" (")[0] for line in crashes[:2]] == [
        "timer ended with code 2; restarting in 0.5 s",
        "timer ended with code 2; restarting in 1 s",
    ]


async def test_children_that_take_long_to_start_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moorage.cli.local.supervisor._REPORT_AFTER", 0.0)
    said: list[str] = []
    specs = [
        ChildSpec(name, ("run", "nonsense"), {}, tmp_path / f"{name}.log", "http://127.0.0.1:9/readyz")
        for name in ("timer", "gateway")
    ]
    with pytest.raises(CliError, match="was not ready within 0 s"):
        await Supervisor(specs, said.append).until_ready(0.2)
    assert said[0] == "waiting for timer, gateway: 0 s so far"


async def test_stopping_ends_the_waiting_for_a_restart(tmp_path: Path) -> None:
    said: list[str] = []
    spec = ChildSpec("timer", ("run", "nonsense"), {}, tmp_path / "timer.log", "http://127.0.0.1:9/readyz")
    supervisor = Supervisor([spec], said.append, follow=True)
    await supervisor.start()

    async def crashed() -> bool:
        return supervisor.children[0].crashes > 0

    await until(crashed)
    async with asyncio.timeout(120):
        await supervisor.stop()
    assert supervisor.children[0].pid == 0
    assert any("timer            | error: service 'nonsense' does not exist" in line for line in said)


WAITS = {"state": "Requested", "message": "untolerated taint bad:NoExecute", "deployer": "deployer/mine"}
SAID = {"source": "deployer/mine", "time": "2026-01-01T12:00:00Z"}
FAILED = {**SAID, "reason": "Failed", "message": "the disk hangs"}


@table(
    ("status", "column", "why"),
    [
        ({}, "<none>", ""),
        ({"state": "Scheduled", "message": "m"}, "<none>", "m"),
        ({"state": "Requested", "message": "m"}, "<none>", "m"),
        (WAITS, "Waiting", "untolerated taint bad:NoExecute; waits for deployer/mine"),
        (
            {**WAITS, "escalated": FAILED},
            "Failed",
            "untolerated taint bad:NoExecute; deployer/mine: Failed: the disk hangs",
        ),
        (
            {**WAITS, "escalated": {**FAILED, "reason": "Refused", "message": ""}},
            "Refused",
            "untolerated taint bad:NoExecute; deployer/mine: Refused",
        ),
        ({**WAITS, "escalated": FAILED, "acknowledged": SAID}, "Done", "untolerated taint bad:NoExecute"),
        ({"state": "Completed", "message": "m", "escalated": FAILED, "acknowledged": SAID}, "Done", "m"),
        ({"state": "Completed", "message": "m", "deployer": "deployer/mine"}, "<none>", "m"),
    ],
)
def test_an_eviction_shows_what_its_deployer_has_said(status: dict[str, Any], column: str, why: str) -> None:
    assert (acknowledged({"status": status}), why_evicted(status)) == (column, why)
