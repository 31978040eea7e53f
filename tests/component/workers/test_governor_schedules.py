"""governor: guards with a schedule or with reasons. Upstream's cases are those of Karpenter's disruption budgets."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.component.workers.budget_bench import Bench
from tests.support.records import T0, at
from tests.support.tables import table

from moorage.decide.disruption.budgets import LEAVE_LASTS
from moorage_schemas.keys import eviction_key
from moorage_schemas.times import format_time

MINUTE = 60.0
HOUR = 3600.0
TEN_O_CLOCK = {"cron": "0 10 * * *", "timeZone": "UTC", "duration": "1h"}
TO_TEN = (T0.replace(hour=10, minute=0, second=0, microsecond=0) - T0).total_seconds() % 86400


def pods(count: int = 3, time: float = 0.0) -> Bench:
    bench = Bench()
    bench.time = time
    for number in range(count):
        bench.bind(f"p{number}", f"Node/n{number}")
    return bench


def ask(bench: Bench, number: int, reason: str = "Taint") -> None:
    bench.ask(f"p{number}", f"Node/n{number}", reason=reason)


def key(number: int) -> str:
    return eviction_key(f"Pod/shop/p{number}", f"Node/n{number}", 1)


def schedule(offset: float, duration: str = "1h", cron: str = "") -> dict[str, str]:
    """A window that begins some time after now of the test."""
    begin = at(TO_TEN) + timedelta(seconds=offset)
    return {"cron": cron or f"{begin.minute} {begin.hour} * * *", "timeZone": "UTC", "duration": duration}


@table(
    ("case", "budgets", "allowed"),
    [
        # Karpenter: the budgets of a node pool, each with nodes, schedule and duration; the smallest active one counts.
        ("a budget of zero blocks everything", [(0, None)], 0),
        ("a budget without a schedule is always active", [(2, None)], 2),
        ("the smallest of several budgets counts", [(2, None), (1, None)], 1),
        ("an inactive budget allows everything", [(0, schedule(HOUR))], 3),
        ("an active budget counts", [(1, schedule(-MINUTE))], 1),
        ("a window is active from the instant of its hit on", [(0, schedule(0))], 0),
        ("a hit in the middle of the duration", [(0, schedule(-30 * MINUTE))], 0),
        ("a window has ended when its duration has passed", [(0, schedule(-HOUR))], 3),
        ("an inactive budget does not lower an active one", [(0, schedule(HOUR)), (2, schedule(-MINUTE))], 2),
        ("a duration longer than the interval is always active", [(0, schedule(0, "25h", "0 0 * * *"))], 0),
        ("a schedule that has a hit each minute", [(0, schedule(0, "1m", "* * * * *"))], 0),
    ],
)
def test_karpenters_budgets(case: str, budgets: list[tuple[int, dict[str, str] | None]], allowed: int) -> None:
    bench = pods(time=TO_TEN)
    for number, (limit, when) in enumerate(budgets):
        given: dict[str, Any] = {} if when is None else {"schedule": when}
        bench.declare("EvictionBudget", f"b{number}", maxConcurrent=limit, **given)
    for number in range(3):
        ask(bench, number)
    granted = [answer for answer in bench.decide() if answer.endswith("goes")]
    assert len(granted) == allowed, case


@table(
    ("case", "reasons", "reason", "goes"),
    [
        # Karpenter: a budget without reasons holds for all of them, one with reasons only for these.
        ("no reasons", None, "Drain", False),
        ("its reason", ["Drain"], "Drain", False),
        ("another reason", ["Drain"], "Failure", True),
        ("one of several reasons", ["Maintenance", "Drain"], "Drain", False),
    ],
)
def test_karpenters_reasons(case: str, reasons: list[str] | None, reason: str, *, goes: bool) -> None:
    for kind, spec in (("EvictionBudget", {"maxConcurrent": 0}), ("EvictionPause", {})):
        bench = pods()
        given: dict[str, Any] = {**spec, **({} if reasons is None else {"reasons": reasons})}
        bench.declare(kind, "some", **given)
        ask(bench, 0, reason)
        assert bench.decide() == ["p0 goes" if goes else f"p0 held by {kind}/some"], case


def test_never_in_a_window() -> None:
    """A pause holds what comes due in its window, and releases it at the end, after a restart, too."""
    bench = pods(time=TO_TEN - MINUTE)
    bench.declare("EvictionPause", "ten", schedule=TEN_O_CLOCK, reason="the shop is busy")
    ask(bench, 0)
    assert bench.decide() == ["p0 goes"]
    assert bench.answers[-1].valid_until == at(TO_TEN)
    bench.advance(MINUTE)
    ask(bench, 1)
    assert bench.decide() == ["p1 held by EvictionPause/ten"]
    end = format_time(at(TO_TEN + HOUR))
    assert bench.answers[-1].message == f"held by EvictionPause/ten: the shop is busy, until {end}"
    bench.restart()
    assert bench.advance(HOUR - 1) == []
    assert bench.advance(1) == ["p1 goes"]


def test_nothing_is_granted_just_before_a_window() -> None:
    """A grant lasts two seconds, so none is given in the last two seconds before a window."""
    bench = pods(time=TO_TEN - LEAVE_LASTS.total_seconds() - 0.001)
    bench.declare("EvictionBudget", "none", schedule=TEN_O_CLOCK, maxConcurrent=0)
    ask(bench, 0)
    assert bench.decide() == ["p0 goes"]
    bench.advance(0.001)
    ask(bench, 1)
    assert bench.decide() == ["p1 held by EvictionBudget/none"]


def test_a_repeated_grant_ends_when_it_did_before() -> None:
    """An answer that was lost is repeated in the window. It is valid for as long as the first one."""
    bench = pods(time=TO_TEN - MINUTE)
    bench.declare("EvictionPause", "ten", schedule=TEN_O_CLOCK)
    ask(bench, 0)
    bench.decide()
    bench.advance(10 * MINUTE)
    bench.hear(key(0), bench.book._requests[key(0)].event)
    assert bench.decide() == ["p0 goes"]
    assert bench.answers[-1].valid_until == at(TO_TEN)


def test_a_budget_counts_outside_of_its_windows() -> None:
    """An eviction in flight when the window begins counts in it."""
    bench = pods(time=TO_TEN - MINUTE)
    bench.declare("EvictionBudget", "one", schedule=TEN_O_CLOCK, maxConcurrent=1)
    for number in (0, 1):
        ask(bench, number)
    assert bench.decide() == ["p0 goes", "p1 goes"]
    for number in (0, 1):
        bench.requested(key(number))
    bench.advance(MINUTE)
    ask(bench, 2)
    assert bench.decide() == ["p2 held by EvictionBudget/one"]
    end = format_time(at(TO_TEN + HOUR))
    assert bench.answers[-1].message.endswith(f"2 of 1 evictions at a time are in progress, in its window until {end}")
    assert bench.advance(HOUR) == ["p2 goes"]


def test_the_status_has_the_next_change() -> None:
    bench = pods(time=TO_TEN - 2 * MINUTE)
    bench.declare("EvictionBudget", "b", schedule=TEN_O_CLOCK, maxConcurrent=1)
    bench.declare("EvictionPause", "p", schedule=TEN_O_CLOCK)
    bench.ask("p0", "Node/n0")
    bench.advance(1)
    for name in ("EvictionBudget//b", "EvictionPause//p"):
        assert (bench.count(name).active, bench.count(name).changes_time) == (False, at(TO_TEN))
    bench.advance(3 * MINUTE)
    for name in ("EvictionBudget//b", "EvictionPause//p"):
        assert (bench.count(name).active, bench.count(name).changes_time) == (True, at(TO_TEN + HOUR))
    bench.delete("EvictionPause", "p")
    bench.advance(2)
    assert "EvictionPause//p" not in {name for _, name, event, _ in bench.written[-1:] if event is not None}


def test_without_a_schedule_nothing_is_computed() -> None:
    bench = pods()
    bench.declare("EvictionBudget", "b", maxConcurrent=1)
    bench.declare("EvictionPause", "p")
    ask(bench, 0)
    bench.decide()
    windows = bench.book._counters.windows
    assert not windows
    assert windows.next_change() is None
    assert bench.answers[-1].valid_until is None
