"""`explain placement`: the verdict on each cluster agrees with the scheduler and with the services' records."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.component.simulation.explained import chain, copy, of, said, topics
from tests.support.worlds.world import PARTITIONS, World, every_service, flow_of

from moorage.decide.scheduling.ocm.cluster_sets import ManagedSets, usable_sets
from moorage.decide.scheduling.ocm.columns.cluster_facts import ManagedClusterFacts
from moorage.decide.scheduling.ocm.columns.managed_fleet import ManagedFleet
from moorage.decide.scheduling.ocm.columns.usage import Usage
from moorage.decide.scheduling.ocm.decisions.verdicts import CLUSTER_SETS, ManagedVerdicts
from moorage.decide.scheduling.ocm.scheduler import PlacementScheduler
from moorage.decide.scheduling.ocm.spec import terms_of
from moorage.decide.taints.desired.managed_taints import AVAILABLE
from moorage.insight.explain.explanation import Explanation, NotFoundError, Wanted
from moorage.insight.explain.grounds import SnapshotGrounds
from moorage.insight.explain.placement_reasons import explain_placement
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.refs import TargetKind
from moorage_schemas.resources.managed import ManagedClusterSetSpec, PlacementSpec
from moorage_schemas.taint import Taint
from moorage_schemas.topics import PLACEMENTS

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SET = "cluster.open-cluster-management.io/clusterset"
ALL = Wanted(every=True)
BLUE = ManagedClusterSetSpec()

TAINTS = st.lists(
    st.builds(
        Taint,
        key=st.sampled_from(["a", "b"]),
        value=st.sampled_from(["", "x"]),
        effect=st.sampled_from(["NoSelect", "PreferNoSelect", "NoSelectIfNew"]),
        time_added=st.sampled_from([None, NOW - timedelta(seconds=60), NOW - timedelta(seconds=5)]),
    ),
    max_size=2,
    unique_by=lambda taint: taint.identity,
).map(tuple)
NAMES = ["c1", "c2", "c3", "c4", "c5"]


@st.composite
def clusters(draw: st.DrawFn) -> list[ManagedClusterFacts]:
    found = []
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True)):
        labels = draw(st.fixed_dictionaries({}, optional={SET: st.just("blue"), "tier": st.sampled_from(["1", "2"])}))
        claims = draw(st.dictionaries(st.just("region"), st.sampled_from(["n", "s"])))
        cpu = draw(st.sampled_from(["1", "4"]))
        document = {
            "apiVersion": "cluster.open-cluster-management.io/v1",
            "kind": "ManagedCluster",
            "metadata": {"name": name, "labels": labels},
            "spec": {},
            "status": {
                "clusterClaims": [{"name": key, "value": value} for key, value in claims.items()],
                "allocatable": {"cpu": cpu, "memory": "1Gi"},
                "capacity": {"cpu": "4", "memory": "1Gi"},
            },
        }
        found.append(ManagedClusterFacts.of(document, taints=draw(TAINTS)))
    return found


PREDICATE = st.fixed_dictionaries(
    {},
    optional={
        "labelSelector": st.sampled_from(
            [{"matchLabels": {"tier": "1"}}, {"matchExpressions": [{"key": "tier", "operator": "Exists"}]}]
        ),
        "claimSelector": st.just({"matchExpressions": [{"key": "region", "operator": "NotIn", "values": ["s"]}]}),
        "celSelector": st.just({"celExpressions": ["managedCluster.metadata.name != 'c3'"]}),
    },
).map(lambda selector: {"requiredClusterSelector": selector})
TOLERATION = st.fixed_dictionaries(
    {"key": st.sampled_from(["a", "b"]), "operator": st.just("Exists")},
    optional={
        "tolerationSeconds": st.sampled_from([0, 5, 30]),
        "effect": st.sampled_from(["NoSelect", "NoSelectIfNew"]),
    },
)
WEIGHTED = st.fixed_dictionaries(
    {"weight": st.integers(-3, 3)},
).map(lambda one: {**one, "scoreCoordinate": {"type": "BuiltIn", "builtIn": "ResourceAllocatableCPU"}})
SPEC = st.fixed_dictionaries(
    {},
    optional={
        "numberOfClusters": st.integers(0, 4),
        "clusterSets": st.lists(st.sampled_from(["blue", "default"]), unique=True),
        "predicates": st.lists(PREDICATE, max_size=2),
        "tolerations": st.lists(TOLERATION, max_size=2),
        "prioritizerPolicy": st.lists(WEIGHTED, max_size=1).map(lambda some: {"configurations": some}),
    },
)


def verdicts_of(
    fleet: ManagedFleet, spec: dict[str, Any], decided: Sequence[str], others: Sequence[str]
) -> ManagedVerdicts:
    terms = terms_of(PlacementSpec.model_validate(spec))
    existing = ManagedSets()
    existing.put("blue", BLUE)
    sets = usable_sets(["blue", "default"], existing, terms.sets)
    found = frozenset(one for name in sets.eligible if (one := existing.get(name)) is not None)
    usage = Usage(fleet)
    usage.add(decided)
    usage.add(others)
    scheduled = PlacementScheduler(fleet).schedule(terms, candidates=found, decided=decided, usage=usage, now=NOW)
    return ManagedVerdicts(scheduled, fleet, sets, existing)


@given(clusters(), SPEC, st.sets(st.sampled_from(NAMES)), st.sets(st.sampled_from(NAMES)))
@settings(max_examples=200)
def test_a_cluster_is_selected_if_and_only_if_its_verdict_says_so(
    some: list[ManagedClusterFacts], spec: dict[str, Any], decided: set[str], others: set[str]
) -> None:
    fleet = ManagedFleet()
    for one in some:
        fleet.put(one)
    names = sorted(one.name for one in some)
    verdicts = verdicts_of(fleet, spec, sorted(decided & set(names)), sorted(others & set(names)))
    scheduled = verdicts.scheduled
    assert not scheduled.status.is_error
    assert sorted(verdicts.ranked) == sorted(scheduled.feasible)
    assert verdicts.ranked[: len(scheduled.decisions)] == scheduled.decisions
    assert sorted(verdicts.names()) == names
    best = scheduled.best()
    assert [one.target for one in best] == list(verdicts.ranked[: len(best)])
    for name in names:
        found = verdicts.verdict(name)
        assert found.passed == (name in scheduled.feasible) == (found.rank is not None)
        assert verdicts.chosen(name) == (name in scheduled.decisions)
        if found.rank is not None:
            assert verdicts.ranked[found.rank - 1] == name
        by_name = {one.filter: one for one in found.filters}
        assert next(iter(by_name)) == CLUSTER_SETS
        taints = by_name["TaintToleration"]
        assert taints.passed == (not any(one.startswith("nothing tolerates") for one in taints.details))
        predicate = by_name["Predicate"]
        assert predicate.passed == (not any("fails" in one for one in predicate.details))
    for kept in best:
        parts: dict[str, int] = {}
        for score in verdicts.verdict(kept.target).scores:
            parts[score.prioritizer] = parts.get(score.prioritizer, 0) + score.points
        assert (parts, verdicts.verdict(kept.target).total) == (kept.scores, kept.total)
    counts: dict[tuple[str, str], int] = {}
    for name in names:
        against = verdicts.verdict(name).against
        if against is not None and against.filter != CLUSTER_SETS:
            counts[against.filter, ""] = counts.get((against.filter, ""), 0) + 1
    assert {(one.filter, ""): one.count for one in verdicts.reasons} == counts


# Records of services.


class SelectingWorld(World):
    """All services, and clusters of the set `blue`, which is bound to the namespace `ns`. An agent reports on them."""

    kind: ClassVar[TargetKind] = TargetKind.MANAGED_CLUSTER
    effect: ClassVar[str] = "NoSelect"

    def __init__(self, *names: str) -> None:
        self.settings = Settings(partitions=PARTITIONS)
        super().__init__(flow_of(every_service(self.settings)))
        self.declare("ManagedClusterSet", "blue")
        self.declare("ManagedClusterSetBinding", "blue", {"clusterSet": "blue"}, namespace="ns")
        for name in names:
            self.cluster(name)
        self.flow.run()
        for name in names:
            self.say(name)
        self.flow.run()

    def cluster(self, name: str, **labels: str) -> None:
        self.declare("ManagedCluster", name, labels={SET: "blue", **labels})

    def say(self, name: str, status: str = "True") -> None:
        self.report(name, AVAILABLE, status, source="agent")

    def place(self, name: str = "p", **spec: Any) -> None:
        annotations = spec.pop("annotations", {})
        self.declare("Placement", name, spec, namespace="ns", annotations=annotations)
        self.flow.run()

    def clusters(self, name: str = "p") -> list[str]:
        found = self.flow.table(PLACEMENTS)
        mine = [event for key, event in found.items() if key.startswith(f"PlacementDecision/ns/{name}-decision-")]
        return sorted(cluster for event in mine for cluster in event.clusters)

    def explained(self, wanted: Wanted | None = None, name: str = "p") -> Explanation:
        return explain_placement(SnapshotGrounds(copy(self.flow), self.settings), "ns", name, wanted)


def test_why_these_clusters_and_not_others() -> None:
    world = SelectingWorld("a", "b", "c")
    world.declare("ManagedCluster", "d", spec={}, labels={})
    world.say("b", "False")
    world.place(numberOfClusters=1)
    told = world.explained(ALL)
    assert told.agrees
    assert (told.considered, told.fitting) == (3, 2)
    assert [one.name for one in told.targets if one.here] == world.clusters() == ["a"]
    assert of(told, "c").outcome == "passes; 2nd best, and 1 is asked for"
    assert "unavailable:NoSelect" in of(told, "b").outcome
    assert "is not in any set" in of(told, "d").outcome
    assert "the cluster is in default, global" in said(world.explained(Wanted("d")), closely=True)
    way = topics(chain(world.explained(Wanted("b")), "the taints of cluster b"))
    assert way == ["condition-reports", "conditions", "taints"]


def test_until_when_a_tolerated_cluster_stays_and_what_led_to_its_end() -> None:
    world = SelectingWorld("a", "b")
    world.place(numberOfClusters=1, tolerations=[{"key": "gpu", "operator": "Exists", "tolerationSeconds": 60}])
    world.taint("a", "gpu")
    world.flow.advance(20)
    told = world.explained()
    assert told.agrees
    assert told.until[0].when == world.flow.now + timedelta(seconds=40)
    assert told.until[-1].when == told.until[0].when
    world.flow.advance(50)
    assert world.clusters() == ["b"]
    told = world.explained(Wanted("a"))
    assert told.agrees
    assert "tolerated no longer" in of(told, "a").outcome
    assert "ended at" in said(told, closely=True)
    behind = chain(told, "the decision")
    assert behind.whole
    assert topics(behind) == ["lost", "placements"], "no event: a time was over"
    assert "its own clock was the cause" in behind.steps[0].note
    assert "clock" in said(told)


def test_a_cluster_that_a_report_took_away() -> None:
    world = SelectingWorld("a", "b", "c")
    world.place()
    assert world.clusters() == ["a", "b", "c"]
    world.say("b", "False")
    world.flow.advance(1)
    told = world.explained()
    assert told.agrees
    assert topics(chain(told, "the decision")) == ["condition-reports", "conditions", "taints", "placements"]
    part = chain(world.explained(Wanted("a")), "p-decision-1, which has cluster a")
    assert topics(part)[-1] == "placements"
    world.flow.compact()
    assert world.explained().agrees


def test_one_that_is_misconfigured_disabled_or_gone() -> None:
    world = SelectingWorld("a", "b")
    world.place(tolerations=[{"operator": "Equal"}])
    told = world.explained(ALL)
    assert told.agrees
    assert any("If the key is empty, operator must be Exists" in note for note in told.notes)
    assert "nothing is decided" in of(told, "a").outcome
    disabled = {"cluster.open-cluster-management.io/experimental-scheduling-disable": "true"}
    world.place("q", annotations=disabled)
    told = world.explained(ALL, "q")
    assert told.agrees
    assert any("disabled by its annotation" in note for note in told.notes)
    assert of(told, "a").outcome.startswith("would be selected")
    with pytest.raises(NotFoundError, match=r'placements.cluster.open-cluster-management.io "gone" not found'):
        world.explained(name="gone")
    with pytest.raises(NotFoundError, match=r'managedclusters.cluster.open-cluster-management.io "x" not found'):
        world.explained(Wanted("x"))


def test_what_has_changed_since_is_told() -> None:
    world = SelectingWorld("a", "b")
    world.place(numberOfClusters=1)
    world.taint("a", "gpu")
    told = world.explained()
    assert not told.agrees, "no service has seen the taint yet"
    assert "would be selected now: b" in told.differences
    assert "no longer: a" in told.differences


@pytest.mark.parametrize("seed", range(6))
def test_at_rest_every_explanation_agrees_with_the_decision(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - the random choices must be repeatable
    names = ["a", "b", "c", "d"]
    world = SelectingWorld(*names)
    tolerations = [{"key": "t", "operator": "Exists", "tolerationSeconds": 30}]
    exact = {"mode": "Exact", "configurations": [{"scoreCoordinate": {"builtIn": "Steady"}, "weight": 1}]}
    spec: dict[str, Any] = {"tolerations": tolerations, "prioritizerPolicy": exact}
    world.place(**spec, numberOfClusters=2)
    assert world.clusters() == ["a", "b"]
    for _ in range(8):
        match rng.randrange(4):
            case 0:
                world.taint(rng.choice(names), "t", rng.choice(["NoSelect", "NoSelectIfNew"]))
            case 1:
                world.untaint(rng.choice(names), "t", rng.choice(["NoSelect", "NoSelectIfNew"]))
            case 2:
                world.say(rng.choice(names), rng.choice(["True", "False"]))
            case _:
                world.place(**spec, numberOfClusters=rng.randint(1, 3))
        world.flow.run()
        world.flow.advance(rng.choice([1, 40]))
        told = world.explained(ALL)
        assert told.agrees, told.differences
        assert sorted(one.name for one in told.targets if one.here) == world.clusters()
