"""What was accepted before a decision counts, whichever service has not processed it yet."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final

import pytest
from tests.chaos.seeded.checker import check
from tests.chaos.seeded.history import History
from tests.chaos.seeded.kafka.inputs import People, tolerate
from tests.chaos.seeded.kafka.world import CHAINED, World

from moorage_schemas.condition import HEALTHY
from moorage_schemas.refs import WorkloadRef

NOT_READY: Final = "node.kubernetes.io/not-ready"
SERVICES: Final = ("condition-ingest", "taint-manager", "placement", "governor", "timer")
DUE: Final = 12.0
"""Seconds after the taint at which the pod would leave."""

AWAY: Final = 20.0
SEEDS: Final = range(3)

Accepted = Callable[[People], Awaitable[object]]


def pod(people: People, seconds: float, *, app: str = "") -> Awaitable[object]:
    """Declare the pod that is to stay, or change it."""
    tolerations = [tolerate("maint", seconds), tolerate(NOT_READY, seconds)]
    spec = {"containers": [{"name": "c"}], "nodeName": "n1", "tolerations": tolerations}
    return people.declare("Pod", "p", spec, labels={"app": app} if app else {})


def longer(people: People) -> Awaitable[object]:
    return pod(people, 3600)


def paused(people: People) -> Awaitable[object]:
    return pod(people, DUE, app="kept")


def ready(people: People) -> Awaitable[object]:
    return people.report("Node", "n1", status="True")


def untainted(people: People) -> Awaitable[object]:
    return people.untaint("Node", "n1", "maint")


SAVES: Final[Mapping[str, Accepted]] = {
    "its tolerations last longer": longer,
    "a label puts it under a pause": paused,
    "the taint is removed": untainted,
}
"""What saves a pod from a person's taint."""


def requested(history: History) -> list[str]:
    """The evictions that were requested, by key."""
    return [entry.key for entry in history.entries if b'"state":"Requested"' in (entry.value or b"")]


async def scheduled(world: World) -> None:
    """Return when an eviction has been scheduled."""
    while not any(  # noqa: ASYNC110 - virtual time costs nothing
        b'"state":"Scheduled"' in (entry.value or b"") for entry in world.cluster.entries
    ):
        await asyncio.sleep(0.01)


def during(
    away: str, accept: Accepted, *, by_condition: bool = False, gone: float = AWAY, before: float = DUE
) -> Callable[[World], Coroutine[Any, Any, None]]:
    """Return a story: a service is away while something is accepted.

    Args:
        away: the service.
        accept: what is accepted.
        by_condition: whether a condition taints the node, instead of a person.
        gone: how long the service is away, in seconds.
        before: how long before the deadline it goes away, in seconds.
    """

    async def story(world: World) -> None:
        people = world.people
        for name in ("n1", "n2", "n3"):
            await people.node(name, zone="a")
            await people.report("Node", name, status="True")
        await people.declare("EvictionPause", "kept", {"scope": {"selector": {"matchLabels": {"app": "kept"}}}})
        await pod(people, DUE)
        await world.settle()
        if by_condition:
            await people.report("Node", "n1", status="False")
        else:
            await people.taint("Node", "n1", "maint")
        await scheduled(world)
        await asyncio.sleep(DUE - before)
        for replica in world.of(away):
            replica.cut(gone)
        await accept(people)
        await asyncio.sleep(gone + DUE)
        await world.settle()

    return story


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("away", SERVICES)
@pytest.mark.parametrize("what", SAVES)
def test_what_is_accepted_while_a_service_is_away_saves_a_pod(what: str, away: str, seed: int) -> None:
    history = World(seed, settings={"partitions": 3}).play(during(away, SAVES[what]))
    assert requested(history) == []
    assert check(history) == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("away", SERVICES)
def test_a_node_that_was_reported_ready_loses_no_pod(away: str, seed: int) -> None:
    settings = {"partitions": 3, "node_monitor_period": 1}
    history = World(seed, settings=settings).play(during(away, ready, by_condition=True))
    assert requested(history) == []
    assert check(history) == []


