"""A fleet with open deadlines, silent probes and held evictions, and what is decided on it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.support.worlds.flow import Flow, Record
from tests.support.worlds.nodes import NodeWorld
from tests.support.worlds.world import PARTITIONS
from typing_extensions import override

from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import (
    BINDINGS,
    CONDITIONS,
    EVICTION_ANSWERS,
    EVICTIONS,
    TAINTS,
    TIMER_FIRED,
    ZONE_GRANTS,
)

DECISIONS = (CONDITIONS, TAINTS, EVICTIONS, EVICTION_ANSWERS, ZONE_GRANTS, TIMER_FIRED, BINDINGS)
SETTINGS = Settings(partitions=PARTITIONS, node_eviction_rate=0.05, large_cluster_size_threshold=3)
KEYS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "bad")


class TroubledFleet(NodeWorld):
    """Two zones of nodes with a probe, and pods that tolerate what is bad for a minute."""

    def __init__(self, *, seed: int | None = None) -> None:
        super().__init__(seed=seed, settings=SETTINGS)
        self.names = [f"{zone}{number}" for zone in "ab" for number in range(6)]
        for name in self.names:
            self.node(name, zone=name[0])
        self.beat()
        waits = [{"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60} for key in KEYS]
        template = {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c"}], "tolerations": waits},
        }
        selector = {"matchLabels": {"app": "web"}}
        self.declare("Deployment", "web", {"replicas": 24, "selector": selector, "template": template})
        self.flow.run()

    @override
    def report(self, name: str, condition: str = "Ready", status: str = "False", **given: Any) -> Record:
        """Report a condition, with an id that depends on nothing but the report."""
        return super().report(name, condition, status, id=f"{name} {condition} {status} {self.flow.now}", **given)

    def beat(self, *without: str) -> None:
        """Report that all nodes are ready, except some."""
        for name in self.names:
            if name not in without:
                self.report(name, "Ready", "True")
        self.flow.run()

    def pass_time(self, seconds: int, *without: str) -> None:
        """Let time pass while the probe reports every ten seconds."""
        for _ in range(seconds // 10):
            self.flow.advance(10)
            self.beat(*without)


def troubled(fleet: TroubledFleet) -> None:
    """Deadlines run, nodes wait for their zone's token, and a budget holds evictions."""
    fleet.declare("EvictionBudget", "slow", {"maxInWindow": 1, "windowSeconds": 30})
    fleet.taint("a0")
    fleet.pass_time(40)
    fleet.taint("b0")
    fleet.report("b3", "Ready", "False")
    fleet.report("b4", "Ready", "False")
    fleet.pass_time(30, "b3", "b4", "a5")


def decisions(flow: Flow, since: int, *, ids: bool = False) -> Counter[tuple[Any, ...]]:
    """Everything that was decided from a record on, with the times of the decisions."""
    return Counter(
        (record.meta.time, topic.short, record.name, record.value, record.meta.id if ids else "")
        for topic in DECISIONS
        for record in flow.topics.topic(topic.short, since)
    )
