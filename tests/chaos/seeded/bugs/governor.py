"""Bugs of the governor: zones, tokens, budgets."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.chaos.seeded.bugs.registry import Change, bug

from moorage.decide.disruption.token_bucket import Bucket
from moorage.decide.disruption.zones import OPEN_GRANTS, ZoneRules, ZoneTable
from moorage.workers.governor.budgets import BudgetBook
from moorage.workers.governor.counters import BudgetCounter, DisruptionCounter, RateCounter
from moorage.workers.governor.in_flight import InFlight
from moorage.workers.governor.replies import Replies
from moorage.workers.governor.service import Governor
from moorage.workers.governor.zones import ClusterZones
from moorage_schemas.topics import EVICTION_SLOTS, ZONES

_SET = InFlight._set


@bug("lost-zone-granted", "Nodes are granted while every zone is fully disrupted.", "zones")
def _() -> list[Change]:
    decide = ZoneTable._decide_zone

    def grant(self: Any, *given: Any, lost: bool, stopped: bool, must_write: bool) -> None:
        assert lost or not stopped
        decide(self, *given, lost=False, stopped=False, must_write=must_write)

    return [(ZoneTable, "_decide_zone", grant)]


@bug("small-zone-granted", "Nodes of a small zone in partial disruption are granted.", "zones")
def _() -> list[Change]:
    return [(ZoneRules, "rate_of", lambda self, _state, _nodes: self.rate)]


@bug("no-tick", "A node is granted as soon as it is not ready.", "zones", "sources")
def _() -> list[Change]:
    return [(ZoneRules, "tick_after", lambda _self, time: time)]


@bug("half-a-token", "Taking a token leaves half of one.", "zones")
def _() -> list[Change]:
    return [(Bucket, "take", lambda self, now: Bucket(self.rate, 0.5, now))]


@bug("token-for-two", "A zone's token lets two nodes go.", "zones")
def _() -> list[Change]:
    take = Bucket.take

    def every_other(self: Any, now: Any) -> Any:
        return take(self, now) if self.tokens < 1 or self.time == now else Bucket(self.rate, 1.0, now)

    return [(Bucket, "take", every_other)]


@bug("tokens-forgotten", "After a restart every zone has a token.", "zones")
def _() -> list[Change]:
    fold = Governor.apply

    def full(self: Any, state: Any, topic: Any, key: str, event: Any) -> None:
        if topic is ZONES and event is not None and state.undecided is False:
            event = event.model_copy(update={"tokens": 1.0})
        fold(self, state, topic, key, event)

    return [(Governor, "apply", full)]


@bug("grants-pile-up", "A zone goes on granting while nobody does what it grants.", "zones")
def _() -> list[Change]:
    return [(ZoneRules, "open_grants", lambda _self, _rate: OPEN_GRANTS)]


@bug("grants-forgotten", "After a restart the governor does not know whom it has granted.")
def _() -> list[Change]:
    fold = Governor.apply

    def without(self: Any, state: Any, topic: Any, key: str, event: Any) -> None:
        if topic is not ZONES:
            fold(self, state, topic, key, event)

    return [(Governor, "apply", without)]


@bug("slot-twice", "Each eviction in progress counts twice for its budgets.", "budgets")
def _() -> list[Change]:
    def double(self: Any, counted: Any, *, under_way: bool, leaving: bool) -> None:
        if under_way and not counted.under_way:
            for budget in counted.budgets:
                budget.progress += 1
        _SET(self, counted, under_way=under_way, leaving=leaving)

    return [(InFlight, "_set", double)]


@bug("slot-never-ends", "An eviction in progress counts forever.", "budgets")
def _() -> list[Change]:
    return [(InFlight, "_end", lambda _self, _key, _put: None)]


@bug("slot-not-counted", "What is granted does not count for budgets until its slot is read back.", "budgets")
def _() -> list[Change]:
    return [(InFlight, "grant", lambda *_given: None)]


@bug("slots-forgotten", "After a restart the governor does not know which evictions are in progress.", "budgets")
def _() -> list[Change]:
    fold = BudgetBook.apply

    def without(self: Any, topic: Any, key: str, event: Any) -> None:
        if topic is not EVICTION_SLOTS or self._marks is not None:
            fold(self, topic, key, event)

    return [(BudgetBook, "apply", without)]


@bug("concurrency-off-by-one", "A budget lets one more be in progress than it may.", "budgets")
def _() -> list[Change]:
    def allowed(self: Any) -> int:
        at_a_time, in_window = self.limits()
        return int(max(0, min(at_a_time + 1 - self.progress, in_window - len(self.window))))

    return [(BudgetCounter, "allowed", property(allowed))]


@bug("window-short", "What was granted leaves its window a second early.", "budgets")
def _() -> list[Change]:
    from moorage.workers.governor import in_flight  # noqa: PLC0415 - only what it is planted in

    end = in_flight._end_of
    return [(in_flight, "_end_of", lambda counter, slot: end(counter, slot) - timedelta(seconds=1))]


@bug("leave-expires", "What was let go leaves its window in time, though nobody has requested it yet.", "budgets")
def _() -> list[Change]:
    return [
        (InFlight, "_is_unused", lambda _self, _key: False),
        (InFlight, "use", lambda *_given: None),
    ]


@bug("disruptions-ignored", "PodDisruptionBudgets hold nothing.", "budgets")
def _() -> list[Change]:
    return [(DisruptionCounter, "blocks", lambda _self, **_named: False)]


@bug("leaving-not-counted", "A PodDisruptionBudget counts pods that are granted as healthy.", "budgets")
def _() -> list[Change]:
    def count(self: Any) -> Any:
        leaving, self.leaving = self.leaving, 0
        try:
            return _COUNT(self)
        finally:
            self.leaving = leaving

    return [(DisruptionCounter, "count", count)]


_COUNT = DisruptionCounter.count


@bug("rate-ignored", "Evictions from clusters are not limited.", "clusters")
def _() -> list[Change]:
    return [(RateCounter, "blocks", lambda _self, **_named: False)]


@bug("never-answered-again", "The governor does not repeat an answer that may be lost.", "answers")
def _() -> list[Change]:
    return [(Replies, "repeat", lambda _self, _ask: None)]


@bug("released-not-told", "When a pause ends those that it held are not looked at.")
def _() -> list[Change]:
    return [(BudgetBook, "_guards_changed", lambda *_given: None)]


@bug("grants-outlive", "The grants of nodes that are gone stay.", "again", "zones")
def _() -> list[Change]:
    decide = ClusterZones.decide

    def without(self: Any, now: Any, write: Any, *given: Any) -> None:
        self._deleted.clear()
        decide(self, now, write, *given)

    return [(ClusterZones, "decide", without)]
