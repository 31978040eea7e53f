"""The scheduler compared with the reference, while clusters, scores and decisions are added, changed and removed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.scheduling.ocm.reference import World, decide

from moorage.decide.scheduling.ocm.columns.cluster_facts import ManagedClusterFacts, ScoreFacts
from moorage.decide.scheduling.ocm.columns.managed_fleet import ManagedFleet
from moorage.decide.scheduling.ocm.columns.usage import Usage
from moorage.decide.scheduling.ocm.plugin import Code
from moorage.decide.scheduling.ocm.scheduler import PlacementScheduler
from moorage.decide.scheduling.ocm.spec import terms_of
from moorage_schemas.resources.managed import PlacementSpec
from moorage_schemas.taint import Taint

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = st.sampled_from(["a", "b", "c", "c10", "c2", "d", "E"])
OFFSETS = st.integers(-3, 3).map(lambda minutes: NOW + timedelta(minutes=minutes))
AMOUNTS = st.sampled_from([{}, {"cpu": "1"}, {"cpu": "2", "memory": 7}, {"cpu": "4", "memory": 9}, {"memory": "2"}])

taints = st.builds(
    Taint,
    key=st.sampled_from(["k", "l"]),
    value=st.sampled_from(["", "x"]),
    effect=st.sampled_from(["NoSelect", "NoSelectIfNew", "PreferNoSelect", "Other"]),
    time_added=st.none() | OFFSETS,
)
clusters = st.builds(
    ManagedClusterFacts,
    name=NAMES,
    labels=st.dictionaries(st.sampled_from(["r", "s"]), st.sampled_from(["1", "2"])),
    claims=st.dictionaries(st.sampled_from(["r", "s"]), st.sampled_from(["1", "2"])),
    taints=st.lists(taints, max_size=2).map(tuple),
    allocatable=AMOUNTS,
    capacity=st.just({"cpu": "9", "memory": "9"}) | AMOUNTS,
    deleting=st.sampled_from([False, False, False, True]),
)
scores = st.builds(
    ScoreFacts,
    cluster=NAMES,
    resource=st.sampled_from(["demo", "other"]),
    scores=st.dictionaries(st.sampled_from(["g", "h"]), st.sampled_from([-100, 0, 30, 5000])),
    valid_until=st.none() | OFFSETS,
)
expressions = st.sampled_from(
    [
        {"key": "r", "operator": "In", "values": ["1"]},
        {"key": "r", "operator": "NotIn", "values": ["1", "3"]},
        {"key": "s", "operator": "Exists"},
        {"key": "s", "operator": "DoesNotExist"},
    ]
)
predicates = st.fixed_dictionaries(
    {},
    optional={
        "labelSelector": st.fixed_dictionaries({"matchExpressions": st.lists(expressions, max_size=2)}),
        "claimSelector": st.fixed_dictionaries({"matchExpressions": st.lists(expressions, max_size=2)}),
    },
).map(lambda selector: {"requiredClusterSelector": selector})
tolerations = st.sampled_from(
    [
        {"operator": "Exists"},
        {"key": "k", "operator": "Exists", "tolerationSeconds": 60},
        {"key": "k", "operator": "Exists", "tolerationSeconds": 120},
        {"key": "l", "value": "x"},
        {"key": "l", "operator": "Exists", "effect": "NoSelect"},
    ]
)
coordinates = st.sampled_from(
    [
        *(
            {"type": "BuiltIn", "builtIn": name}
            for name in ("Balance", "Steady", "ResourceAllocatableCPU", "ResourceAllocatableMemory", "PreferNoSelect")
        ),
        *(
            {"type": "AddOn", "addOn": {"resourceName": resource, "scoreName": score}}
            for resource, score in (("demo", "g"), ("demo", "h"), ("other", "g"))
        ),
    ]
)
specs = st.fixed_dictionaries(
    {},
    optional={
        "numberOfClusters": st.integers(0, 5),
        "predicates": st.lists(predicates, max_size=2),
        "tolerations": st.lists(tolerations, max_size=3),
        "prioritizerPolicy": st.fixed_dictionaries(
            {
                "mode": st.sampled_from(["", "Additive", "Exact"]),
                "configurations": st.lists(
                    st.fixed_dictionaries({"scoreCoordinate": coordinates, "weight": st.integers(-10, 10)}), max_size=4
                ),
            }
        ),
    },
).map(PlacementSpec.model_validate)

Change = tuple[str, Any]
changes = st.one_of(
    st.tuples(st.just("put"), clusters),
    st.tuples(st.just("remove"), NAMES),
    st.tuples(st.just("score"), scores),
    st.tuples(st.just("unscore"), st.tuples(NAMES, st.sampled_from(["demo", "other"]))),
    st.tuples(st.just("decide"), st.lists(NAMES, max_size=3)),
    st.tuples(st.just("undecide"), st.integers(0, 5)),
)


class Both:
    """A fleet and the reference, with the same changes."""

    def __init__(self) -> None:
        self.world = World()
        self.fleet = ManagedFleet()
        self.usage = Usage(self.fleet)
        self.scheduler = PlacementScheduler(self.fleet)
        self.others: list[list[str]] = []

    def apply(self, change: Change) -> None:
        kind, what = change
        world, fleet = self.world, self.fleet
        if kind == "put":
            # The object is not copied. A change replaces it.
            world.clusters[what.name] = what
            fleet.put(what)
        elif kind == "remove":
            world.clusters.pop(what, None)
            fleet.remove(what)
        elif kind == "score":
            world.scores[what.cluster, what.resource] = what
            fleet.put_score(what)
        elif kind == "unscore":
            world.scores.pop(what, None)
            fleet.remove_score(*what)
        elif kind == "decide":
            self.others.append(what)
            self.usage.add(what)
        elif self.others:
            self.usage.remove(self.others.pop(what % len(self.others)))
        world.decisions = [name for one in self.others for name in one]

    def check(self, spec: PlacementSpec, decided: list[str], now: datetime) -> None:
        terms = terms_of(spec)
        for counted in (False, True):
            if counted:
                self.usage.add(decided)
            found = self.scheduler.schedule(
                terms, decided=decided, usage=self.usage, usage_has_decided=counted, now=now
            )
            expected = decide(self.world, spec, decided, now)
            names = self.fleet.names_at(found.rows)
            assert found.feasible == expected.feasible
            assert dict(zip(names, found.totals.tolist(), strict=True)) == expected.totals
            assert list(found.decisions) == expected.decisions
            assert (found.status.code == Code.WARNING) == expected.warned
            assert found.unscheduled == (spec.number_of_clusters or len(found.decisions)) - len(found.decisions)
            ranked = sorted(expected.totals, key=lambda name: (-expected.totals[name], name))
            assert [one.target for one in found.best(3)] == ranked[:3]
            for name in self.world.clusters:
                verdict = found.verdict(name)
                assert found.is_candidate(name) != self.world.clusters[name].deleting
                if found.is_candidate(name):
                    assert verdict.passed == (name in expected.feasible)
                assert verdict.rank == (ranked.index(name) + 1 if name in ranked else None)
            if counted:
                self.usage.remove(decided)


@given(
    st.lists(changes, max_size=12),
    st.lists(specs, min_size=1, max_size=3),
    st.lists(NAMES, unique=True, max_size=3),
    st.lists(OFFSETS, min_size=1, max_size=2),
)
@settings(max_examples=150)
def test_every_state_is_decided_as_the_rules_say(
    steps: list[Change], asked: list[PlacementSpec], decided: list[str], times: list[datetime]
) -> None:
    both = Both()
    for step in steps:
        both.apply(step)
        # Caches from earlier states must have no effect.
        for spec in asked:
            for now in times:
                both.check(spec, decided, now)


@given(st.lists(changes, max_size=15), specs, st.lists(NAMES, unique=True, max_size=3))
@settings(max_examples=60)
def test_a_fleet_that_grew_answers_as_one_that_is_made_anew(
    steps: list[Change], spec: PlacementSpec, decided: list[str]
) -> None:
    both = Both()
    terms = terms_of(spec)
    for step in steps:
        both.apply(step)
        both.scheduler.schedule(terms, decided=decided, usage=both.usage, now=NOW)
    anew = Both()
    for facts in both.world.clusters.values():
        anew.apply(("put", facts))
    for score in both.world.scores.values():
        anew.apply(("score", score))
    for names in both.others:
        anew.apply(("decide", names))
    answers: list[tuple[Any, ...]] = []
    for one in (both, anew):
        found = one.scheduler.schedule(terms, decided=decided, usage=one.usage, usage_has_decided=False, now=NOW)
        answers.append(
            (found.decisions, found.status, found.requeue_at, found.ruled_out(), found.best(), one.usage.most)
        )
    assert answers[0] == answers[1]


@given(st.lists(changes, max_size=12), clusters, specs, st.lists(NAMES, unique=True, max_size=3))
@settings(max_examples=100)
def test_a_change_that_touches_no_column_of_a_placement_changes_no_decision(
    steps: list[Change], last: ManagedClusterFacts, spec: PlacementSpec, decided: list[str]
) -> None:
    both = Both()
    for step in steps:
        both.apply(step)
    terms = terms_of(spec)
    columns = both.scheduler.columns(terms)
    both.fleet.hold(columns)
    run: Callable[[], Any] = lambda: both.scheduler.schedule(terms, decided=decided, usage=both.usage, now=NOW)  # noqa: E731 - used twice below
    before = run()
    seen = (before.decisions, before.totals.tolist(), before.requeue_at)
    touched = both.fleet.put(last)
    if touched.columns.isdisjoint(columns) and touched.before == touched.after:
        after = run()
        assert (after.decisions, after.totals.tolist(), after.requeue_at) == seen
