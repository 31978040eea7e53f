"""What placement does with the objects that keep a deployment's templates, and with a deployment that is paused."""

from __future__ import annotations

from typing import Any

from tests.support.worlds.karmada import KarmadaWorld
from tests.support.worlds.nodes import NodeWorld
from tests.support.worlds.world import TEMPLATE

NEWER: dict[str, Any] = {**TEMPLATE, "spec": {"containers": [{"name": "c", "image": "app:2"}]}}
OWNER = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u", "controller": True}


def test_a_paused_deployment_keeps_its_pods_until_it_goes_on() -> None:
    world = NodeWorld("n1", "n2")
    world.declare("Deployment", "web", {"replicas": 2, "template": TEMPLATE})
    world.flow.run()
    before = world.pods()
    world.declare("Deployment", "web", {"replicas": 2, "template": NEWER, "paused": True})
    world.flow.run()
    assert world.pods() == before
    world.declare("Deployment", "web", {"replicas": 2, "template": NEWER})
    world.flow.run()
    assert not before.keys() & world.pods().keys()
    world.check()


def test_the_replica_set_of_a_deployment_makes_no_pods() -> None:
    world = NodeWorld("n1")
    world.declare("ReplicaSet", "web-abc", {"replicas": 0, "template": TEMPLATE})
    world.flow.run()
    assert world.pods() == {}


def test_a_policy_places_the_deployment_and_not_its_replica_sets() -> None:
    world = KarmadaWorld("c1")
    world.policy(kind="ReplicaSet")
    world.declare("ReplicaSet", "alone", {"replicas": 1, "template": TEMPLATE})
    world.declare("ReplicaSet", "web-abc", {"replicas": 0, "template": TEMPLATE})
    world.own("ReplicaSet", "web-abc", OWNER)
    world.flow.run()
    assert world.bound() == ["c1"]
    assert world.where("alone-replicaset") == {"c1": 1}
