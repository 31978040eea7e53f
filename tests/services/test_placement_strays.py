"""A restored table lacks what was compacted away: what was decided for its resources stays until more is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from tests.flow.driver import START

from moorage.placement import service
from moorage.placement.state import State
from moorage.placement.strays import PATIENCE
from moorage.runtime.service import Emit, GlobalView, Input
from moorage.runtime.settings import Settings
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
    """A service whose deployment was placed, started again without the deployment's record."""

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

    def state(self, view: GlobalView) -> State:
        state = self.service.new_state(0)
        self.service.use_globals(state, view)
        return state

    @staticmethod
    def record(topic: Topic, key: str, event: Model | None) -> Input:
        return Input(topic, 0, 1, key, event, Meta(id=f"{topic.short}-{key}", source="t", type="t", time=START))

    def read(self, event: ResourceDeclared | None) -> list[Emit]:
        return self.service.process(self.now, [self.record(RESOURCES, web(1).key, event)], LATER, fresh=True)


def ended(emits: Sequence[Emit]) -> set[str]:
    return {emit.key for emit in emits if emit.topic is PLACEMENTS and emit.event is None}


@pytest.mark.parametrize("on_clusters", [False, True])
class TestARestoreWithoutTheRecord:
    def test_nothing_ends_while_the_next_record_is_yet_to_be_read(self, *, on_clusters: bool) -> None:
        world = Restarted(on_clusters=on_clusters)
        assert world.placed
        assert world.service.wake(world.now, LATER) == []
        assert world.service.reconcile(world.now, LATER + timedelta(seconds=30)) == []
        assert ended(world.read(web(2))) == set()
        assert ended(world.service.wake(world.now, LATER + 2 * PATIENCE)) == set()

    def test_a_tombstone_ends_it_at_once(self, *, on_clusters: bool) -> None:
        world = Restarted(on_clusters=on_clusters)
        world.service.wake(world.now, LATER)
        assert ended(world.read(None)) == {emit.key for emit in world.placed if emit.topic is PLACEMENTS}

    def test_so_does_one_that_was_waiting_when_the_partition_began(self, *, on_clusters: bool) -> None:
        world = Restarted(on_clusters=on_clusters)
        tombstone = world.record(RESOURCES, web(1).key, None)
        assert world.service.catch_up(world.now, [tombstone], LATER) == []
        gone = ended(world.service.wake(world.now, LATER))
        assert gone == {emit.key for emit in world.placed if emit.topic is PLACEMENTS}

    def test_it_ends_when_nothing_comes(self, *, on_clusters: bool) -> None:
        world = Restarted(on_clusters=on_clusters)
        world.service.wake(world.now, LATER)
        end = world.service.next_wake(world.now)
        assert end == LATER + PATIENCE
        assert ended(world.service.wake(world.now, end)) == {
            emit.key for emit in world.placed if emit.topic is PLACEMENTS
        }

    def test_old_records_that_come_late_put_the_end_off(self, *, on_clusters: bool) -> None:
        world = Restarted(on_clusters=on_clusters)
        world.service.wake(world.now, LATER)
        late = LATER + PATIENCE - timedelta(seconds=1)
        config = declared(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "other", "uid": "c"}}
        )
        world.service.process(world.now, [world.record(RESOURCES, config.key, config)], late, fresh=True)
        assert ended(world.service.wake(world.now, LATER + PATIENCE)) == set()
        assert ended(world.service.wake(world.now, late + PATIENCE)) != set()