@pytest.mark.parametrize("away", ["targets", "placement", "governor"])
@pytest.mark.parametrize("what", [*SAVES, "the node is reported ready"])
def test_what_is_accepted_saves_a_pod_though_services_run_as_a_chain(what: str, away: str) -> None:
    accept = SAVES.get(what, ready)
    settings = {"partitions": 3, "node_monitor_period": 1}
    for gone, before in ((AWAY, DUE), (1.0, 0.5)):
        world = World(f"chained/{gone}", settings=settings, services=CHAINED)
        history = world.play(during(away, accept, by_condition=accept is ready, gone=gone, before=before))
        assert requested(history) == []
        assert check(history) == []


@pytest.mark.parametrize("gone", [1.0, 5.0, 60.0])
@pytest.mark.parametrize("away", ["placement", "taint-manager", "condition-ingest"])
@pytest.mark.parametrize("what", SAVES)
def test_what_is_accepted_just_before_the_deadline_saves_a_pod(what: str, away: str, gone: float) -> None:
    history = World(7, settings={"partitions": 3}).play(during(away, SAVES[what], gone=gone, before=0.5))
    assert requested(history) == []
    assert check(history) == []


def unhealthy(people: People) -> Awaitable[object]:
    return people.report(
        "Node", "n2", HEALTHY, "False", workload=WorkloadRef(kind="Pod", namespace="default", name="other")
    )


async def last_of_two(world: World) -> None:
    """Two pods have a budget that wants one of them; the other one is reported to be unhealthy."""
    people = world.people
    for name in ("n1", "n2"):
        await people.node(name)
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    await people.declare("PodDisruptionBudget", "web", spec)
    tolerations = [tolerate("maint", DUE)]
    for name, node in (("one", "n1"), ("other", "n2")):
        body = {"containers": [{"name": "c"}], "nodeName": node, "tolerations": tolerations}
        await people.declare("Pod", name, body, labels={"app": "web"})
    await world.settle()
    await people.taint("Node", "n1", "maint")
    await scheduled(world)
    await asyncio.sleep(DUE - 1)
    for replica in world.of("condition-ingest"):
        replica.cut(AWAY)
    await unhealthy(people)
    await asyncio.sleep(AWAY + DUE)
    await world.settle()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_budget_keeps_the_last_healthy_pod_whose_neighbour_was_reported_unhealthy(seed: int) -> None:
    history = World(seed, settings={"partitions": 3}).play(last_of_two)
    assert requested(history) == []
    assert check(history) == []
    assert any(b"has not processed all reports about its pods" in (entry.value or b"") for entry in history.entries)


def policy(people: People, seconds: float) -> Awaitable[object]:
    """Declare the policy that places a deployment on clusters, or change how long it tolerates a taint."""
    tolerations = [tolerate("maint", seconds)]
    return people.declare(
        "PropagationPolicy",
        "web",
        {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}],
            "placement": {"clusterTolerations": tolerations},
        },
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("gone", [1.0, 20.0])
def test_a_policy_that_tolerates_a_taint_for_longer_saves_work_on_clusters(gone: float, seed: int) -> None:
    async def story(world: World) -> None:
        people = world.people
        for name in ("c1", "c2"):
            await people.declare("Cluster", name)
            await people.report("Cluster", name, status="True")
        await policy(people, DUE)
        await people.deploy("web", 2)
        await world.settle()
        await people.taint("Cluster", "c1", "maint")
        await people.taint("Cluster", "c2", "maint")
        await scheduled(world)
        await asyncio.sleep(DUE - 0.5)
        for replica in world.of("placement"):
            replica.cut(gone)
        await policy(people, 3600)
        await asyncio.sleep(gone + DUE)
        await world.settle()

    settings = {"partitions": 3, "feature_gates": "Failover=true", "enable_no_execute_taint_eviction": True}
    history = World(seed, settings=settings).play(story)
    assert requested(history) == []
    assert check(history) == []
