"""A fuzzer's requests to a running Moorage. `make fuzz` is the long run.

`MOORAGE_FUZZ_REQUESTS` says how many requests are made, and `MOORAGE_SEED` which ones.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import httpx
import pytest
from tests.chaos.requests.fuzzer import Fuzzer, Verdict
from tests.conftest import RUN
from tests.support.brokers import Broker
from tests.support.live import running

from moorage.cli.local.services import GATEWAY

REQUESTS = int(os.environ.get("MOORAGE_FUZZ_REQUESTS", "0"))
"""Requests of the long run, which makes requests of all operations. 0 is the short run of a few operations."""

SEED = int(os.environ.get("MOORAGE_SEED", "1"))
SECONDS = 5400.0
"""Seconds after which a run ends, whatever it has come to."""

_SHORT, _OPERATIONS = 200, 10
_MIB = 1 << 20

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(SECONDS + 300)]


def memory(pid: int) -> int:
    """The bytes of memory that a process holds (`VmRSS`)."""
    (line,) = [one for one in Path(f"/proc/{pid}/status").read_text("ascii").splitlines() if one.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024


async def test_a_fuzzers_requests_are_answered_and_harm_nothing(
    broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(broker.bootstrap, f"{RUN}-fuzz-", tmp_path) as live:
        fuzzer = Fuzzer(live.server, SEED)

        def run() -> Verdict:
            return fuzzer.run(REQUESTS or _SHORT, operations=None if REQUESTS else _OPERATIONS, seconds=SECONDS)

        processes, before = live.pids, memory(live.pids[GATEWAY])
        verdict = await asyncio.to_thread(run)
        after = memory(live.pids[GATEWAY])
        told = (
            f"seed {SEED}: {verdict.sent} requests of {verdict.operations} operations, answers {dict(verdict.codes)}, "
            f"the gateway held {before / _MIB:.0f} MiB before and {after / _MIB:.0f} MiB after"
        )
        with capsys.disabled():
            print(f"\n{told}")  # noqa: T201 - the figures of the long run
        assert verdict.wrong == {}, "\n\n".join(f"{what}\n  {first}" for what, first in verdict.wrong.items())
        assert verdict.sent > 0
        assert {code // 100 for code in verdict.codes} == {2, 4}
        assert live.pids == processes, "a process ended"
        assert after - before < 150 * _MIB
        async with httpx.AsyncClient(base_url=live.server) as client:
            assert (await client.get("/readyz")).status_code == httpx.codes.OK
