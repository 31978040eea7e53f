"""The taint-manager on clusters and nodes: policies, grants, flap damping and crashes, compared with a simple model."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.worlds.flow import START, Crash
from tests.support.worlds.world import World, flow_of

from moorage.runtime.settings.process_settings import Settings
from moorage.workers import taint_manager
from moorage_schemas.condition import ConditionChanged, ConditionStatus
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.taint import TargetTainted
from moorage_schemas.topics import CONDITIONS, FLEET, RESOURCES, TAINTS, ZONE_GRANTS, ZONE_MEMBERS
from moorage_schemas.zone import NoExecuteGranted

C = "cluster.karmada.io/"
K = "node.kubernetes.io/"
Matched = tuple[tuple[str, str, tuple[str, ...]], ...]
"""Condition, operator, values."""


@dataclass(frozen=True)
class Rule:
    """A policy in the form that the tests use."""

    add: Matched = ()
    remove: Matched = ()
    taints: tuple[tuple[str, str, str], ...] = (("net", "NoSchedule", ""),)
    """Key, effect, value."""

    clusters: tuple[str, ...] = ()
    holds: tuple[int | None, int | None] = (None, None)

    def written(self) -> dict[str, Any]:
        """Its annotations and its spec."""
        notes = ("moorage.io/taint-add-hold", "moorage.io/taint-remove-hold")

        def listed(matched: Matched) -> list[dict[str, Any]]:
            return [{"conditionType": c, "operator": o, "statusValues": list(v)} for c, o, v in matched]

        return {
            "annotations": {note: f"{s}s" for note, s in zip(notes, self.holds, strict=True) if s is not None},
            "spec": {
                "targetClusters": {"clusterNames": list(self.clusters)},
                "addOnConditions": listed(self.add),
                "removeOnConditions": listed(self.remove),
                "taints": [{"key": k, "effect": e, "value": v} for k, e, v in self.taints],
            },
        }


def down(condition: str = "Ready") -> Matched:
    return ((condition, "In", ("False", "Unknown")),)


def up(condition: str = "Ready") -> Matched:
    return ((condition, "In", ("True",)),)


class TaintingWorld(World):
    """A taint-manager, and what people, condition-ingest and the governor write for it."""

    effect: ClassVar[str] = "NoSchedule"

    def __init__(self, partitions: int = 2, **options: Any) -> None:
        chosen = {"feature_gates": "Failover=true", "allow_no_execute_taint_policy": True, **options}
        super().__init__(flow_of([taint_manager.service(Settings(**chosen))], partitions=partitions))
        self._known: dict[tuple[str, str], ConditionChanged] = {}
        self._grants = 0

    def condition(self, target: str, condition: str, status: str) -> None:
        """Write a condition as condition-ingest does."""
        known = self._known.get((target, condition))
        same = known is not None and (known.status, known.target_uid) == (status, self.uid(target))
        now = self.flow.now
        event = ConditionChanged(
            target=self.ref(target),
            target_uid=self.uid(target),
            type=condition,
            status=ConditionStatus(status),
            last_transition_time=now,
            last_heartbeat_time=now,
            generation=known.generation + 1 if known is not None else 1,
            accepted_time=now,
            status_since=known.status_since if known is not None and same else now,
        )
        self._known[target, condition] = event
        self.flow.produce(CONDITIONS, f"{target}|{condition}", event, partition_key=target)

    def policy(self, name: str, rule: Rule | None) -> None:
        """Declare a policy, change it, or delete it."""
        if rule is not None:
            self.declare("ClusterTaintPolicy", name, **rule.written())
        elif f"ClusterTaintPolicy//{name}" in self.objects:
            self.delete("ClusterTaintPolicy", name)

    def grant(self, target: str, incident: int, *, granted: bool = True) -> None:
        self._grants += 1
        event = NoExecuteGranted(
            target=TargetRef(kind=TargetKind.NODE, name=target.partition("/")[2]),
            target_uid=self.uid(target),
            zone="/",
            incident=incident,
            generation=self._grants,
            granted=granted,
            granted_time=self.flow.now,
        )
        self.flow.produce(ZONE_GRANTS, target, event)

    def look(self, target: str) -> TargetTainted:
        """The taints of a target when the services are at rest."""
        self.flow.run()
        event = self.flow.table(TAINTS)[target]
        assert isinstance(event, TargetTainted)
        return event

    def taints(self, target: str) -> list[tuple[str, str, float]]:
        """Key, effect and the seconds of `timeAdded` of each taint."""
        return [(t.key, t.effect, (t.time_added - START).total_seconds()) for t in self.look(target).taints]


def test_a_new_policy_reaches_the_clusters_of_every_partition() -> None:
    world = TaintingWorld(partitions=3)
    names = [f"Cluster/c{i}" for i in range(6)]
    for name in names:
        world.target(name)
        world.condition(name, "Ready", "False")
    world.flow.advance(5)
    assert {world.flow.partition(name) for name in names} == {0, 1, 2}
    world.policy("p", Rule(add=down(), clusters=tuple(f"c{i}" for i in range(5))))
    world.flow.run()
    for name in names[:5]:
        assert world.taints(name) == [(C + "not-ready", "NoSchedule", 0), ("net", "NoSchedule", 5)]
    assert len(world.taints("Cluster/c5")) == 1
    (declared,) = [r for r in world.flow.records(RESOURCES) if r.name.startswith("ClusterTaintPolicy")]
    last = world.flow.records(TAINTS)[-1]
    assert last.meta.causation_id == declared.meta.id


def test_policies_that_come_while_the_service_is_busy_count_from_when_they_came() -> None:
    world = TaintingWorld()
    world.target("Cluster/c1")
    world.condition("Cluster/c1", "Net", "False")
    world.flow.run()
    for i, key in enumerate("abc"):
        world.policy(key, Rule(add=down("Net"), taints=((key, "NoSchedule", ""),)))
        world.flow.now += timedelta(seconds=5)
        if i == 0:
            world.flow.run()
    assert world.taints("Cluster/c1") == [("a", "NoSchedule", 0), ("b", "NoSchedule", 5), ("c", "NoSchedule", 10)]


def test_an_edited_and_a_deleted_policy_take_nothing_away() -> None:
    world = TaintingWorld()
    world.target("Cluster/c1")
    world.condition("Cluster/c1", "Ready", "False")
    world.policy("p", Rule(add=down()))
    world.flow.run()
    there = world.taints("Cluster/c1")
    assert len(there) == 2
    world.flow.advance(5)
    world.policy("p", Rule(add=down("Other"), taints=(("other", "NoExecute", ""),)))
    assert world.taints("Cluster/c1") == there
    world.policy("p", None)
    assert world.taints("Cluster/c1") == there
    world.condition("Cluster/c1", "Ready", "True")
    assert world.taints("Cluster/c1") == there[1:]


def test_what_one_policy_adds_and_removes_at_once_goes_in_one_update() -> None:
    world = TaintingWorld()
    world.target("Cluster/c1")
    world.taint("Cluster/c1", "net")
    world.flow.run()
    before = len(world.flow.records(TAINTS))
    world.policy("p", Rule(add=up("Net"), remove=up("Net")))
    world.condition("Cluster/c1", "Net", "True")
    assert world.taints("Cluster/c1") == []
    assert len(world.flow.records(TAINTS)) == before + 1


def test_heartbeats_labels_and_deleted_policies_evaluate_nothing() -> None:
    world = TaintingWorld()
    world.target("Cluster/c1")
    world.condition("Cluster/c1", "Net", "False")
    world.policy("p", Rule(add=down("Net")))
    world.flow.run()
    world.untaint("Cluster/c1", "net")
    assert world.taints("Cluster/c1") == []
    written = len(world.flow.records(TAINTS))
    world.flow.advance(5)
    world.condition("Cluster/c1", "Net", "False")
    world.target("Cluster/c1", provider="p")
    world.policy("q", None)
    world.policy("p", Rule(add=down("Net")))
    assert world.taints("Cluster/c1") == []
    assert len(world.flow.records(TAINTS)) == written
    world.condition("Cluster/c1", "Net", "Unknown")
    assert world.taints("Cluster/c1") == [("net", "NoSchedule", 5)]


def test_a_restart_writes_nothing_and_a_policy_changed_meanwhile_is_worked_in() -> None:
    world = TaintingWorld()
    for name in ("Cluster/c1", "Cluster/c2", "Node/n1"):
        world.target(name)
        world.condition(name, "Ready", "False")
    # One policy removes what the other adds. Each evaluation does both, so nothing changes.
    world.policy("a", Rule(remove=down(), taints=(("x", "NoExecute", ""),)))
    world.flow.advance(1)
    world.policy("b", Rule(add=down(), taints=(("x", "NoExecute", ""),)))
    world.flow.run()
    written = len(world.flow.records(TAINTS)), len(world.flow.records(ZONE_MEMBERS))
    world.flow.advance(5)
    world.flow.crash_process("taint-manager")
    world.flow.run()
    assert world.flow.reconcile() == []
    assert (len(world.flow.records(TAINTS)), len(world.flow.records(ZONE_MEMBERS))) == written
    world.flow.crash_process("taint-manager")
    world.policy("p", Rule(add=down()))
    assert world.taints("Cluster/c1")[-1] == ("net", "NoSchedule", 6)


@pytest.mark.parametrize("gate", ["", "Failover=false"])
def test_without_the_gate_policies_do_nothing(gate: str) -> None:
    world = TaintingWorld(feature_gates=gate)
    world.target("Cluster/c1")
    world.policy("p", Rule(add=down()))
    world.condition("Cluster/c1", "Ready", "Unknown")
    assert world.taints("Cluster/c1") == [(C + "unreachable", "NoSchedule", 0)]


@pytest.mark.parametrize("away", [False, True])
def test_a_wait_ends_when_it_should_though_the_service_comes_back_late(away: bool) -> None:  # noqa: FBT001 - both ways
    world = TaintingWorld(taint_add_hold="10s")
    for name in ("Cluster/c1", "Node/n1"):
        world.target(name)
        world.condition(name, "Ready", "True")
    world.policy("p", Rule(add=down("Net"), holds=(20, None)))
    world.flow.run()
    world.condition("Cluster/c1", "Net", "False")
    world.condition("Node/n1", "Ready", "False")
    held = world.look("Cluster/c1").held
    assert [(h.key, h.since) for h in held] == [("net", START)]
    assert {h.effect for h in world.look("Node/n1").held} == {"NoSchedule", "NoExecute"}
    if away:
        world.flow.crash_process("taint-manager")
        world.flow.now += timedelta(seconds=60)
    else:
        world.flow.advance(60)
    assert world.taints("Cluster/c1") == [("net", "NoSchedule", 20)]
    assert world.taints("Node/n1") == [(K + "not-ready", "NoSchedule", 10)]
    incident = world.look("Node/n1").incident
    world.grant("Node/n1", incident)
    assert world.taints("Node/n1")[1] == (K + "not-ready", "NoExecute", 60)


@pytest.mark.parametrize("away", [False, True])
def test_what_came_and_went_while_the_service_was_away_came_and_went(away: bool) -> None:  # noqa: FBT001 - both ways
    world = TaintingWorld(taint_add_hold="10s")
    world.target("Node/n1")
    world.condition("Node/n1", "DiskPressure", "True")
    world.flow.run()
    if away:
        world.flow.crash_process("taint-manager")
        world.flow.now += timedelta(seconds=30)
    else:
        world.flow.advance(30)
    world.condition("Node/n1", "DiskPressure", "False")
    world.flow.run()
    seen = [[(t.key, t.time_added) for t in event.taints] for event in world.flow.events(TAINTS)]
    assert seen[-2:] == [[(K + "disk-pressure", START + timedelta(seconds=10))], []]


def test_nothing_waits_for_a_deleted_policy() -> None:
    world = TaintingWorld()
    world.target("Cluster/c1")
    world.condition("Cluster/c1", "Net", "False")
    world.policy("p", Rule(add=down("Net"), holds=(20, None)))
    assert len(world.look("Cluster/c1").held) == 1
    world.policy("p", None)
    assert world.look("Cluster/c1").held == ()
    world.flow.advance(30)
    assert world.taints("Cluster/c1") == []


def test_the_end_of_a_wait_of_the_state_evaluates_no_policy() -> None:
    world = TaintingWorld(taint_add_hold="10s")
    world.target("Cluster/c1")
    world.policy("p", Rule(add=down("Net"), holds=(0, None)))
    world.condition("Cluster/c1", "Net", "False")
    world.condition("Cluster/c1", "Ready", "False")
    assert world.taints("Cluster/c1") == [("net", "NoSchedule", 0)]
    world.untaint("Cluster/c1", "net")
    world.flow.advance(30)
    assert world.taints("Cluster/c1") == [(C + "not-ready", "NoSchedule", 10)]


def test_a_deleted_node_leaves_nothing_behind() -> None:
    world = TaintingWorld()
    world.target("Node/n1")
    world.condition("Node/n1", "Ready", "False")
    incident = world.look("Node/n1").incident
    world.delete_target("Node/n1")
    world.flow.run()
    assert world.flow.table(TAINTS) == world.flow.table(ZONE_MEMBERS) == {}
    world.target("Node/n1")
    world.grant("Node/n1", incident)
    assert world.look("Node/n1").incident == 0
    partitions = {record.partition for record in world.flow.records(ZONE_MEMBERS)}
    assert partitions == {world.flow.partition(FLEET)}


# The model.

TARGETS = ("Cluster/c1", "Cluster/c2", "Node/n1")
DERIVED = {"condition"}
READY_KEYS = {
    "Cluster": {"False": C + "not-ready", "Unknown": C + "unreachable"},
    "Node": {"False": K + "not-ready", "Unknown": K + "unreachable"},
}
EFFECTS = {"Cluster": ("NoSchedule",), "Node": ("NoSchedule", "NoExecute")}
Identity = tuple[str, str]
BUILT_IN: dict[str, set[Identity]] = {
    kind: {(key, effect) for key in READY_KEYS[kind].values() for effect in EFFECTS[kind]} for kind in READY_KEYS
}
BUILT_IN["Node"].add((K + "disk-pressure", "NoSchedule"))


@dataclass
class Mark:
    """A taint of the model."""

    value: str
    time: int
    origins: set[str]


@dataclass
class Target:
    """A target of the model."""

    kind: str
    name: str
    taints: dict[Identity, Mark] = field(default_factory=dict)
    conditions: dict[str, tuple[str, int]] = field(default_factory=dict)
    incident: int | None = None
    """Since when."""

    word: bool | None = None
    """The governor's answer for the present incident."""

    def of_condition(self, identity: Identity) -> bool:
        return "condition" in self.taints.get(identity, Mark("", 0, set())).origins


