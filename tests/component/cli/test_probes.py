"""`moorage probe`: checks by commands, HTTP and TCP, and configurations of node-problem-detector."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.architecture.files import ROOT
from tests.support.waiting import until
from typer.testing import CliRunner

from moorage.cli.app import app
from moorage.cli.errors import CliError
from moorage.cli.probes.commands import run_command
from moorage.cli.probes.network import HttpCheck, TcpCheck, latency_of
from moorage.cli.probes.npd import read_plugins
from moorage.cli.probes.results import CheckOutcome, CheckResult, Meaning, Observed, Threshold
from moorage.cli.probes.running import Check, Reporter, Rule, run_checks
from moorage_schemas.condition import ConditionStatus
from moorage_sdk import Probe, Refusal
from moorage_sdk.outbox import Report

OK, PROBLEM, UNKNOWN = CheckOutcome.OK, CheckOutcome.PROBLEM, CheckOutcome.UNKNOWN


async def run(script: str, *, timeout: float = 60.0, max_output: int = 80) -> CheckResult:  # noqa: ASYNC109 - that of a check
    return await run_command(["sh", "-c", script], timeout=timeout, max_output=max_output)


@pytest.mark.parametrize(
    ("script", "result"),
    [
        ("echo fine; exit 0", CheckResult(OK, "fine")),
        ("echo '  disk full '; echo aside >&2; exit 1", CheckResult(PROBLEM, "disk full")),
        ("exit 2", CheckResult(UNKNOWN, "exit code 2")),
        ("echo why; exit 77", CheckResult(UNKNOWN, "why")),
        ("kill -9 $$", CheckResult(UNKNOWN, "ended by signal 9", "CheckKilled")),
        ("printf 'caf\\303\\251 \\377\\000'; exit 1", CheckResult(PROBLEM, "café \ufffd\ufffd")),
        ("cat; exit 0", CheckResult(OK, "")),
    ],
)
async def test_exit_codes(script: str, result: CheckResult) -> None:
    assert await run(script) == result


async def test_a_program_that_does_not_exist() -> None:
    found = await run_command(["/nowhere/check"], timeout=1, max_output=80)
    assert found == CheckResult(
        UNKNOWN, "/nowhere/check cannot be started: No such file or directory", "CheckNotStarted"
    )


async def test_a_flood_of_output_is_read_and_cut() -> None:
    found = await run("head -c 50000000 /dev/zero | tr '\\0' x; exit 1", max_output=100)
    assert found == CheckResult(PROBLEM, "x" * 100)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


async def test_nothing_of_a_hanging_check_is_left(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"trap '' TERM; sleep 1000 & echo $! >> {pids}; echo $$ >> {pids}; sleep 1000"
    assert await run(script, timeout=0.5) == CheckResult(UNKNOWN, "no result within 0.5 s", "CheckTimedOut")
    left = [int(line) for line in pids.read_text().split()]
    assert len(left) == 2
    await until(lambda: not any(map(is_alive, left)))


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_check_that_leaves_a_process_behind_holds_nothing(tmp_path: Path) -> None:
    pid, before = tmp_path / "pid", open_files()
    program = f"import os, time; os.setsid(); open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(1000)"
    script = f'{sys.executable} -c "{program}" & while [ ! -s {pid} ]; do :; done; echo fine'
    assert await run(script) == CheckResult(OK, "fine")
    os.kill(int(pid.read_text()), signal.SIGKILL)
    await until(lambda: open_files() <= before)


async def test_a_check_ends_with_the_probe(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    task = asyncio.create_task(run(f"echo $$ > {pid}; exec sleep 1000"))
    await until(lambda: pid.exists() and bool(pid.read_text().strip()))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await until(lambda: not is_alive(int(pid.read_text())))


async def test_a_check_that_is_ended_while_it_starts_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pids, before = list[int](), open_files()
    started = asyncio.create_subprocess_exec

    async def start(*words: str, **given: Any) -> asyncio.subprocess.Process:
        process = await started(*words, **given)
        pids.append(process.pid)
        task.cancel()  # it arrives at the next time that the check waits
        return process

    monkeypatch.setattr("moorage.cli.probes.commands.asyncio.create_subprocess_exec", start)
    task = asyncio.create_task(run("exec sleep 1000"))
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    assert not is_alive(pids[0])
    monkeypatch.undo()
    assert (await run_command(["/nowhere/check"], timeout=1, max_output=80)).outcome is UNKNOWN
    await until(lambda: open_files() <= before)


@pytest.mark.parametrize(
    ("kind", "ok_status", "statuses"),
    [
        ("DiskPressure", "", ["False", "True", "Unknown"]),
        ("Ready", "", ["True", "False", "Unknown"]),
        ("Ready", "False", ["False", "True", "Unknown"]),
        ("DoorClosed", "True", ["True", "False", "Unknown"]),
    ],
)
def test_what_outcomes_mean(kind: str, ok_status: str, statuses: list[str]) -> None:
    meaning = Meaning.of(kind, ok_status, problem_reason="Bad")
    observed = [meaning.observed(CheckResult(outcome, "m")) for outcome in (OK, PROBLEM, UNKNOWN)]
    assert [one.status for one in observed] == statuses
    assert [one.reason for one in observed] == ["CheckPassed", "Bad", "CheckUnknown"]


@pytest.mark.parametrize(
    ("failures", "successes", "outcomes", "counted", "pending"),
    [
        (1, 1, "OPUO", "OPUO", "0000"),
        (3, 1, "PPPOPPOPPP", "--POOOOOOP", "1200120120"),
        (2, 2, "OPOPPOO", "----PPO", "1111010"),
        (3, 2, "UUPPP", "----P", "12120"),
    ],
)
def test_thresholds(failures: int, successes: int, outcomes: str, counted: str, pending: str) -> None:
    by_letter = {one.value[0]: one for one in CheckOutcome}
    threshold = Threshold(failures, successes)
    found, progress = [], ""
    for letter in outcomes:
        found.append(threshold.add(CheckResult(by_letter[letter])))
        progress += threshold.pending.partition(" of ")[0] or "0"
    assert "".join(one.outcome.value[0] if one else "-" for one in found) == counted
    assert progress == pending


class FakeSender:
    def __init__(self) -> None:
        self.sent: list[Report] = []

    async def start(self) -> None: ...

    async def send(self, reports: Sequence[Report]) -> list[Refusal]:
        self.sent += reports
        return []

    async def stop(self) -> None: ...


def told(sender: FakeSender) -> list[tuple[str, str, str, str]]:
    events = [one.event for one in sender.sent]
    return [(one.type, one.status.value, one.reason, one.message) for one in events]


@pytest.mark.parametrize("by_message", [False, True])
async def test_changes_alone_are_reported(*, by_message: bool) -> None:
    sender, shown = FakeSender(), list[Observed]()
    first, second = (Rule(Meaning("Broken", ConditionStatus.FALSE, problem_reason=name)) for name in "ab")
    async with Probe("probe/x", sender=sender, heartbeat=0) as probe:
        reporter = Reporter(probe, "Node/n1", lambda _, observed: shown.append(observed), by_message)
        for rule, result in [
            (first, CheckResult(OK, "1")),
            (second, CheckResult(OK, "1")),
            (second, CheckResult(PROBLEM, "2")),
            (first, CheckResult(PROBLEM, "3")),
            (second, CheckResult(PROBLEM, "4")),
            (first, CheckResult(OK, "5")),
            (second, CheckResult(UNKNOWN, "6")),
            (second, CheckResult(OK, "7")),
        ]:
            await reporter.add(rule, result)
    words = [(status, reason) for _, status, reason, _ in told(sender)]
    changes = [
        ("False", "CheckPassed"),
        ("True", "b"),
        ("True", "a"),
        ("True", "b"),
        ("Unknown", "CheckUnknown"),
        ("False", "CheckPassed"),
    ]
    assert words == changes
    assert [(one.status, one.reason) for one in shown] == changes


async def test_checks_are_repeated_at_their_interval() -> None:
    sender, pauses, count = FakeSender(), list[float](), 0

    async def check() -> CheckResult:
        nonlocal count
        count += 1
        return CheckResult(OK if count % 2 else PROBLEM, str(count))

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if count == 4:
            await asyncio.Event().wait()

    async with Probe("probe/x", sender=sender, heartbeat=0) as probe:
        reporter = Reporter(probe, "Node/n1", lambda *_: None)
        checks = [Check(check, [Rule(Meaning("Ready", ConditionStatus.TRUE))])]
        task = asyncio.create_task(run_checks(checks, reporter, every=10, sleep=sleep))
        await until(lambda: count == 4)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert [status for _, status, _, _ in told(sender)] == ["True", "False", "True", "False"]
    assert all(9 < pause <= 40 for pause in pauses), pauses


async def answered_http(code: int, **given: Any) -> CheckResult:
    transport = httpx.MockTransport(lambda _: httpx.Response(code))
    return await HttpCheck("http://east/readyz", 5, transport=transport, **given)()


async def test_http() -> None:
    found = await answered_http(200)
    assert (found.outcome, found.message, found.seconds > 0) == (OK, "HTTP 200", True)
    found = await answered_http(302)
    assert found.outcome is OK, "redirects are not followed"
    found = await answered_http(503)
    assert (found.outcome, found.message, found.reason) == (PROBLEM, "HTTP 503", "UnexpectedStatus")
    assert (await answered_http(200, first_code=204, last_code=204)).outcome is PROBLEM

    def failing(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    found = await HttpCheck("http://east", 5, transport=httpx.MockTransport(failing))()
    assert (found.outcome, found.reason, found.message) == (PROBLEM, "ConnectionFailed", "refused")


async def test_a_token_is_read_for_each_request(tmp_path: Path) -> None:
    seen, file = list[str](), tmp_path / "token"

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers["authorization"])
        return httpx.Response(200)

    check = HttpCheck("http://east", 5, bearer_file=str(file), transport=httpx.MockTransport(answer))
    for token in ("one", "two\n"):
        file.write_text(token)
        assert (await check()).outcome is OK
    file.unlink()
    assert (await check()).reason == "ConnectionFailed"
    assert seen == ["Bearer one", "Bearer two"]


async def test_tcp() -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        assert (await TcpCheck("127.0.0.1", port, 5)()).outcome is OK
    found = await TcpCheck("127.0.0.1", port, 5)()
    assert (found.outcome, found.reason) == (PROBLEM, "ConnectionFailed")


def test_latency() -> None:
    assert latency_of(CheckResult(OK, seconds=0.2), 0.5).outcome is OK
    assert latency_of(CheckResult(OK, seconds=0.6), 0.5).reason == "LatencyOverLimit"
    assert latency_of(CheckResult(PROBLEM, "refused"), 0.5) == CheckResult(UNKNOWN, "refused", "NoAnswer")


NTP = {
    "plugin": "custom",
    "pluginConfig": {
        "invoke_interval": "30s",
        "timeout": "5s",
        "max_output_length": 80,
        "concurrency": 3,
        "enable_message_change_based_condition_update": False,
    },
    "source": "ntp-custom-plugin-monitor",
    "metricsReporting": True,
    "conditions": [{"type": "NTPProblem", "reason": "NTPIsUp", "message": "ntp service is up"}],
    "rules": [
        {"type": "temporary", "reason": "NTPIsDown", "path": "./check_ntp.sh", "timeout": "3s"},
        {
            "type": "permanent",
            "condition": "NTPProblem",
            "reason": "NTPIsDown",
            "path": "./check_ntp.sh",
            "args": ["--strict"],
            "timeout": "3s",
        },
    ],
}
"""node-problem-detector's own example, config/custom-plugin-monitor.json."""


