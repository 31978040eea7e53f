"""Deployers acknowledge evictions: done, failed or refused. Until they have, the bindings of what they run stay."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.worlds.karmada import KarmadaWorld
from tests.support.worlds.nodes import NodeWorld, pod_spec
from tests.support.worlds.world import PARTITIONS, TEMPLATE, WITNESS, World, lifted

from moorage_schemas.condition import EVICTED, FAILED, HEALTHY, REFUSED
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.placement import PlacementState, WorkloadBound
from moorage_schemas.topics import (
    BINDINGS,
    DEAD_LETTERS,
    EVICTION_ASKS,
    EVICTION_SLOTS,
    EVICTIONS,
    TIMERS,
    WORKLOAD_CONDITIONS,
)

REQUESTED, COMPLETED = EvictionState.REQUESTED, EvictionState.COMPLETED
SERVICES = ("condition-ingest", "taint-manager", "governor", "eviction", "timer", "placement")


def binding(world: World, name: str = "web") -> WorkloadBound:
    """The only binding whose workload's name begins like this."""
    (found,) = [one for one in world.flow.table(BINDINGS).values() if one.workload.name.startswith(name)]
    assert isinstance(found, WorkloadBound)
    return found


def runs(world: World, bound: WorkloadBound, status: str = "True") -> None:
    """A deployer reports how a workload runs."""
    world.report(bound.target.key, HEALTHY, status, source="deployer", binding=bound)
    world.run()


def acknowledge(world: World, bound: WorkloadBound, status: str = "True", reason: str = "", message: str = "") -> None:
    """A deployer reports what has become of an eviction."""
    world.flow.advance(1)
    world.report(bound.target.key, EVICTED, status, source="deployer", binding=bound, reason=reason, message=message)
    world.run()


def task(world: World, bound: WorkloadBound) -> EvictionDecided:
    """The eviction of a binding."""
    found = world.flow.table(EVICTIONS)[f"{bound.workload}|{bound.target}|{bound.generation}"]
    assert isinstance(found, EvictionDecided)
    return found


def a_bare_pod() -> tuple[NodeWorld, WorkloadBound]:
    """A pod that its deployer runs on the only node for it, and that has been evicted."""
    world = NodeWorld("n1", WITNESS)
    world.taint(WITNESS, "keep-out", "NoSchedule")
    world.declare("Pod", "web", pod_spec())
    world.run()
    bound = binding(world)
    runs(world, bound)
    world.taint("n1")
    world.run()
    return world, bound


def test_the_binding_of_a_pod_stays_until_its_deployer_has_acknowledged() -> None:
    world, bound = a_bare_pod()
    found = task(world, bound)
    assert (found.state, found.deployer, found.acknowledged) == (REQUESTED, "deployer", None)
    assert binding(world) == bound
    assert world.pods()["web"].state is PlacementState.PLACED

    acknowledge(world, bound, message="it has stopped")
    found = task(world, bound)
    assert found.state is COMPLETED
    assert found.acknowledged is not None
    assert (found.acknowledged.source, found.acknowledged.message) == ("deployer", "it has stopped")
    assert found.message == "deployer has acknowledged; the binding has ended"
    assert world.flow.table(BINDINGS) == {}
    assert world.pods()["web"].state is PlacementState.EVICTED


@pytest.mark.parametrize("status", ["True", "False", "Unknown"])
def test_a_deployer_undertakes_to_acknowledge_by_naming_its_binding_however_the_work_is(status: str) -> None:
    world = NodeWorld("n1", WITNESS)
    world.taint(WITNESS, "keep-out", "NoSchedule")
    world.declare("Pod", "web", pod_spec())
    world.run()
    runs(world, binding(world), status)
    world.taint("n1")
    assert task(world.run(), binding(world)).deployer == "deployer"