def fresh(target: str) -> Target:
    kind, name = target.split("/")
    return Target(kind, name)


@dataclass
class Model:
    """The expected taints, second by second, if everything is known at once."""

    add_hold: int
    remove_hold: int
    no_execute: bool
    now: int = 0
    targets: dict[str, Target] = field(default_factory=dict)
    policies: dict[str, tuple[int, Rule]] = field(default_factory=dict)

    # Taints that the state requires.

    def wanted(self, t: Target) -> tuple[set[Identity], set[Identity]]:
        """The taints that may be present, and those that wait."""
        may: set[Identity] = set()
        waits: set[Identity] = set()
        ready = t.conditions.get("Ready")
        keys = READY_KEYS[t.kind]
        if ready is not None and t.kind == "Node":
            if ready[0] == "True":
                t.incident = t.word = None
            elif t.incident is None:
                t.incident, t.word = self.now, None
        if ready is not None and ready[0] in keys:
            key = keys[ready[0]]
            other = next(k for k in keys.values() if k != key)
            since = ready[1] if t.incident is None else t.incident
            for effect in EFFECTS[t.kind]:
                word = t.word if effect == "NoExecute" else True
                there = t.of_condition((key, effect)) or t.of_condition((other, effect))
                free = word is not False and (there or (word is True and since + self.add_hold <= self.now))
                (may if free else waits).add((key, effect))
        disk = t.conditions.get("DiskPressure")
        if t.kind == "Node" and disk is not None and disk[0] == "True":
            identity = (K + "disk-pressure", "NoSchedule")
            free = t.of_condition(identity) or disk[1] + self.add_hold <= self.now
            (may if free else waits).add(identity)
        return may, waits

    def stays(self, t: Target, identity: Identity, may: set[Identity]) -> bool:
        key, effect = identity
        statuses = {k: s for s, k in READY_KEYS[t.kind].items()}
        condition = t.conditions.get("Ready" if key in statuses else "DiskPressure")
        if condition is None:
            return True
        if condition[0] == statuses.get(key, "True") or (
            key in statuses and any((k, effect) in may for k in statuses if k != key)
        ):
            return False
        if key in statuses and effect == "NoExecute" and t.word is False:
            return False
        return condition[1] + self.remove_hold > self.now

    def follow(self, t: Target, wishes: tuple[tuple[str, str, str, bool], ...] = ()) -> None:
        may, _ = self.wanted(t)
        for key, effect, value, present in wishes:
            identity = (key, effect)
            mark = t.taints.get(identity)
            if present and identity in BUILT_IN[t.kind]:
                continue
            if present and (mark is None or mark.value != value):
                origins = mark.origins if mark is not None else set()
                t.taints[identity] = Mark(value, self.now, origins | {"explicit"})
            elif present and mark is not None:
                mark.origins.add("explicit")
            elif mark is not None:
                mark.origins &= DERIVED if identity in may else set()
                mark.value = ""
        for identity, mark in list(t.taints.items()):
            if "condition" in mark.origins and identity not in may and not self.stays(t, identity, may):
                mark.origins.remove("condition")
            if not mark.origins:
                del t.taints[identity]
        for identity in may:
            t.taints.setdefault(identity, Mark("", self.now, set())).origins.add("condition")

    # Policies.

    def acts(self, t: Target) -> list[tuple[Rule, bool, int]]:
        """Whose, whether it adds, and when its conditions have held."""
        found = []
        for _, (_, rule) in sorted(self.policies.items(), key=lambda item: (item[1][0], item[0])):
            if rule.clusters and t.name not in rule.clusters:
                continue
            for adds, matched, general in ((True, rule.add, self.add_hold), (False, rule.remove, self.remove_hold)):
                hits = [
                    name in t.conditions and (t.conditions[name][0] in values) == (operator == "In")
                    for name, operator, values in matched
                ]
                if hits and all(hits):
                    own = rule.holds[0 if adds else 1]
                    found.append(
                        (rule, adds, max(t.conditions[m[0]][1] for m in matched) + (general if own is None else own))
                    )
        return found

    def moves(self, t: Target, rule: Rule, *, adds: bool) -> bool:
        if adds:
            return any("policy" not in t.taints.get(i, Mark("", 0, set())).origins for i, _ in self.of_rule(rule))
        marks = [t.taints.get((key, effect)) for key, effect, _ in rule.taints]
        return any(mark is not None and mark.origins - DERIVED for mark in marks)

    def of_rule(self, rule: Rule) -> list[tuple[Identity, str]]:
        """The taints that a rule may add to a cluster."""
        return [
            ((k, e), v)
            for k, e, v in rule.taints
            if (self.no_execute or e != "NoExecute") and (k, e) not in BUILT_IN["Cluster"]
        ]

    def evaluate(self, t: Target) -> None:
        if t.kind != "Cluster":
            return
        before = {identity: (mark.value, mark.time) for identity, mark in t.taints.items()}
        for rule, adds, end in self.acts(t):
            if end <= self.now:
                self.act(t, rule, adds=adds)
        for identity, (value, time) in before.items():
            mark = t.taints.get(identity)
            if mark is not None and mark.value == value:
                mark.time = time

    def act(self, t: Target, rule: Rule, *, adds: bool) -> None:
        if adds:
            for identity, value in self.of_rule(rule):
                t.taints.setdefault(identity, Mark(value, self.now, set())).origins.add("policy")
            return
        for key, effect, _ in rule.taints:
            mark = t.taints.get((key, effect))
            if mark is not None and mark.origins - DERIVED:
                mark.origins &= DERIVED
                if (key, effect) in self.wanted(t)[0]:
                    mark.value = ""
                if not mark.origins:
                    del t.taints[key, effect]

    def held(self, t: Target) -> set[Identity]:
        waits = self.wanted(t)[1]
        if t.kind == "Cluster":
            mine: set[Identity] = set()
            for rule, adds, end in self.acts(t):
                if adds and end > self.now:
                    mine |= {i for i, _ in self.of_rule(rule)}
                elif not adds and end <= self.now:
                    mine -= {(k, e) for k, e, _ in rule.taints}
            waits |= mine
        return {identity for identity in waits if identity not in t.taints}

    def tick(self) -> None:
        self.now += 1
        for t in self.targets.values():
            self.follow(t)
            if t.kind == "Cluster" and any(
                end == self.now and self.moves(t, rule, adds=adds) for rule, adds, end in self.acts(t)
            ):
                self.evaluate(t)


