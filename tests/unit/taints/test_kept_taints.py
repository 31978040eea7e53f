"""Taints of targets whose own cluster decides on them: a bridge acts there, but not on taints."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from moorage.decide.taints.desired.from_conditions import Holds
from moorage.decide.taints.desired.taint_policies import TaintingPolicy
from moorage.decide.taints.desired.taint_reconciliation import TaintRules, reconcile_taints
from moorage_schemas.condition import ConditionChanged, ConditionStatus
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import Mirrored, ResourceDeclared, TaintWish
from moorage_schemas.resources.policies import MatchCondition
from moorage_schemas.taint import Taint, TargetTainted

T0 = datetime(2026, 1, 1, tzinfo=UTC)
SOURCE = "bridge/east"
OF_STATE = {
    "Node": ("Ready", "node.kubernetes.io/not-ready", "NoExecute"),
    "Cluster": ("Ready", "cluster.karmada.io/not-ready", "NoSchedule"),
    "ManagedCluster": (
        "ManagedClusterConditionAvailable",
        "cluster.open-cluster-management.io/unavailable",
        "NoSelect",
    ),
}
"""By kind of target: the condition from which a taint follows, its key and effect."""

POLICY = TaintingPolicy(
    name="p",
    created=T0,
    add=(
        MatchCondition.model_validate(
            {"conditionType": "Ready", "operator": "In", "statusValues": ["True", "False", "Unknown"]}
        ),
    ),
    taints=(Taint(key="of-policy", effect="NoSchedule"),),
)


def target(kind: str, *wishes: TaintWish, keeps: bool = True, **spec: object) -> ResourceDeclared:
    document = {"kind": kind, "metadata": {"name": "t", "uid": "u"}, "spec": spec}
    mirrored = Mirrored(source=SOURCE, keeps_taints=keeps)
    return ResourceDeclared(object=document, version=1, wishes=wishes, mirrored=mirrored)


def edit(generation: int, key: str, effect: str, *, present: bool = True) -> TaintWish:
    time = T0 + timedelta(seconds=generation)
    return TaintWish(key=key, effect=effect, present=present, generation=generation, time=time, actor=SOURCE)


def condition(kind: str, status: str = "False") -> dict[str, ConditionChanged]:
    name = OF_STATE[kind][0]
    return {
        name: ConditionChanged(
            target=TargetRef(kind=TargetKind(kind), name="t"),
            target_uid="u",
            type=name,
            status=ConditionStatus(status),
            last_transition_time=T0,
            last_heartbeat_time=T0,
            generation=1,
        )
    }


def keys(event: TargetTainted | None) -> list[str]:
    assert event is not None
    return [one.key for one in event.taints]


@pytest.mark.parametrize("kind", OF_STATE)
@pytest.mark.parametrize("status", ["True", "False", "Unknown", None])
@pytest.mark.parametrize("hold", [0, 60])
def test_neither_its_state_nor_a_policy_gives_it_taints(kind: str, status: str | None, hold: int) -> None:
    found = condition(kind, status) if status is not None else {}
    spec = {"unschedulable": True} if kind == "Node" else {}
    rules = TaintRules(holds=Holds(add=timedelta(seconds=hold)), policies=True, no_execute_policies=True)
    decided = reconcile_taints(None, target(kind, **spec), found, T0, rules=rules, policies=(POLICY,), evaluate=True)
    assert keys(decided.event) == []
    assert decided.event is not None
    assert (decided.event.held, decided.due) == ((), None)


@pytest.mark.parametrize("kind", OF_STATE)
def test_what_its_cluster_gives_it_counts_although_its_state_does_not_demand_it(kind: str) -> None:
    _, key, effect = OF_STATE[kind]
    first = reconcile_taints(None, target(kind, edit(1, key, effect)), condition(kind, "True"), T0).event
    assert keys(first) == [key]
    assert first is not None
    assert first.taints[0].time_added == T0 + timedelta(seconds=1)
    gone = target(kind, edit(2, key, effect, present=False))
    assert keys(reconcile_taints(first, gone, condition(kind), T0).event) == []


@pytest.mark.parametrize("kind", OF_STATE)
def test_moorage_decides_when_its_bridge_begins_to_act_on_taints_and_no_more_when_it_ends(kind: str) -> None:
    _, key, effect = OF_STATE[kind]
    now = T0 + timedelta(seconds=100)
    own = reconcile_taints(None, target(kind, keeps=False), condition(kind), now).event
    mine = set(keys(own))
    assert mine <= {key} or kind == "Node"  # a taint of a node that evicts waits for the governor
    kept = reconcile_taints(own, target(kind), condition(kind), now).event
    assert keys(kept) == []
    there = reconcile_taints(kept, target(kind, edit(1, key, effect)), condition(kind), now).event
    assert keys(there) == [key]
    # Now the bridge sends it no more as one of the cluster's own.
    again = reconcile_taints(
        there, target(kind, edit(2, key, effect, present=False), keeps=False), condition(kind), now
    ).event
    assert set(keys(again)) == mine


def test_taints_of_policies_end_where_the_cluster_decides() -> None:
    rules = TaintRules(policies=True)
    own = reconcile_taints(
        None,
        target("Cluster", keeps=False),
        condition("Cluster", "True"),
        T0,
        rules=rules,
        policies=(POLICY,),
        evaluate=True,
    ).event
    assert keys(own) == ["of-policy"]
    kept = reconcile_taints(own, target("Cluster"), condition("Cluster", "True"), T0, rules=rules, policies=(POLICY,))
    assert keys(kept.event) == []
