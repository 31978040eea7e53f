"""The gateway counts budgets and answers evictions as `moorage eval` does, whatever has happened before."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.component.gateway.double import Fixture, Json, deployment, node, node_ref, pod, pod_ref
from tests.component.gateway.test_made_pods import (
    BUDGETS,
    DEPLOYMENTS,
    LABELS,
    PODS,
    WEB,
    budget,
    evict,
    place,
    serving,
)
from tests.component.gateway.test_reported import node_reports

from moorage.apiserver.kinds.status.disruption import allowed_now
from moorage.apiserver.kinds.status.pods import NOT_REPORTED
from moorage.conformance.operations import evaluate
from moorage.decide.disruption.budgets import disruption_of
from moorage_schemas.condition import ConditionStatus

MADE, BARE = ("a", "b", "c", "d"), ("x", "y")


class Changes:
    """Random changes of pods, of the budget that selects them, and of what is known of both."""

    def __init__(self, gateway: Fixture, node_uid: str, seed: int) -> None:
        self.gateway = gateway
        self._node_uid = node_uid
        self._rng = random.Random(seed)  # noqa: S311 - seeded test data
        self._generation = 0
        self.lost = False
        """Whether the node of the pods is not ready."""

    async def one(self) -> None:
        await self._rng.choice((self.make, self.make, self.report, self.report, self.node, self.scale, self.budget))()

    async def make(self) -> None:
        name = self._rng.choice((*MADE, *BARE))
        if await self.gateway.status(f"{PODS}/{name}") == 200:
            return
        if name in BARE:
            body = pod(name)
            await self.gateway.ok("POST", PODS, {**body, "metadata": {"name": name, "labels": LABELS}})
        place(self.gateway, name, "" if name in BARE else self.gateway.store.tables.resources[WEB.key].uid)

    async def report(self) -> None:
        name = self._rng.choice((*MADE, *BARE))
        self.gateway.reported(pod_ref(name), node_ref("n1"), self._rng.choice(list(ConditionStatus)))

    async def node(self) -> None:
        self._generation += 1
        status = self._rng.choice(("True", "True", "False", "Unknown"))
        self.lost = status != "True"
        node_reports(self.gateway, status, uid=self._node_uid, generation=self._generation)

    async def scale(self) -> None:
        await self.gateway.ok("PATCH", f"{DEPLOYMENTS}/web", {"spec": {"replicas": self._rng.randint(1, 6)}})

    async def budget(self) -> None:
        amounts = dict.fromkeys(("minAvailable", "maxUnavailable"))
        amounts[self._rng.choice(list(amounts))] = self._rng.choice((0, 1, 2, 3, "25%", "50%", "100%"))
        policy = self._rng.choice(("IfHealthyBudget", "AlwaysAllow"))
        await self.gateway.ok("PATCH", f"{BUDGETS}/keep", {"spec": {**amounts, "unhealthyPodEvictionPolicy": policy}})


def as_reported(shown: Json) -> Json:
    """A pod without the condition that stands for no report."""
    conditions = [one for one in shown["status"]["conditions"] if one.get("reason") != NOT_REPORTED]
    return {**shown, "status": {**shown["status"], "conditions": conditions}}


async def by_eval(gateway: Fixture, evicted: str, *, lost: bool) -> Any:
    """The status of the budget and the answer to an eviction, by the objects that the gateway shows."""
    pods = (await gateway.ok("GET", PODS))["items"]
    if not lost:  # otherwise no pod is healthy, whether it was reported or not
        pods = [as_reported(one) for one in pods]
    request = {
        "op": "disruption_budget",
        "budgets": [await gateway.ok("GET", f"{BUDGETS}/keep")],
        "pods": pods,
        "controllers": [await gateway.ok("GET", f"{DEPLOYMENTS}/web")],
        "evict": f"default/{evicted}",
    }
    found = evaluate(request, as_upstream=False)
    return found["budgets"]["default/keep"], found["eviction"]["code"]


@pytest.mark.parametrize("seed", range(4))
async def test_after_any_changes_budgets_are_counted_as_by_eval(seed: int) -> None:
    gateway = await serving(replicas=3)
    uid = (await gateway.ok("POST", "/api/v1/nodes", node()))["metadata"]["uid"]
    spec = {"selector": {"matchLabels": LABELS}, "minAvailable": 1}
    await gateway.ok("POST", BUDGETS, {"metadata": {"name": "keep"}, "spec": spec})
    changes = Changes(gateway, uid, seed)
    for _ in range(30):
        await changes.one()
        for one in (await gateway.ok("GET", PODS))["items"]:
            name = one["metadata"]["name"]
            status, code = await by_eval(gateway, name, lost=changes.lost)
            guard = disruption_of(await gateway.ok("GET", f"{BUDGETS}/keep"))
            now = allowed_now(guard, gateway.store.tables)
            assert now.allowed == status["disruptionsAllowed"]
            if now.scaled:
                assert (now.healthy, now.desired) == (status["currentHealthy"], status["desiredHealthy"])
            assert (await evict(gateway, name, "?dryRun=All")).status_code == code


async def test_a_deployment_of_which_all_pods_wait_for_a_node_counts_in_what_is_expected() -> None:
    gateway = await serving("a", "b", "c", "d", replicas=4)
    await budget(gateway, maxUnavailable="50%")
    guard = disruption_of(await gateway.ok("GET", f"{BUDGETS}/keep"))
    assert allowed_now(guard, gateway.store.tables).allowed == 2
    other = deployment("waits", replicas=4)
    other["spec"]["template"]["metadata"]["labels"] = other["spec"]["selector"]["matchLabels"] = LABELS
    uid = (await gateway.ok("POST", DEPLOYMENTS, other))["metadata"]["uid"]
    assert allowed_now(guard, gateway.store.tables).allowed == 2, "placement has not made its pods yet"
    for name in ("e", "f", "g", "h"):
        place(gateway, name, uid, node="", owner=WEB.model_copy(update={"name": "waits"}))
    now = allowed_now(guard, gateway.store.tables)
    assert (now.expected, now.healthy, now.desired, now.allowed) == (8, 4, 4, 0)
    assert (await evict(gateway, "a", "?dryRun=All")).status_code == 429