CONDITION = st.sampled_from(("Ready", "Net"))
REQUIREMENT = st.tuples(
    CONDITION, st.sampled_from(("In", "NotIn")), st.sampled_from((("True",), ("False",), ("False", "Unknown")))
)
MATCH = st.one_of(st.tuples(REQUIREMENT), st.tuples(REQUIREMENT), st.just(()), st.tuples(REQUIREMENT, REQUIREMENT))
POLICY_TAINTS = (("net", "NoSchedule", "v"), ("net", "NoExecute", ""), (C + "not-ready", "NoSchedule", ""))
RULES = st.builds(
    Rule,
    add=MATCH,
    remove=MATCH,
    taints=st.sets(st.sampled_from(POLICY_TAINTS), min_size=1, max_size=2).map(lambda taints: tuple(sorted(taints))),
    clusters=st.sampled_from(((), (), ("c1",), ("c2",))),
    holds=st.tuples(st.sampled_from((None, 0, 4)), st.sampled_from((None, 0, 3))),
)
WISHES = st.sampled_from(
    (
        ("net", "NoSchedule"),
        ("net", "NoExecute"),
        (C + "not-ready", "NoSchedule"),
        (K + "not-ready", "NoExecute"),
        (K + "disk-pressure", "NoSchedule"),
    )
)
TARGET = st.sampled_from(TARGETS)
CONDITIONS_OF = st.sampled_from(
    (
        *(("Cluster/c1", "Ready"), ("Cluster/c1", "Net"), ("Cluster/c2", "Net")),
        *(("Node/n1", "Ready"), ("Node/n1", "Ready"), ("Node/n1", "DiskPressure")),
    )
)
REPORT = st.builds(
    lambda where, status: ("report", *where, status), CONDITIONS_OF, st.sampled_from(("True", "False", "Unknown"))
)
ACTIONS = st.one_of(
    REPORT,
    REPORT,
    st.tuples(st.just("policy"), st.sampled_from(("a", "b", "c")), RULES),
    st.tuples(st.just("policy"), st.sampled_from(("a", "b", "c")), RULES),
    st.tuples(st.just("forget"), st.sampled_from(("a", "b", "c"))),
    st.tuples(st.just("wish"), TARGET, WISHES, st.sampled_from(("", "v")), st.booleans()),
    st.tuples(st.just("grant"), st.sampled_from((True, True, False)), st.sampled_from((0, 0, 0, 1))),
    st.tuples(st.just("wait"), st.integers(1, 6)),
    st.tuples(st.just("crash"), st.booleans()),
    st.tuples(st.just("remake"), TARGET),
)


