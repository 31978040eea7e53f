"""`moorage probe`: probes without code."""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import typer

from moorage.cli.api.sdk_connection import sdk_connection
from moorage.cli.errors import CliError, UsageError, warn
from moorage.cli.probes.commands import run_command
from moorage.cli.probes.network import HttpCheck, TcpCheck, latency_of
from moorage.cli.probes.npd import read_plugins
from moorage.cli.probes.results import Meaning, Observed, Threshold
from moorage.cli.probes.running import Check, Reporter, Rule, run_checks
from moorage.cli.render import output
from moorage.cli.render.durations import parse_duration
from moorage_schemas.condition import ConditionStatus
from moorage_schemas.times import format_time
from moorage_sdk import Probe, Refusal, SdkError

app = typer.Typer(no_args_is_help=True, help="Run a probe without code: a command, an HTTP or a TCP check.")

_HIGHEST_PORT: Final = 65_535

TargetOption = Annotated[str, typer.Option(metavar="KIND/NAME", help="The target of the condition.")]
NodeOption = Annotated[
    str,
    typer.Option("--target", metavar="KIND/NAME", help="The target. The default is the node with this machine's name."),
]
TypeOption = Annotated[str, typer.Option("--type", metavar="CONDITION", help="The type of the condition.")]
EveryOption = Annotated[str, typer.Option(metavar="DURATION", help="The time between two checks.")]
TimeoutOption = Annotated[str, typer.Option(metavar="DURATION", help="The time that a check may take.")]
FailuresOption = Annotated[int, typer.Option(min=1, help="Failed checks in a row until the condition changes.")]
SuccessesOption = Annotated[int, typer.Option(min=1, help="Passed checks in a row until the condition changes back.")]
SourceOption = Annotated[
    str, typer.Option(help="The source of the reports. Two processes must not share one.", show_default=False)
]
OkStatusOption = Annotated[
    str,
    typer.Option(
        metavar="True|False",
        help="The status when the check passes. The default is True for Ready, Healthy and the like, else False.",
        show_default=False,
    ),
]
LatencyOption = Annotated[
    str,
    typer.Option(metavar="DURATION", help="Also report a condition of answers that take longer.", show_default=False),
]
LatencyTypeOption = Annotated[str, typer.Option(metavar="CONDITION", help="The type of that condition.")]
OnceOption = Annotated[bool, typer.Option("--dry-run", help="Check once and print the result. Nothing is reported.")]


@app.command("exec")
def exec_command(
    ctx: typer.Context,
    words: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND [ARGUMENT…]", help="The check.", show_default=False)
    ],
    *,
    kind: TypeOption,
    target: NodeOption = "",
    every: EveryOption = "10s",
    timeout: TimeoutOption = "5s",
    ok_status: OkStatusOption = "",
    reason: Annotated[str, typer.Option(help="The reason when the check fails.")] = "CheckFailed",
    ok_reason: Annotated[str, typer.Option(help="The reason when it passes.")] = "CheckPassed",
    max_output: Annotated[int, typer.Option(min=1, max=32_768, help="Characters of its output in the message.")] = 80,
    by_message: Annotated[
        bool, typer.Option("--by-message", help="Also report when only the output has changed.")
    ] = False,
    failures: FailuresOption = 1,
    successes: SuccessesOption = 1,
    source: SourceOption = "",
    dry_run: OnceOption = False,
) -> None:
    """Report a condition by the exit codes of a command: 0 is well, 1 a problem, all others are unknown.

    These are the codes of node-problem-detector's plugins. The message is the command's output. For example:
    `moorage probe exec --target Node/n1 --type DiskPressure -- ./check.sh`.
    """
    meaning = _meaning(kind, ok_status, ok_reason=ok_reason, problem_reason=reason)
    run = partial(run_command, words, timeout=_seconds(timeout, "--timeout"), max_output=max_output)
    check = Check(run, (Rule(meaning, Threshold(failures, successes)),))
    _run(
        ctx,
        [check],
        source or f"probe/exec/{kind}/{socket.gethostname()}",
        target or _node(),
        every=_seconds(every, "--every"),
        by_message=by_message,
        dry_run=dry_run,
    )


