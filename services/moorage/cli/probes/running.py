"""Runs checks at their intervals, and reports what has changed. The SDK repeats it in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from moorage.cli.probes.results import CheckOutcome, CheckResult, Meaning, Observed, Threshold
from moorage_sdk import Probe

_WORSE = {CheckOutcome.OK: 0, CheckOutcome.UNKNOWN: 1, CheckOutcome.PROBLEM: 2}


@dataclass(slots=True, eq=False)
class Rule:
    """A condition that follows from the results of a check.

    Several rules may have one condition. It is a problem if one of them finds one, else unknown if one of them does not
    know, and else well.
    """

    meaning: Meaning
    threshold: Threshold = field(default_factory=Threshold)
    derive: Callable[[CheckResult], CheckResult] | None = None
    """Makes another result of the check's, as that of the latency."""


@dataclass(frozen=True, slots=True)
class Check:
    """A check that is run at each interval, and the rules that take its result."""

    run: Callable[[], Awaitable[CheckResult]]
    rules: Sequence[Rule]


@dataclass(slots=True)
class Reporter:
    """Reports conditions of one target when they change."""

    probe: Probe
    target: str
    on_change: Callable[[str, Observed], None]
    by_message: bool = False
    """Whether another message alone is a change."""

    on_pending: Callable[[str, Observed, str], None] | None = None
    """Called with a result that does not count yet, and its progress, such as `1 of 3`."""

    _last: dict[str, Observed] = field(default_factory=dict)
    _counted: dict[str, dict[Rule, CheckResult]] = field(default_factory=dict)

    async def add(self, rule: Rule, result: CheckResult) -> None:
        """Add the result of a rule."""
        latest = rule.derive(result) if rule.derive is not None else result
        found = rule.threshold.add(latest)
        if (pending := rule.threshold.pending) and self.on_pending is not None:
            self.on_pending(rule.meaning.type, rule.meaning.observed(latest), pending)
        if found is None:
            return
        kind = rule.meaning.type
        counted = self._counted.setdefault(kind, {})
        counted[rule] = found
        worst = max(counted, key=lambda one: _WORSE[counted[one].outcome])
        observed, before = worst.meaning.observed(counted[worst]), self._last.get(kind)
        is_same = before is not None and (observed.status, observed.reason) == (before.status, before.reason)
        if is_same and not (self.by_message and before is not None and observed.message != before.message):
            return
        self._last[kind] = observed
        await self.probe.report(self.target, kind, observed.status, reason=observed.reason, message=observed.message)
        self.on_change(kind, observed)


async def run_checks(
    checks: Sequence[Check],
    reporter: Reporter,
    *,
    every: float,
    concurrency: int = 1,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Run checks until it is cancelled.

    A check that takes longer than the interval is not started again before it has ended.

    Args:
        checks: the checks.
        reporter: reports the results.
        every: seconds between the starts of a check.
        concurrency: how many checks run at the same time.
        sleep: waits, in tests.
    """
    slots, loop = asyncio.Semaphore(concurrency), asyncio.get_running_loop()

    async def repeat(check: Check) -> None:
        due = loop.time()
        while True:
            async with slots:
                result = await check.run()
            for rule in check.rules:
                await reporter.add(rule, result)
            due = max(due + every, loop.time())
            await sleep(due - loop.time())

    tasks = [asyncio.create_task(repeat(check)) for check in checks]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)  # until the processes of checks have ended
