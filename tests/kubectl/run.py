"""Runs the table by hand, and records the answers of a real kube-apiserver.

    python -m tests.kubectl.run                                     on a Moorage of its own
    python -m tests.kubectl.run --kubeconfig FILE                   on any server
    python -m tests.kubectl.run --kubeconfig FILE --record          a real kube-apiserver, whose answers are kept

`--only` takes a regular expression of names, `--program` kubectl or karmadactl. What differs is printed, and counted.
`--renew` writes `not_yet.yaml` anew: cases that pass are taken off it, and those that do not are put on it.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import yaml
from tests.kubectl import outcome, programs
from tests.kubectl.cases import KARMADACTL, KUBECTL, ROOM, Case, table
from tests.kubectl.driver import Run, driven
from tests.kubectl.fleet import machines
from tests.kubectl.servers import Server, kubeconfig
from tests.support.brokers import EmbeddedBroker
from tests.support.live import running

PROGRAMS = (KUBECTL, KARMADACTL)


@asynccontextmanager
async def own_server(folder: Path) -> AsyncIterator[Server]:
    """A Moorage of its own with machines that do what they are told."""
    broker = EmbeddedBroker(folder / "kafka")
    await broker.start()
    try:
        async with (
            running(broker.bootstrap, "table-", folder) as live,
            machines(broker.bootstrap, "table-"),
        ):
            yield kubeconfig(live.server, folder / "kubeconfig")
    finally:
        await broker.close()


async def main(arguments: argparse.Namespace) -> int:
    """Run, and return the exit code."""
    cases = [case for program in PROGRAMS for case in table(program) if re.search(arguments.only, case.name)]
    with tempfile.TemporaryDirectory(prefix="table-") as folder:
        if arguments.kubeconfig:
            return await _on(Server(arguments.kubeconfig), cases, arguments)
        async with own_server(Path(folder)) as server:
            return await _on(server, cases, arguments)


async def _on(server: Server, every: Sequence[Case], arguments: argparse.Namespace) -> int:
    counts: Counter[str] = Counter()
    failing: set[str] = set()
    for kubectl in (*programs.found(), *programs.karmadactl()):
        cases = [case for case in every if case.program == kubectl.program]
        if arguments.program not in {"", kubectl.program} or not cases:
            continue
        began = time.monotonic()
        async with driven(server, kubectl) as driver:
            runs = await driver.all(cases, arguments.at_once)
            if not (arguments.record or arguments.renew):
                runs = await outcome.again(driver, cases, runs)
        _say(f"kubectl {kubectl.version}: {len(runs)} cases in {time.monotonic() - began:.0f} s")
        if arguments.record:
            counts += await _record(kubectl.version, runs, again=bool(arguments.only))
        else:
            counts += _compare(kubectl.version, cases, runs, failing, show=not arguments.quiet)
    if arguments.renew:
        _renew(failing, {case.name for case in every})
    _say(" ".join(f"{name}={count}" for name, count in sorted(counts.items())))
    return 1 if counts["differs"] or counts["failed"] else 0


async def _record(version: str, runs: dict[str, Run], *, again: bool) -> Counter[str]:
    counts: Counter[str] = Counter()
    before = {}
    if (outcome.ANSWERS / f"{version}.json").exists():
        before = outcome.recorded(version)
    for name, run in runs.items():
        if run.failure:
            _say(f"{name}: {run.failure}")
        if before.get(name) not in (None, list(run.answers)):
            _say(f"{name}: another answer than before")
            for old, new in zip(before[name], run.answers, strict=False):
                if old != new:
                    _say(f"  - {old}\n  + {new}")
            counts["changed"] += 1
        counts["failed" if run.failure else "recorded"] += 1
    kept = {name: Run(tuple(answers)) for name, answers in before.items()} if again else {}
    outcome.record(version, {**kept, **{name: run for name, run in runs.items() if not run.failure}})
    return counts


def _renew(failing: set[str], ran: set[str]) -> None:
    """Write the list of cases that do not pass yet. Reasons that are there stay."""
    before = outcome.reasons("not_yet")
    rows = {}
    for case in table():
        if case.name in (failing if case.name in ran else before):
            rows[case.name] = before.get(case.name) or f"not looked at yet ({case.file})"
    text = "# Cases that do not pass yet, with the reason. The list only shrinks.\n"
    (ROOM / "not_yet.yaml").write_text(text + yaml.safe_dump(rows, width=1000), "utf-8")


def _compare(
    version: str, cases: Sequence[Case], runs: dict[str, Run], failing: set[str], *, show: bool
) -> Counter[str]:
    counts: Counter[str] = Counter()
    expected = outcome.recorded(version)
    lists = {name: outcome.reasons(name) for name in ("differs", "not_yet")}
    for case in cases:
        if case.name not in expected:
            counts["unrecorded"] += 1
            continue
        found = outcome.differences(case, expected[case.name], runs[case.name])
        known = next((name for name, rows in lists.items() if case.name in rows), "")
        if found and known != "differs":
            failing.add(case.name)
        if found and show:
            _say(f"\n{case.file}/{case.name}@{version} ({known or 'new'})")
            for one in found:
                _say(str(one))
        counts[f"{known or 'differs'}" if found else f"{known} but the same" if known else "same"] += 1
    return counts


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run the table of kubectl cases.")
    parser.add_argument("--kubeconfig", type=Path, help="the server; a Moorage of its own if it is not given")
    parser.add_argument("--record", action="store_true", help="keep the answers: the server is a real kube-apiserver")
    parser.add_argument("--only", default="", help="a regular expression of names")
    parser.add_argument("--program", default="", choices=("", *PROGRAMS), help="only the cases of this one")
    parser.add_argument("--at-once", type=int, default=4, help="cases at the same time")
    parser.add_argument("--renew", action="store_true", help="write not_yet.yaml anew")
    parser.add_argument("--quiet", action="store_true", help="only counts")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(_arguments())))
