"""Rollouts over placements in the API: their status from placement's records, their tables and their limits."""

from __future__ import annotations

from typing import Any

from tests.component.gateway.double import NOW, Fixture, Json, later

from moorage_schemas.placement import (
    PlacementState,
    RolledOutCluster,
    RolloutGroupStatus,
    RolloutProgressed,
    WorkloadPlaced,
)
from moorage_schemas.refs import WorkloadRef
from moorage_schemas.times import format_time
from moorage_schemas.topics import PLACEMENTS

ROLLOUTS = "/apis/moorage.io/v1alpha1/namespaces/shop/rollouts"


def rollout(name: str = "web", **spec: Any) -> Json:
    """A rollout as people write it."""
    return {
        "apiVersion": "moorage.io/v1alpha1",
        "kind": "Rollout",
        "metadata": {"name": name},
        "spec": {"placementRef": {"name": "web"}, "version": "v1"} | spec,
    }


def progressed(gateway: Fixture, uid: str) -> None:
    """Write placement's record of the rollout: a canary that failed."""
    workload, owner = (WorkloadRef(kind=kind, namespace="shop", name="web") for kind in ("Rollout", "Placement"))
    event = WorkloadPlaced(
        workload=workload,
        uid=uid,
        owner=owner,
        owner_uid="p",
        generation=3,
        state=PlacementState.PLACED,
        reason="MaxFailuresExceeded",
        message="stopped at group 0",
        decided_time=NOW,
        decide_again=later(60),
        rollout=RolloutProgressed(
            version="v1",
            version_generation=1,
            clusters=(RolledOutCluster(name="c1", generation=1, since=NOW),),
            groups=(
                RolloutGroupStatus(index=0, name="canary", clusters=1, released=1, failed=1),
                RolloutGroupStatus(index=1, clusters=4),
            ),
            failing=("c1",),
            stopped=True,
        ),
    )
    gateway.log.append(PLACEMENTS, workload.key, owner.key, event)


async def test_the_status_is_that_of_the_last_decision() -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", ROLLOUTS, rollout())
    assert "status" not in made
    progressed(gateway, made["metadata"]["uid"])
    counts = {"clusters": 5, "released": 1, "succeeded": 0, "progressing": 0, "failed": 1, "timedOut": 0}
    group = {"index": 0, "name": "canary", **counts, "clusters": 1}
    assert (await gateway.ok("GET", f"{ROLLOUTS}/web"))["status"] == {
        "version": "v1",
        "reason": "MaxFailuresExceeded",
        "message": "stopped at group 0",
        **counts,
        "stopped": True,
        "groups": [group, {"index": 1, **counts, "clusters": 4, "released": 0, "failed": 0}],
        "failing": ["c1"],
        "decidedTime": format_time(NOW),
        "nextTime": format_time(later(60)),
    }
    progressed(gateway, "an earlier one")
    assert "status" not in await gateway.ok("GET", f"{ROLLOUTS}/web")


async def test_what_is_invalid_is_refused_and_what_has_no_effect_is_warned_of() -> None:
    gateway = Fixture()
    wrong = {"type": "Progressive", "progressive": {"maxConcurrency": "3"}}
    refused = await gateway.call("POST", ROLLOUTS, rollout(strategy=wrong))
    assert refused.status_code == 422
    assert "spec.strategy.progressive.maxConcurrency" in refused.json()["message"]
    accepted = await gateway.call("POST", ROLLOUTS, rollout(strategy={"progressive": {}}))
    assert accepted.status_code == 201
    assert "spec.strategy.progressive: ignored, because the type is All" in accepted.headers["warning"]
    made = accepted.json()
    made["spec"]["placementRef"] = {"name": "other"}
    refused = await gateway.call("PUT", f"{ROLLOUTS}/web", made)
    assert refused.status_code == 422
    assert "field is immutable" in refused.json()["message"]