@app.command("npd")
def npd_command(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The configuration.", show_default=False)],
    *,
    target: NodeOption = "",
    source: SourceOption = "",
    dry_run: OnceOption = False,
) -> None:
    """Run the checks of a configuration of node-problem-detector's custom plugins, as it is.

    Permanent rules report conditions. Temporary ones are printed. A field without an effect is a warning.
    """
    target = target or _node()
    plugins = read_plugins(file, lambda reason, message: output.line(f"{_now()} {target} {reason}: {message}"))
    for text in plugins.warnings:
        warn(f"Warning: {text}")
    name = "-".join(plugins.source.split())
    _run(
        ctx,
        plugins.checks,
        source or f"probe/npd/{name}/{socket.gethostname()}",
        target,
        every=plugins.every,
        concurrency=plugins.concurrency,
        by_message=plugins.by_message,
        dry_run=dry_run,
    )


@app.command("http")
def http_command(
    ctx: typer.Context,
    *,
    target: TargetOption,
    url: Annotated[str, typer.Option(metavar="URL", help="The address, such as https://east:6443/readyz.")],
    kind: TypeOption = "Ready",
    every: EveryOption = "10s",
    timeout: TimeoutOption = "5s",
    expect: Annotated[str, typer.Option(metavar="CODES", help="Codes of an answer that is well.")] = "200-399",
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME:VALUE", help="A header of the request.", show_default=False)
    ] = None,
    bearer_file: Annotated[str, typer.Option(metavar="FILE", help="A file with a token for the address.")] = "",
    url_ca: Annotated[str, typer.Option(metavar="FILE", help="The authorities of its certificate.")] = "",
    verify: Annotated[bool, typer.Option(help="Check its certificate.")] = True,
    latency_over: LatencyOption = "",
    latency_type: LatencyTypeOption = "HighLatency",
    failures: FailuresOption = 3,
    successes: SuccessesOption = 1,
    ok_status: OkStatusOption = "",
    source: SourceOption = "",
    dry_run: OnceOption = False,
) -> None:
    """Report a condition by the answers of an address. Redirects are not followed.

    For example: `moorage probe http --target Cluster/east --url https://east:6443/readyz --latency-over 500ms`.
    """
    if urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname:
        raise UsageError(f"--url: invalid value {url!r}: expected an address that begins with http:// or https://")
    first, last = _codes(expect)
    check = HttpCheck(
        url,
        _seconds(timeout, "--timeout"),
        first,
        last,
        dict(_header(one) for one in header or ()),
        bearer_file,
        _trust(url_ca, verify=verify),
    )
    rules = _network_rules(
        _meaning(kind, ok_status, ok_reason="Answers"), latency_over, latency_type, failures, successes
    )
    source = source or f"probe/http/{kind}/{target}"
    _run(ctx, [Check(check, rules)], source, target, every=_seconds(every, "--every"), dry_run=dry_run)


@app.command("tcp")
def tcp_command(
    ctx: typer.Context,
    *,
    target: TargetOption,
    address: Annotated[str, typer.Option(metavar="HOST:PORT", help="The address, such as east:6443 or [::1]:6443.")],
    kind: TypeOption = "Ready",
    every: EveryOption = "10s",
    timeout: TimeoutOption = "5s",
    latency_over: LatencyOption = "",
    latency_type: LatencyTypeOption = "HighLatency",
    failures: FailuresOption = 3,
    successes: SuccessesOption = 1,
    ok_status: OkStatusOption = "",
    source: SourceOption = "",
    dry_run: OnceOption = False,
) -> None:
    """Report a condition by whether an address takes connections."""
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) <= _HIGHEST_PORT:
        raise UsageError(f"--address: invalid value {address!r}: expected HOST:PORT")
    check = TcpCheck(host.removeprefix("[").removesuffix("]"), int(port), _seconds(timeout, "--timeout"))
    rules = _network_rules(
        _meaning(kind, ok_status, ok_reason="Answers"), latency_over, latency_type, failures, successes
    )
    source = source or f"probe/tcp/{kind}/{target}"
    _run(ctx, [Check(check, rules)], source, target, every=_seconds(every, "--every"), dry_run=dry_run)


