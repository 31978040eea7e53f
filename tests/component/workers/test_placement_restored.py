"""A restored table lacks compacted records. The records after it are read before anything is ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from tests.support.worlds.flow import START

from moorage.runtime.service import Emit, GlobalView, Input
from moorage.runtime.settings.process_settings import Settings
from moorage.workers.placement import service
from moorage.workers.placement.state import PlacementPartition
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import PLACEMENTS, RESOURCES, Topic

LATER = START + timedelta(minutes=20)
POLICY = {
    "apiVersion": "policy.karmada.io/v1alpha1",
    "kind": "PropagationPolicy",
    "metadata": {"name": "web", "namespace": "default", "uid": "p"},
    "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}], "placement": {}},
}


def declared(document: Mapping[str, Any], version: int = 1) -> ResourceDeclared:
    return ResourceDeclared(object=dict(document), version=version)


NODE = declared(
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "uid": "n1"},
        "spec": {},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "100"}},
    }
)
CLUSTER = declared(
    {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": "c1", "uid": "c1"}}
)


def web(version: int) -> ResourceDeclared:
    labels = {"app": "web"}
    return declared(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "default", "uid": "d"},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "c", "image": "x"}]},
                },
            },
        },
        version,
    )


class Restarted:
    """A service that placed a deployment and is started again without the deployment's record."""

    def __init__(self, *, on_clusters: bool) -> None:
        self.service = service(Settings())
        view = self.service.new_globals()
        for event in (NODE, CLUSTER, *([declared(POLICY)] if on_clusters else [])):
            view.apply(self.record(RESOURCES, event.key, event))
        before = self.state(view)
        self.placed = self.service.process(before, [self.record(RESOURCES, web(1).key, web(1))], START, fresh=True)
        self.service.drop(before)
        self.now = self.state(view)
        for emit in self.placed:
            if emit.topic is PLACEMENTS:
                self.service.apply(self.now, emit.topic, emit.key, emit.event)
            elif view.wants(emit.topic, emit.key):
                view.apply(self.record(emit.topic, emit.key, emit.event))

    def state(self, view: GlobalView) -> PlacementPartition:
        state = self.service.new_state(0)
        self.service.use_globals(state, view)
        return state

    @staticmethod
    def record(topic: Topic, key: str, event: Model | None) -> Input:
        return Input(topic, 0, 1, key, event, Meta(id=f"{topic.short}-{key}", source="t", type="t", time=START))


def ended(emits: Sequence[Emit]) -> set[str]:
    return {emit.key for emit in emits if emit.topic is PLACEMENTS and emit.event is None}


@pytest.mark.parametrize("on_clusters", [False, True])
class TestARestoreWithoutTheRecord:
    def test_nothing_ends_whose_next_record_was_waiting(self, *, on_clusters: bool) -> None:
        world = Restarted(on_clusters=on_clusters)
        assert world.placed
        waiting = world.record(RESOURCES, web(2).key, web(2))
        assert world.service.catch_up(world.now, [waiting], LATER) == []
        assert ended(world.service.wake(world.now, LATER)) == set()
        assert ended(world.service.reconcile(world.now, LATER + timedelta(seconds=30))) == set()

    def test_a_tombstone_that_was_waiting_ends_it_at_once(self, *, on_clusters: bool) -> None:
        world = Restarted(on_clusters=on_clusters)
        tombstone = world.record(RESOURCES, web(1).key, None)
        assert world.service.catch_up(world.now, [tombstone], LATER) == []
        gone = ended(world.service.wake(world.now, LATER))
        assert gone == {emit.key for emit in world.placed if emit.topic is PLACEMENTS}

    def test_it_ends_at_once_when_nothing_that_was_read_names_it(self, *, on_clusters: bool) -> None:
        """Everything has been read before the first wake, so its tombstone is also gone."""
        world = Restarted(on_clusters=on_clusters)
        gone = ended(world.service.wake(world.now, LATER))
        assert gone == {emit.key for emit in world.placed if emit.topic is PLACEMENTS}
        assert world.service.next_wake(world.now) is None
