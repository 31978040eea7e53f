"""Filter → score → spread → divide over Karmada clusters: single rules, and comparisons with plain models."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.tables import table

from moorage.decide.scheduling.karmada.fleet import ClusterFleet, ClusterInfo, FleetChange
from moorage.decide.scheduling.karmada.plugin import ClusterRequest
from moorage.decide.scheduling.karmada.replica_division import (
    Candidate,
    NotEnoughError,
    divide,
    room_for,
    static_weights,
    webster,
)
from moorage.decide.scheduling.karmada.scheduler import ClusterDecision, ClusterScheduler
from moorage.decide.scheduling.karmada.spread_constraints import (
    SpreadError,
    SpreadGroup,
    best_groups,
    choose,
    preference,
)
from moorage.decide.taints.desired.cluster_affinity import ClusterFacts
from moorage_schemas.resources.policies import ClusterPlacement
from moorage_schemas.taint import Taint

NOW = datetime(2026, 1, 1, tzinfo=UTC)
UIDS = ("", "a", "b", "uid-1")


def placement(**spec: Any) -> ClusterPlacement:
    return ClusterPlacement.model_validate(spec)


def divided(preference: str = "Weighted", dynamic: str = "", **weights: int) -> dict[str, Any]:
    """A `replicaScheduling` that divides by static weights, given by cluster name."""
    strategy: dict[str, Any] = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": preference}
    if dynamic:
        strategy["weightPreference"] = {"dynamicWeight": dynamic}
    elif weights:
        rules = [{"targetCluster": {"clusterNames": [name]}, "weight": weight} for name, weight in weights.items()]
        strategy["weightPreference"] = {"staticWeightList": rules}
    return {"replicaScheduling": strategy}


DYNAMIC = divided(dynamic="AvailableReplicas")
AGGREGATED = divided("Aggregated")


def spread(field: str = "cluster", least: int = 1, most: int = 0) -> dict[str, Any]:
    return {"spreadByField": field, "minGroups": least, "maxGroups": most}


def cluster(
    name: str, *, taints: Sequence[Taint] = (), labels: Mapping[str, str] | None = None, **facts: Any
) -> ClusterInfo:
    others = {part: facts.pop(part) for part in ("free", "kinds", "grades", "deleted") if part in facts}
    return ClusterInfo(ClusterFacts(name=name, labels=labels or {}, **facts), tuple(taints), **others)


def candidate(name: str, room: int, score: int = 0, had: int = 0, **facts: Any) -> Candidate:
    return Candidate(cluster(name, **facts), score, room, room + had)


def request(place: ClusterPlacement, **changes: Any) -> ClusterRequest:
    return ClusterRequest(**{"placement": place, "key": repr(place), "api_version": "v1", "kind": "X", **changes})


def decide(place: ClusterPlacement, *clusters: ClusterInfo, **changes: Any) -> ClusterDecision:
    fleet = ClusterFleet()
    for one in clusters:
        fleet.put(one)
    return ClusterScheduler(fleet).decide(request(place, **changes))


# Dividing.


def test_the_rules_are_found() -> None:
    assert [one.name for one in ClusterScheduler(ClusterFleet()).filters] == [
        "ClusterDeletion",
        "ClusterAffinity",
        "TaintToleration",
        "SpreadConstraint",
        "APIEnablement",
        "TolerationOver",
        "ClusterEviction",
    ]
    assert [one.name for one in ClusterScheduler(ClusterFleet()).prioritizers] == ["ClusterLocality"]


@table(
    ("seats", "votes", "expected"),
    [
        (4, {"alpha": 1200, "beta": 900, "gamma": 400}, {"alpha": 2, "beta": 1, "gamma": 1}),
        (9, {"a": 1, "b": 2}, {"a": 3, "b": 6}),
        (9, {"a": 1, "b": 3}, {"a": 2, "b": 7}),
        (0, {"a": 1, "b": 3}, {"a": 0, "b": 0}),
        (5, {"a": 0, "b": 3}, {"a": 0, "b": 5}),
        (2**31, {"a": 0, "b": 0}, {"a": 2**31, "b": 0}),
        (5, {}, {}),
        (2**31 - 1, {"a": 1, "b": 1}, {"a": 2**30, "b": 2**30 - 1}),
    ],
)
def test_seats_by_webster(seats: int, votes: dict[str, int], expected: dict[str, int]) -> None:
    assert webster(seats, votes) == expected


def naive_webster(seats: int, votes: dict[str, int], *, descending: bool) -> dict[str, int]:
    given_out = dict.fromkeys(votes, 0)
    for _ in range(seats):
        order = sorted(votes, reverse=descending)
        best = min(
            order, key=lambda name: (-votes[name] / (2 * given_out[name] + 1), given_out[name], order.index(name))
        )
        given_out[best] += 1
    return given_out


@given(
    seats=st.integers(0, 60),
    votes=st.dictionaries(st.sampled_from("abcdefg"), st.integers(1, 40), min_size=1),
    uid=st.sampled_from(UIDS),
)
def test_webster_is_what_handing_out_one_by_one_gives(seats: int, votes: dict[str, int], uid: str) -> None:
    got = webster(seats, votes, uid)
    either = [naive_webster(seats, votes, descending=turned) for turned in (False, True)]
    assert got in either
    assert sum(got.values()) == seats
    if not uid:
        assert got == either[0]


def test_the_uid_decides_who_of_equals_is_first() -> None:
    found = {tuple(sorted(webster(1, {"a": 1, "b": 1}, uid).items())) for uid in map(str, range(20))}
    assert len(found) == 2
    assert webster(1, {"a": 1, "b": 1}, "a") == {"a": 1, "b": 0}, "the FNV-1a hash of `a` is even"


def test_static_weights_are_the_highest_of_the_rules_and_equal_without_any() -> None:
    ones = [candidate("a", 0), candidate("b", 0, region="eu"), candidate("c", 0)]
    rules = {
        "replicaScheduling": {
            "weightPreference": {
                "staticWeightList": [
                    {"targetCluster": {"clusterNames": ["a", "b"]}, "weight": 1},
                    {
                        "targetCluster": {
                            "fieldSelector": {
                                "matchExpressions": [{"key": "region", "operator": "In", "values": ["eu"]}]
                            }
                        },
                        "weight": 4,
                    },
                ]
            }
        }
    }
    strategy = placement(**rules).replica_scheduling
    assert strategy is not None
    assert static_weights(ones, strategy.weight_preference) == {"a": 1, "b": 4}
    assert static_weights(ones[2:], strategy.weight_preference) == {"c": 1}
    assert divide(placement(**rules), ones, 10, {}, "") == {"a": 2, "b": 8}


def test_what_is_assigned_stays_when_more_is_asked_for_and_shrinks_in_proportion() -> None:
    ones = [candidate("a", 10), candidate("b", 30), candidate("c", 10)]
    assert divide(placement(**DYNAMIC), ones, 10, {}, "") == {"a": 2, "b": 6, "c": 2}
    assert divide(placement(**DYNAMIC), ones, 11, {"a": 8, "b": 2}, "") == {"a": 8, "b": 3}
    assert divide(placement(**DYNAMIC), ones, 5, {"a": 8, "b": 2}, "") == {"a": 4, "b": 1}
    assert divide(placement(**DYNAMIC), ones, 10, {"a": 8, "b": 2}, "") == {"a": 8, "b": 2}


def test_what_was_on_a_cluster_that_is_out_goes_to_the_others() -> None:
    ones = [candidate("b", 30), candidate("c", 10)]
    assert divide(placement(**DYNAMIC), ones, 10, {"a": 8, "b": 2}, "") == {"b": 8, "c": 2}


def test_aggregated_takes_as_few_clusters_as_have_room_those_in_use_first() -> None:
    ones = [candidate("a", 4), candidate("b", 6), candidate("c", 3)]
    assert divide(placement(**AGGREGATED), ones, 5, {}, "") == {"b": 5}
    assert divide(placement(**AGGREGATED), ones, 5, {"c": 3}, "") == {"c": 5}
    assert divide(placement(**AGGREGATED), ones, 9, {"c": 3}, "") == {"b": 4, "c": 5}
    assert divide(placement(**AGGREGATED), ones, 2, {"a": 3, "b": 3}, "") == {"a": 2}


def test_too_little_room_is_said() -> None:
    with pytest.raises(NotEnoughError, match="available replicas 7 are not enough"):
        divide(placement(**DYNAMIC), [candidate("a", 3), candidate("b", 4)], 8, {}, "")


STRATEGIES = st.sampled_from([{}, DYNAMIC, AGGREGATED, divided(), divided(a=1, b=3), divided(c=2, g=5)])
CANDIDATES = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 30), min_size=1).map(
    lambda rooms: [candidate(name, room) for name, room in sorted(rooms.items())]
)
EXISTING = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 12))


@given(spec=STRATEGIES, ones=CANDIDATES, replicas=st.integers(1, 60), had=EXISTING, uid=st.sampled_from(UIDS))
def test_division_adds_up_exactly(
    spec: dict[str, Any], ones: list[Candidate], replicas: int, had: dict[str, int], uid: str
) -> None:
    rooms = {one.name: one.allocatable for one in ones}
    kept = {name: count for name, count in had.items() if name in rooms}
    more = replicas - sum(kept.values())
    by_room = spec in (DYNAMIC, AGGREGATED)
    try:
        got = divide(placement(**spec), ones, replicas, had, uid)
    except NotEnoughError:
        assert by_room
        assert sum(rooms.values()) < more
        return
    assert got.keys() <= rooms.keys()
    assert all(count > 0 for count in got.values())
    if not spec:
        assert got == dict.fromkeys(rooms, replicas)
        return
    assert sum(got.values()) == replicas
    if by_room and more >= 0:
        for name, room in rooms.items():
            assert kept.get(name, 0) <= got.get(name, 0) <= kept.get(name, 0) + room
    elif by_room:
        assert all(count <= kept[name] for name, count in got.items())
    if more == 0 and by_room:
        assert got == kept


# Spreading.


@given(
    rooms=st.dictionaries(st.sampled_from("abcdefgh"), st.tuples(st.integers(0, 9), st.sampled_from([0, 100]))),
    least=st.integers(0, 5),
    most=st.integers(0, 5),
    replicas=st.integers(1, 30),
    spec=st.sampled_from([{}, DYNAMIC, AGGREGATED]),
)
def test_spreading_over_clusters_against_every_combination(
    rooms: dict[str, tuple[int, int]], least: int, most: int, replicas: int, spec: dict[str, Any]
) -> None:
    ones = sorted((candidate(name, room, score) for name, (room, score) in rooms.items()), key=preference)
    place = placement(spreadConstraints=[spread("cluster", least, most)], **spec)
    count = min(most or len(ones), len(ones))
    enough = not spec or any(sum(one.available for one in some) >= replicas for some in combinations(ones, count))
    if len(ones) < max(least, 1) or not enough:
        with pytest.raises(SpreadError):
            choose(place, ones, replicas)
        return
    got = choose(place, ones, replicas)
    assert len(got) == count == len({one.name for one in got})
    if not spec or sum(one.available for one in ones[:count]) >= replicas:
        assert got == ones[:count], "the best liked, while they have room"
    else:
        assert sum(one.available for one in got) >= replicas


def model_groups(groups: Sequence[SpreadGroup], least: int, most: int, clusters: int) -> tuple[str, ...]:
    """The best of all combinations that are sufficient, but not without their last group in the order of size."""
    ordered = sorted(groups, key=lambda one: (one.clusters, -one.score, one.name))

    def will_do(some: Sequence[SpreadGroup]) -> bool:
        return least <= len(some) <= most and sum(one.clusters for one in some) >= clusters

    places = range(len(ordered))
    found = sorted(
        some
        for length in range(1, len(ordered) + 1)
        for some in combinations(places, length)
        if will_do([ordered[i] for i in some])
        and not any(will_do([ordered[i] for i in some[:cut]]) for cut in range(1, length))
    )
    paths = [sorted((ordered[i] for i in some), key=lambda one: (-one.score, one.name)) for some in found]
    ranked = sorted(
        enumerate(paths),
        key=lambda item: (-sum(one.score for one in item[1]), -sum(one.clusters for one in item[1]), item[0]),
    )
    if not ranked:
        return ()
    best = ranked[0][1]
    for _, path in ranked[1:]:
        if len(path) < len(best) and best[: len(path)] == path:
            best = path
    return tuple(one.name for one in best)


@given(
    sizes=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3)), max_size=6),
    least=st.integers(1, 4),
    most=st.integers(1, 6),
    clusters=st.integers(1, 12),
)
def test_groups_are_chosen_as_by_looking_at_all(
    sizes: list[tuple[int, int]], least: int, most: int, clusters: int
) -> None:
    groups = [SpreadGroup(f"g{index}", size, score) for index, (size, score) in enumerate(sizes)]
    assert best_groups(groups, least, most, clusters) == model_groups(groups, least, most, clusters)


def test_many_groups_do_not_take_for_ever() -> None:
    groups = [SpreadGroup(f"g{index:03}", 1, index) for index in range(200)]
    assert len(best_groups(groups, 20, 40, 30)) == 30


@pytest.mark.parametrize("field", ["region", "zone", "provider"])
def test_one_cluster_of_each_group_then_the_best(field: str) -> None:
    def there(name: str, where: str, room: int) -> ClusterInfo:
        facts: dict[str, Any] = {"zones": (where,)} if field == "zone" else {field: where}
        return cluster(name, free={"pods": room}, **facts)

    clusters = [there("a1", "a", 5), there("a2", "a", 9), there("b1", "b", 1), there("c1", "c", 3), cluster("d1")]
    constraints = [spread(field, 2, 2), spread("cluster", 3, 3)]
    got = decide(placement(spreadConstraints=constraints), *clusters, replicas=1)
    assert got.targets == {"a1": 1, "a2": 1, "b1": 1}
    assert got.filters[0].targets == ("d1",)
    constraints = [spread(field, 4, 4), spread("cluster", 4, 4)]
    assert decide(placement(spreadConstraints=constraints), *clusters, replicas=1).message.endswith(
        f"the number of feasible {field} is less than spreadConstraint.MinGroups: 3 of 4"
    )


def test_what_cannot_be_spread_over_is_refused_in_words() -> None:
    by_label = placement(spreadConstraints=[{"spreadByLabel": "rack"}])
    assert "spreadByLabel 'rack' is not supported" in decide(by_label, cluster("a")).message
    by_moon = placement(spreadConstraints=[{"spreadByField": "moon"}])
    assert "spreadByField 'moon' is not supported" in decide(by_moon, cluster("a")).message


def test_static_weights_take_all_clusters_whatever_the_spread() -> None:
    place = placement(spreadConstraints=[spread("cluster", 1, 1)], **divided(a=1, b=1))
    assert decide(place, cluster("a"), cluster("b"), replicas=4).targets == {"a": 2, "b": 2}


VECTORS = json.loads(Path(__file__).with_name("cluster_division_vectors.json").read_text())


def test_spread_and_division_are_as_karmadas_scheduler_answers() -> None:
    """The answers of Karmada 1.16's `SelectClusters` and `AssignReplicas`. None if they refused.

    Not included are cases in which they divide by zero (duplicated over regions one of which has no room), and cases in
    which scaling down leaves replicas on clusters that were not chosen.
    """
    assert len(VECTORS) == 250
    for case in VECTORS:
        clusters = [
            cluster(name, region=region, free={"pods": pods}) for name, (region, pods) in case["clusters"].items()
        ]
        got = decide(
            placement(**case["placement"]),
            *clusters,
            replicas=case["replicas"],
            existing=case["existing"],
            uid=case["uid"],
        )
        assert got.targets == case["targets"], case


# Deciding.


def test_room_is_what_is_left_of_it() -> None:
    document = {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": "a"},
        "status": {
            "resourceSummary": {
                "allocatable": {"cpu": "10", "memory": "8Gi", "pods": "100"},
                "allocated": {"cpu": "2500m", "pods": "40"},
                "allocating": {"cpu": "500m"},
            }
        },
    }
    one = ClusterInfo.of(document)
    assert one.free == {"cpu": 7000, "memory": 8 << 30, "pods": 60}
    assert room_for(one, (("cpu", 1000),), 50) == 7
    assert room_for(one, (("cpu", 100),), 500) == 60
    assert room_for(one, (("nvidia.com/gpu", 1),), 5) == 0, "what it does not name it has not"
    assert room_for(cluster("b"), (("nvidia.com/gpu", 1),), 5) == 5, "nobody said, so it has enough"
    assert room_for(cluster("c", free={}), (("cpu", 1),), 5) == 5


@table(
    ("requests", "expected"),
    [
        ((("cpu", 1000),), 2 * 1 + 1 * 4),  # the grade of a core, and that of four
        ((("cpu", 3000),), 1),  # only the highest one: a node with four cores takes one
        ((("cpu", 100), ("memory", 2**30)), 2 * 1 + 1 * 8),
        ((("cpu", 5000),), 0),
        ((("cpu", 0),), 60),  # nothing is requested, so the grades do not matter
        ((("nvidia.com/gpu", 1),), 3),  # the grades do not name it, so the summary counts
    ],
)
def test_the_room_of_a_cluster_by_the_grades_of_its_nodes(requests: tuple[tuple[str, int], ...], expected: int) -> None:
    free = {"cpu": 100_000, "memory": 2**40, "pods": 60, "nvidia.com/gpu": 3}
    grades = (
        (7, (("cpu", 0), ("memory", 0))),
        (2, (("cpu", 1000), ("memory", 2**30))),
        (1, (("cpu", 4000), ("memory", 2**33))),
    )
    assert room_for(cluster("a", free=free, grades=grades), requests, 500) == expected
    assert room_for(cluster("a", free={**free, "pods": 1}, grades=grades), requests, 500) <= 1


def test_grades_are_those_of_the_cluster_or_the_default_ones() -> None:
    summary = {"allocatable": {"pods": "9"}, "allocatableModelings": [{"grade": 1, "count": 3}]}
    document: dict[str, Any] = {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": "a"},
    }
    default = ClusterInfo.of(document | {"status": {"resourceSummary": summary}}).grades
    assert len(default) == 9
    assert default[:2] == ((0, (("cpu", 0), ("memory", 0))), (3, (("cpu", 1000), ("memory", 4 * 2**30))))
    models = [{"grade": 1, "ranges": [{"name": "cpu", "min": "500m"}]}]
    own = ClusterInfo.of(document | {"spec": {"resourceModels": models}, "status": {"resourceSummary": summary}})
    assert own.grades == ((3, (("cpu", 500),)),)
    assert ClusterInfo.of(document | {"spec": {"resourceModels": models}}).grades == ()


def test_a_cluster_that_is_deleted_gets_nothing_and_keeps_nothing() -> None:
    fleet = ClusterFleet()
    for one in (cluster("dying", free={"pods": 50}, deleted=True), cluster("ok", free={"pods": 9})):
        fleet.put(one)
    place = ClusterPlacement.model_validate(
        {"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}}
    )
    decision = ClusterScheduler(fleet).decide(request(place, replicas=3, existing={"dying": 3}))
    assert decision.targets == {"ok": 3}
    assert [(one.filter, one.targets) for one in decision.filters] == [("ClusterDeletion", ("dying",))]


def test_what_has_no_replicas_is_not_ordered_by_room() -> None:
    fleet = ClusterFleet()
    for one in (cluster("a", free={"pods": 1}), cluster("b", free={"pods": 90})):
        fleet.put(one)
    place = ClusterPlacement.model_validate({"spreadConstraints": [spread(most=1)]})
    assert ClusterScheduler(fleet).decide(request(place)).targets == {"a": 0}
    assert ClusterScheduler(fleet).decide(request(place, replicas=1)).targets == {"b": 1}


def test_among_equals_the_first_of_the_binding_keeps_its_replicas() -> None:
    place = ClusterPlacement.model_validate(
        {"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}}
    )
    both = [candidate("m0", 9), candidate("m1", 9)]
    assert divide(place, both, 2, {"m1": 3, "m0": 3}, "u") == {"m1": 2}
    assert divide(place, both, 2, {"m0": 3, "m1": 3}, "u") == {"m0": 2}


def test_a_change_of_grades_is_a_change_of_room() -> None:
    fleet = ClusterFleet()
    fleet.put(cluster("a", grades=((1, (("cpu", 1000),)),)))
    version = fleet.version
    assert fleet.put(cluster("a", grades=((2, (("cpu", 1000),)),))) is FleetChange.ROOM
    assert fleet.version == version
    assert fleet.put(cluster("a", grades=((2, (("cpu", 1000),)),), deleted=True)) is FleetChange.OPENED


def test_each_filter_rules_out_in_upstreams_words() -> None:
    bad = Taint(key="k", value="v", effect="NoSchedule")
    clusters = [
        cluster("a", taints=[bad]),
        cluster("b", kinds=frozenset({("apps/v1", "Deployment")})),
        cluster("c"),
        cluster("d"),
    ]
    got = decide(placement(clusterAffinity={"exclude": ["c"]}), *clusters, leaving=frozenset({"d"}))
    assert got.targets is None
    assert got.message == (
        "0/4 clusters are available: 1 cluster(s) did not have the API resource, "
        "1 cluster(s) did not match the placement cluster affinity constraint, "
        "1 cluster(s) had untolerated taint {k=v:NoSchedule}, 1 cluster(s) is in the process of eviction."
    )
    there = decide(placement(), *clusters[:2], existing={"a": 0, "b": 0})
    assert there.targets == {"a": 0, "b": 0}, "where it is, neither taints nor kinds move it"
    assert {one.total for one in there.scores} == {100}


def test_nobody_goes_where_the_tolerated_time_is_over() -> None:
    one = cluster("a", taints=[Taint(key="k", effect="NoExecute", time_added=NOW)])
    place = placement(clusterTolerations=[{"key": "k", "operator": "Exists", "tolerationSeconds": 60}])
    assert decide(place, one, now=NOW + timedelta(seconds=59)).targets == {"a": 0}
    assert decide(place, one, now=NOW + timedelta(seconds=60)).targets is None
    assert decide(place, one).targets == {"a": 0}, "where taints do not evict, no time runs"


def test_the_group_that_it_is_in_is_tried_first() -> None:
    groups = [{"affinityName": name, "clusterNames": [name]} for name in ("a", "b", "c")]
    place = placement(clusterAffinities=groups)
    ones = [cluster(name) for name in "abc"]
    assert decide(place, *ones).affinity_name == "a"
    assert decide(place, *ones, affinity_name="b").targets == {"b": 0}
    assert decide(place, ones[0], affinity_name="b").targets == {"a": 0}
    assert decide(place, affinity_name="b").message == "0/0 clusters are available: no cluster exists."


def test_remembered_verdicts_follow_the_fleet() -> None:
    fleet = ClusterFleet()
    scheduler = ClusterScheduler(fleet)
    fleet.put(cluster("a"))
    asked = request(placement())
    assert scheduler.decide(asked).targets == {"a": 0}
    fleet.put(cluster("a", taints=[Taint(key="k", effect="NoSchedule")]))
    assert scheduler.decide(asked).targets is None
    fleet.put(cluster("b"))
    assert scheduler.decide(asked).targets == {"b": 0}
    fleet.remove("b")
    assert scheduler.decide(asked).targets is None


def test_what_a_change_of_a_cluster_may_open() -> None:
    fleet = ClusterFleet()
    taint = Taint(key="k", effect="NoSchedule")
    steps = [
        (cluster("a"), FleetChange.OPENED),
        (cluster("a"), FleetChange.NOTHING),
        (cluster("a", taints=[taint]), FleetChange.WORSE),
        (cluster("a"), FleetChange.OPENED),
        (cluster("a", free={"cpu": 5}), FleetChange.WORSE),
        (cluster("a", free={"cpu": 6}), FleetChange.ROOM),
        (cluster("a", free={"cpu": 4}), FleetChange.WORSE),
        (cluster("a", free={}), FleetChange.ROOM),
        (cluster("a"), FleetChange.ROOM),
        (cluster("a", labels={"x": "y"}), FleetChange.OPENED),
    ]
    assert [fleet.put(one) for one, _ in steps] == [change for _, change in steps]


TAINTS = st.lists(
    st.builds(Taint, key=st.sampled_from("kl"), effect=st.sampled_from(["NoSchedule", "NoExecute"])), max_size=2
)


@given(
    fleet=st.dictionaries(st.sampled_from("abcdef"), st.tuples(TAINTS, st.integers(0, 20))),
    exclude=st.lists(st.sampled_from("abcdef")),
    tolerated=st.sampled_from(["", "k"]),
    had=st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 5)),
    leaving=st.frozensets(st.sampled_from("abcdef"), max_size=2),
    replicas=st.integers(0, 20),
    spec=STRATEGIES,
)
def test_never_where_it_may_not_be(
    *,
    fleet: dict[str, tuple[list[Taint], int]],
    exclude: list[str],
    tolerated: str,
    had: dict[str, int],
    leaving: frozenset[str],
    replicas: int,
    spec: dict[str, Any],
) -> None:
    had = {name: count for name, count in had.items() if name not in leaving}
    tolerations = [{"key": tolerated, "operator": "Exists"}] if tolerated else []
    place = placement(clusterAffinity={"exclude": exclude}, clusterTolerations=tolerations, **spec)
    clusters = [cluster(name, taints=taints, free={"pods": room}) for name, (taints, room) in fleet.items()]
    got = decide(place, *clusters, existing=had, leaving=leaving, replicas=replicas)
    again = decide(place, *reversed(clusters), existing=had, leaving=leaving, replicas=replicas)
    assert got == again, "the order in which clusters are known does not matter"
    if got.targets is None:
        assert got.message
        return
    assert got.message == ""
    for name in got.targets:
        assert name in fleet
        assert name not in exclude
        assert name not in leaving
        assert name in had or all(taint.key == tolerated for taint in fleet[name][0])
    if replicas and spec:
        assert sum(got.targets.values()) == replicas
