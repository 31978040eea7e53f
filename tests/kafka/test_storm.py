"""The benchmark that loses a zone, in small: all services as processes."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.brokers import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

STORM = Path(__file__).resolve().parents[2] / "bench" / "storm.py"


async def test_a_small_storm_goes_by_the_rules(broker: Broker, topic_prefix: str) -> None:
    size = ("--nodes", "80", "--zones", "8", "--pods", "800", "--partitions", "6")
    times = ("--seconds", "120", "--tolerate", "3", "--monitor-period", "1", "--rates", "lifted")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(STORM), *size, *times),
        env=os.environ | {"MOORAGE_BOOTSTRAP_SERVERS": broker.bootstrap, "BENCH_PREFIX": topic_prefix},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    result: dict[str, Any] = json.loads(out.splitlines()[-1])
    assert result["violations"] == 0, result["first_violations"]
    events = result["events"]
    assert events["granted"]["count"] == events["tainted"]["count"] == result["lost_nodes"] == 10
    # Pods are spread evenly, but for what scores say.
    assert 60 <= events["requested"]["count"] <= 140
    assert events["requested"]["count"] == events["replaced_placed"]["count"]
    assert all(service["peak_mb"] > 0 for service in result["services"].values())
