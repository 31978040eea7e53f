"""A managed cluster with its add-ons, with any history, crashes and compaction, compared with a simple model."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.scenario.flow.test_ocm_taints import AVAILABLE, UNAVAILABLE, UNREACHABLE, AgentWorld
from tests.support.worlds.flow import Crash

from moorage_schemas.condition import ConditionChanged
from moorage_schemas.topics import CONDITIONS, RESOURCES, TAINTS

CLUSTER = "ManagedCluster/c1"
NAMES = ("a", "b")
GRACE = 10
"""Seconds for which the leases here are good, by their duration of 2 s, and reports of the cluster count."""


@dataclass
class Model:
    """The declared objects and the times of changes. Instants are seconds from the start."""

    now: int = 0
    declared: bool = False
    status: str = ""
    heard: int = 0
    enabled: set[str] = field(default_factory=set)
    leases: dict[str, int] = field(default_factory=dict)

    def pass_time(self, seconds: int, *, silent: bool, restarts: bool) -> None:
        """Some seconds pass.

        Args:
            seconds: how many.
            silent: whether the agent counts as silent after them.
            restarts: whether condition-ingest may have restarted. Then it may find silence later, by half of the time.
        """
        self.now += seconds
        if self.status in {"True", "False"}:
            latest = self.heard + GRACE * (1.5 if restarts else 1)
            assert self.now >= self.heard + GRACE if silent else self.now < latest
            self.status = "Unknown" if silent else self.status

    def taints(self) -> list[str]:
        return {"True": [], "False": [UNAVAILABLE]}.get(self.status, [UNREACHABLE])

    def label(self, name: str) -> str:
        if self.status == "Unknown" or name not in self.leases:
            return "unreachable"
        return "available" if self.now < self.leases[name] + GRACE else "unhealthy"


ACTIONS = st.one_of(
    st.tuples(st.just("say"), st.sampled_from(("True", "True", "False", "Unknown"))),
    st.tuples(st.sampled_from(("enable", "disable", "renew", "release")), st.sampled_from(NAMES)),
    st.tuples(st.just("wait"), st.integers(1, 12)),
    st.tuples(st.sampled_from(("declare", "delete", "crash", "compact", "away"))),
)


class Pair:
    """The services and the model."""

    def __init__(self, seed: int, faults: float) -> None:
        self.away = 0
        self.unread: tuple[str, int] | None = None
        """What was said while nobody was there, and when."""

        self.faults = faults > 0
        self.world = AgentWorld(seed=seed, managed_cluster_monitor_grace_period=GRACE)
        self.model = Model()
        rng = random.Random(seed)  # noqa: S311 - seeded test data
        self.world.flow.crash_when = lambda _service, _partition: (
            rng.choice([*Crash]) if rng.random() < faults else None
        )

    def do(self, word: str, *rest: Any) -> None:
        """Do one step, and check the result unless the services are away."""
        if word == "wait":
            self.away = 0
        getattr(self, f"do_{word}")(*rest)
        self.away = max(self.away - 1, 0)
        if not self.away:
            self.unread = None
            self.world.flow.run()
            self.check()

    def do_say(self, status: str) -> None:
        if self.model.declared:
            self.model.status, self.model.heard = status, self.model.now
            self.world.say(status)
            if self.away:
                self.unread = (status, self.model.now)

    def do_enable(self, name: str) -> None:
        self.model.enabled.add(name)
        self.world.enable(name)

    def do_disable(self, name: str) -> None:
        if name in self.model.enabled:
            self.model.enabled.discard(name)
            self.world.delete("ManagedClusterAddOn", name, namespace="c1")

    def do_renew(self, name: str) -> None:
        self.model.leases[name] = self.model.now
        self.world.renew(name, leaseDurationSeconds=2)

    def do_release(self, name: str) -> None:
        if self.model.leases.pop(name, None) is not None:
            self.world.delete("Lease", name, namespace="c1")

    def do_wait(self, seconds: int) -> None:
        self.world.flow.advance(seconds)
        found = self.world.flow.table(CONDITIONS).get(f"{CLUSTER}|{AVAILABLE}")
        silent = isinstance(found, ConditionChanged) and not found.report_id
        self.model.pass_time(seconds, silent=silent, restarts=self.faults)

    def do_declare(self) -> None:
        if not self.model.declared and self.unread is not None and self.unread[1] == self.model.now:
            # A report of the instant in which a cluster is created counts for it, if it is read after that.
            self.model.status, self.model.heard = self.unread
        self.model.declared = True
        self.world.cluster()

    def do_delete(self) -> None:
        if self.model.declared:
            self.model.declared, self.model.status = False, ""
            self.world.delete("ManagedCluster", "c1")

    def do_crash(self) -> None:
        self.world.flow.crash_process("taint-manager")

    def do_away(self) -> None:
        """The service dies, and comes back after the next few steps."""
        self.do_crash()
        self.away = 4

    def do_compact(self) -> None:
        self.world.flow.compact([RESOURCES, CONDITIONS])

    def check(self) -> None:
        found, model = self.world.flow.table(TAINTS).get(CLUSTER), self.model
        if not model.declared:
            assert found is None
            return
        assert found is not None, "what is declared always has a set"
        assert [taint.key for taint in found.taints] == model.taints()
        shown = sorted(model.enabled) if model.status else ()  # before the first report, there are none
        assert self.world.labels() == {name: model.label(name) for name in shown}

    def check_history(self) -> None:
        last: Any = None
        for record in self.world.flow.records(TAINTS):
            event = record.event if record.value is not None else None
            if event is not None and last is not None:
                assert event.generation == last.generation + 1
                assert (event.taints, event.labels, event.target_uid) != (last.taints, last.labels, last.target_uid)
            last = event


@example(  # the lease is known when its add-on and its cluster come, and ends while nobody is there to see it
    actions=[("renew", "a"), ("enable", "a"), ("declare",), ("say", "True"), ("crash",), ("wait", 10)],
    seed=0,
    faults=0.0,
)
@example(  # the report is as old as the cluster that has replaced the reported one
    actions=[("say", "True"), ("say", "True"), ("away",), ("say", "True"), ("delete",), ("declare",)],
    seed=0,
    faults=0.0,
)
@settings(max_examples=120)
@given(
    actions=st.lists(ACTIONS, min_size=6, max_size=40),
    seed=st.integers(0, 1000),
    faults=st.sampled_from((0.0, 0.0, 0.3)),
)
def test_any_life_is_as_the_model_says(actions: list[tuple[Any, ...]], seed: int, faults: float) -> None:
    pair = Pair(seed, faults)
    pair.do("declare")
    pair.do("say", "True")
    for action in actions:
        pair.do(*action)
    pair.do("wait", 1)
    pair.check_history()
    pair.world.flow.crash_when = lambda _service, _partition: None
    assert pair.world.flow.reconcile("taint-manager") == []