async def test_a_configuration_of_node_problem_detector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, script = tmp_path / "ntp.json", tmp_path / "check_ntp.sh"
    file.write_text(json.dumps(NTP))
    script.write_text('#!/bin/sh\necho "ntp is down $*"\nexit $(cat code)\n')
    script.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    printed: list[tuple[str, str]] = []
    plugins = read_plugins(file, lambda *one: printed.append(one))
    assert (plugins.every, plugins.concurrency, plugins.by_message) == (30.0, 3, False)
    assert [text.removeprefix(f"{file}: ").partition(":")[0] for text in plugins.warnings] == [
        "metricsReporting has no effect",
        "rules[0].type has no effect",
    ]
    sender = FakeSender()
    async with Probe("probe/x", sender=sender, heartbeat=0) as probe:
        reporter = Reporter(probe, "Node/n1", lambda *_: None, plugins.by_message)
        for code in ("0", "1", "2"):
            (tmp_path / "code").write_text(code)
            for check in plugins.checks:
                result = await check.run()
                for rule in check.rules:
                    await reporter.add(rule, result)
    assert told(sender) == [
        ("NTPProblem", "False", "NTPIsUp", "ntp service is up"),
        ("NTPProblem", "True", "NTPIsDown", "ntp is down --strict"),
        ("NTPProblem", "Unknown", "CheckUnknown", "ntp is down --strict"),
    ]
    assert printed == [("NTPIsDown", "ntp is down")]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"plugin": "kmsg"}, "plugin: invalid value 'kmsg': expected custom"),
        ({"source": ""}, "source: invalid value '': expected a text"),
        ({"rules": []}, r"rules: invalid value \[\]: expected a list with at least one rule"),
        ({"rules": ["x"]}, r"rules\[0\]: invalid value 'x': expected a JSON object"),
        ({"conditions": {}, "rules": [1]}, "rules"),
        ({"pluginConfig": {"timeout": 5}}, "pluginConfig.timeout: invalid value 5: expected a duration"),
        ({"pluginConfig": {"concurrency": 0}}, "pluginConfig.concurrency: invalid value 0"),
        ({"pluginConfig": {"timeout": "1s"}}, r"rules\[0\].timeout: invalid value '3s': must be at most"),
        ({"conditions": []}, r"rules\[1\].condition: invalid value 'NTPProblem': expected the type of one of"),
    ],
)
def test_configurations_that_are_wrong(tmp_path: Path, change: dict[str, Any], error: str) -> None:
    file = tmp_path / "ntp.json"
    file.write_text(json.dumps({**NTP, **change}))
    with pytest.raises(CliError, match=error):
        read_plugins(file, lambda *_: None)