class Pair:
    """A world and its model."""

    def __init__(self, holds: tuple[int, int], *, no_execute: bool, seed: int, faults: float) -> None:
        self.world = TaintingWorld(
            taint_add_hold=holds[0], taint_remove_hold=holds[1], allow_no_execute_taint_policy=no_execute
        )
        self.model = Model(*holds, no_execute=no_execute)
        self.crashed: list[tuple[int, int]] = []
        rng = random.Random(seed)  # noqa: S311 - seeded test data

        def crash(_service: str, partition: int) -> Crash | None:
            if rng.random() >= faults:
                return None
            self.note_crash(partition)
            return rng.choice((Crash.BEFORE_COMMIT, Crash.AFTER_COMMIT))

        self.world.flow.crash_when = crash
        for target in TARGETS:
            self.world.target(target)
            self.model.targets[target] = fresh(target)
            for condition in ("Ready", "Net"):
                self.do_report(target, condition, "True")
        self.settle()

    def note_crash(self, partition: int) -> None:
        self.crashed.append((int((self.world.flow.now - START).total_seconds()), partition))

    def settle(self) -> None:
        """Let the world come to rest, and update the model for clusters whose partition has just come back."""
        self.world.flow.run()
        self.check_again()
        self.crashed.clear()

    def check_again(self) -> None:
        for name, target in self.model.targets.items():
            if (self.model.now, self.world.flow.partition(name)) in self.crashed:
                self.model.evaluate(target)

    def do(self, action: tuple[Any, ...]) -> None:
        word, *rest = action
        getattr(self, f"do_{word}")(*rest)

    def do_report(self, name: str, condition: str, status: str) -> None:
        target = self.model.targets[name]
        self.world.condition(name, condition, status)
        if target.conditions.get(condition, ("", 0))[0] != status:
            target.conditions[condition] = (status, self.model.now)
            self.model.follow(target)
            self.model.evaluate(target)
        self.settle()

    def do_policy(self, name: str, rule: Rule) -> None:
        created, old = self.model.policies.get(name, (self.model.now, None))
        self.world.policy(name, rule)
        self.model.policies[name] = (created, rule)
        for target in self.model.targets.values():
            touched = any(r is not None and (not r.clusters or target.name in r.clusters) for r in (old, rule))
            if rule != old and touched:
                self.model.evaluate(target)
        self.settle()

    def do_forget(self, name: str) -> None:
        if self.model.policies.pop(name, None) is not None:
            self.world.policy(name, None)
        self.settle()

    def do_wish(self, name: str, identity: Identity, value: str, present: bool) -> None:  # noqa: FBT001 - generated by hypothesis
        if present:
            self.world.taint(name, *identity, value)
        else:
            self.world.untaint(name, *identity)
        self.model.follow(self.model.targets[name], ((*identity, value, present),))
        self.settle()

    def do_grant(self, granted: bool, older: int) -> None:  # noqa: FBT001 - generated by hypothesis
        node = self.model.targets["Node/n1"]
        known = self.world.look("Node/n1")
        self.world.grant("Node/n1", max((known.incident or known.generation) - older, 1), granted=granted)
        if node.incident is not None:
            node.word = granted if not older else None
            self.model.follow(node)
        self.settle()

    def do_wait(self, seconds: int) -> None:
        self.world.flow.advance(seconds)
        for _ in range(seconds):
            self.model.tick()
            self.check_again()
        self.crashed.clear()

    def do_crash(self, whole: bool) -> None:  # noqa: FBT001 - generated by hypothesis
        partitions = range(self.world.flow.partitions) if whole else (0,)
        for partition in partitions:
            self.note_crash(partition)
            self.world.flow.crash("taint-manager", partition)
        if whole:
            self.world.flow.crash_process("taint-manager")
        self.settle()

    def do_remake(self, name: str) -> None:
        self.world.delete_target(name)
        self.world.target(name)
        self.model.targets[name] = fresh(name)
        self.settle()

    def check(self) -> None:
        members = self.world.flow.table(ZONE_MEMBERS)
        for name, target in self.model.targets.items():
            event = self.world.look(name)
            found = {
                t.identity: Mark(t.value, int((t.time_added - START).total_seconds()), {o.value for o in t.origins})
                for t in event.taints
            }
            assert found == target.taints, name
            assert {(h.key, h.effect) for h in event.held} == self.model.held(target), name
            assert (event.incident > 0) == (target.incident is not None)
        node, member = self.model.targets["Node/n1"], members["Node/n1"]
        tainted = node.incident is not None and any(
            node.of_condition((key, "NoExecute")) for key in READY_KEYS["Node"].values()
        )
        assert (member.ready, member.tainted) == (node.incident is None, tainted)
        assert member.incident == self.world.look("Node/n1").incident
        assert set(members) == {"Node/n1"}

    def check_history(self) -> None:
        """Check that generations increase by one, and that no record repeats the one before."""
        last: dict[str, TargetTainted] = {}
        for record in self.world.flow.records(TAINTS):
            if record.value is None:
                last.pop(record.name)
                continue
            event = record.event
            before = last.get(record.name)
            if before is not None:
                same = {"generation": event.generation, "report_time": event.report_time}
                assert before.model_copy(update=same) != event
            assert event.generation == (before.generation if before is not None else 0) + 1
            last[record.name] = event


@example(  # nothing is there that could be removed, but what waits waits no longer
    actions=[
        ("report", "Cluster/c1", "Ready", "True"),
        ("policy", "b", Rule(add=up(), remove=up(), taints=(("net", "NoSchedule", "v"),), holds=(4, 3))),
        ("wait", 3),
        ("wait", 1),
    ],
    holds=(0, 0),
    no_execute=False,
    seed=0,
    faults=0.0,
)
@settings(max_examples=150)
@given(
    actions=st.lists(ACTIONS, min_size=8, max_size=40),
    holds=st.sampled_from(((0, 0), (3, 0), (0, 4), (2, 5))),
    no_execute=st.booleans(),
    seed=st.integers(0, 1000),
    faults=st.sampled_from((0.0, 0.0, 0.2)),
)
def test_any_life_is_as_the_model_says(
    actions: list[tuple[Any, ...]],
    holds: tuple[int, int],
    no_execute: bool,  # noqa: FBT001 - generated by hypothesis
    seed: int,
    faults: float,
) -> None:
    pair = Pair(holds, no_execute=no_execute, seed=seed, faults=faults)
    for action in actions:
        pair.do(action)
        pair.check()
    pair.check_history()
    assert pair.world.flow.reconcile() == []