def test_without_such_a_report_a_binding_ends_at_once() -> None:
    world = NodeWorld("n1", WITNESS)
    world.taint(WITNESS, "keep-out", "NoSchedule")
    world.declare("Pod", "web", pod_spec())
    world.run()
    bound = binding(world)
    world.report("n1", HEALTHY, "True", source="deployer", workload=bound.workload)
    world.run()
    world.taint("n1")
    world.run()
    assert (task(world, bound).state, task(world, bound).deployer) == (COMPLETED, "")
    acknowledge(world, bound)
    assert task(world, bound).acknowledged is None, "it was over before"


def test_work_that_could_not_be_removed_is_escalated_until_it_is_gone() -> None:
    world, bound = a_bare_pod()
    acknowledge(world, bound, "False", FAILED, "the disk hangs")
    first = task(world, bound)
    assert first.state is REQUESTED
    assert first.escalated is not None
    assert (first.escalated.reason, first.escalated.message) == (FAILED, "the disk hangs")
    assert first.taints == task(world, bound).taints
    assert first.reason == "UntoleratedTaint"

    acknowledge(world, bound, "False", FAILED, "the disk hangs")
    assert task(world, bound) == first, "what is known already is not written again"
    acknowledge(world, bound, "False", FAILED, "the disk is gone")
    second = task(world, bound).escalated
    assert second is not None
    assert second.message == "the disk is gone"
    assert binding(world) == bound

    acknowledge(world, bound)
    last = task(world, bound)
    assert last.state is COMPLETED
    assert last.escalated == second, "what has happened stays known"
    assert last.acknowledged is not None


def test_a_refusal_is_escalated_and_the_binding_stays() -> None:
    world, bound = a_bare_pod()
    acknowledge(world, bound, "False", REFUSED, "it holds the only copy")
    world.advance(3600)
    found = task(world, bound)
    assert found.escalated is not None
    assert (found.state, found.escalated.reason) == (REQUESTED, REFUSED)
    assert binding(world) == bound


def test_an_unknown_outcome_changes_nothing() -> None:
    world, bound = a_bare_pod()
    before = task(world, bound)
    acknowledge(world, bound, "Unknown")
    assert task(world, bound) == before


@pytest.mark.parametrize(
    "other",
    [
        lambda bound: bound.model_copy(update={"uid": "uid-another"}),
        lambda bound: bound.model_copy(update={"generation": bound.generation + 1}),
    ],
)
def test_an_acknowledgement_counts_for_exactly_one_binding(other: Callable[[WorkloadBound], WorkloadBound]) -> None:
    world, bound = a_bare_pod()
    acknowledge(world, other(bound))
    assert task(world, bound).acknowledged is None
    assert binding(world) == bound


def test_an_acknowledgement_that_is_read_before_the_eviction_counts_when_that_is_requested() -> None:
    world = NodeWorld("n1", WITNESS)
    world.taint(WITNESS, "keep-out", "NoSchedule")
    world.declare("Pod", "web", pod_spec())
    world.run()
    bound = binding(world)
    runs(world, bound)
    acknowledge(world, bound)
    assert world.flow.table(EVICTIONS) == {}
    assert binding(world) == bound, "an acknowledgement alone ends nothing"
    world.taint("n1")
    world.run()
    assert task(world, bound).state is COMPLETED
    assert task(world, bound).acknowledged is not None


@pytest.mark.parametrize("tombstones", [True, False])
def test_restarts_between_the_steps_lose_nothing(*, tombstones: bool) -> None:
    world, bound = a_bare_pod()

    def restart() -> None:
        world.flow.compact(keep_tombstones=tombstones)
        for name in SERVICES:
            world.flow.crash_process(name)
        world.run()

    restart()
    assert (task(world, bound).state, binding(world)) == (REQUESTED, bound)
    acknowledge(world, bound, "False", FAILED, "not yet")
    restart()
    assert task(world, bound).escalated is not None
    acknowledge(world, bound)
    restart()
    assert task(world, bound).state is COMPLETED
    assert world.flow.table(BINDINGS) == {}


