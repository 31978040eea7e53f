"""`explain resourcebinding` on the records that all services have written on a virtual clock."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest
from tests.component.simulation.explained import chain, copy, of, said, topics
from tests.support.tables import table
from tests.support.worlds.karmada import ONE, KarmadaWorld

from moorage.insight.explain.binding_reasons import binding_of, explain_binding
from moorage.insight.explain.explanation import Explanation, NotFoundError, Wanted
from moorage.insight.explain.grounds import SnapshotGrounds

ALL = Wanted(every=True)
DIVIDED = {
    "replicaSchedulingType": "Divided",
    "replicaDivisionPreference": "Weighted",
    "weightPreference": {
        "staticWeightList": [
            {"targetCluster": {"clusterNames": ["oslo"]}, "weight": 2},
            {"targetCluster": {"clusterNames": ["paris"]}, "weight": 1},
        ]
    },
}


def grounds(world: KarmadaWorld) -> SnapshotGrounds:
    return SnapshotGrounds(copy(world.flow), world.settings)


def explained(world: KarmadaWorld, wanted: Wanted | None = None, name: str = "web-deployment") -> Explanation:
    return explain_binding(grounds(world), f"ResourceBinding/default/{name}", wanted)


def patient(seconds: int = 60) -> dict[str, Any]:
    return {"clusterTolerations": [{"key": "bad", "operator": "Exists", "tolerationSeconds": seconds}]}


def test_why_here_and_why_not_there() -> None:
    world = KarmadaWorld("oslo", "paris", "rome")
    world.taint("rome", "worse", "NoSchedule")
    world.deploy("web", 3)
    world.policy(placement=ONE)
    world.run()
    told = explained(world, ALL)
    assert told.agrees
    assert (told.considered, told.fitting) == (3, 2)
    assert [one.name for one in told.targets if one.here] == list(world.where()) == ["oslo"]
    assert of(told, "oslo").replicas == 3
    assert "the spread constraints take others" in of(told, "paris").outcome
    assert "untolerated taint {worse:NoSchedule}" in of(told, "rome").outcome
    assert "nothing tolerates worse:NoSchedule" in said(explained(world, Wanted("rome")), closely=True)
    assert "PropagationPolicy/default/p places it" in told.notes
    assert "oslo (3)" in said(told)


def test_until_when_it_stays_and_when_it_leaves() -> None:
    world = KarmadaWorld("oslo", "paris")
    world.deploy("web", 3)
    world.policy(placement={**ONE, **patient()})
    world.run()
    world.taint("oslo")
    world.advance(20)
    told = explained(world)
    assert told.agrees, "taints only keep new work away"
    (until,) = told.until
    assert until.when == world.flow.now + timedelta(seconds=40)
    assert topics(chain(told, "the eviction from cluster oslo")) == ["resources", "taints", "evictions"]
    world.advance(50)
    told = explained(world, ALL)
    assert [one.name for one in told.targets if one.here] == ["paris"]
    assert topics(chain(told, "the decision")) == [
        *("resources", "taints", "timers", "timer-fired", "evictions", "placements")
    ]
    leaves = next(one for one in told.until if one.what.startswith("leaves cluster oslo"))
    assert leaves.when == world.placed().leaving[0].until
    assert "ClusterEviction" in of(told, "oslo").outcome
    world.flow.compact()
    assert not chain(explained(world), "the decision").whole


def test_an_assignment_that_stays_although_it_would_be_another_one_from_scratch() -> None:
    world = KarmadaWorld("oslo")
    world.deploy("web", 4)
    aggregated = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}
    world.policy(placement={"replicaScheduling": aggregated})
    world.run()
    world.cluster("bergen")
    world.run()
    told = explained(world, ALL)
    assert told.agrees
    assert any("all its replicas are assigned" in note for note in told.notes)
    assert "1 clusters were considered then, 2 are there now" in told.differences
    assert of(told, "bergen").replicas is None


def test_replicas_divided_by_weight_are_told_for_each_cluster() -> None:
    world = KarmadaWorld("oslo", "paris", "rome")
    world.deploy("web", 6)
    world.policy(placement={"replicaScheduling": DIVIDED})
    world.run()
    told = explained(world, ALL)
    assert {one.name: one.replicas for one in told.targets} == {"oslo": 4, "paris": 2, "rome": None}
    assert world.where() == {"oslo": 4, "paris": 2}
    assert "it gets no replica" in of(told, "rome").outcome


def test_a_resource_that_nothing_takes() -> None:
    world = KarmadaWorld("oslo")
    world.taint("oslo", "worse", "NoSchedule")
    world.deploy("web", 1)
    world.policy(placement=ONE)
    world.run()
    told = explained(world, ALL)
    assert told.agrees
    assert (told.fitting, [one.here for one in told.targets]) == (0, [False])
    assert "is decided again when a cluster is added" in told.until[0].what
    world.untaint("oslo", "worse", "NoSchedule")
    world.cluster("paris")
    told = explained(world)
    assert not told.agrees, "nobody has seen the new cluster yet"
    assert "cluster paris: nothing on record, 1 replicas if decided now" in told.differences


def test_without_the_gates_nothing_evicts_from_clusters() -> None:
    world = KarmadaWorld("oslo", feature_gates="", enable_no_execute_taint_eviction=False)
    world.deploy("web", 1)
    world.policy(placement=ONE)
    world.run()
    world.taint("oslo")
    world.advance(5)
    told = explained(world)
    assert any("taints do not evict from clusters" in note for note in told.notes)
    assert told.until == ()


def test_a_policy_that_is_gone_or_changed() -> None:
    world = KarmadaWorld("oslo", "paris")
    world.deploy("web", 1)
    world.policy(placement=ONE)
    world.run()
    world.policy(placement={"clusterAffinity": {"clusterNames": ["paris"]}})
    told = explained(world)
    assert not told.agrees
    assert any("has changed" in one for one in told.differences)
    world.delete("PropagationPolicy", "p")
    assert "no policy selects Deployment/default/web now" in explained(world).notes[0]
    world.delete("Deployment", "web")
    assert "no longer declared" in explained(world).notes[0]


def test_what_is_not_there_is_not_found() -> None:
    world = KarmadaWorld("oslo")
    world.deploy("web", 1)
    world.policy(placement=ONE)
    world.run()
    assert binding_of(grounds(world), "Deployment/default/web") == "ResourceBinding/default/web-deployment"
    assert binding_of(grounds(world), "Deployment/default/other") is None
    with pytest.raises(NotFoundError, match=r'resourcebindings.work.karmada.io "gone" not found'):
        explained(world, name="gone")
    with pytest.raises(NotFoundError, match=r'clusters.cluster.karmada.io "atlantis" not found'):
        explained(world, Wanted("atlantis"))


@table("seed", range(8))
def test_at_rest_every_explanation_agrees_with_the_decision(seed: int) -> None:
    """People change a fleet at random. Whenever it is at rest, the rules give the recorded decisions."""
    rng = random.Random(seed)  # noqa: S311 - the random choices must be repeatable
    names = ["oslo", "paris", "rome"]
    world = KarmadaWorld(*names, seed=seed)
    placements: list[dict[str, Any]] = [
        ONE,
        {},
        {"replicaScheduling": DIVIDED},
        {"clusterAffinity": {"exclude": ["rome"]}},
    ]
    world.deploy("web", rng.randint(1, 4))
    world.policy(placement={**rng.choice(placements), **patient(30)})
    for _ in range(8):
        match rng.randrange(5):
            case 0:
                world.taint(rng.choice(names), effect=rng.choice(["NoSchedule", "NoExecute"]))
            case 1:
                world.untaint(rng.choice(names), effect=rng.choice(["NoSchedule", "NoExecute"]))
            case 2:
                world.policy(placement={**rng.choice(placements), **patient(30)})
            case 3:
                world.deploy("web", rng.randint(1, 4))
            case _:
                world.advance(rng.choice([10, 45, 700]))
        world.run()
        world.advance(1)
        told = explained(world, ALL)
        assert told.agrees, told.differences
        assert {one.name for one in told.targets if one.here} == set(world.where())
        for one in told.targets:
            assert one.verdict.passed == (one.verdict.rank is not None)
            if one.here and one.replicas is not None:
                assert one.replicas == world.where()[one.name]
