"""Each filter's and prioritizer's word on each target is what the decision was made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.scheduling import nodes_reference as reference
from tests.unit.scheduling.nodes_reference import Bound
from tests.unit.scheduling.test_nodes import BOUND, NODES, ask, filled, shape, shapes

from moorage.core.apimachinery.quantities import amount_text
from moorage.core.scheduling.karmada.fleet import ClusterFleet, ClusterInfo
from moorage.core.scheduling.karmada.plugin import ClusterRequest
from moorage.core.scheduling.karmada.scheduler import ClusterScheduler
from moorage.core.scheduling.karmada.verdicts import ClusterVerdicts
from moorage.core.scheduling.nodes.fleet import Fleet, NodeFacts
from moorage.core.scheduling.nodes.plugin import PodRequest
from moorage.core.scheduling.nodes.scheduler import NodeScheduler
from moorage.core.scheduling.nodes.shape import PodShape
from moorage.core.scheduling.nodes.verdicts import ONE_NODE, NodeVerdicts
from moorage.core.taints.desired.cluster_affinity import ClusterFacts, objections, selects
from moorage.core.taints.dialects.kubernetes import KUBERNETES
from moorage.core.taints.matching import fits
from moorage.core.taints.tolerations import judge_taints, toleration_text
from moorage_schemas.resources.policies import ClusterAffinity, Placement
from moorage_schemas.taint import Taint, Toleration

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@given(NODES, shapes(), BOUND, st.booleans(), st.booleans())
@settings(max_examples=200, deadline=None)
def test_a_node_fits_if_and_only_if_all_filters_pass_and_the_best_is_chosen(
    nodes: tuple[NodeFacts, ...],
    pod: PodShape,
    bound: list[Bound],
    replica: bool,  # noqa: FBT001 - drawn by hypothesis
    alone: bool,  # noqa: FBT001 - drawn by hypothesis
) -> None:
    fleet = filled(nodes, bound)
    scheduler = NodeScheduler(fleet)
    request = replace(ask(fleet, pod, bound, replica=replica), now=NOW)
    only = nodes[0].name if alone and nodes else None
    decision = scheduler.decide(request, only=only)
    verdicts = NodeVerdicts(scheduler, request, only=only)
    assert verdicts.considered == decision.considered
    assert [(one.filter, one.reason, one.count) for one in verdicts.reasons] == [
        (one.filter, one.reason, one.count) for one in decision.filters
    ]
    assert list(verdicts.ranked[: len(decision.scores)]) == [one.target for one in decision.scores]
    by_name = {node.name: node for node in nodes}
    totals = reference.totals(pod, by_name, bound, replica=replica)
    assert sorted(verdicts.names()) == sorted(by_name)
    for name, node in by_name.items():
        found = verdicts.verdict(name)
        if only is None:
            assert found.passed == (not reference.reasons(pod, node, bound)) == (name in verdicts.ranked)
            assert {one.prioritizer: one.points for one in found.scores} == totals.get(name, {})
        else:
            assert found.passed == (name in verdicts.ranked)
            assert (found.filters[0].filter == ONE_NODE) == (name != only)
        assert (found.rank is not None) == found.passed
        taints = next(one for one in found.filters if one.filter == "TaintToleration")
        assert taints.passed != any("nothing tolerates" in detail for detail in taints.details)
        affinity = next(one for one in found.filters if one.filter == "NodeAffinity")
        assert affinity.passed != any("fails" in one or "no terms" in one for one in affinity.details)
    if decision.target is not None:
        chosen = verdicts.verdict(decision.target)
        assert chosen.rank == 1
        assert chosen.total == max(verdicts.verdict(name).total or 0 for name in verdicts.ranked)
    for score in decision.scores:
        assert {one.prioritizer: one.points for one in verdicts.verdict(score.target).scores} == score.scores


def verdicts_of(fleet: Fleet, pod: PodShape, now: datetime = NOW) -> NodeVerdicts:
    return NodeVerdicts(NodeScheduler(fleet), replace(ask(fleet, pod), now=now))


def details(verdicts: NodeVerdicts, node: str, by: str) -> tuple[str, ...]:
    return next(one.details for one in verdicts.verdict(node).filters if one.filter == by)


def test_what_is_short_is_told_with_its_amounts() -> None:
    fleet = Fleet()
    fleet.put(NodeFacts("a", allocatable={"cpu": 2000, "memory": 2**30, "pods": 1}))
    fleet.put(NodeFacts("b"))
    fleet.take("a", [("cpu", 1500)])
    asked = {"requests": {"cpu": "1", "memory": "512Mi", "example.com/gpu": "1"}}
    found = verdicts_of(fleet, shape(containers=[{"name": "c", "resources": asked}]))
    assert details(found, "a", "NodeResourcesFit") == (
        "cpu: 1 requested, 500m of 2 left",
        "example.com/gpu: 1 requested, 0 of 0 left",
        "memory: 512Mi requested, 1Gi of 1Gi left",
        "pods: 1 requested, 0 of 1 left",
    )
    assert "cpu: 1 requested, the node sets no limit" in details(found, "b", "NodeResourcesFit")
    against = found.verdict("a").against
    assert against is not None
    assert against.reasons == ("Too many pods", "Insufficient cpu", "Insufficient example.com/gpu")


def test_which_selector_fails_is_told() -> None:
    fleet = Fleet()
    fleet.put(NodeFacts("a", labels={"disk": "hdd"}))
    fleet.put(NodeFacts("b", labels={"disk": "ssd", "gpu": "yes"}))
    terms = [
        {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["c"]}]},
        {},
    ]
    node = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    found = verdicts_of(fleet, shape(nodeSelector={"disk": "ssd", "zone": "z"}, affinity={"nodeAffinity": node}))
    assert details(found, "a", "NodeAffinity") == (
        "nodeSelector disk=ssd fails: it is 'hdd'",
        "nodeSelector zone=z fails: the label is missing",
        "required node affinity: term 0 fails: gpu Exists (the label is missing)",
        "required node affinity: term 1 fails: metadata.name In [c] (it is 'a')",
        "required node affinity: term 2 fails: it is empty, so it selects no node",
    )
    assert details(found, "b", "NodeAffinity")[0] == "nodeSelector disk=ssd matches"
    assert details(found, "b", "NodeAffinity")[-1] == "required node affinity: term 0 matches"


def test_what_each_score_rests_on_is_told() -> None:
    fleet = Fleet()
    zone = {"topology.kubernetes.io/zone": "z"}
    disliked = Taint(key="k", effect="PreferNoSchedule")
    fleet.put(NodeFacts("a", labels={**zone, "disk": "ssd"}, allocatable={"cpu": 2000, "memory": 2**30}))
    fleet.put(NodeFacts("b", labels=zone, taints=(disliked,)))
    fleet.take("a", [("cpu", 500), ("memory", 2**29)])
    preferred = [{"weight": 5, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}]
    node = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
    asked = {"requests": {"cpu": "1", "memory": "256Mi"}}
    pod = shape(affinity={"nodeAffinity": node}, containers=[{"name": "c", "resources": asked}])
    rows = np.array([fleet.row_of("a"), fleet.row_of("a"), fleet.row_of("b")])
    request = PodRequest(pod, owner="o", replica_rows=rows, spread=True, now=NOW)
    found = NodeVerdicts(NodeScheduler(fleet), request)
    told = {name: {one.prioritizer: one.details for one in found.verdict(name).scores} for name in ("a", "b")}
    assert told["a"] == {
        "NodeAffinity": ("preferred term 0, weight 5, matches",),
        "NodeResourcesFit": ("cpu: 500m of 2 would be free", "memory: 256Mi of 1Gi would be free"),
        "PodTopologySpread": ("replicas in zone z: 3", "replicas on the node: 2"),
        "TaintToleration": (),
    }
    assert told["b"] == {
        "NodeAffinity": ("preferred term 0, weight 5, does not match",),
        "NodeResourcesFit": (
            "cpu: the node sets no limit, so all of it counts as free",
            "memory: the node sets no limit, so all of it counts as free",
        ),
        "PodTopologySpread": ("replicas in zone z: 3", "replicas on the node: 1"),
        "TaintToleration": ("nothing tolerates k:PreferNoSchedule",),
    }
    alone = NodeVerdicts(NodeScheduler(fleet), PodRequest(pod))
    assert next(one.details for one in alone.verdict("a").scores if one.prioritizer == "PodTopologySpread") == ()


def test_a_cordon_and_a_tolerated_time_are_told() -> None:
    fleet = Fleet()
    fleet.put(NodeFacts("a", unschedulable=True, taints=(Taint(key="k", effect="NoExecute", time_added=NOW),)))
    patient = shape(tolerations=[{"key": "k", "operator": "Exists", "tolerationSeconds": 10}])
    found = verdicts_of(fleet, patient, NOW + timedelta(seconds=10))
    assert details(found, "a", "NodeUnschedulable") == ("spec.unschedulable is set",)
    over = "k:NoExecute is tolerated by {k op=Exists for 10s}, until 2026-01-01T00:00:10Z"
    assert details(found, "a", "TolerationOver") == (f"{over}, which is over",)
    assert details(verdicts_of(fleet, patient), "a", "TolerationOver") == (f"{over}, which is still to come",)
    brave = shape(tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}])
    told = details(verdicts_of(fleet, brave), "a", "NodeUnschedulable")
    assert told == ("spec.unschedulable is set, tolerated by {node.kubernetes.io/unschedulable op=Exists}",)
    assert details(verdicts_of(fleet, brave), "a", "TolerationOver") == (), "the taint rules it out anyway"


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 0, "0"),
        ("cpu", 2000, "2"),
        ("cpu", 2500, "2500m"),
        ("memory", 0, "0"),
        ("memory", 2**20 * 3, "3Mi"),
        ("memory", 1000, "1000"),
        ("hugepages-2Mi", 2**21, "2Mi"),
        ("example.com/gpu", 2048, "2048"),
    ],
)
def test_amounts_are_written_as_people_write_them(resource: str, amount: int, text: str) -> None:
    assert amount_text(resource, amount) == text


TAINT = st.builds(
    Taint,
    key=st.sampled_from(["a", "b"]),
    value=st.sampled_from(["", "1", "2"]),
    effect=st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"]),
    time_added=st.just(NOW),
)
TOLERATION = st.builds(
    Toleration,
    key=st.sampled_from(["a", "b", ""]),
    operator=st.sampled_from(["", "Equal", "Exists", "Gt", "Lt"]),
    value=st.sampled_from(["", "1", "2"]),
    effect=st.sampled_from(["", "NoSchedule", "NoExecute"]),
    toleration_seconds=st.sampled_from([None, None, -1, 30]),
)


@given(st.lists(TAINT, max_size=4), st.lists(TOLERATION, max_size=4))
def test_judged_taints_agree_with_the_filter(taints: list[Taint], tolerations: list[Toleration]) -> None:
    judged = judge_taints(taints, tolerations, KUBERNETES)
    assert [one.taint for one in judged] == taints
    against = [one for one in judged if one.keeps_away and one.toleration is None]
    assert fits(taints, tolerations, KUBERNETES.filtering) == (not against)
    for one in judged:
        assert (one.toleration is None) == str(one).startswith("nothing tolerates ")
        assert one.until is None or (one.evicts and one.until >= NOW)


@pytest.mark.parametrize(
    ("toleration", "why"),
    [
        (Toleration(key="k", operator="Exists", effect="NoExecute"), "is for NoExecute only"),
        (Toleration(key="k", value="other"), "asks for the value 'other'"),
        (Toleration(key="k", operator="Gt", value="5"), "asks for a value above 5"),
        (Toleration(key="k", operator="Lt", value="5"), "asks for a value below 5"),
    ],
)
def test_what_is_wrong_with_the_nearest_toleration_is_told(toleration: Toleration, why: str) -> None:
    (one,) = judge_taints([Taint(key="k", value="v", effect="NoSchedule")], [toleration], KUBERNETES)
    assert str(one) == f"nothing tolerates k=v:NoSchedule ({{{toleration_text(toleration)}}} {why})"


# Clusters.

CLUSTERS = st.lists(
    st.builds(
        ClusterInfo,
        facts=st.builds(
            ClusterFacts,
            name=st.sampled_from(["c1", "c2", "c3", "c4"]),
            labels=st.sampled_from([{}, {"tier": "gold"}, {"tier": "tin"}]),
            provider=st.sampled_from(["", "p"]),
            region=st.sampled_from(["", "north", "south"]),
            zones=st.sampled_from([(), ("z1",), ("z1", "z2")]),
        ),
        taints=st.lists(TAINT, max_size=2, unique_by=lambda taint: taint.identity).map(tuple),
        kinds=st.sampled_from([None, frozenset({("v1", "X")}), frozenset({("v1", "Y")})]),
        free=st.sampled_from([None, {"cpu": 1000, "pods": 3}, {"cpu": 0}]),
    ),
    unique_by=lambda one: one.name,
    max_size=4,
)
WISH = st.sampled_from(
    [
        {"key": "region", "operator": "In", "values": ["north"]},
        {"key": "zone", "operator": "NotIn", "values": ["z2"]},
        {"key": "provider", "operator": "Exists"},
    ]
)
AFFINITY = st.fixed_dictionaries(
    {},
    optional={
        "clusterNames": st.lists(st.sampled_from(["c1", "c2", "c3"]), max_size=2),
        "exclude": st.lists(st.sampled_from(["c1", "c4"]), max_size=1),
        "labelSelector": st.sampled_from(
            [{"matchLabels": {"tier": "gold"}}, {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}]
        ),
        "fieldSelector": st.lists(WISH, max_size=2).map(lambda wishes: {"matchExpressions": wishes}),
    },
)
PLACEMENT = st.fixed_dictionaries(
    {},
    optional={
        "clusterAffinity": AFFINITY,
        "clusterAffinities": st.lists(AFFINITY, min_size=1, max_size=2).map(
            lambda some: [{**one, "affinityName": f"g{at}"} for at, one in enumerate(some)]
        ),
        "clusterTolerations": st.sampled_from(
            [[{"key": "a", "operator": "Exists", "tolerationSeconds": 0}], [{"operator": "Exists"}]]
        ),
        "spreadConstraints": st.sampled_from(
            [
                [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
                [{"spreadByField": "region", "minGroups": 2, "maxGroups": 2}],
                [{"spreadByField": "cluster", "minGroups": 3}],
            ]
        ),
        "replicaScheduling": st.sampled_from(
            [
                {"replicaSchedulingType": "Duplicated"},
                {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"},
                {
                    "replicaSchedulingType": "Divided",
                    "replicaDivisionPreference": "Weighted",
                    "weightPreference": {"dynamicWeight": "AvailableReplicas"},
                },
            ]
        ),
    },
)


def fleet_of(clusters: Sequence[ClusterInfo]) -> ClusterFleet:
    fleet = ClusterFleet()
    for one in clusters:
        fleet.put(one)
    return fleet


def request(placement: Mapping[str, Any], **changes: Any) -> ClusterRequest:
    given_out = {"key": repr(placement), "api_version": "v1", "kind": "X", "now": NOW, **changes}
    return ClusterRequest(placement=Placement.model_validate(placement), **given_out)


@given(
    CLUSTERS,
    PLACEMENT,
    st.integers(0, 4),
    st.dictionaries(st.sampled_from(["c1", "c2"]), st.integers(1, 2)),
    st.sampled_from([frozenset(), frozenset({"c3"})]),
)
@settings(max_examples=300, deadline=None)
def test_a_cluster_fits_if_and_only_if_all_filters_pass(
    clusters: list[ClusterInfo],
    placement: dict[str, Any],
    replicas: int,
    existing: dict[str, int],
    leaving: frozenset[str],
) -> None:
    scheduler = ClusterScheduler(fleet_of(clusters))
    asked = request(placement, replicas=replicas, existing=existing, leaving=leaving, requests=(("cpu", 500),))
    decision = scheduler.decide(asked)
    verdicts = ClusterVerdicts(scheduler, asked)
    assert verdicts.decision == decision
    assert [(one.filter, one.reason, one.count) for one in verdicts.reasons] == [
        (one.filter, one.reason, one.count) for one in decision.filters
    ]
    assert decision.fits == bool(verdicts.ranked)
    assert list(verdicts.ranked[: len(decision.scores)]) == [one.target for one in decision.scores]
    assert list(verdicts.names())[: len(verdicts.ranked)] == list(verdicts.ranked)
    targets = decision.targets or {}
    for one in clusters:
        found, share = verdicts.verdict(one.name), verdicts.share(one.name)
        assert found.passed == (one.name in verdicts.ranked) == (share is not None)
        if share is not None:
            assert share.replicas == targets.get(one.name)
            assert share.replicas is None or share.chosen
        else:
            assert one.name not in targets
        affinity = next(by for by in found.filters if by.filter == "ClusterAffinity")
        assert affinity.passed == (not affinity.details)


def test_whether_a_resource_is_there_already_is_told() -> None:
    clusters = [ClusterInfo(ClusterFacts(name, labels={})) for name in ("a", "b")]
    found = ClusterVerdicts(ClusterScheduler(fleet_of(clusters)), request({}, existing={"b": 1}))
    assert {name: [one.details for one in found.verdict(name).scores] for name in ("a", "b")} == {
        "a": [("the resource is not there",)],
        "b": [("the resource is there already",)],
    }


@given(CLUSTERS, AFFINITY)
def test_the_parts_of_an_affinity_that_fail_are_those_for_which_it_does_not_select(
    clusters: list[ClusterInfo], spec: dict[str, Any]
) -> None:
    affinity = ClusterAffinity.model_validate(spec)
    for one in clusters:
        assert selects(affinity, one.facts) == (not list(objections(affinity, one.facts)))
        assert not list(objections(None, one.facts))
