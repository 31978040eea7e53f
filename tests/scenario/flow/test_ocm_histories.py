"""After any history, with crashes at any point, the records equal new decisions on everything."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.scenario.flow.test_placement_workers import Apart
from tests.support.tables import table
from tests.support.worlds.flow import Crash
from tests.support.worlds.ocm import DISABLE, SET_LABEL, OcmWorld, by_score, labelled, ref, tolerates, weights

from moorage.decide.scheduling.ocm.cluster_sets import ManagedSets, usable_sets
from moorage.decide.scheduling.ocm.columns.cluster_facts import ManagedClusterFacts, ScoreFacts
from moorage.decide.scheduling.ocm.columns.managed_fleet import ManagedFleet
from moorage.decide.scheduling.ocm.columns.usage import Usage
from moorage.decide.scheduling.ocm.decisions.conditions import SATISFIED, conditions_of
from moorage.decide.scheduling.ocm.decisions.groups import GroupTerms
from moorage.decide.scheduling.ocm.plugin import Code, ManagedPrioritizer, Status
from moorage.decide.scheduling.ocm.scheduler import PlacementScheduler
from moorage.decide.scheduling.ocm.spec import terms_of
from moorage.runtime.service import Service
from moorage.workers.placement.ocm.managed_view import ManagedView
from moorage_schemas.resources.managed import ManagedClusterSet, Placement
from moorage_schemas.times import format_time
from moorage_schemas.topics import PLACEMENTS, RESOURCES, TAINTS

CLUSTERS = [f"c{number}" for number in range(9)]
EFFECTS = ["NoSelect", "NoSelectIfNew", "PreferNoSelect"]
SETS = ["default", "global", "prod", "eu"]
NAMESPACES = ["default", "shop"]
POLICIES: list[dict[str, Any]] = [
    {},
    {},
    by_score(),
    by_score(-2),
    weights(ResourceAllocatableCPU=1),
    weights(ResourceAllocatableMemory=-3, Steady=1),
    weights(Steady=2),
    weights(PreferNoSelect=1),
    {"mode": "Exact", "configurations": [*weights(PreferNoSelect=1)["configurations"], *by_score()["configurations"]]},
    weights(Balance=1),
    weights(Steady=-1),
    {
        "mode": "Exact",
        "configurations": [*weights(ResourceAllocatableCPU=2)["configurations"], *by_score()["configurations"]],
    },
    {"configurations": [*weights(PreferNoSelect=3)["configurations"], *by_score(2)["configurations"]]},
    {"mode": "Wrong"},
]


class History:
    """A random history of a world."""

    def __init__(self, seed: int, own: Service[Any] | None = None) -> None:
        self.rng = random.Random(seed)  # noqa: S311 - the random choices must be repeatable
        self.world = OcmWorld(*CLUSTERS[:4], seed=seed, own=own)
        self.uids = 0
        self.calm = (30, 1000)[seed % 2]
        """How many steps there are for two crashes, about: what is known by heart is forgotten in a crash."""

        self.world.flow.crash_when = self.crash

    def crash(self, _service: str, _partition: int) -> Crash | None:
        return self.rng.choice([*[None] * self.calm, Crash.BEFORE_COMMIT, Crash.AFTER_COMMIT])

    def one_of(self, *values: Any) -> Any:
        return self.rng.choice(values)

    def cluster(self) -> None:
        labels = {SET_LABEL: self.one_of("prod", "none")} if self.rng.random() < 0.4 else {}
        labels["region"] = self.one_of("eu", "us")
        cpu = str(self.rng.randint(1, 9))
        status = {"allocatable": {"cpu": cpu, "memory": f"{cpu}Gi"}, "capacity": {"cpu": "10", "memory": "10Gi"}}
        status["clusterClaims"] = [{"name": "gpu", "value": self.one_of("yes", "no")}]  # type: ignore[assignment]  # as JSON
        self.world.cluster(self.rng.choice(CLUSTERS), labels=labels, status=status)

    def taint(self) -> None:
        known = [name for name in CLUSTERS if ref(name).key in self.world.flow.table(TAINTS)]
        if known:
            change = self.one_of(self.world.taint, self.world.taint, self.world.untaint)
            change(self.rng.choice(known), self.one_of("bad", "worse"), self.rng.choice(EFFECTS))

    def score(self) -> None:
        ends = self.world.flow.now.replace(microsecond=0)
        until = self.one_of(None, None, format_time(ends.replace(minute=(ends.minute + 1) % 60)))
        self.world.score(self.rng.choice(CLUSTERS), self.rng.randint(-100, 100), until=until)

    def placement(self) -> None:
        spec: dict[str, Any] = {"prioritizerPolicy": self.rng.choice(POLICIES)}
        if self.rng.random() < 0.6:
            spec["numberOfClusters"] = self.rng.randint(0, 5)
        if self.rng.random() < 0.4:
            spec["clusterSets"] = self.rng.sample(SETS, 2)
        if self.rng.random() < 0.4:
            claim = {"claimSelector": {"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["yes"]}]}}
            cel = {"celSelector": {"celExpressions": ["managedCluster.metadata.labels['region'] == 'eu'"]}}
            spec["predicates"] = [
                self.one_of(labelled(region="eu"), {"requiredClusterSelector": claim}, {"requiredClusterSelector": cel})
            ]
        if self.rng.random() < 0.6:
            wrong = {"operator": "Equal", "value": "x"}
            limited = tolerates("bad", seconds=self.rng.randint(1, 60))
            spec["tolerations"] = [self.one_of(tolerates("bad"), limited, limited, tolerates("worse"), wrong)]
        if self.rng.random() < 0.3:
            cel = {"celSelector": {"celExpressions": ["managedCluster.status.allocatable['cpu'] > '5'"]}}
            select = self.one_of({"labelSelector": {"matchLabels": {"region": "eu"}}}, cel)
            group = {"groupName": "eu", "groupClusterSelector": select}
            spec["decisionStrategy"] = {
                "groupStrategy": {"decisionGroups": [group], "clustersPerDecisionGroup": self.one_of(1, 2, "50%")}
            }
        if self.rng.random() < 0.1:
            self.uids += 1
        annotations = {DISABLE: "true"} if self.rng.random() < 0.1 else {}
        name, namespace = f"p{self.rng.randint(0, 7)}", self.rng.choice(NAMESPACES)
        self.world.placement(name, namespace=namespace, annotations=annotations, uid=f"uid-{self.uids}", **spec)

    def sets(self) -> None:
        name, namespace = self.rng.choice(SETS), self.rng.choice(NAMESPACES)
        self.one_of(
            lambda: self.world.set("prod"),
            lambda: self.world.set("eu", {"matchLabels": {"region": self.one_of("eu", "us")}}),
            lambda: self.world.bind_set(name, namespace=namespace),
            lambda: self.world.bind_set(name, namespace=namespace),
            lambda: self.world.delete("ManagedClusterSet", self.one_of("prod", "eu")),
            lambda: self.world.delete("ManagedClusterSetBinding", name, namespace=namespace),
        )()

    def delete(self) -> None:
        kind = self.one_of("ManagedCluster", "Placement", "AddOnPlacementScore")
        if kind == "ManagedCluster":
            self.world.delete(kind, self.rng.choice(CLUSTERS))
        elif kind == "Placement":
            self.world.delete(kind, f"p{self.rng.randint(0, 7)}", namespace=self.rng.choice(NAMESPACES))
        else:
            self.world.delete(kind, "load", namespace=self.rng.choice(CLUSTERS))

    def restart(self) -> None:
        self.world.restart(compact=self.rng.random() < 0.3)

    def step(self) -> None:
        draw = self.rng.choices(
            [self.cluster, self.taint, self.score, self.placement, self.sets, self.delete, self.restart],
            [4, 6, 2, 4, 2, 2, 30 / self.calm],
        )[0]
        draw()
        if self.rng.random() < 0.3:
            self.world.run()
        if self.rng.random() < 0.2:
            self.world.advance(self.rng.choice([0.5, 1, 10, 61]))


def declared(world: OcmWorld) -> tuple[ManagedFleet, ManagedSets, dict[str, set[str]]]:
    """The clusters, the sets, and the bindings by namespace."""
    resources, tainted = world.flow.table(RESOURCES), world.flow.table(TAINTS)
    fleet, sets = ManagedFleet(), ManagedSets()
    bound: dict[str, set[str]] = {}
    for key, event in resources.items():
        if event.kind == "ManagedCluster":
            taints = [one.as_taint() for one in tainted[key.replace("//", "/")].taints]
            fleet.put(ManagedClusterFacts.of(event.object, taints=taints))
        elif event.kind == "AddOnPlacementScore":
            fleet.put_score(ScoreFacts.of(event.object))
        elif event.kind == "ManagedClusterSet":
            sets.put(event.name, ManagedClusterSet.model_validate(event.object).spec)
        elif event.kind == "ManagedClusterSetBinding":
            bound.setdefault(event.namespace, set()).add(event.name)
    return fleet, sets, bound


def anew(world: OcmWorld) -> None:
    """Decide on every placement from the declared objects only, and compare."""
    resources, placed = world.flow.table(RESOURCES), world.flow.table(PLACEMENTS)
    fleet, sets, bound = declared(world)
    usage = Usage(fleet)
    for key, event in placed.items():
        if key.startswith("PlacementDecision/"):
            usage.add(event.clusters)
    for key, event in resources.items():
        if event.kind != "Placement" or event.object["metadata"]["annotations"].get(DISABLE) == "true":
            continue
        spec = Placement.model_validate(event.object).spec
        terms = terms_of(spec)
        usable = usable_sets(bound.get(event.namespace, ()), sets, terms.sets)
        candidates = frozenset(one for name in usable.eligible if (one := sets.get(name)) is not None)
        has = world.selected(event.name, event.namespace)
        found = PlacementScheduler(fleet).schedule(
            terms, candidates=candidates, decided=has, usage=usage, now=world.flow.now, usage_has_decided=True
        )
        record = placed[key]
        assert record.uid == event.uid
        groups = GroupTerms.of(spec.decision_strategy).cut(has, lambda name: fleet.at(fleet.row(name)))
        assert [part for part in world.decisions(event.name, event.namespace).values() if part] == [
            group.clusters for group in groups if group.clusters
        ]
        assert record.selected == len(has) == len(found.decisions), key
        wrong = next(one for one in record.conditions if one.type == "PlacementMisconfigured").status == "True"
        assert wrong == found.status.is_error
        assert set(has) <= set(found.feasible), key
        told = conditions_of(
            Status(Code.MISCONFIGURED) if wrong else Status(),
            usable,
            available=found.considered,
            decisions=len(has),
            unscheduled=found.unscheduled,
            now=world.flow.now,
        )
        (satisfied,) = (one for one in record.conditions if one.type == SATISFIED)
        assert (satisfied.reason, satisfied.message) == (told[1].reason, told[1].message), key
        ends = PlacementScheduler(fleet).requeue_at(terms, has, world.flow.now)
        assert ends is None or (record.decide_again is not None and record.decide_again <= ends), key
        drifts = {one.name: one.weight for one in found.prioritizers}
        if "Balance" not in drifts and drifts.get("Steady", 0) >= 0:
            assert has == sorted(found.decisions), key
            relative = terms.number and any(
                one.relative for one in ManagedPrioritizer.discovered() if one.name in drifts
            )
            if relative and record.decide_again is not None:
                assert found.requeue_at is None or record.decide_again <= found.requeue_at, key
            else:
                assert record.decide_again == found.requeue_at, key
    view = world.flow.state("placement", 0).view.ocm
    assert {name: int(view.usage.counts[view.fleet.row(name)]) for name in CLUSTERS} == {
        name: int(usage.counts[fleet.row(name)]) for name in CLUSTERS
    }
    assert view.usage.most == usage.most
    owners = {event.owner.key for event in placed.values()}
    assert owners <= resources.keys()


def tidy_at_once(view: ManagedView) -> None:
    """As `ManagedView` does when many clusters are gone."""
    view.fleet.forget((view.usage.counts > 0) | view._selections.selected)


@table("seed", range(12))
def test_workers_that_see_the_log_late_come_to_the_same(seed: int) -> None:
    own = Apart(random.Random(seed))  # noqa: S311 - the random choices must be repeatable
    history = History(seed, own)
    world = history.world
    for number in range(60):
        draw = history.one_of(history.cluster, history.taint, history.taint, history.score, history.placement)
        draw()
        if number % 5 == 4:
            history.sets()
            history.delete()
        world.flow.run()
    own.lag = False
    world.flow.crash_when = lambda _service, _partition: None
    world.run()
    assert not world.flow.reconcile("placement")
    anew(world)


@pytest.mark.parametrize("seed", range(25))
def test_any_history_ends_where_deciding_anew_ends(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 3:  # what is gone is let go of at once
        monkeypatch.setattr(ManagedView, "_tidy", tidy_at_once)
    history = History(seed)
    world = history.world
    for number in range(90):
        history.step()
        if number % 15 == 14:
            world.flow.crash_when = lambda _service, _partition: None
            world.run()
            world.advance(61)  # what is no more may have gone unread
            anew(world)
            world.flow.crash_when = history.crash
    world.flow.crash_when = lambda _service, _partition: None
    world.run()
    world.advance(61)
    assert not world.flow.reconcile("placement")
    world.restart()
    before = world.writes()
    world.run()
    assert world.writes() == before, "a restart moves nothing"
    anew(world)
    for key in list(world.flow.table(RESOURCES)):
        if key.startswith("Placement/"):
            _, namespace, name = key.split("/")
            world.delete("Placement", name, namespace=namespace)
    world.run()
    assert not world.flow.table(PLACEMENTS)
