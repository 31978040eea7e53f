"""The metrics of the fleet, through all services on a virtual clock."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import REGISTRY
from prometheus_client.exposition import choose_encoder
from tests.support.worlds.flow import Flow
from tests.support.worlds.measured import shown, walked, without_zeros
from tests.support.worlds.nodes import NodeWorld, pod_spec
from tests.support.worlds.world import PARTITIONS, lifted

from moorage.insight.copy.stack import CopyTask
from moorage.runtime.engine.batch import BatchDecision
from moorage.runtime.engine.encode import Encoder

WALKED = (
    "moorage_targets",
    "moorage_taints",
    "moorage_taints_waiting",
    "moorage_source_targets",
    "moorage_evictions_open",
    "moorage_evictions_held",
    "moorage_workloads_unscheduled",
    "moorage_zone_nodes",
    "moorage_zone_waiting_nodes",
)


class CountingFlow(Flow):
    """A flow that counts what it commits, as the runtime does."""

    def _commit(self, owner: CopyTask, decision: BatchDecision) -> None:
        super()._commit(owner, decision)
        Encoder(owner.service, prefix="moorage", partitions=self.partitions).count(decision)


class MeasuredWorld(NodeWorld):
    """Nodes and pods, with acts of many kinds."""

    def acts(self, rng: random.Random) -> list[Callable[[], Any]]:
        """Return the possible next acts of probes and people."""
        name, app, key = rng.choice("abcd"), rng.choice(("web", "db")), rng.choice(("bad", "worse"))
        zone, source, status = rng.choice(("east", "west", "")), rng.choice(("p1", "p2")), rng.choice(("True", "False"))
        replicas, service = rng.randint(0, 3), rng.choice(sorted(self.flow.services))
        spec = pod_spec() if app == "web" else pod_spec(nodeSelector={"disk": "ssd"})  # which no node has
        pods = {"replicas": replicas, "template": {"metadata": {"labels": {"app": app}}, "spec": spec}}
        acts: list[Callable[[], Any]] = [
            lambda: self.node(name, zone=zone),
            lambda: self.delete_target(name),
            lambda: self.report(name, status=status, source=source),
            lambda: self.report(name, "DiskPressure", status, source=source),
            lambda: self.taint(name, key, rng.choice(("NoExecute", "NoSchedule"))),
            lambda: self.untaint(name, key, rng.choice(("NoExecute", "NoSchedule"))),
            lambda: self.declare("Deployment", app, pods),
            lambda: self.delete("Deployment", app),
            lambda: self.declare("EvictionPause", "all"),
            lambda: self.delete("EvictionPause", "all"),
            lambda: self.declare("EvictionBudget", "slow", {"maxConcurrent": 1}),
            lambda: self.delete("EvictionBudget", "slow"),
            lambda: self.flow.crash_process(service),
        ]
        if f"Node//{name}" not in self.objects:
            return [acts[0], *acts[6:]]
        return acts


def random_world(seed: int) -> MeasuredWorld:
    """Return nodes with pods, under a slow rate."""
    settings = lifted(partitions=PARTITIONS, node_monitor_grace_period=40, node_eviction_rate=0.01)
    world = MeasuredWorld("a", "b", "c", "witness", seed=seed, settings=settings)
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod_spec()}
    world.declare("Deployment", "web", {"replicas": 3, "template": template})
    return world


def act(world: MeasuredWorld, rng: random.Random) -> bool:
    """Take one act, and perhaps let the services run, and time pass. Return whether the services are at rest."""
    rng.choice(world.acts(rng))()
    if rng.random() < 0.3:
        world.flow.advance(rng.choice((1, 15, 60, 300)))
        return True
    if rng.random() < 0.5:
        world.flow.run()
        return True
    return False


def differences(flow: Flow) -> dict[str, Any]:
    """Return the metrics whose values differ from a walk over the topics, with both."""
    found, wanted = shown(flow), walked(flow)
    both = {name: (without_zeros(found.get(name, {})), without_zeros(wanted.get(name, {}))) for name in WALKED}
    return {name: values for name, values in both.items() if values[0] != values[1]}


@pytest.mark.parametrize("seed", range(12))
def test_sums_over_partitions_equal_a_walk_over_the_topics_after_random_histories(seed: int) -> None:
    world, rng = random_world(seed), random.Random(seed)  # noqa: S311 - the random choices must be repeatable
    for step in range(60):
        if act(world, rng) and rng.random() < 0.8:
            assert differences(world.flow) == {}, (seed, step)
    world.flow.run()
    found = shown(world.flow)
    for service in world.flow.services:
        world.flow.crash_process(service)
    world.flow.run()
    again = shown(world.flow)
    for name in WALKED:
        assert again.get(name, {}) == found.get(name, {}), f"{name} differs after a restart"


def test_the_random_histories_reach_every_metric() -> None:
    reached: set[str] = set()
    for seed in range(12):
        world, rng = random_world(seed), random.Random(seed)  # noqa: S311 - the random choices must be repeatable
        for _ in range(60):
            act(world, rng)
            reached |= {name for name, values in shown(world.flow).items() if without_zeros(values)}
    assert set(WALKED) <= reached


def test_the_parts_of_a_partition_that_moves_go_with_it() -> None:
    world = NodeWorld("a", "b", "c", "d", "e").run()
    whole = shown(world.flow, "taint-manager")["moorage_targets"]
    assert whole == {("Node", "none", "Unreported"): 5}
    state = world.flow.state("taint-manager", 0)
    part = len(state.resources)
    assert 0 < part < 5
    world.flow.crash("taint-manager", 0)  # the next owner restores the partition, and has its part at once
    assert shown(world.flow, "taint-manager")["moorage_targets"] == whole


def test_a_source_that_falls_silent_is_shown_and_one_that_reports_again() -> None:
    world = NodeWorld("a", "witness", settings=lifted(partitions=PARTITIONS, node_monitor_grace_period=40))
    world.report("a", status="True", source="kubelet")
    world.run()
    assert shown(world.flow)["moorage_source_targets"] == {("Node", "kubelet", "Reporting"): 1}
    assert shown(world.flow)["moorage_last_report_timestamp_seconds"] == {(): world.flow.now.timestamp()}
    world.advance(41)
    assert shown(world.flow)["moorage_source_targets"] == {("Node", "kubelet", "Silent"): 1}
    assert shown(world.flow)["moorage_targets"]["Node", "none", "Unknown"] == 1
    world.report("a", status="True", source="kubelet")
    world.run()
    assert shown(world.flow)["moorage_source_targets"] == {("Node", "kubelet", "Reporting"): 1}
    world.delete_target("a")
    world.run()
    assert "moorage_source_targets" not in shown(world.flow)


def test_a_zone_shows_its_state_its_rate_its_tokens_and_its_queue_at_the_time_of_the_scrape() -> None:
    names = [f"n{number}" for number in range(4)]
    world = NodeWorld(settings=lifted(partitions=PARTITIONS, node_eviction_rate=0.1))
    world.node("witness", zone="west")
    for name in names:
        world.node(name, zone="east")
    world.run()
    for name in names[:2]:
        world.report(name)
    world.run()
    found = shown(world.flow)
    east = ("/east",)
    assert found["moorage_zone_state"]["/east", "Normal"] == 1
    assert (found["moorage_zone_nodes"][east], found["moorage_zone_not_ready_nodes"][east]) == (4, 2)
    assert found["moorage_zone_eviction_rate"][east] == 0.1
    assert found["moorage_zone_waiting_nodes"][east] == 1
    assert found["moorage_zone_waiting_since_timestamp_seconds"][east] == world.flow.now.timestamp()
    assert found["moorage_zone_tokens"][east] == 0
    not_ready = ("Node", "node.kubernetes.io/not-ready", "NoExecute")
    assert (found["moorage_taints"][not_ready], found["moorage_taints_waiting"][not_ready]) == (1, 1)
    world.flow.now += timedelta(seconds=5)
    assert shown(world.flow)["moorage_zone_tokens"][east] == pytest.approx(0.5)
    world.advance(6)
    granted = shown(world.flow)  # by time alone
    assert granted["moorage_taints"][not_ready] == 2
    assert not_ready not in granted.get("moorage_taints_waiting", {})
    world.report(names[2])
    world.run()
    assert shown(world.flow)["moorage_zone_state"] == {
        ("/east", "Normal"): 0,
        ("/east", "PartialDisruption"): 1,
        ("/east", "FullDisruption"): 0,
        ("/west", "Normal"): 1,
        ("/west", "PartialDisruption"): 0,
        ("/west", "FullDisruption"): 0,
    }
    assert found["moorage_zone_unhealthy_threshold_ratio"] == {(): 0.55}
    assert found["moorage_zones_stopped"] == {(): 0}


def test_a_held_eviction_shows_what_holds_it_and_since_when() -> None:
    world = NodeWorld("a", "witness")
    world.declare("EvictionPause", "all")
    world.declare("Pod", "web", {**pod_spec(), "nodeName": "a"})
    world.run()
    assert shown(world.flow)["moorage_eviction_pauses"] == {(): 1}
    world.taint("a")
    world.run()
    due = world.flow.now
    world.advance(90)
    found = shown(world.flow)
    assert found["moorage_evictions_open"] == {("Held",): 1}
    assert found["moorage_evictions_held"] == {("EvictionPause",): 1}
    assert found["moorage_evictions_held_since_timestamp_seconds"] == {("EvictionPause",): due.timestamp()}
    world.delete("EvictionPause", "all")
    world.advance(5)
    ended = shown(world.flow)
    assert not {"moorage_evictions_open", "moorage_evictions_held"} & ended.keys()
    assert ended["moorage_eviction_pauses"] == {(): 0}


def test_budgets_show_what_is_left() -> None:
    world = NodeWorld("a", "b", "witness")
    world.declare("EvictionBudget", "slow", {"maxConcurrent": 2})
    pods = {"metadata": {"labels": {"app": "web"}}, "spec": pod_spec()}
    world.declare("Deployment", "web", {"replicas": 2, "template": pods})
    selector = {"matchLabels": {"app": "web"}}
    world.declare("PodDisruptionBudget", "web", {"selector": selector, "minAvailable": 1})
    world.declare("PodDisruptionBudget", "all", {"selector": selector, "minAvailable": 2})
    world.advance(5)
    found = shown(world.flow)
    assert found["moorage_eviction_budget_allowed"] == {("slow",): 2}
    assert found["moorage_eviction_budget_held"] == {("slow",): 0}
    assert found["moorage_disruption_budgets"] == {("SufficientPods",): 1, ("InsufficientPods",): 1}


def test_pods_without_a_node_are_shown_by_reason() -> None:
    world = NodeWorld()
    world.declare("Deployment", "web", {"replicas": 2, "template": {"metadata": {}, "spec": pod_spec()}})
    world.run()
    assert shown(world.flow)["moorage_workloads_unscheduled"] == {("Pod", "Unschedulable"): 2}
    world.node("a")
    world.run()
    assert "moorage_workloads_unscheduled" not in shown(world.flow)


def counter(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def test_an_eviction_counts_once_in_each_state_with_its_lateness_and_an_example() -> None:
    held = ("moorage_eviction_held_seconds_sum", "moorage_eviction_held_seconds_count")
    world = NodeWorld("a", "witness")
    world.flow.__class__ = CountingFlow  # the same flow, which counts
    before = {
        "Held": counter("moorage_evictions_total", state="Held", reason="Held"),
        "Requested": counter("moorage_evictions_total", state="Requested", reason="UntoleratedTaint"),
        "Completed": counter("moorage_evictions_total", state="Completed", reason="BindingEnded"),
        "late": counter("moorage_eviction_lateness_seconds_sum", held="true"),
        "removed": counter("moorage_eviction_removal_seconds_count"),
        **{name: counter(name, by="EvictionPause") for name in held},
    }
    world.declare("EvictionPause", "all")
    world.declare("Pod", "web", {**pod_spec(), "nodeName": "a"})
    world.run()
    world.taint("a")
    world.run()
    world.declare("EvictionPause", "other")  # another guard holds it as well: no other state
    world.advance(60)
    world.delete("EvictionPause", "all")
    world.delete("EvictionPause", "other")
    world.run()
    after = {
        "Held": counter("moorage_evictions_total", state="Held", reason="Held"),
        "Requested": counter("moorage_evictions_total", state="Requested", reason="UntoleratedTaint"),
        "Completed": counter("moorage_evictions_total", state="Completed", reason="BindingEnded"),
        "late": counter("moorage_eviction_lateness_seconds_sum", held="true"),
        "removed": counter("moorage_eviction_removal_seconds_count"),
        **{name: counter(name, by="EvictionPause") for name in held},
    }
    assert {name: after[name] - before[name] for name in after} == pytest.approx(
        {"Held": 1, "Requested": 1, "Completed": 1, "late": 60, "removed": 1, held[0]: 60, held[1]: 1}
    )
    encode, _ = choose_encoder("application/openmetrics-text")
    lines = encode(REGISTRY).decode().splitlines()
    line = next(one for one in lines if one.startswith('moorage_evictions_total{reason="UntoleratedTaint"'))
    assert re.search(r'# \{target="Node/a",(trace_id="[0-9a-f]{32}",)?workload="Pod/default/web"\} ', line)
