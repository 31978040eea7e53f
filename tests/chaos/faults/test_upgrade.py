"""Old and new processes side by side: every process is replaced under load, and back. `ops/upgrade-drill` runs more."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.chaos.faults import versions
from tests.chaos.faults.upgrade import Drill, upgrade
from tests.support.brokers import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1200)]

FORM = "chain"
"""The other form is in test_rolling_restart.py, and in `ops/upgrade-drill`."""


async def test_every_process_is_replaced_under_load_and_back(broker: Broker, tmp_path: Path) -> None:
    old = await asyncio.to_thread(versions.earlier, versions.before(), tmp_path / "earlier")
    logs = tmp_path / "logs"
    logs.mkdir()
    steps: list[str] = []
    done = await upgrade(broker.bootstrap, old, versions.this(), logs, form=FORM, tell=steps.append)
    assert not done.violations, "\n".join([*done.violations, *steps])
    processes = len(Drill(FORM, broker.bootstrap, "", logs, old).members.all)
    assert done.restarts == 2 * (processes + 2), "every process forwards and back, and two kills each time"
    assert len(done.delays["taint"]) > done.restarts, "a decision is measured in every replacement"
    assert min(map(len, done.delays.values())) > 5, "too little happened to show anything"