def test_an_acknowledgement_is_not_lost_while_the_service_is_down() -> None:
    world, bound = a_bare_pod()
    world.flow.stop("eviction")
    acknowledge(world, bound)
    assert task(world, bound).state is REQUESTED
    world.flow.start("eviction")
    world.run()
    assert task(world, bound).state is COMPLETED


def test_a_report_that_was_read_only_with_the_eviction_still_keeps_the_binding() -> None:
    """The service is down while the deployer reports and the taint appears, so it reads both at once."""
    world = NodeWorld("n1", WITNESS)
    world.taint(WITNESS, "keep-out", "NoSchedule")
    world.declare("Pod", "web", pod_spec())
    world.run()
    bound = binding(world)
    world.flow.stop("eviction")
    runs(world, bound)
    world.taint("n1")
    world.run()
    world.flow.start("eviction")
    world.run()
    assert (task(world, bound).state, task(world, bound).deployer) == (REQUESTED, "deployer")
    assert binding(world) == bound


def test_a_binding_ends_without_an_acknowledgement_when_its_node_is_gone() -> None:
    world, bound = a_bare_pod()
    world.delete_target("n1")
    world.run()
    assert world.flow.table(BINDINGS) == {}
    assert task(world, bound).state is COMPLETED
    assert task(world, bound).acknowledged is None


def test_a_binding_ends_without_an_acknowledgement_when_its_pod_is_deleted() -> None:
    world, bound = a_bare_pod()
    world.delete("Pod", "web")
    world.run()
    assert world.flow.table(BINDINGS) == {}
    assert task(world, bound).state is COMPLETED
    assert task(world, bound).acknowledged is None


OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


def test_a_node_that_is_out_of_service_needs_no_acknowledgement() -> None:
    """As Kubernetes deletes pods from such a node without its kubelet."""
    world, bound = a_bare_pod()
    requested = task(world, bound).decided_time
    acknowledge(world, bound, "False", FAILED, "the node does not answer")
    world.report("n1", "Ready", "Unknown")
    world.run()
    assert binding(world) == bound
    world.taint("n1", OUT_OF_SERVICE)
    world.run()
    found = task(world, bound)
    assert found.state is COMPLETED
    assert found.acknowledged is not None
    assert (found.acknowledged.source, found.acknowledged.time) == (f"taint/{OUT_OF_SERVICE}", world.flow.now)
    assert found.escalated is not None, "what has happened stays known"
    assert found.requested_time == requested < found.decided_time
    assert world.flow.table(BINDINGS) == {}
    assert world.pods()["web"].state is PlacementState.EVICTED


def test_an_eviction_from_a_node_that_is_out_of_service_already_waits_for_nobody() -> None:
    world = NodeWorld("n1", WITNESS)
    world.taint(WITNESS, "keep-out", "NoSchedule")
    patient = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300}
    world.declare("Pod", "web", pod_spec(tolerations=[patient]))
    world.run()
    bound = binding(world)
    runs(world, bound)
    world.report("n1", "Ready", "False")
    world.run()
    assert task(world, bound).state is EvictionState.SCHEDULED
    world.taint("n1", OUT_OF_SERVICE)
    world.run()
    found = task(world, bound)
    assert (found.state, found.deployer) == (COMPLETED, "deployer")
    assert found.acknowledged is not None
    assert found.requested_time == world.flow.now


@pytest.mark.parametrize("status", ["True", ""])
def test_a_node_that_is_ready_is_not_out_of_service_whatever_its_taints_say(status: str) -> None:
    world, bound = a_bare_pod()
    if status:
        world.report("n1", "Ready", status)
    world.taint("n1", OUT_OF_SERVICE)
    world.run()
    world.advance(3600)
    assert (task(world, bound).state, task(world, bound).acknowledged) == (REQUESTED, None)
    world.report("n1", "Ready", "False")
    world.run()
    assert task(world, bound).state is COMPLETED


