"""What a bridge remembers of its reports."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from tests.support.virtual_time import virtual_time
from tests.support.waiting import until

from moorage.bridges.engine.reports import Report, Reports
from moorage.runtime.process.clock import WallClock
from moorage_schemas.refs import TargetKind, TargetRef


class Gateway:
    """Accepts every report."""

    def __init__(self) -> None:
        self.taken: list[str] = []

    async def report(self, events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        self.taken += [one["data"]["target"]["name"] for one in events]
        return [{"outcome": "Accepted"} for _ in events]


@virtual_time
async def test_what_is_not_reported_any_more_is_forgotten() -> None:
    there = {name: Report(TargetRef(kind=TargetKind.NODE, name=name), "Ready", "True") for name in ("n1", "n2")}
    gateway = Gateway()
    reports = Reports("bridge/home", gateway, WallClock(), there.get, lambda _key, _report: False)  # type: ignore[arg-type]  # a double
    sending = asyncio.create_task(reports.run())
    reports.mark("n1", "n2")
    await until(lambda: reports.idle)
    del there["n2"]
    reports.forget_ended()
    assert (reports.sent("n1"), reports.sent("n2")) == (there["n1"], None)
    reports.mark("n1", "n2")
    await until(lambda: reports.idle)
    assert gateway.taken == ["n1", "n2"]
    sending.cancel()
