"""A hub whose own controllers decide on taints: when what was seen of a cluster is in the topics."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.records import T0

from moorage.bridges.engine.silence import Leases
from moorage.bridges.ocm.hub import CLUSTER, HubState
from moorage.bridges.ocm.hub_bridge import HubObservations
from moorage.bridges.ocm.hub_tables import HubTables
from moorage.runtime.service import Input
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import Mirrored, ResourceDeclared, TaintWish
from moorage_schemas.taint import TaintOrigin, TaintRecord, TargetTainted
from moorage_schemas.topics import RESOURCES, TAINTS, Topic

UNAVAILABLE = "cluster.open-cluster-management.io/unavailable"


class Hub:
    """A cluster on a hub, without any condition, and the topics about it."""

    def __init__(self, *taints: str) -> None:
        self.tables = HubTables(lambda _kind, _name: None)
        self.state = HubState(lambda _kind, _key: None, lambda *_: False)
        self.state.keeps_taints = True
        there = [{"key": key, "effect": "NoSelect"} for key in taints]
        self.state.put(
            CLUSTER,
            {
                "apiVersion": "cluster.open-cluster-management.io/v1",
                "metadata": {"name": "c1", "uid": "u1"},
                "spec": {"taints": there},
            },
        )
        self.observations = HubObservations(
            "bridge/ocm", self.state, self.tables, Leases(60), lambda _key, uid: uid == "u1"
        )
        self.offset = 0

    def is_settled(self) -> bool:
        return self.observations.is_settled(self.state.targets["c1"])

    def write(self, topic: Topic, key: str, event: Model) -> None:
        self.offset += 1
        self.tables.apply(Input(topic, 0, self.offset, key, event, Meta(id="e", source="t", type=topic.event_type)))

    def recorded(self, *wished: str) -> None:
        found: dict[str, Any] = {"kind": CLUSTER, "metadata": {"name": "c1", "uid": "u1"}, "spec": {}}
        wishes = tuple(
            TaintWish(key=key, effect="NoSelect", present=True, generation=1, time=T0, actor="ann") for key in wished
        )
        mirrored = Mirrored(source="bridge/ocm", keeps_taints=True)
        event = ResourceDeclared(object=found, version=1, wishes=wishes, mirrored=mirrored)
        self.write(RESOURCES, event.key, event)

    def tainted(self, *keys: str, uid: str = "u1") -> None:
        target = TargetRef(kind=TargetKind.MANAGED_CLUSTER, name="c1")
        records = tuple(
            TaintRecord(key=key, effect="NoSelect", time_added=T0, origins=(TaintOrigin.EXPLICIT,)) for key in keys
        )
        self.write(TAINTS, target.key, TargetTainted(target=target, target_uid=uid, generation=1, taints=records))


def test_the_taints_on_the_hub_are_mirrored_whatever_they_follow_from() -> None:
    hub = Hub(UNAVAILABLE, "gpu")
    found = hub.state.object("ManagedCluster//c1")
    assert found is not None
    assert [one["key"] for one in found["spec"]["taints"]] == [UNAVAILABLE, "gpu"]


@pytest.mark.parametrize("there", [(), ("gpu",), (UNAVAILABLE, "gpu")])
def test_a_cluster_counts_when_the_topics_have_its_taints(there: tuple[str, ...]) -> None:
    hub = Hub(*there)
    assert not hub.is_settled(), "nothing is known of it"
    hub.recorded("mine")
    hub.tainted("before", *there)
    assert not hub.is_settled(), "a taint is still to go"
    hub.tainted(*there, uid="u0")
    assert not hub.is_settled(), "they are those of an earlier cluster of its name"
    hub.tainted(*there)
    assert hub.is_settled()
    hub.tainted("mine", *there)
    assert hub.is_settled(), "a user of the gateway has added one"
    if there:
        hub.tainted(*there[1:])
        assert not hub.is_settled()