def test_that_a_node_is_out_of_service_is_known_after_a_restart() -> None:
    world, bound = a_bare_pod()
    world.report("n1", "Ready", "False")
    world.run()
    world.flow.stop("eviction")
    world.taint("n1", OUT_OF_SERVICE, "NoSchedule")
    world.run()
    assert task(world, bound).state is REQUESTED
    world.flow.start("eviction")
    world.run()
    assert task(world, bound).state is COMPLETED


def test_the_time_of_a_request_stays_while_its_eviction_is_escalated() -> None:
    world, bound = a_bare_pod()
    requested = task(world, bound).requested_time
    assert requested == task(world, bound).decided_time
    acknowledge(world, bound, "False", FAILED, "the disk hangs")
    world.flow.stop("eviction")
    world.flow.start("eviction")
    world.run()
    acknowledge(world, bound, "False", REFUSED)
    assert task(world, bound).decided_time > requested
    assert task(world, bound).requested_time == requested
    acknowledge(world, bound)
    assert (task(world, bound).state, task(world, bound).requested_time) == (COMPLETED, requested)


def test_a_pod_that_is_being_stopped_may_be_changed_again_and_again() -> None:
    world, bound = a_bare_pod()
    for labels in ({"app": "a"}, {"app": "b"}):
        world.declare("Pod", "web", pod_spec(), labels=labels)
        world.run()
        assert binding(world).labels == labels
    written = [record for record in world.flow.records(BINDINGS) if record.value is not None]
    assert len({dict(record.headers)["ce_id"] for record in written}) == len(written) == 3, "each change is an event"
    acknowledge(world, bound)
    assert task(world, bound).state is COMPLETED


def test_nothing_is_left_of_acknowledgements_when_all_is_over() -> None:
    world, bound = a_bare_pod()
    acknowledge(world, bound)
    world.delete("Pod", "web")
    world.run()
    world.advance(24 * 3600)
    for topic in (WORKLOAD_CONDITIONS, EVICTIONS, BINDINGS, EVICTION_ASKS, EVICTION_SLOTS, TIMERS):
        assert world.flow.table(topic) == {}, topic.short
    states = [world.flow.state("eviction", p) for p in range(PARTITIONS)]
    kept = [target for state in states for target in state.targets.values()]
    assert [(target.early, target.reports) for target in kept if target.early or target.reports] == []


def test_a_report_without_a_binding_ends_the_undertaking() -> None:
    """A person who corrects what a deployer has said does not know its binding."""
    world = NodeWorld("n1", WITNESS)
    world.taint(WITNESS, "keep-out", "NoSchedule")
    world.declare("Pod", "web", pod_spec())
    world.run()
    bound = binding(world)
    runs(world, bound)
    world.flow.advance(1)
    world.report("n1", HEALTHY, "False", source="cli/me", workload=bound.workload)
    world.run()
    world.taint("n1")
    world.run()
    assert task(world, bound).state is COMPLETED


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("bindingGeneration", {"generation": 0, "uid": ""}),
        ("bindingGeneration", {"uid": ""}),
        ("workloadUid", {"generation": 0}),
    ],
)
def test_an_acknowledgement_without_its_binding_is_refused(field: str, change: dict[str, object]) -> None:
    world, bound = a_bare_pod()
    named = bound.model_copy(update=change)
    world.flow.advance(1)
    world.report("n1", EVICTED, "True", source="deployer", binding=named)
    world.run()
    (letter,) = world.flow.events(DEAD_LETTERS)
    assert letter.field == field
    assert task(world, bound).acknowledged is None


# Pods of controllers.


def a_controllers_pod(kind: str) -> tuple[NodeWorld, WorkloadBound]:
    """The only pod of a controller, evicted from n1. There is room on n2."""
    world = NodeWorld("n1", WITNESS)
    world.taint(WITNESS, "keep-out", "NoSchedule")
    spec = {"template": TEMPLATE} | ({} if kind == "DaemonSet" else {"replicas": 1})
    world.declare(kind, "web", spec)
    world.run()
    bound = binding(world)
    runs(world, bound)
    if kind != "DaemonSet":
        world.node("n2")
    world.taint("n1")
    world.run()
    assert task(world, bound).state is REQUESTED
    return world, bound


