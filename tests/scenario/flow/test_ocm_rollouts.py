"""Rollouts over the decisions of placements: releases group by group, by what deployers report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.component.simulation.copying import applied, ask
from tests.component.simulation.explained import copy, said
from tests.support.worlds.measured import shown
from tests.support.worlds.ocm import OcmWorld

from moorage.insight.explain.explanation import NotFoundError
from moorage.insight.explain.grounds import SnapshotGrounds
from moorage.insight.explain.rollout_reasons import explain_rollout
from moorage.runtime.settings.process_settings import Settings
from moorage.workers import condition_ingest, eviction, governor, taint_manager, timer
from moorage_schemas.condition import HEALTHY, ConditionReported, ConditionStatus
from moorage_schemas.placement import RolloutProgressed, WorkloadBound, WorkloadPlaced
from moorage_schemas.topics import BINDINGS, CONDITION_REPORTS, EVICTIONS, PLACEMENTS

SETTINGS = Settings(partitions=3, managed_cluster_monitor_grace_period=1_000_000)
KEY = "Rollout/default/web"
STRATEGY = {
    "type": "ProgressivePerGroup",
    "progressivePerGroup": {"minSuccessTime": "60s", "progressDeadline": "5m"},
}
CANARY = {"groupName": "canary", "groupClusterSelector": {"labelSelector": {"matchLabels": {"canary": "true"}}}}


class RolloutWorld(OcmWorld):
    """All services, two canaries, and four other clusters in two groups."""

    def __init__(self, seed: int | None = None) -> None:
        modules = (condition_ingest, taint_manager, governor, eviction, timer)
        super().__init__(seed=seed, services=[module.service(SETTINGS) for module in modules])
        for name in ("c1", "c2", "n1", "n2", "n3", "n4"):
            self.cluster(name, labels={"canary": "true"} if name.startswith("c") else {})
            self.available(name)
        groups = {"groupStrategy": {"decisionGroups": [CANARY], "clustersPerDecisionGroup": 2}}
        self.placement(decisionStrategy=groups)

    def rollout(self, version: str = "v1", strategy: dict[str, Any] | None = None, **parts: Any) -> RolloutWorld:
        """Declare the rollout."""
        spec = {"placementRef": {"name": "p"}, "version": version, "strategy": strategy or STRATEGY}
        self.declare("Rollout", "web", namespace="default", spec=spec, **parts)
        self.run()
        return self

    def heard(
        self, status: str, *clusters: str, of: dict[str, WorkloadBound] | None = None, message: str = ""
    ) -> RolloutWorld:
        """Report the health of the workload on clusters, as their deployers do."""
        bound = of or self.bound()
        for name in clusters:
            binding = bound[name]
            event = ConditionReported(
                target=binding.target,
                type=HEALTHY,
                status=ConditionStatus(status),
                message=message,
                observed_time=self.flow.now,
                source="deployer/test",
                workload=binding.workload,
                workload_uid=binding.uid,
                binding_generation=binding.generation,
            )
            self.flow.produce(CONDITION_REPORTS, binding.target.key, event)
        self.run()
        return self

    def bound(self) -> dict[str, WorkloadBound]:
        """Return the bindings by cluster."""
        found = self.flow.table(BINDINGS).items()
        return {one.target.name: one for key, one in found if key.startswith(f"{KEY}|") and one is not None}

    def released(self, version: str = "v1") -> list[str]:
        """Return the clusters that have a version."""
        return sorted(name for name, one in self.bound().items() if one.version == version)

    def decided(self) -> WorkloadPlaced:
        """Return the last decision."""
        found = self.flow.table(PLACEMENTS)[KEY]
        assert isinstance(found, WorkloadPlaced)
        return found

    def progress(self) -> RolloutProgressed:
        """Return the progress by the last decision."""
        found = self.decided().rollout
        assert found is not None
        return found


@pytest.fixture
def world() -> RolloutWorld:
    """A rollout of which the canaries have the first version."""
    return RolloutWorld().rollout()


def test_groups_follow_each_other_when_they_have_soaked(world: RolloutWorld) -> None:
    assert world.released() == ["c1", "c2"]
    world.heard("True", "c1", "c2").advance(59)
    assert world.released() == ["c1", "c2"]
    world.advance(1)
    assert world.released() == ["c1", "c2", "n1", "n2"]
    world.heard("True", "n1", "n2").advance(60)
    world.heard("True", "n3", "n4").advance(60)
    assert world.decided().reason == "Completed"
    assert world.decided().decide_again is None
    assert not world.flow.records(EVICTIONS)


def test_a_bad_canary_stops_at_its_group(world: RolloutWorld) -> None:
    world.heard("True", "c1").heard("False", "c2")
    decided = world.decided()
    assert decided.reason == "MaxFailuresExceeded"
    text = "stopped at group 0 (canary): 1 failed (c2), which is more than may; 1 of 6 clusters run v1"
    assert decided.message == text
    assert shown(world.flow, "placement")["moorage_rollouts"] == {("MaxFailuresExceeded",): 1}
    world.advance(3600)
    assert world.released() == ["c1", "c2"]
    assert world.decided().message == text
    assert [one.timed_out for one in world.progress().groups] == [1, 0, 0]
    # The repaired version begins again with the canaries, and all others keep what they have.
    world.rollout("v2")
    assert world.released("v2") == ["c1", "c2"]
    assert world.decided().reason == "Progressing"


def test_a_report_about_an_earlier_version_does_not_count(world: RolloutWorld) -> None:
    world.heard("True", "c1", "c2")
    old = world.bound()
    world.rollout("v2")
    world.heard("True", "c1", "c2", of=old).advance(600)
    assert world.released("v2") == ["c1", "c2"]
    assert world.progress().groups[0].timed_out == 2


def test_a_cluster_without_a_report_times_out_at_its_deadline(world: RolloutWorld) -> None:
    world.heard("True", "c1").advance(299)
    assert world.decided().reason == "Progressing"
    world.advance(1)
    assert world.decided().reason == "MaxFailuresExceeded"
    world.heard("True", "c2").advance(60)
    assert world.released() == ["c1", "c2", "n1", "n2"]


def test_only_clusters_that_the_placement_no_longer_selects_are_left(world: RolloutWorld) -> None:
    world.heard("True", "c1", "c2").advance(60)
    world.taint("n1")
    world.run()
    assert world.released() == ["c1", "c2", "n2"], "as in OCM, n3 is in the group, but what progresses comes first"
    world.heard("True", "n2").advance(60)
    assert world.released() == ["c1", "c2", "n2", "n3"]
    world.delete("Rollout", "web")
    world.run()
    assert world.bound() == {}
    assert KEY not in world.flow.table(PLACEMENTS)
    assert not world.flow.records(EVICTIONS)


def test_a_rollout_that_is_created_again_begins_anew(world: RolloutWorld) -> None:
    world.heard("True", "c1", "c2").advance(60)
    world.delete("Rollout", "web")
    world.rollout(uid="other")
    assert world.released() == ["c1", "c2"]
    assert {one.uid for one in world.bound().values()} == {"other"}


def test_a_rollout_waits_for_its_placement() -> None:
    world = RolloutWorld()
    world.delete("Placement", "p")
    world.rollout()
    assert world.bound() == {}
    world.placement()
    world.run()
    assert world.released() == ["c1", "c2", "n1", "n2", "n3", "n4"], "one group without a strategy of groups"


@pytest.mark.parametrize("service", ["placement", "condition-ingest"])
def test_a_restart_at_every_point_changes_nothing(service: str) -> None:
    straight, restarted = (_story(crashing) for crashing in ("", service))
    assert restarted == straight


def _story(crashing: str) -> list[tuple[str, list[str], str, str]]:
    """Play a rollout with a bad canary that is repaired. Return what could be seen after each step."""
    world = RolloutWorld()
    steps: list[Callable[[], object]] = [
        world.rollout,
        lambda: world.heard("True", "c1"),
        lambda: world.advance(30),
        lambda: world.heard("False", "c2"),
        lambda: world.advance(300),
        lambda: world.rollout("v2"),
        lambda: world.heard("True", "c1", "c2"),
        lambda: world.advance(60),
        lambda: world.heard("True", "n1", "n2"),
        lambda: world.advance(60),
        lambda: world.heard("True", "n3", "n4"),
        lambda: world.advance(60),
    ]
    seen = []
    for step in steps:
        step()
        if crashing:
            world.flow.crash_process(crashing)
            world.run()
        decided, version = world.decided(), world.progress().version
        seen.append((version, world.released(version), decided.reason, decided.message))
    assert seen[-1][2] == "Completed"
    return seen


def test_explain_has_the_reason_for_which_a_canary_stops_it(world: RolloutWorld) -> None:
    world.heard("True", "c1").heard("False", "c2", message="2 of 3 replicas crash")
    told = explain_rollout(SnapshotGrounds(copy(world.flow), SETTINGS), "default", "web")
    assert told.notes == (
        "group 0 (canary): 2 of 2 clusters have v1: 1 succeeded, 1 failed",
        "group 1: 0 of 2 clusters have v1",
        "group 2: 0 of 2 clusters have v1",
        "c2: deployer/test reported Healthy False (2 of 3 replicas crash)",
        "4 clusters do not get v1: more have failed than may",
        "the next soak time or deadline ends at 2026-01-01T00:01:00Z",
    )
    text = said(told)
    assert "stopped at group 0 (canary)" in text
    assert "c2: deployer/test reported Healthy False (2 of 3 replicas crash)" in text
    with pytest.raises(NotFoundError):
        explain_rollout(SnapshotGrounds(copy(world.flow), SETTINGS), "default", "none")


def test_a_simulation_shows_the_clusters_that_a_new_rollout_would_get_first() -> None:
    world = RolloutWorld()
    world.run()
    spec = {"placementRef": {"name": "p"}, "version": "v1", "strategy": STRATEGY}
    metadata = {"name": "web", "namespace": "default"}
    made = {"apiVersion": "moorage.io/v1alpha1", "kind": "Rollout", "metadata": metadata, "spec": spec}
    found, _ = ask(copy(world.flow), SETTINGS, applied(made))
    (row,) = found["decisions"]
    assert row["to"] == {"state": "Placed", "targets": ["ManagedCluster/c1", "ManagedCluster/c2"]}
    assert row["reason"] == "MaxFailuresExceeded", "nobody reports in a copy, so the canaries time out"


def test_without_rollouts_nothing_is_kept_of_them() -> None:
    world = RolloutWorld()
    world.run()
    for partition in range(world.flow.partitions):
        rollouts = world.flow.state("placement", partition).rollouts
        assert (list(rollouts.keys()), len(rollouts.work), rollouts.next_time()) == ([], 0, None)
