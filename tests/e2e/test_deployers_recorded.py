"""Deployers of several languages on recorded histories: kills, broken streams, new beginnings and duplicates."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.support.deploying import decisions_of
from tests.support.examples import command, languages
from tests.support.forks import ROOT
from tests.support.histories import fleet_of_clusters, fleet_of_nodes
from tests.support.recorded_gateway import RecordedGateway
from tests.support.waiting import until
from tests.support.worlds.flow import Record

State = dict[str, tuple[str, int, int]]


def on_disk(folder: Path) -> State:
    """What runs, by the keys of the bindings."""
    found: State = {}
    for path in folder.glob("*.json"):
        try:
            one = json.loads(path.read_text())
        except FileNotFoundError:  # it was stopped at this moment
            continue
        found[f"{one['workload']}|{one['target']}"] = (one["uid"], one["generation"], one["revision"])
    return found


def wanted(records: list[Record]) -> State:
    decisions = decisions_of(records)
    found = ((key, decisions.wanted(key)) for key in decisions.keys)
    return {key: (one.uid, one.generation, one.revision) for key, one in found if one is not None}


def is_on_disk(folder: Path, state: State) -> bool:
    return on_disk(folder) == state


def is_healthy(gateway: RecordedGateway, state: State) -> bool:
    """Whether all of this was reported as healthy since the deployer was started."""
    return set(gateway.healthy) >= state.keys()


def has_more_streams(gateway: RecordedGateway, than: int) -> bool:
    return gateway.streams > than


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize("history", [fleet_of_nodes, fleet_of_clusters])
async def test_a_deployer_ends_with_what_is_to_run(
    language: str, history: Callable[[int], list[Record]], tmp_path: Path
) -> None:
    records, folder = history(5), tmp_path / "running"
    rng = random.Random(5)  # noqa: S311 - the choices must be repeatable
    cuts = [*sorted(rng.sample(range(1, len(records)), 3)), len(records)]
    gateway = RecordedGateway(records, rng)
    async with gateway.running():
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MOORAGE_")}
        environment["MOORAGE_SERVER"] = gateway.address
        words = (*command(language, "deployer"), "--folder", str(folder))
        for cut in cuts:
            process = await asyncio.create_subprocess_exec(
                *words, env=environment, cwd=ROOT, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
            )
            try:
                gateway.healthy.clear()
                await until(partial(has_more_streams, gateway, gateway.streams))
                gateway.write(cut)
                await until(partial(is_on_disk, folder, wanted(records[:cut])))
                await until(partial(is_healthy, gateway, wanted(records[:cut])))
            finally:
                process.send_signal(signal.SIGKILL)
                await process.wait()
    assert wanted(records), "something is to run at the end"
