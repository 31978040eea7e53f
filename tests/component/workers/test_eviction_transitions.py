"""eviction: each row of its table of transitions, reached by the service."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

import pytest
from tests.component.workers.eviction_bench import K1, Bench
from tests.support.worlds.world import tolerate

from moorage.decide.disruption.eviction_transitions import TABLE

K2 = ("k2", 0.0)
SERVICE: Any = import_module("moorage.workers.eviction.service")
OUT_OF_SERVICE: Final = (("node.kubernetes.io/out-of-service", 0.0), ("node.kubernetes.io/not-ready", 0.0))


def bound(*seconds: int | None, **options: Any) -> Bench:
    """A pod that tolerates k1, k2 … for so many seconds."""
    bench = Bench(**options)
    bench.bind(*(tolerate(f"k{number}", one) for number, one in enumerate(seconds, start=1)))
    return bench


def scheduled(*seconds: int) -> Bench:
    """Its eviction is scheduled because of k1."""
    bench = bound(*(seconds or (3,)))
    bench.taints(K1)
    return bench


def asked() -> Bench:
    """Its eviction is held and has requested a grant."""
    bench = bound(budget=True)
    bench.taints(K1)
    return bench


def requested(deployer: str = "") -> Bench:
    """Its eviction is requested. A mirrored pod tolerates k2 for three seconds."""
    bench = Bench()
    bench.bind(*([tolerate("k2", 3)] if deployer else []), deployer=deployer)
    bench.taints(K1)
    return bench


def mirrored() -> Bench:
    """Its eviction is requested, and its bridge has not acknowledged."""
    return requested("bridge/home")


def lagging(lags: float) -> Bench:
    """It has come due, and the taint-manager lags for so long."""
    bench = bound()
    bench.lagging = None
    bench.taints(K1)
    bench.wake(lags)
    return bench


def granted_late(wait: float) -> Bench:
    """The taint-manager lags when the grant comes, and catches up after so many seconds."""
    bench = asked()
    bench.time, bench.lagging = 10, ["Node/n1"]
    bench.answer(asked=1)
    bench.time, bench.lagging = 10 + wait, []
    return bench


def after(bench: Bench, act: Callable[[Bench], Any]) -> Bench:
    """The bench after one more step."""
    act(bench)
    return bench


def at_time(bench: Bench, time: float) -> Bench:
    """The bench at another time."""
    bench.time = time
    return bench


def paused(bench: Bench) -> None:
    """Declare a pause."""
    bench.guard("EvictionPause", "stop", scope={})


Vector = tuple[Callable[[], Bench], Callable[[Bench], list[str]], list[str]]

VECTORS: Final[dict[str, Vector]] = {
    "ended": (scheduled, lambda b: b.unbind(), ["timers tombstone", "Cancelled#2 BindingEnded"]),
    "completed": (requested, lambda b: b.unbind(), ["Completed#2 BindingEnded"]),
    "forgotten": (lambda: after(scheduled(), lambda b: b.taints()), lambda b: b.unbind(), ["timers tombstone"]),
    "left": (
        lambda: after(scheduled(), lambda b: b.state.targets["Node/n1"].bindings.clear()),
        lambda b: b.report(),
        [],
    ),
    "unbound": (bound, lambda b: b.unbind(), []),
    "unknown": (Bench, lambda b: b.answer(asked=1), []),
    "removed": (mirrored, lambda b: b.report(), ["Requested#2 UntoleratedTaint"]),
    "off": (mirrored, lambda b: b.taints(K1, *OUT_OF_SERVICE), ["Requested#2 UntoleratedTaint"]),
    "failed": (mirrored, lambda b: b.report("False"), ["Requested#2 UntoleratedTaint"]),
    "reported": (lambda: after(mirrored(), lambda b: b.report()), lambda b: b.report(), []),
    "reported-early": (scheduled, lambda b: b.report(), []),
    "fired": (
        lambda: at_time(scheduled(), 3),
        lambda b: b.fire(1, 3),
        ["Requested#2 TolerationExpired", "timers tombstone"],
    ),
    "granted": (asked, lambda b: b.answer(asked=1), ["Requested#2 UntoleratedTaint", "ask#2 requested"]),
    "denied": (asked, lambda b: b.answer("EvictionBudget/slow", asked=1), ["Held#2 by EvictionBudget/slow Held"]),
    "denied-again": (
        lambda: after(asked(), lambda b: b.answer("EvictionBudget/slow", asked=1)),
        lambda b: b.answer("EvictionBudget/slow", asked=1),
        [],
    ),
    "not-mine": (asked, lambda b: b.answer(asked=2), []),
    "late-answer": (requested, lambda b: b.answer(asked=1), []),
    "final": (requested, lambda b: b.taints(), []),
    "demanded": (mirrored, lambda b: b.taints(K1), []),
    "withdrawn": (mirrored, lambda b: b.taints(), ["Cancelled#2 TaintRemoved"]),
    "postponed": (mirrored, lambda b: b.taints(K2), ["Scheduled#2 TolerationEnds", "timer 3"]),
    "kept": (lambda: bound(None), lambda b: b.taints(K1), []),
    "cancelled": (scheduled, lambda b: b.taints(), ["Cancelled#2 TaintRemoved", "timer off"]),
    "scheduled": (lambda: bound(3), lambda b: b.taints(K1), ["Scheduled#1 TolerationEnds", "timer 3"]),
    "scheduled-early": (
        lambda: after(scheduled(4, 4), lambda b: b.fire(1, 4)),
        lambda b: b.taints(K2),
        ["Scheduled#2 TolerationEnds"],
    ),
    "untimed": (lambda: after(scheduled(), lambda b: b.state.timers.clear()), lambda b: b.reconcile(1), ["timer 3"]),
    "early": (scheduled, lambda b: b.fire(1, 3), []),
    "just-due": (scheduled, lambda b: b.reconcile(4), []),
    "due": (bound, lambda b: b.taints(K1), ["Requested#1 UntoleratedTaint"]),
    "asked-for-others": (asked, lambda b: b.bind(revision=2, app="canary"), ["Held#2 Held", "ask#2"]),
    "unanswered": (asked, lambda b: b.reconcile(60), ["ask#1"]),
    "asked": (lambda: at_time(asked(), 60), lambda b: b.taints(K1), []),
    "waiting": (asked, lambda b: b.taints(K1), []),
    "lagging": (lambda: lagging(0), lambda b: b.wake(1), []),
    "held-for-lag": (lambda: lagging(0), lambda b: b.wake(5), ["Held#1 by UpstreamLag Held"]),
    "held-for-other": (
        lambda: after(lagging(5), lambda b: setattr(b, "lagging", {"Node/n1": "placement"})),
        lambda b: b.wake(6),
        ["Held#2 by UpstreamLag Held"],
    ),
    "lagging-held": (lambda: lagging(5), lambda b: b.wake(6), []),
    "free": (bound, lambda b: b.taints(K1), ["Requested#1 UntoleratedTaint"]),
    "asks": (lambda: bound(budget=True), lambda b: b.taints(K1), ["Held#1 Held", "ask#1"]),
    "paused": (
        lambda: after(asked(), paused),
        lambda b: b.answer(asked=1),
        ["Held#2 by EvictionPause/stop Held", "ask#2"],
    ),
    "restarted": (lambda: after(asked(), Bench.restart), lambda b: b.reconcile(1), ["Held#2 Held", "ask#2"]),
    "outdated": (asked, lambda b: b.bind(revision=2, app="canary"), ["Held#2 Held", "ask#2"]),
    "expired": (lambda: granted_late(2), lambda b: b.wake(12), ["Held#2 Held", "ask#2"]),
    "repeated": (asked, lambda b: b.reconcile(60), ["ask#1"]),
    "used": (
        lambda: granted_late(1),
        lambda b: b.wake(11),
        ["Requested#2 UntoleratedTaint", "ask#2 requested"],
    ),
}
"""For each row: the situation, the call that leads to the row, and the records that follow."""


@pytest.mark.parametrize("name", [row.name for row in TABLE if row.name])
def test_a_row_is_reached_and_has_its_moves(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arrange, act, expected = VECTORS[name]
    bench = arrange()
    reached: list[str] = []
    row_of = SERVICE.TRANSITIONS.row

    def row(*given: Any) -> Any:
        found = row_of(*given)
        reached.append(found.name)
        return found

    monkeypatch.setattr(SERVICE.TRANSITIONS, "row", row)
    assert act(bench) == expected
    assert name in reached
    assert "" not in reached


def test_every_vector_is_of_a_row() -> None:
    assert VECTORS.keys() == {row.name for row in TABLE if row.name}