def test_a_field_that_is_not_carried_is_named(tmp_path: Path) -> None:
    file = tmp_path / "ntp.json"
    config = {**NTP, "pluginConfig": {"skip_initial_status": False, "new": 1}}
    file.write_text(json.dumps(config))
    warnings = " ".join(read_plugins(file, lambda *_: None).warnings)
    assert "pluginConfig.new has no effect" in warnings
    assert "pluginConfig.skip_initial_status has no effect: nothing is reported before the first check" in warnings


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["exec", "--type", "X", "--every", "0s", "--", "true"], "--every: invalid value '0s': must be longer than 0"),
        (["exec", "--type", "X", "--ok-status", "Yes", "--", "true"], "--ok-status: invalid value 'Yes'"),
        (["exec", "--type", "a|b", "--target", "Node/a", "--", "true"], "type: invalid value 'a|b': must match"),
        (
            ["exec", "--type", "X", "--target", "Pod/a", "--", "true"],
            "target: invalid value 'Pod/a': expected Kind/name",
        ),
        (["exec", "--type", "X", "--source", "a b", "--", "true"], "source: invalid value 'a b': must be 1 to 253"),
        (["tcp", "--target", "Cluster/a", "--address", "east"], "--address: invalid value 'east': expected HOST:PORT"),
        (["http", "--target", "Cluster/a", "--url", "east"], "--url: invalid value 'east'"),
        (["http", "--target", "Cluster/a", "--url", "http://a", "--expect", "x"], "--expect: invalid value 'x'"),
        (["http", "--target", "Cluster/a", "--url", "http://a", "--header", "x"], "--header: invalid value 'x'"),
    ],
)
def test_wrong_options(words: list[str], error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOORAGE_SERVER", "http://127.0.0.1:9")
    result = CliRunner().invoke(app, ["probe", *words])
    assert (result.exit_code, error in result.output) == (2, True), result.output


def test_the_unit_of_systemd_runs_a_probe(tmp_path: Path) -> None:
    unit = (ROOT / "ops" / "systemd" / "moorage-probe@.service").read_text()
    (line,) = (line for line in unit.splitlines() if line.startswith("ExecStart="))
    script = tmp_path / "DiskPressure"
    script.write_text("#!/bin/sh\necho full; exit 1\n")
    script.chmod(0o755)
    line = (
        line.replace("/etc/moorage/checks", str(tmp_path)).replace("%i", "DiskPressure").replace("${NODE_NAME}", "n1")
    )
    program, *words = shlex.split(line.removeprefix("ExecStart="))
    assert program.endswith("/moorage")
    words.insert(words.index("--"), "--dry-run")
    result = CliRunner().invoke(app, words)
    assert (result.exit_code, "Node/n1 DiskPressure=True CheckFailed: full" in result.output) == (0, True), (
        result.output
    )


class Gateway(BaseHTTPRequestHandler):
    """Takes all reports."""

    seen: list[dict[str, Any]]

    def do_POST(self) -> None:
        """Keep the reports, and answer that they were accepted."""
        documents = json.loads(self.rfile.read(int(self.headers["content-length"])))
        type(self).seen += [one["data"] for one in documents]
        body = json.dumps({"kind": "ReportOutcomeList", "items": []}).encode()
        self.send_response(202)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@pytest.fixture
def gateway() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    seen: list[dict[str, Any]] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Own", (Gateway,), {"seen": seen}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", seen
    server.shutdown()
    thread.join()
    server.server_close()


async def test_a_probe_by_a_script_reports_until_it_is_asked_to_end(
    gateway: tuple[str, list[dict[str, Any]]], tmp_path: Path
) -> None:
    server, seen = gateway
    code = tmp_path / "code"
    code.write_text("0")
    words = [sys.executable, "-m", "moorage.cli", "probe", "exec", "--target", "Node/n1", "--type", "DiskPressure"]
    words += ["--every", "100ms", "--", "sh", "-c", f"echo now; exit $(cat {code})"]
    environment = {**os.environ, "MOORAGE_SERVER": server, "HOME": str(tmp_path)}
    process = await asyncio.create_subprocess_exec(*words, env=environment, stdout=asyncio.subprocess.PIPE)
    try:
        await until(lambda: bool(seen))
        code.write_text("1")
        await until(lambda: seen[-1]["status"] == "True")
    finally:
        process.send_signal(signal.SIGTERM)
        printed, _ = await process.communicate()
    assert process.returncode == 0
    assert {(one["status"], one["reason"], one["message"]) for one in seen} == {
        ("False", "CheckPassed", "now"),
        ("True", "CheckFailed", "now"),
    }
    assert seen[0]["source"].startswith("probe/exec/DiskPressure/")
    assert "Node/n1 DiskPressure=True CheckFailed: now" in printed.decode()


async def test_a_failed_check_that_does_not_count_yet_is_printed(
    gateway: tuple[str, list[dict[str, Any]]], tmp_path: Path
) -> None:
    server, seen = gateway
    words = [sys.executable, "-m", "moorage.cli", "probe", "exec", "--target", "Node/n1", "--type", "DiskPressure"]
    words += ["--every", "1h", "--failures", "3", "--", "sh", "-c", "echo full; exit 1"]
    environment = {**os.environ, "MOORAGE_SERVER": server, "HOME": str(tmp_path)}
    process = await asyncio.create_subprocess_exec(*words, env=environment, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode()
    process.send_signal(signal.SIGTERM)
    await process.communicate()
    assert line.endswith(" Node/n1 DiskPressure=True (1 of 3, not reported yet) CheckFailed: full\n")
    assert seen == []