def test_a_pod_of_a_deployment_is_replaced_while_the_old_one_is_being_stopped() -> None:
    world, bound = a_controllers_pod("Deployment")
    assert world.where("web") == ["n1", "n2"]
    (new,) = [one for one in world.pods("web").values() if one.target and one.target.name == "n2"]
    assert new.replaces == bound.workload.key
    world.advance(60)
    world.flow.reconcile("placement")
    assert world.run().where("web") == ["n1", "n2"], "it is replaced once"
    acknowledge(world, bound)
    assert world.where("web") == ["n2"]
    assert task(world, bound).state is COMPLETED


def test_a_replacement_that_is_evicted_itself_does_not_multiply() -> None:
    world, first = a_controllers_pod("Deployment")
    (second,) = [one for one in world.flow.table(BINDINGS).values() if one.target.name == "n2"]
    runs(world, second)
    world.node("n3")
    world.taint("n2")
    world.run()
    assert world.where("web") == ["n1", "n2", "n3"]
    acknowledge(world, second)
    assert world.where("web") == ["n1", "n3"]
    acknowledge(world, first)
    assert world.where("web") == ["n3"]


def test_a_replacement_that_finds_no_room_waits_and_the_old_pod_stays() -> None:
    world, bound = a_controllers_pod("Deployment")
    (second,) = [one for one in world.flow.table(BINDINGS).values() if one.target.name == "n2"]
    runs(world, second)
    world.taint("n2")
    world.run()
    assert world.where("web") == ["-", "n1", "n2"]
    acknowledge(world, second)
    acknowledge(world, bound)
    assert world.where("web") == ["-"]
    world.node("n4")
    assert world.run().where("web") == ["n4"]


def test_a_rollout_leaves_a_pod_that_is_being_stopped_alone() -> None:
    world, bound = a_controllers_pod("Deployment")
    world.declare("Deployment", "web", {"replicas": 1, "template": {**TEMPLATE, "metadata": {"labels": {"app": "v2"}}}})
    world.run()
    assert world.where("web") == ["n1", "n2"]
    acknowledge(world, bound)
    assert world.where("web") == ["n2"]


def test_scaling_down_deletes_a_pod_that_is_being_stopped() -> None:
    world, _ = a_controllers_pod("Deployment")
    world.declare("Deployment", "web", {"replicas": 0, "template": TEMPLATE})
    assert world.run().where("web") == []


def test_a_pod_of_a_stateful_set_is_replaced_when_the_old_one_is_gone() -> None:
    world, bound = a_controllers_pod("StatefulSet")
    assert world.where("web") == ["n1"]
    world.declare("StatefulSet", "web", {"replicas": 1, "template": {**TEMPLATE, "metadata": {"labels": {"a": "b"}}}})
    world.run()
    world.flow.reconcile("placement")
    assert world.run().where("web") == ["n1"], "no rollout takes its name meanwhile"
    acknowledge(world, bound)
    assert world.where("web") == ["n2"]
    assert binding(world).uid != bound.uid


def test_a_pod_of_a_daemon_set_keeps_its_node_until_it_is_gone() -> None:
    world, bound = a_controllers_pod("DaemonSet")
    assert world.where("web") == ["n1"]
    world.untaint("n1")
    assert world.run().where("web") == ["n1"]
    assert task(world, bound).state is REQUESTED, "it never goes back"
    acknowledge(world, bound)
    assert world.where("web") == ["n1"]
    assert binding(world).uid != bound.uid


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_a_restart_of_placement_repeats_nothing(kind: str) -> None:
    world, bound = a_controllers_pod(kind)
    before = world.where("web")
    world.flow.compact()
    world.flow.crash_process("placement")
    assert world.run().where("web") == before
    acknowledge(world, bound)
    assert world.where("web") == ["n2"]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_the_pods_place_is_filled_once_when_its_node_goes_before_it_is_acknowledged(kind: str) -> None:
    world, _ = a_controllers_pod(kind)
    world.delete_target("n1")
    assert world.run().where("web") == ["n2"]