def _network_rules(meaning: Meaning, latency_over: str, latency_type: str, failures: int, successes: int) -> list[Rule]:
    rules = [Rule(meaning, Threshold(failures, successes))]
    if latency_over:
        limit = _seconds(latency_over, "--latency-over")
        rules.append(
            Rule(_meaning(latency_type), Threshold(failures, successes), lambda result: latency_of(result, limit))
        )
    return rules


def _run(
    ctx: typer.Context,
    checks: Sequence[Check],
    source: str,
    target: str,
    *,
    every: float,
    concurrency: int = 1,
    by_message: bool = False,
    dry_run: bool = False,
) -> None:
    """Run checks until Ctrl-C or SIGTERM.

    Raises:
        UsageError: a value is wrong.
        CliError: nothing can be reported.
    """
    try:
        if dry_run:
            asyncio.run(_check_once(checks, target))
        else:
            probe = partial(Probe, source, sdk_connection(ctx), on_refusal=_Refusals().show)
            asyncio.run(_check_forever(probe, checks, target, every, concurrency, by_message=by_message))
    except ValueError as error:
        raise UsageError(str(error)) from None
    except SdkError as error:
        raise CliError(str(error)) from None
    except KeyboardInterrupt:
        pass


async def _check_once(checks: Sequence[Check], target: str) -> None:
    for check in checks:
        result = await check.run()
        for rule in check.rules:
            _show(target, rule.meaning.type, rule.meaning.observed(rule.derive(result) if rule.derive else result))


async def _check_forever(
    probe: Callable[[], Probe],
    checks: Sequence[Check],
    target: str,
    every: float,
    concurrency: int,
    *,
    by_message: bool,
) -> None:
    me, is_asked_to_end = asyncio.current_task(), asyncio.Event()

    def end() -> None:
        is_asked_to_end.set()
        if me is not None:
            me.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end)
    try:
        async with probe() as opened:
            reporter = Reporter(opened, target, partial(_show, target), by_message, partial(_show, target))
            await run_checks(checks, reporter, every=every, concurrency=concurrency)
    except asyncio.CancelledError:
        if not is_asked_to_end.is_set():
            raise


class _Refusals:
    """Prints refusals, each reason once until it changes: a report is repeated every few seconds."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    def show(self, refusal: Refusal) -> None:
        if refusal.is_ignored or self._last.get(refusal.subject) == refusal.reason:
            return
        self._last[refusal.subject] = refusal.reason
        warn(f"Warning: the report about {refusal.subject} does not count: {refusal.reason}: {refusal.message}")


def _show(target: str, kind: str, observed: Observed, pending: str = "") -> None:
    waits = f" ({pending}, not reported yet)" if pending else ""
    words = f"{_now()} {target} {kind}={observed.status}{waits} {observed.reason}"
    message = " ".join(observed.message.split())
    output.line(f"{words}: {message}" if message else words)


def _node() -> str:
    return f"Node/{socket.gethostname()}"


def _now() -> str:
    return format_time(datetime.now(UTC).replace(microsecond=0))


def _meaning(kind: str, ok_status: str = "", *, ok_reason: str = "", problem_reason: str = "") -> Meaning:
    if ok_status not in {"", ConditionStatus.TRUE.value, ConditionStatus.FALSE.value}:
        raise UsageError(f"--ok-status: invalid value {ok_status!r}: expected True or False")
    return Meaning.of(kind, ok_status, ok_reason=ok_reason, problem_reason=problem_reason)


def _seconds(text: str, option: str) -> float:
    seconds = parse_duration(text, option).total_seconds()
    if seconds <= 0:
        raise UsageError(f"{option}: invalid value {text!r}: must be longer than 0")
    return seconds


def _codes(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    try:
        return int(first), int(last or first)
    except ValueError:
        raise UsageError(f"--expect: invalid value {text!r}: expected a code or a range, such as 200-399") from None


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise UsageError(f"--header: invalid value {text!r}: expected NAME:VALUE")
    return name.strip(), value.strip()


def _trust(url_ca: str, *, verify: bool) -> ssl.SSLContext | bool:
    if not verify or not url_ca:
        return verify
    try:
        return ssl.create_default_context(cafile=url_ca)
    except OSError as error:
        raise UsageError(f"--url-ca: invalid value {url_ca!r}: {error.strerror or error}") from None
