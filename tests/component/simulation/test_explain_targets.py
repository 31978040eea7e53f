"""`explain node` and `explain cluster` on the records that all services have written on a virtual clock."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from tests.component.query.following import Following
from tests.component.simulation.explained import copy, said, topics
from tests.component.simulation.test_explain_history import Older
from tests.support.worlds.karmada import KarmadaWorld
from tests.support.worlds.nodes import NodeWorld, pod_spec
from tests.support.worlds.world import TEMPLATE, World, lifted

from moorage.insight.explain.answer import answer
from moorage.insight.explain.chain import Chain
from moorage.insight.explain.document import document_of
from moorage.insight.explain.explanation import NotFoundError
from moorage.insight.explain.grounds import SnapshotGrounds
from moorage.insight.explain.history import complete
from moorage.insight.explain.question import TARGETS, Question, QuestionError
from moorage.insight.explain.target_reasons import TargetExplanation
from moorage_schemas.refs import TargetKind
from moorage_schemas.taint import TaintOrigin
from moorage_schemas.topics import TAINTS

NOT_READY = "node.kubernetes.io/not-ready"


async def explained(world: World, name: str, *, kind: str = "Node", every: bool = False) -> TargetExplanation:
    """The explanation from all records that are there."""
    records = list(copy(world.flow).all())
    grounds = SnapshotGrounds(copy(world.flow), lifted(partitions=3))
    told = answer(grounds, Question(kind, "", name, every=every))
    assert isinstance(told, TargetExplanation)
    await complete(told, grounds.records, Older(records), world.flow.partitions)
    return told


def chain_of(told: TargetExplanation, beginning: str) -> Chain:
    """The chain that is about something that begins like this."""
    return next(one for one in told.chains if one.about.startswith(beginning))


async def asked(following: Following, name: str, *, every: bool = False) -> Any:
    """The explanation from tables that follow the topics, which is the same from a copy of them."""
    following.follow()
    question = Question("Node", "", name, every=every)
    text = await following.explained(question)
    assert text == await following.from_topics(question)
    return json.loads(text)


def test_targets_are_the_kinds_that_carry_taints() -> None:
    assert set(TARGETS) == {kind.value for kind in TargetKind}


async def test_a_target_of_which_nothing_is_known() -> None:
    world = NodeWorld("n1")
    world.run()
    told = await explained(world, "n1")
    assert (told.target, told.status, told.is_cordoned, told.incident_time) == ("Node/n1", "Unreported", False, None)
    assert (told.conditions, told.taints, told.waits, told.evictions, told.chains) == ((), (), (), (), ())
    text = said(told)
    assert "Target:         Node n1\nState:          Unreported\n" in text
    assert "Taints:         <none>" in text
    with pytest.raises(NotFoundError, match='nodes "none" not found'):
        await explained(world, "none")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"namespace": "default"},
            "namespace: invalid value 'default': must be empty, because a Node has no namespace",
        ),
        ({"node": "n2"}, "node: invalid value 'n2': node n1 is a target itself"),
        ({"cluster": "c"}, "cluster: invalid value 'c': node n1 is a target itself"),
    ],
)
def test_what_cannot_be_asked_about_a_target(given: dict[str, Any], message: str) -> None:
    with pytest.raises(QuestionError) as error:
        Question("Node", **{"namespace": "", "name": "n1", **given})
    assert str(error.value) == message


async def test_each_taint_leads_back_to_the_report_or_to_the_write() -> None:
    world = NodeWorld("n1", "n2")
    world.declare("Pod", "p", pod_spec(nodeName="n1"))
    for name in ("n1", "n2"):
        world.report(name, status="True", source="probe/rack")
    world.run()
    world.flow.advance(10)
    world.report("n1", status="False", source="probe/rack", reason="KubeletStopped")
    world.run()
    world.flow.advance(10)
    world.taint("n1", "mine", "NoSchedule")
    world.run()
    told = await explained(world, "n1")
    (condition,) = told.conditions
    assert (condition.event.source, condition.event.reason) == ("probe/rack", "KubeletStopped")
    assert condition.event.last_heartbeat_time == world.flow.now - timedelta(seconds=10)
    by_name = {(one.taint.key, one.taint.effect): one for one in told.taints}
    assert {name: [origin for origin, _ in one.origins] for name, one in by_name.items()} == {
        (NOT_READY, "NoSchedule"): [TaintOrigin.CONDITION],
        (NOT_READY, "NoExecute"): [TaintOrigin.CONDITION],
        ("mine", "NoSchedule"): [TaintOrigin.EXPLICIT],
    }
    assert by_name["mine", "NoSchedule"].taint.reason == "declared by tester"
    assert all(begun.known for one in told.taints for _, begun in one.origins)
    way = topics(chain_of(told, f"the taint {NOT_READY}:NoExecute of node n1"))
    assert way == ["condition-reports", "conditions", "zone-members", "zone-grants", "taints"]
    assert topics(chain_of(told, f"the taint {NOT_READY}:NoSchedule of node n1"))[:2] == [
        *("condition-reports", "conditions")
    ]
    assert topics(chain_of(told, "the taint mine:NoSchedule of node n1")) == ["resources", "taints"]
    assert all(chain.whole for chain in told.chains)


async def test_an_origin_that_came_later_has_its_own_chain() -> None:
    world = KarmadaWorld("oslo", "paris")
    for name in ("oslo", "paris"):
        world.report(name, status="True")
    world.taint("oslo", "example.com/both", "NoSchedule")
    world.run()
    world.declare(
        "ClusterTaintPolicy",
        "pressed",
        {
            "addOnConditions": [{"conditionType": "Pressed", "operator": "In", "statusValues": ["True"]}],
            "taints": [{"key": "example.com/both", "effect": "NoSchedule"}],
        },
    )
    world.run()
    world.report("oslo", "Pressed", "True", source="probe/disk")
    world.run()
    told = await explained(world, "oslo", kind="Cluster")
    (both,) = told.taints
    assert [origin for origin, _ in both.origins] == [TaintOrigin.EXPLICIT, TaintOrigin.POLICY]
    assert both.taint.reason == "declared by tester; ClusterTaintPolicy pressed"
    what = "the taint example.com/both:NoSchedule of cluster oslo"
    assert topics(chain_of(told, f"{what} (explicit)")) == ["resources", "taints"]
    assert topics(chain_of(told, f"{what} (policy)")) == ["condition-reports", "conditions", "taints"]


async def test_the_evictions_from_a_target_the_urgent_ones_first() -> None:
    world = NodeWorld("n1", "n2")
    patient = [{"key": "slow", "operator": "Exists", "tolerationSeconds": 60}]
    template = {**TEMPLATE, "spec": pod_spec(tolerations=patient, nodeSelector={"disk": "ssd"})}
    world.node("n1", labels={"disk": "ssd"})
    world.declare("Deployment", "web", {"replicas": 30, "template": template})
    world.run()
    world.taint("n1", "slow")
    world.run()
    told = await explained(world, "n1")
    assert (told.counts, len(told.evictions), told.left_out) == ({"Scheduled": 30}, 25, 5)
    (slow,) = told.taints
    assert slow.evictions == 30
    assert sum(one.about.startswith("the eviction of ") for one in told.chains) == 1, "one shows how they come about"
    text = said(told)
    assert "Evictions (30 Scheduled; 5 more with --all):" in text
    told = await explained(world, "n1", every=True)
    assert (len(told.evictions), told.left_out) == (30, 0)
    assert sum(one.about.startswith("the eviction of ") for one in told.chains) == 30
    world.flow.advance(70)
    told = await explained(world, "n1")
    assert (told.counts, told.taints[0].evictions) == ({"Completed": 30}, 0)
    world.declare("Pod", "late", pod_spec(tolerations=[{**patient[0], "tolerationSeconds": 600}], nodeName="n1"))
    world.run()
    told = await explained(world, "n1")
    assert told.evictions[0].event.workload.name == "late", "what is not over comes first"
    assert told.taints[0].evictions == 1


async def test_a_target_that_was_made_again_starts_clean() -> None:
    world = NodeWorld("n1", "n2")
    for name in ("n1", "n2"):
        world.report(name, status="True")
    world.run()
    world.report("n1", status="False")
    world.run()
    assert (await explained(world, "n1")).status == "NotReady"
    world.delete("Node", "n1")
    world.run()
    with pytest.raises(NotFoundError):
        await explained(world, "n1")
    world.node("n1")
    world.taint("n1", "new", "NoSchedule")
    world.run()
    told = await explained(world, "n1")
    assert (told.status, [one.taint.key for one in told.taints]) == ("Unreported", ["new"])
    assert all(begun.known for one in told.taints for _, begun in one.origins)


async def test_with_only_the_last_records_older_ones_are_read_from_the_topics() -> None:
    settings = lifted(partitions=3)
    world = NodeWorld("n1", "n2", settings=settings)
    following = Following(world.flow, settings)
    for name in ("n1", "n2"):
        world.report(name, status="True")
    world.run()
    world.report("n1", status="False")
    world.run()
    for number in range(5):  # each replaces the record of the taints, in a chain of its own
        world.taint("n1", f"t{number}", "NoSchedule")
        world.run()
        world.report("n1", status="False", at=world.flow.now + timedelta(seconds=number + 1))
        world.flow.advance(400)
    for _ in following.index.sweep():
        pass
    document = await asked(following, "n1")
    first = chain = next(one for one in document["chains"] if one["about"].startswith(f"the taint {NOT_READY}:NoExec"))
    assert [step["topic"] for step in first["steps"]][:2] == ["condition-reports", "conditions"]
    assert chain["whole"]
    assert [one["taint"] for one in document["taints"]][-1] == "t4:NoSchedule"
    everything = {step["id"] for chain in document["chains"] for step in chain["steps"] if "id" in step}
    assert {origin["event"] for one in document["taints"] for origin in one["origins"]} <= everything
    assert {one["event"] for one in document["conditions"]} <= everything


async def test_a_beginning_that_no_longer_exists_is_told() -> None:
    world = NodeWorld("n1", "n2")
    for name in ("n1", "n2"):
        world.report(name, status="True")
    world.run()
    world.taint("n1", "one", "NoSchedule")
    world.run()
    world.taint("n1", "two", "NoSchedule")
    world.run()
    assert all(begun.known for one in (await explained(world, "n1")).taints for _, begun in one.origins)
    world.flow.compact()
    told = await explained(world, "n1")
    assert {one.taint.key: [begun.known for _, begun in one.origins] for one in told.taints} == {
        "one": [False],
        "two": [False],
    }
    about = [one["about"] for one in document_of(told)["chains"]]
    assert about[0] == "the taint one:NoSchedule of node n1, from the earliest record that still exists"
    assert world.flow.events(TAINTS)


async def test_clusters_have_conditions_and_taints_but_no_zone() -> None:
    world = KarmadaWorld("oslo", "paris")
    world.report("oslo", status="False", source="agent/oslo")
    world.run()
    told = await explained(world, "oslo", kind="Cluster")
    assert (told.status, told.zone, told.incident_time) == ("NotReady", "", None)
    assert [one.event.source for one in told.conditions] == ["agent/oslo"]
    assert [one.taint.key for one in told.taints] == ["cluster.karmada.io/not-ready"]
    assert topics(told.chains[0]) == ["condition-reports", "conditions", "taints"]
    assert "Zone:" not in said(told)


async def test_the_taint_of_a_taint_policy_is_explained_by_the_report_and_the_policy() -> None:
    world = NodeWorld("n1", "n2")
    world.declare(
        "TaintPolicy",
        "deadlock",
        {
            "targets": {"kind": "Node"},
            "addOnConditions": [{"conditionType": "KernelDeadlock", "operator": "In", "statusValues": ["True"]}],
            "taints": [{"key": "kernel-deadlock", "effect": "NoSchedule"}],
            "addHold": "30s",
        },
    )
    world.flow.run()
    world.report("n1", "KernelDeadlock", "True", source="probe/npd")
    world.flow.advance(10)
    (wait,) = (await explained(world, "n1")).waits
    held = wait.taint
    assert (held.key, held.effect) == ("kernel-deadlock", "NoSchedule")
    assert held.reason.startswith("TaintPolicy deadlock; its conditions must hold until ")
    world.flow.advance(25)
    told = await explained(world, "n1")
    (taint,) = told.taints
    assert [origin for origin, _ in taint.origins] == [TaintOrigin.POLICY]
    assert taint.taint.reason == "TaintPolicy deadlock"
    assert not (await explained(world, "n2")).taints
