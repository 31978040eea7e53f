"""Who decides while a suite runs, and the run of a suite."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.planes.bridges import Bridge
from tests.planes.plane import Plane
from tests.planes.suites.reports import Outcome, outcomes
from tests.support.brokers import EmbeddedBroker
from tests.support.live import running


class NoReportError(Exception):
    """A suite ended without a report."""


@asynccontextmanager
async def moorage(plane: Plane, folder: Path, words: Sequence[str], acts: str, **settings: Any) -> AsyncIterator[None]:
    """Moorage decides for a plane. All settings that are not named are those of `moorage up`.

    Args:
        plane: the control plane.
        folder: for data and logs.
        words: the kind of the control plane and options of its bridge.
        acts: what the bridge writes.
        settings: of Moorage.
    """
    broker = EmbeddedBroker(folder / "kafka")
    await broker.start()
    try:
        (folder / "moorage").mkdir(exist_ok=True)
        async with running(broker.bootstrap, "suites-", folder / "moorage", **settings) as live:
            bridge = Bridge(plane, live, folder, words, acts=acts)
            try:
                await bridge.start()
                yield
                bridge.must_run()
            finally:
                await bridge.stop()
    finally:
        await broker.close()


async def played(
    program: Path, folder: Path, focus: str, *, words: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> dict[str, Outcome]:
    """Run the specs of a suite that match a regular expression, and return what became of them.

    Args:
        program: the suite.
        folder: for its log and its report, in which it runs.
        focus: the regular expression. All specs match an empty one.
        words: options besides those of Ginkgo.
        environment: more variables.

    Raises:
        NoReportError: it ended without a report.
    """
    report, log = folder / "report.json", folder / "suite.log"
    report.unlink(missing_ok=True)
    options = [f"--ginkgo.json-report={report}", f"--ginkgo.focus={focus}", "--ginkgo.v", "--ginkgo.no-color"]
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(str(program), *options, "--ginkgo.timeout=24h", *words),
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
        )
    try:
        await process.wait()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            await process.wait()
    if not report.is_file():
        raise NoReportError(f"{program.name} ended with {process.returncode} and wrote no report: see {log}")
    return outcomes(report)