# Budgets.


def test_an_escalated_eviction_keeps_its_place_in_a_budget() -> None:
    world = NodeWorld("n1", "n2", WITNESS, settings=lifted(partitions=3))
    world.taint(WITNESS, "keep-out", "NoSchedule")
    world.declare("EvictionBudget", "one", {"maxConcurrent": 1})
    for name, node in (("a", "n1"), ("b", "n2")):
        world.declare("Pod", name, pod_spec(nodeName=node))
    world.run()
    bounds = {name: binding(world, name) for name in "ab"}
    for bound in bounds.values():
        runs(world, bound)
    for node in ("n1", "n2"):
        world.taint(node)
    world.run()
    (first,) = [name for name, bound in bounds.items() if task(world, bound).state is REQUESTED]
    (second,) = bounds.keys() - {first}
    assert task(world, bounds[second]).state is EvictionState.HELD
    acknowledge(world, bounds[first], "False", FAILED, "no")
    world.advance(600)
    assert task(world, bounds[second]).state is EvictionState.HELD
    acknowledge(world, bounds[first])
    world.advance(5)
    assert task(world, bounds[first]).state is COMPLETED
    assert task(world, bounds[second]).state is REQUESTED
    acknowledge(world, bounds[second])
    world.advance(5)
    assert (world.flow.table(EVICTION_ASKS), world.flow.table(EVICTION_SLOTS)) == ({}, {})


# Clusters.


def a_resource_on_a_cluster(purge_mode: str) -> tuple[KarmadaWorld, WorkloadBound]:
    """A resource that is evicted from the cluster m1, and goes to m2."""
    world = KarmadaWorld("m1", no_execute_taint_eviction_purge_mode=purge_mode)
    world.policy(placement={"spreadConstraints": [{"spreadByField": "cluster", "maxGroups": 1, "minGroups": 1}]})
    world.deploy("web")
    world.run()
    bound = world.binding("m1")
    runs(world, bound)
    world.cluster("m2")
    world.run()
    world.taint("m1")
    world.run()
    assert world.where() == {"m2": 1}
    return world, bound


def test_work_that_leaves_a_cluster_directly_stays_bound_until_it_is_acknowledged() -> None:
    world, bound = a_resource_on_a_cluster("Directly")
    assert world.leaving() == ["m1"]
    assert task(world, bound).state is REQUESTED
    world.healthy("m2")
    world.run()
    world.advance(3600)
    assert world.leaving() == ["m1"], "its replacement and the time do not matter"
    acknowledge(world, bound)
    assert (world.leaving(), task(world, bound).state) == ([], COMPLETED)


def test_work_that_leaves_a_cluster_directly_ends_with_it() -> None:
    world, _ = a_resource_on_a_cluster("Directly")
    world.delete_target("m1")
    world.run()
    assert (world.leaving(), world.bound()) == ([], ["m2"])


def test_work_that_leaves_gracefully_waits_for_its_replacement_and_for_nobody_else() -> None:
    world, bound = a_resource_on_a_cluster("Gracefully")
    assert (world.leaving(), task(world, bound).deployer) == (["m1"], "")
    world.healthy("m2")
    world.run()
    assert (world.leaving(), task(world, bound).state) == ([], COMPLETED)


def test_work_that_has_left_earlier_than_it_had_to_needs_no_binding_any_more() -> None:
    world, bound = a_resource_on_a_cluster("Gracefully")
    acknowledge(world, bound)
    assert (world.leaving(), task(world, bound).state) == ([], COMPLETED)
