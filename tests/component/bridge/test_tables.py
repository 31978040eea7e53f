"""What a bridge knows from the topics, in whatever order they are read."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.component.bridge.cluster import node, pod
from tests.component.bridge.topics import Topics, a_taint, tables, target, workload
from tests.support.records import T0
from tests.support.tables import table

from moorage.bridges.kubernetes.cluster_tables import DecidedTables
from moorage.runtime.service import Input
from moorage_schemas.eviction import EvictionState
from moorage_schemas.keys import binding_key, condition_key, eviction_key
from moorage_schemas.resource import TaintWish
from moorage_schemas.taint import TaintOrigin
from moorage_schemas.topics import BINDINGS, CONDITIONS, EVICTIONS, PLACEMENTS, RESOURCES, TAINTS, Topic

NODE_UID, POD_UID = "u-node", "u-pod"


def everything(cluster: str = "") -> list[Input]:
    """A record of each topic about a node and a pod."""
    topics = Topics()
    topics.declare({**node("n1", uid=NODE_UID), "kind": "Node"}, cluster=cluster)
    topics.declare({**pod("web", uid=POD_UID), "kind": "Pod"}, cluster=cluster)
    topics.taint("n1", a_taint("broken"), uid=NODE_UID, cluster=cluster)
    topics.condition("n1", "Disk", uid=NODE_UID, cluster=cluster)
    topics.bind("web", POD_UID, "n1", cluster=cluster)
    topics.evict("web", POD_UID, "n1", cluster=cluster)
    topics.health("web", POD_UID, "n1", cluster=cluster)
    return list(topics.records.values())


def knows(found: DecidedTables) -> dict[str, Any]:
    prefix = found._prefix
    key = f"{prefix}Pod/default/web"
    own = found.own_taints("n1", NODE_UID)
    return {
        "taints": [one.key for one in own] if own is not None else None,
        "conditions": sorted(found.conditions.get("n1", {})),
        "binding": found.binding_of(key, POD_UID),
        "eviction": found.eviction_of(key, POD_UID),
        "health": sorted(found.health.get(key, {})),
        "resources": sorted(found.resources),
    }


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_pod_that_moves_belongs_where_it_was_bound_last(order: tuple[int, int]) -> None:
    """The end of its first binding comes through another partition."""
    topics = Topics()
    topics.bind("web", POD_UID, "n1", generation=1)
    topics.bind("web", POD_UID, "n2", generation=2)
    records, found = list(topics.records.values()), tables()
    for number in order:
        found.apply(records[number])
    binding = found.binding_of("Pod/default/web", POD_UID)
    assert binding is not None
    assert binding.target == "n2"


@given(st.permutations(range(7)))
def test_topics_may_be_read_in_any_order(order: list[int]) -> None:
    records = everything()
    one, other = tables(), tables()
    for record in records:
        one.apply(record)
    for number in order:
        other.apply(records[number])
    assert knows(one) == knows(other)
    assert None not in knows(one).values()


@pytest.mark.parametrize(("mine", "theirs"), list(itertools.permutations(["", "east", "west"], 2)))
def test_keys_of_other_clusters_are_not_wanted(mine: str, theirs: str) -> None:
    found = tables(mine)
    assert all(found.wants(one.topic, one.key) for one in everything(mine))
    assert not any(found.wants(one.topic, one.key) for one in everything(theirs))


@pytest.mark.parametrize(
    ("topic", "key"),
    [
        (TAINTS, "Cluster/member1"),
        (CONDITIONS, "ManagedCluster/c1|HubAcceptedManagedCluster"),
        (BINDINGS, "ResourceBinding/shop/web-deployment|Cluster/member1"),
        (PLACEMENTS, "Placement/pool/web"),
        (EVICTIONS, "ResourceBinding/shop/web|Cluster/member1|1"),
    ],
)
def test_other_kinds_are_not_wanted(topic: Topic, key: str) -> None:
    assert not tables().wants(topic, key)


def test_tombstones_end_what_they_name_and_nothing_else() -> None:
    topics, told = Topics(), list[tuple[str, str]]()
    found = tables(touched=lambda kind, key: told.append((kind, key)))
    topics.follow(found)
    for record in everything():
        topics.write(record.topic, record.key, record.event)
    topics.bind("web", POD_UID, "n2", generation=2)
    topics.evict("web", POD_UID, "n1", generation=2)
    what = workload("web")
    told.clear()
    topics.write(BINDINGS, binding_key(what, target("n1")), None)
    assert found.bound["Pod/default/web"].keys() == {"n2"}
    topics.write(EVICTIONS, eviction_key(what, target("n1"), 1), None)
    left = found.eviction_of("Pod/default/web", POD_UID)
    assert left is not None
    assert left.generation == 2
    topics.write(EVICTIONS, eviction_key(what, target("n1"), 2), None)
    topics.write(BINDINGS, binding_key(what, target("n2")), None)
    topics.write(CONDITIONS, condition_key(target("n1"), "Disk"), None)
    topics.write(TAINTS, "Node/n1", None)
    topics.write(RESOURCES, "Pod/default/web", None)
    topics.write(RESOURCES, "Node//n1", None)
    assert (found.bound, found.evictions, found.conditions, found.taints, found.resources) == ({}, {}, {}, {}, {})
    assert {("Pod", "Pod/default/web"), ("Node", "n1")} == set(told)
    told.clear()
    topics.write(TAINTS, "Node/unknown", None)
    topics.write(BINDINGS, "Pod/default/unknown|Node/n1", None)
    topics.write(CONDITIONS, "Node/unknown|Ready", None)


def test_an_eviction_counts_while_it_is_requested() -> None:
    topics, found = Topics(), tables()
    topics.follow(found)
    for state in EvictionState:
        topics.evict("web", POD_UID, "n1", state=state)
        is_requested = state is EvictionState.REQUESTED
        assert (found.eviction_of("Pod/default/web", POD_UID) is not None) is is_requested
        assert found.eviction_of("Pod/default/web", "u-another") is None


def wish(key: str, actor: str, *, present: bool = True) -> TaintWish:
    return TaintWish(key=key, effect="NoExecute", present=present, generation=1, time=T0, actor=actor)


@table(
    ("origins", "wishes", "is_own"),
    [
        ([TaintOrigin.CONDITION], [], True),
        ([TaintOrigin.POLICY], [], True),
        ([TaintOrigin.SYSTEM], [], True),
        ([TaintOrigin.EXPLICIT], [wish("broken", "alice")], True),
        ([TaintOrigin.EXPLICIT], [wish("broken", "bridge/home")], False),
        ([TaintOrigin.EXPLICIT], [], False),
        ([TaintOrigin.EXPLICIT], [wish("broken", "alice", present=False)], False),
        ([TaintOrigin.EXPLICIT], [wish("other", "alice")], False),
        ([TaintOrigin.EXPLICIT, TaintOrigin.POLICY], [wish("broken", "bridge/home")], True),
    ],
)
def test_whose_taint_it_is(origins: list[TaintOrigin], wishes: list[TaintWish], is_own: bool) -> None:  # noqa: FBT001 - a column of the table
    topics, found = Topics(), tables()
    topics.follow(found)
    topics.declare({**node("n1", uid=NODE_UID), "kind": "Node"}, wishes=wishes)
    topics.taint("n1", a_taint("broken").model_copy(update={"origins": tuple(sorted(origins))}), uid=NODE_UID)
    own = found.own_taints("n1", NODE_UID)
    assert own is not None
    assert [one.key for one in own] == (["broken"] if is_own else [])


def test_nothing_is_known_of_a_node_until_both_topics_have_this_one() -> None:
    """Otherwise the taints of an earlier node of that name would be given to it, or its own taken away."""
    topics, found = Topics(), tables()
    topics.follow(found)
    assert found.own_taints("n1", NODE_UID) is None
    topics.taint("n1", a_taint("broken"), uid="u-earlier")
    assert found.own_taints("n1", NODE_UID) is None
    topics.declare({**node("n1", uid=NODE_UID), "kind": "Node"})
    assert found.own_taints("n1", NODE_UID) is None
    topics.taint("n1", uid=NODE_UID)
    assert found.own_taints("n1", NODE_UID) == ()
    topics.declare({**node("n1", uid="u-later"), "kind": "Node"})
    assert found.own_taints("n1", NODE_UID) is None
    assert found.own_taints("n1", "u-later") is None
