"""Scheduling, case by case."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from tests.support.tables import table

from moorage.decide.scheduling.ocm.allocatable import approximate
from moorage.decide.scheduling.ocm.cluster_sets import ManagedSet
from moorage.decide.scheduling.ocm.columns.cluster_facts import ManagedClusterFacts, ScoreFacts
from moorage.decide.scheduling.ocm.columns.managed_fleet import ManagedFleet
from moorage.decide.scheduling.ocm.columns.taint_table import microseconds
from moorage.decide.scheduling.ocm.columns.usage import Usage
from moorage.decide.scheduling.ocm.decisions.groups import GroupTerms
from moorage.decide.scheduling.ocm.decisions.result import Scheduled
from moorage.decide.scheduling.ocm.filters.predicate import PLUGIN as PREDICATE
from moorage.decide.scheduling.ocm.plugin import Code, PlacementRequest, Plugins, Status
from moorage.decide.scheduling.ocm.scheduler import PlacementScheduler
from moorage.decide.scheduling.ocm.spec import terms_of
from moorage.decide.scheduling.ocm.terms import PlacementTerms
from moorage_schemas.resources.managed import DecisionStrategy, PlacementSpec
from moorage_schemas.taint import Taint

NOW = datetime(2026, 1, 1, tzinfo=UTC)
Spec = Mapping[str, Any]


def fleet(*clusters: ManagedClusterFacts) -> ManagedFleet:
    made = ManagedFleet()
    for one in clusters:
        made.put(one)
    return made


def tainted(name: str, *taints: Taint) -> ManagedClusterFacts:
    return ManagedClusterFacts(name, taints=taints)


def taint(effect: str = "NoSelect", key: str = "k", since: datetime | None = NOW) -> Taint:
    return Taint(key=key, effect=effect, time_added=since)


def terms(spec: Spec, *, as_upstream: bool = False) -> PlacementTerms:
    return terms_of(PlacementSpec.model_validate(spec), as_upstream=as_upstream)


def schedule(
    made: ManagedFleet,
    spec: Spec,
    decided: Collection[str] = (),
    *,
    now: datetime = NOW,
    as_upstream: bool = False,
) -> Scheduled:
    usage = Usage(made)
    return PlacementScheduler(made).schedule(
        terms(spec, as_upstream=as_upstream), decided=decided, usage=usage, usage_has_decided=False, now=now
    )


def exactly(*configurations: Spec) -> Spec:
    return {"prioritizerPolicy": {"mode": "Exact", "configurations": list(configurations)}}


def built_in(name: str, weight: int = 1) -> Spec:
    return {"scoreCoordinate": {"type": "BuiltIn", "builtIn": name}, "weight": weight}


def add_on(weight: int = 1, score: str = "g") -> Spec:
    return {
        "scoreCoordinate": {"type": "AddOn", "addOn": {"resourceName": "demo", "scoreName": score}},
        "weight": weight,
    }


def test_plugins_are_found() -> None:
    found = Plugins.discovered()
    assert [one.name for one in found.filters] == ["Predicate", "TaintToleration"]
    assert [(one.name, one.weight) for one in found.prioritizers] == [
        ("Balance", 1),
        ("Steady", 1),
        ("ResourceAllocatableCPU", 0),
        ("ResourceAllocatableMemory", 0),
        ("PreferNoSelect", 0),
        ("AddOn", 0),
    ]
    assert found.built_in_names == tuple(one.name for one in found.prioritizers if one.name != "AddOn")


@table(
    ("spec", "plugin", "message"),
    [
        ({"tolerations": [{"value": "x"}]}, "TaintToleration", "If the key is empty, operator must be Exists."),
        (
            {"tolerations": [{"key": "k", "operator": "Exists", "value": "x"}]},
            "TaintToleration",
            "If the operator is Exists, the value should be empty.",
        ),
        ({"prioritizerPolicy": {"mode": "exact"}}, "", "incorrect prioritizer policy mode: exact"),
        ({"prioritizerPolicy": {"configurations": [{"weight": 1}]}}, "", "scoreCoordinate field is required"),
        (exactly(built_in("Spread")), "", "incorrect builtin prioritizer: Spread"),
        (exactly({"scoreCoordinate": {"type": "AddOn"}}), "", "addOn should not be empty"),
        (
            {"numberOfClusters": -1},
            "",
            "spec.numberOfClusters: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            {
                "predicates": [
                    {
                        "requiredClusterSelector": {
                            "labelSelector": {"matchExpressions": [{"key": "r", "operator": "Has"}]}
                        }
                    }
                ]
            },
            "Predicate",
            '"Has" is not a valid label selector operator',
        ),
    ],
)
def test_a_wrong_spec_is_misconfigured_and_decides_nothing(spec: Spec, plugin: str, message: str) -> None:
    found = schedule(fleet(ManagedClusterFacts("a")), spec)
    assert found.status == Status(Code.MISCONFIGURED, plugin, message)
    assert (found.decisions, found.unscheduled, found.best(), found.requeue_at) == ((), 0, (), None)
    assert found.verdict("a").rank is None


def test_wrong_predicates_and_tolerations_show_only_when_a_cluster_meets_them() -> None:
    assert schedule(fleet(), {"tolerations": [{"value": "x"}]}).status.code == Code.SUCCESS
    wrong = Plugins.discovered().problems(terms({"tolerations": [{"value": "x"}]}))
    assert [plugin for plugin, _ in wrong] == ["TaintToleration"]


def _claimed(name: str, claims: int) -> ManagedClusterFacts:
    said = [{"name": f"claim{i}", "value": f"value{i}"} for i in range(claims)]
    return ManagedClusterFacts.of({"metadata": {"name": name}, "status": {"clusterClaims": said}})


def _selecting(*expressions: str) -> Spec:
    return {"predicates": [{"requiredClusterSelector": {"celSelector": {"celExpressions": list(expressions)}}}]}


CLAIMS = "managedCluster.status.clusterClaims"
TWICE = f"{CLAIMS}.all(a, {CLAIMS}.all(b, a.name != 'x' && b.name != 'x'))"


def test_an_expression_is_false_for_the_clusters_for_which_it_costs_too_much() -> None:
    made = fleet(_claimed("small", 5), _claimed("large", 400))
    found = schedule(made, _selecting(TWICE))
    assert (found.decisions, found.status.code) == (("small",), Code.SUCCESS)
    usage = Usage(made)
    request = PlacementRequest(
        terms(_selecting(TWICE)), made.rows_of([]), usage, usage_has_decided=False, now=NOW, now_us=microseconds(NOW)
    )
    (why,) = PREDICATE.details(request, made, "large")
    assert why.endswith("(operation cancelled: actual cost limit exceeded)")


def test_an_expression_that_costs_too_much_for_all_clusters_together_makes_the_placement_misconfigured() -> None:
    few, many = (fleet(*(_claimed(f"c{i}", 300) for i in range(count))) for count in (20, 60))
    assert len(schedule(few, _selecting(TWICE)).decisions) == 20
    for _ in range(2):  # it does not depend on what was evaluated before
        found = schedule(many, _selecting(TWICE))
        assert (found.decisions, found.status.code, found.status.plugin) == ((), Code.MISCONFIGURED, "Predicate")
        assert found.status.message.endswith("exceeds the budget of 20000000 for 60 clusters")
        assert found.kept(["c3", "c1", "gone"]) == ("c1", "c3")
        assert len(schedule(many, {"predicates": []}).decisions) == 60
    for row in many.rows_of(["c1", "c2"]).tolist():
        many.remove(many.name(row))
    assert schedule(many, _selecting(TWICE)).status.code == Code.MISCONFIGURED


UNSUPPORTED = "google.protobuf.Duration{seconds: 1} == duration('1s')"


def test_of_an_expression_that_only_moorage_refuses_the_clusters_stay_that_pass_all_other_filters() -> None:
    made = fleet(ManagedClusterFacts("a"), tainted("b", taint("NoSelect")), ManagedClusterFacts("c"))
    found = schedule(made, _selecting(UNSUPPORTED))
    assert (found.decisions, found.status.code, found.status.kept) == ((), Code.MISCONFIGURED, True)
    assert found.kept(["c", "b", "gone"]) == ("c",)
    for refused in ("nothing == 1", "managedCluster.("):
        assert not schedule(made, _selecting(UNSUPPORTED, refused)).status.kept, "upstream refuses it as well"
        assert not schedule(made, _selecting(refused, UNSUPPORTED)).status.kept


def test_of_an_expression_that_exceeds_a_limit_for_one_cluster_the_clusters_stay() -> None:
    made = fleet(_claimed("a", 1), _claimed("b", 2))
    text = f"{CLAIMS}.size() == 1 || {CLAIMS}.all(c, '%.9999999f'.format([1.0]) == '')"
    found = schedule(made, _selecting(text))
    assert (found.decisions, found.status.kept) == ((), True)
    assert "is not supported for the cluster b: more than 100 digits after the point" in found.status.message


def test_an_expression_in_a_group_has_a_budget_too() -> None:
    made = fleet(*(_claimed(f"c{i:02}", 300) for i in range(60)))
    group = {"groupName": "g", "groupClusterSelector": {"celSelector": {"celExpressions": [TWICE]}}}
    strategy = DecisionStrategy.model_validate({"groupStrategy": {"decisionGroups": [group]}})
    names = [f"c{i:02}" for i in range(60)]
    first, rest = GroupTerms.of(strategy).cut(names, lambda name: made.at(made.row(name)))
    assert (first.name, rest.name) == ("g", "")
    assert first.clusters == tuple(names[: len(first.clusters)])
    assert 20 < len(first.clusters) < 60


def test_a_weight_of_zero_hides_an_unknown_name() -> None:
    assert schedule(fleet(ManagedClusterFacts("a")), exactly(built_in("Spread", 0))).decisions == ("a",)


def test_names_of_older_specs_and_an_empty_type_mean_built_in() -> None:
    made = fleet(ManagedClusterFacts("a"), ManagedClusterFacts("b"))
    for config in ({"name": "Steady", "weight": 1}, {"scoreCoordinate": {"builtIn": "Steady"}, "weight": 1}):
        found = schedule(made, {"numberOfClusters": 1, **exactly(config)}, ["b"])
        assert found.decisions == ("b",)
        upstream = schedule(made, exactly(config), ["b"], as_upstream=True)
        assert upstream.status.code == Code.MISCONFIGURED


def test_prefer_no_select_counts_only_when_it_is_asked_for() -> None:
    disliked = taint("PreferNoSelect")
    made = fleet(tainted("a", disliked, taint("PreferNoSelect", "l")), tainted("b", disliked), ManagedClusterFacts("c"))
    assert schedule(made, {}).decisions == ("a", "b", "c")
    asked = schedule(made, exactly(built_in("PreferNoSelect")))
    assert [(one.target, one.total) for one in asked.best()] == [("c", 100), ("b", 0), ("a", -100)]
    tolerating = {**exactly(built_in("PreferNoSelect")), "tolerations": [{"key": "k", "operator": "Exists"}]}
    assert [one.total for one in schedule(made, tolerating).best()] == [100, 100, -100]
    upstream = schedule(made, exactly(built_in("PreferNoSelect")), as_upstream=True)
    assert upstream.status.message == "incorrect builtin prioritizer: PreferNoSelect"


def test_time_ends_a_toleration_at_its_very_instant_and_never_for_no_select_if_new() -> None:
    spec = {"tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 30}]}
    made = fleet(tainted("a", taint()), tainted("b", taint("NoSelectIfNew")))
    end = NOW + timedelta(seconds=30)
    before = schedule(made, spec, now=end - timedelta(microseconds=1))
    assert (before.decisions, before.requeue_at) == (("a", "b"), end)
    assert before.until("a") == end
    assert before.until("b") is None
    after = schedule(made, spec, ["a"], now=end)
    assert (after.decisions, after.requeue_at) == (("b",), None)
    assert after.verdict("a").filters[1].reasons == (
        "cluster(s) had untolerated taint {k:NoSelect}, tolerated no longer",
    )
    assert schedule(made, spec, ["a"], now=end, as_upstream=True).decisions == ()


def test_upstream_looks_again_only_at_what_was_decided() -> None:
    spec = {"tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 30}]}
    made = fleet(tainted("a", taint()))
    assert schedule(made, spec, as_upstream=True).requeue_at is None
    assert schedule(made, spec, ["a"], as_upstream=True).requeue_at == NOW + timedelta(seconds=30)


def test_seconds_beyond_all_calendars_never_end() -> None:
    spec = {"tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 2**62}]}
    found = schedule(fleet(tainted("a", taint())), spec)
    assert (found.decisions, found.requeue_at) == (("a",), None)


def test_a_cluster_that_is_kept_for_being_decided() -> None:
    made = fleet(tainted("a", taint("NoSelectIfNew")), tainted("b", taint("NoSelectIfNew")), ManagedClusterFacts("c"))
    scheduler, usage = PlacementScheduler(made), Usage(made)
    for decided, expected in (((), ("c",)), (("a",), ("a", "c")), (("b",), ("b", "c")), ((), ("c",))):
        found = scheduler.schedule(terms({}), decided=decided, usage=usage, now=NOW, usage_has_decided=False)
        assert found.decisions == expected


def test_scores_that_have_expired_warn_and_are_looked_at_again() -> None:
    made = fleet(*(ManagedClusterFacts(name) for name in "cab"))
    for name, minutes in (("a", 1), ("b", 0), ("c", -1)):
        made.put_score(ScoreFacts(name, "demo", {"g": 50}, NOW + timedelta(minutes=minutes)))
    spec = {"numberOfClusters": 3, **exactly(add_on())}
    found = schedule(made, spec)
    assert found.decisions == ("a", "b", "c")
    assert found.status == Status(Code.WARNING, "AddOn/demo/g", "AddOnPlacementScores c/demo expired")
    assert found.requeue_at == NOW + timedelta(microseconds=1)
    later = schedule(made, spec, now=NOW + timedelta(microseconds=1))
    assert later.status.message == "AddOnPlacementScores b/demo c/demo expired"
    assert later.requeue_at == NOW + timedelta(minutes=1, microseconds=1)
    # If all clusters that fit are requested, scores do not change the selection.
    assert schedule(made, exactly(add_on())).requeue_at is None


def test_the_same_score_twice_counts_twice() -> None:
    made = fleet(ManagedClusterFacts("a"), ManagedClusterFacts("b"))
    made.put_score(ScoreFacts("b", "demo", {"g": 7}))
    found = schedule(made, exactly(add_on(1), add_on(2)))
    assert found.best()[0].model_dump() == {"target": "b", "total": 21, "scores": {"AddOn/demo/g": 21}}


def test_scores_too_large_for_one_number_are_in_order_all_the_same() -> None:
    names = ["b", "a", "c"]
    made = fleet(*(ManagedClusterFacts(name) for name in names))
    for name, value in zip(names, (2**31 - 1, 2**31 - 1, 2**31 - 2), strict=True):
        made.put_score(ScoreFacts(name, "demo", {"g": value}))
    for number, expected in ((None, ("a", "b", "c")), (2, ("a", "b")), (0, ())):
        spec = {"numberOfClusters": number, **exactly(add_on(2**31 - 1))}
        assert schedule(made, spec).decisions == expected


def test_candidates_come_from_sets_a_mask_or_everywhere() -> None:
    label = "cluster.open-cluster-management.io/clusterset"
    made = fleet(
        ManagedClusterFacts("a", {label: "x"}),
        ManagedClusterFacts("b", {label: "y"}),
        ManagedClusterFacts("c", deleting=True),
    )
    scheduler, usage = PlacementScheduler(made), Usage(made)

    def decided(candidates: Any) -> tuple[str, ...]:
        return scheduler.schedule(terms({}), candidates=candidates, usage=usage, now=NOW).decisions

    assert decided(None) == ("a", "b")
    assert decided(frozenset({ManagedSet("x", exclusive=True)})) == ("a",)
    assert decided(made.mask(["b", "c", "nobody"])) == ("b", "c")
    with pytest.raises(ValueError, match="the mask of candidates has 1 rows"):
        decided(np.ones(1, dtype=np.bool_))


def test_why_clusters_are_ruled_out_is_counted_by_the_first_filter_against_them() -> None:
    made = fleet(
        *(ManagedClusterFacts(f"x{i:02d}") for i in range(12)),
        ManagedClusterFacts("y1", {"r": "eu"}, taints=(taint(),)),
        ManagedClusterFacts("y2", {"r": "eu"}),
    )
    spec = {"predicates": [{"requiredClusterSelector": {"labelSelector": {"matchLabels": {"r": "eu"}}}}]}
    found = schedule(made, {**spec, "numberOfClusters": 3})
    predicate, taints = found.ruled_out()
    assert (predicate.filter, predicate.count, predicate.targets) == (
        "Predicate",
        12,
        tuple(f"x{i:02d}" for i in range(10)),
    )
    assert (taints.filter, taints.count, taints.targets) == ("TaintToleration", 1, ("y1",))
    assert (found.considered, found.decisions, found.unscheduled) == (14, ("y2",), 2)
    with pytest.raises(LookupError, match="there is no cluster nobody"):
        found.verdict("nobody")


def some_of_everything() -> ManagedFleet:
    """Clusters for which every prioritizer has a score."""
    made = fleet(
        ManagedClusterFacts("a", allocatable={"cpu": "4", "memory": "8Gi"}, capacity={"cpu": "4", "memory": "8Gi"}),
        ManagedClusterFacts("b", allocatable={"cpu": "1"}, capacity={"cpu": "4"}, taints=(taint("PreferNoSelect"),)),
        tainted("c", taint("PreferNoSelect"), taint("PreferNoSelect", "l")),
    )
    made.put_score(ScoreFacts("a", "demo", {"g": 30}))
    made.put_score(ScoreFacts("b", "demo", {"g": 70}, valid_until=NOW - timedelta(seconds=1)))
    return made


EVERY = exactly(*(built_in(name) for name in Plugins.discovered().built_in_names), add_on())


def test_every_prioritizer_tells_what_it_sees() -> None:
    made = some_of_everything()
    usage = Usage(made)
    usage.add(["a", "a", "b"])
    found = PlacementScheduler(made).schedule(terms(EVERY), decided=["a"], usage=usage, now=NOW)
    told = {name: {one.prioritizer: one.details for one in found.verdict(name).scores} for name in ("a", "b", "c")}
    assert told["a"] == {
        "Balance": ("decisions of other placements: 1 here, 1 on the cluster with the most",),
        "Steady": ("the placement has it already",),
        "ResourceAllocatableCPU": ("4 of cpu is allocatable",),
        "ResourceAllocatableMemory": ("8Gi of memory is allocatable",),
        "PreferNoSelect": (),
        "AddOn/demo/g": (),
    }
    assert told["b"]["Steady"] == ("the placement does not have it",)
    assert told["b"]["ResourceAllocatableMemory"] == ("it does not state both its allocatable memory and its capacity",)
    assert told["b"]["PreferNoSelect"] == ("nothing tolerates k:PreferNoSelect",)
    assert told["b"]["AddOn/demo/g"] == ("AddOnPlacementScore demo expired at 2025-12-31T23:59:59Z",)
    assert told["c"]["AddOn/demo/g"] == ("it has no AddOnPlacementScore demo",)


def test_scores_are_within_their_span_and_rest_on_other_candidates_only_where_it_is_said() -> None:
    made = some_of_everything()
    usage = Usage(made)
    usage.add(["a", "a", "b"])
    found = PlacementScheduler(made).schedule(terms(EVERY), decided=["a"], usage=usage, now=NOW)
    relative = set()
    for one in Plugins.discovered().chosen(terms(EVERY)):
        plugin, rows = one.prioritizer, found.rows
        together = plugin.score(found.request, made, rows).values.tolist()
        alone = [plugin.score(found.request, made, rows[i : i + 1]).values[0] for i in range(rows.size)]
        assert all(plugin.lowest <= score <= plugin.highest for score in together), plugin.name
        assert plugin.relative or together == alone, plugin.name
        if together != alone:
            relative.add(plugin.name)
    assert relative == {"ResourceAllocatableCPU", "PreferNoSelect"}, "memory is said by one cluster alone"


def test_a_failing_expression_is_told_with_the_scores_that_it_was_asked_with() -> None:
    made = fleet(*(ManagedClusterFacts(name, document={"metadata": {"name": name}}) for name in ("a", "b")))
    made.put_score(ScoreFacts("a", "demo", {"g": 30}))
    made.put_score(ScoreFacts("b", "demo", {"g": 70}))
    expressions = {"celExpressions": ["managedCluster.scores('demo').exists(s, s.value > 50)"]}
    found = schedule(made, {"predicates": [{"requiredClusterSelector": {"celSelector": expressions}}]})
    assert found.decisions == ("b",)
    details = {name: found.verdict(name).filters[0].details for name in ("a", "b")}
    assert details["a"] == (f"predicates[0] fails: CEL {expressions['celExpressions'][0]}",)
    assert details["b"] == ("predicates[0] matches",)


def test_equal_specs_share_what_they_ask_and_others_do_not() -> None:
    one, other = terms({"numberOfClusters": 1}), terms({"numberOfClusters": 2})
    assert one.key == other.key
    assert one.key != terms({"tolerations": [{"operator": "Exists"}]}).key
    assert terms({"tolerations": [{"operator": "Exists"}]}).key is terms({"tolerations": [{"operator": "Exists"}]}).key


@table(
    ("text", "number"),
    [
        ("4", 4.0),
        (4, 4.0),
        ("500m", 0.5),
        ("3500m", 3.5),
        ("1e3", 1000.0),
        ("-2k", -2000.0),
        ("2Gi", float(2**31)),
        ("3.5Gi", float(7 * 2**29)),
        ("0.0000000001", 1e-9),
        ("1234567890123456789", 1234567890123456789.0),
        ("16Ei", float(2**63)),
        ("-15Ei", -float(2**63)),
        ("39e18", 39e18),
    ],
)
def test_amounts_are_the_floats_that_upstream_makes_of_them(text: str | int, number: float) -> None:
    assert approximate(text) == pytest.approx(number, rel=1e-15)
