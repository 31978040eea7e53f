"""The numbers of a DaemonSet's status: those of the nodes that want a pod, as in Kubernetes."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from tests.component.gateway.double import NOW, Fixture, Json, deployment, node, node_ref, pod_ref

from moorage.conformance.operations import evaluate
from moorage.decide.kubernetes.pod_defaults import admit_pod
from moorage.decide.scheduling.nodes.workloads import daemon_index, template_hash
from moorage_schemas.condition import ConditionStatus
from moorage_schemas.placement import PlacementState, WorkloadPlaced
from moorage_schemas.refs import WorkloadRef
from moorage_schemas.resources.dedicated import DedicatedNodes
from moorage_schemas.topics import PLACEMENTS

NODES = "/api/v1/nodes"
SETS = "/apis/apps/v1/namespaces/default/daemonsets"
RULES = "/apis/moorage.io/v1alpha1/dedicatednodes"
NUMBERS = (
    "desiredNumberScheduled",
    "currentNumberScheduled",
    "numberReady",
    "numberAvailable",
    "numberUnavailable",
    "numberMisscheduled",
)
OWNER = WorkloadRef(kind="DaemonSet", namespace="default", name="web")


def daemon_set(**spec: Any) -> Json:
    made = deployment()
    made["kind"] = "DaemonSet"
    made["spec"].pop("replicas", None)
    made["spec"]["template"]["spec"] |= spec
    return made


async def serving(*nodes: str, labels: dict[str, str] | None = None, **spec: Any) -> Fixture:
    """A gateway with nodes and a DaemonSet, whose pods are on n1 and n2."""
    gateway = Fixture()
    for name in nodes:
        made = node(name)
        made["metadata"]["labels"] = labels or {}
        await gateway.ok("POST", NODES, made)
    uid = (await gateway.ok("POST", SETS, daemon_set(**spec)))["metadata"]["uid"]
    for name in nodes[:2]:
        place(gateway, uid, name)
    return gateway


def place(gateway: Fixture, uid: str, name: str, *, bound: bool = True) -> None:
    one, target = pod_ref(f"web-{name}"), node_ref(name)
    event = WorkloadPlaced(
        workload=one,
        uid=f"uid-{name}",
        owner=OWNER,
        owner_uid=uid,
        generation=1,
        state=PlacementState.PLACED if bound else PlacementState.PENDING,
        target=target if bound else None,
        index=daemon_index(name),
        template_hash=template_hash(daemon_set()["spec"]["template"]),
        decided_time=NOW,
    )
    gateway.log.append(PLACEMENTS, one.key, OWNER.key, event)
    if bound:
        gateway.bound(one, target, owner=OWNER)


async def numbers(gateway: Fixture) -> list[int]:
    """Desired, current, ready, available, unavailable and misscheduled."""
    status = (await gateway.ok("GET", f"{SETS}/web"))["status"]
    return [status.get(name, 0) for name in NUMBERS]


def taint(gateway: Fixture, name: str, *taints: tuple[str, str, str], generation: int = 1) -> None:
    (declared,) = [one for one in gateway.store.all("Node") if one.document["metadata"]["name"] == name]
    gateway.tainted(name, taints, uid=declared.document["metadata"]["uid"], generation=generation)


async def test_every_node_that_fits_wants_a_pod() -> None:
    gateway = await serving("n1", "n2", "n3")
    assert await numbers(gateway) == [3, 2, 0, 0, 3, 0]
    gateway.reported(pod_ref("web-n1"), node_ref("n1"), ConditionStatus.TRUE)
    gateway.reported(pod_ref("web-n2"), node_ref("n2"), ConditionStatus.FALSE)
    assert await numbers(gateway) == [3, 2, 1, 1, 2, 0]
    await gateway.ok("POST", NODES, node("n4"))
    assert await numbers(gateway) == [4, 2, 1, 1, 3, 0]
    await gateway.ok("DELETE", f"{NODES}/n1")
    assert await numbers(gateway) == [3, 1, 0, 0, 3, 0], "a pod on a node that does not exist counts for nothing"


async def test_a_taint_that_keeps_new_pods_away_leaves_the_present_one_misscheduled() -> None:
    gateway = await serving("n1", "n2", "n3")
    gateway.reported(pod_ref("web-n1"), node_ref("n1"), ConditionStatus.TRUE)
    taint(gateway, "n1", ("maintenance", "", "NoSchedule"))
    taint(gateway, "n3", ("maintenance", "", "NoSchedule"))
    assert await numbers(gateway) == [1, 1, 0, 0, 1, 1]
    taint(gateway, "n1", generation=2)
    assert await numbers(gateway) == [2, 2, 1, 1, 1, 0]


async def test_pods_of_daemon_sets_tolerate_pressure_and_cordons() -> None:
    gateway = await serving("n1", "n2")
    pressure = ("node.kubernetes.io/disk-pressure", "", "NoSchedule")
    taint(gateway, "n1", pressure, ("node.kubernetes.io/unschedulable", "", "NoSchedule"))
    taint(gateway, "n2", ("cost", "", "PreferNoSchedule"))
    assert await numbers(gateway) == [2, 2, 0, 0, 2, 0]


async def test_the_template_chooses_the_nodes() -> None:
    gateway = await serving("n1", "n2", "n3", labels={"disk": "hdd"}, nodeSelector={"disk": "ssd"})
    assert await numbers(gateway) == [0, 0, 0, 0, 0, 2]
    await gateway.ok("PATCH", f"{NODES}/n1", {"metadata": {"labels": {"disk": "ssd"}}})
    assert await numbers(gateway) == [1, 1, 0, 0, 1, 1]
    template: Json = {"spec": {"template": {"spec": {"nodeSelector": {"disk": "hdd"}}}}}
    await gateway.ok("PATCH", f"{SETS}/web", template)
    assert await numbers(gateway) == [2, 1, 0, 0, 2, 1]
    template["spec"]["template"]["spec"] = {"nodeSelector": None, "nodeName": "n3"}
    await gateway.ok("PATCH", f"{SETS}/web", template)
    assert await numbers(gateway) == [1, 0, 0, 0, 1, 2]


async def test_a_pod_that_waits_for_room_is_scheduled_for_its_node() -> None:
    gateway = await serving("n1", "n2", "n3")
    uid = (await gateway.ok("GET", f"{SETS}/web"))["metadata"]["uid"]
    place(gateway, uid, "n3", bound=False)
    assert await numbers(gateway) == [3, 3, 0, 0, 3, 0]


async def test_nodes_may_be_known_before_the_daemon_set_and_after_it() -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node("n1"))
    taint(gateway, "n1", ("maintenance", "", "NoSchedule"))
    await gateway.ok("POST", SETS, daemon_set())
    assert await numbers(gateway) == [0, 0, 0, 0, 0, 0]
    await gateway.ok("POST", NODES, node("n2"))
    assert await numbers(gateway) == [1, 0, 0, 0, 1, 0]
    await gateway.ok("DELETE", f"{SETS}/web")
    await gateway.ok("POST", SETS, daemon_set())
    assert await numbers(gateway) == [1, 0, 0, 0, 1, 0]


async def test_rules_for_dedicated_nodes_change_the_nodes_at_once() -> None:
    gateway = await serving("n1", "n2")
    await gateway.ok("PATCH", f"{NODES}/n1", {"metadata": {"labels": {"dedicated": "ml"}}})
    taint(gateway, "n1", ("dedicated", "ml", "NoSchedule"))
    assert await numbers(gateway) == [1, 1, 0, 0, 1, 1]
    rule = {"metadata": {"name": "ml"}, "spec": {"value": "ml"}}
    await gateway.ok("POST", RULES, rule)
    assert await numbers(gateway) == [1, 1, 0, 0, 1, 1]
    taint(gateway, "n1", generation=2)
    await gateway.ok("PATCH", f"{NODES}/n2", {"metadata": {"labels": {"dedicated": "ml"}}})
    assert await numbers(gateway) == [2, 2, 0, 0, 2, 0]
    await gateway.ok("PATCH", f"{NODES}/n2", {"metadata": {"labels": {"dedicated": None}}})
    assert await numbers(gateway) == [1, 1, 0, 0, 1, 1]
    await gateway.ok("DELETE", f"{RULES}/ml")
    assert await numbers(gateway) == [2, 2, 0, 0, 2, 0]


class Changes:
    """Random changes of nodes, of a DaemonSet and of its pods."""

    def __init__(self, seed: int) -> None:
        self.gateway = Fixture()
        self.uid = ""
        self._rng = random.Random(seed)  # noqa: S311 - seeded test data
        self._generations = Counter[str]()

    async def one(self) -> None:
        name = f"n{self._rng.randint(1, 5)}"
        there = name in {one.document["metadata"]["name"] for one in self.gateway.store.all("Node")}
        if not there:
            self._generations.pop(name, None)
            await self.gateway.ok("POST", NODES, node(name))
            return
        change = self._rng.choice((self.label, self.taint, self.taint, self.delete, self.rule))
        of_set = self._rng.choice((self.template, self.pod, self.pod, self.report, self.pod, self.report, self.end))
        await (change if self._rng.random() < 0.5 else of_set if self.uid else self.declare)(name)

    async def label(self, name: str) -> None:
        labels = {"disk": self._rng.choice(("ssd", "hdd", None)), "dedicated": self._rng.choice(("ml", None))}
        await self.gateway.ok("PATCH", f"{NODES}/{name}", {"metadata": {"labels": labels}})

    async def taint(self, name: str) -> None:
        self._generations[name] += 1
        keys = self._rng.sample(("a", "node.kubernetes.io/disk-pressure", "dedicated"), self._rng.randint(0, 2))
        effects = ("NoSchedule", "NoExecute", "PreferNoSchedule")
        found = [(key, "ml", self._rng.choice(effects)) for key in keys]
        taint(self.gateway, name, *found, generation=self._generations[name])

    async def delete(self, name: str) -> None:
        await self.gateway.ok("DELETE", f"{NODES}/{name}")

    async def rule(self, _: str) -> None:
        known = await self.gateway.status(f"{RULES}/ml") == 200
        rule = {"metadata": {"name": "ml"}, "spec": {"value": "ml"}}
        await (self.gateway.ok("DELETE", f"{RULES}/ml") if known else self.gateway.ok("POST", RULES, rule))

    async def declare(self, _: str) -> None:
        self.uid = (await self.gateway.ok("POST", SETS, daemon_set()))["metadata"]["uid"]

    async def end(self, _: str) -> None:
        await self.gateway.ok("DELETE", f"{SETS}/web")
        self.uid = ""

    async def template(self, _: str) -> None:
        tolerated = self._rng.choice(([], [{"key": "a", "operator": "Exists"}]))
        chosen = {"nodeSelector": {"disk": self._rng.choice(("ssd", None))}, "tolerations": tolerated}
        await self.gateway.ok("PATCH", f"{SETS}/web", {"spec": {"template": {"spec": chosen}}})

    async def pod(self, name: str) -> None:
        place(self.gateway, self.uid, name)

    async def report(self, name: str) -> None:
        status = self._rng.choice(list(ConditionStatus))
        self.gateway.reported(pod_ref(f"web-{name}"), node_ref(name), status)


@pytest.mark.parametrize("seed", range(6))
async def test_after_any_changes_the_numbers_are_those_of_eval(seed: int) -> None:
    changes = Changes(seed)
    for _ in range(60):
        await changes.one()
        if changes.uid:
            assert await numbers(changes.gateway) == await by_eval(changes.gateway)


async def by_eval(gateway: Fixture) -> list[int]:
    """The numbers by the objects that the gateway shows. Rules for dedicated nodes are worked into the template."""
    shown = await gateway.ok("GET", f"{SETS}/web")
    rules = [DedicatedNodes.model_validate(one) for one in (await gateway.ok("GET", RULES))["items"]]
    spec = shown["spec"]["template"]["spec"]
    pod = admit_pod({"metadata": {"namespace": "default"}, "spec": spec}, rules, daemon=True)
    shown = {**shown, "spec": {**shown["spec"], "template": {"spec": pod["spec"]}}}
    pods = (await gateway.ok("GET", "/api/v1/namespaces/default/pods"))["items"]
    nodes = (await gateway.ok("GET", NODES))["items"]
    request = {"op": "daemonset_status", "daemonSet": shown, "nodes": nodes, "pods": pods}
    found = evaluate(request, as_upstream=False)
    return [found[name] for name in NUMBERS]
