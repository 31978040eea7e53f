"""A fleet that runs in memory, copies of it, and requests to a copy."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import httpx
from tests.support.worlds.flow import Flow, Record
from tests.support.worlds.world import PARTITIONS, World, every_service, flow_of

from moorage.insight.copy.gateway import ADDRESS, Edge
from moorage.insight.copy.run import Change, Simulated, simulate
from moorage.insight.copy.snapshot import Kept, Snapshot
from moorage.insight.copy.stack import MemoryStack
from moorage.insight.copy.stand_ins import Sweep
from moorage.insight.diff import changes, report
from moorage.runtime.service import Input
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.condition import ConditionStatus
from moorage_schemas.topics import PLACEMENTS, TOPICS

HOUR = timedelta(hours=1)


def copy_of(flow: Flow) -> Snapshot:
    """The snapshot that a reader of the topics has of a flow at its present time."""
    records = []
    for topic in TOPICS:
        for record in flow.records(topic):
            found = record.decode()
            assert isinstance(found, Input), found
            records.append(Kept.of(found))
    records.sort(key=lambda one: (one.topic.short, one.partition, one.offset))
    return Snapshot.of(records, partitions=flow.partitions, positions=flow.committed, taken=flow.now)


def ask(snapshot: Snapshot, settings: Settings, change: Change, horizon: timedelta = HOUR) -> tuple[Any, Simulated]:
    """Simulate a change. Returns the report and both runs."""
    found = simulate(snapshot, settings, change, horizon)
    return report.document(found), found


def client(edge: Edge) -> httpx.Client:
    """A client of the copy's gateway."""
    return httpx.Client(base_url=ADDRESS, transport=edge.transport)


def post(edge: Edge, events: list[dict[str, Any]]) -> None:
    """Report conditions."""
    answer = client(edge).post(
        "/v1/conditions", json=events, headers={"content-type": "application/cloudevents-batch+json"}
    )
    assert answer.status_code == 202, answer.text


def tainted(name: str, key: str, effect: str = "NoExecute") -> Change:
    """Put a taint on a node, like a person."""

    def change(edge: Edge, _stack: MemoryStack) -> list[str]:
        path = f"/api/v1/nodes/{name}"
        shown = client(edge).get(path).json()
        taints = [*shown["spec"].get("taints", []), {"key": key, "effect": effect}]
        answer = client(edge).patch(
            path, json={"spec": {"taints": taints}}, headers={"content-type": "application/merge-patch+json"}
        )
        assert answer.status_code == 200, answer.text
        return [f"{name} tainted"]

    return change


def outage(text: str, status: str = "Unknown") -> Change:
    """Let all matching targets fail."""

    def change(edge: Edge, stack: MemoryStack) -> list[str]:
        found = changes.ZoneOutage.parse(text).targets(stack)
        post(edge, changes.outage(stack, found, ConditionStatus(status)))
        return [f"outage of {text}"]

    return change


def applied(*documents: dict[str, Any]) -> Change:
    """Create objects."""

    def change(edge: Edge, _stack: MemoryStack) -> list[str]:
        for document in documents:
            namespace = document["metadata"].get("namespace")
            base = "/api/v1" if document["apiVersion"] == "v1" else f"/apis/{document['apiVersion']}"
            where = f"{base}/namespaces/{namespace}" if namespace else base
            plural = f"{document['kind'].lower()}s".replace("policys", "policies")
            answer = client(edge).post(f"{where}/{plural}", json=document)
            assert answer.status_code == 201, answer.text
        return ["applied"]

    return change


def nothing(_edge: Edge, _stack: MemoryStack) -> list[str]:
    """Change nothing."""
    return []


class ProbedFleet(World):
    """All services in memory with heartbeats of 40 s, and nodes in zones with a probe."""

    def __init__(self, zones: dict[str, int], **settings: Any) -> None:
        self.settings = Settings(partitions=PARTITIONS, **settings)
        super().__init__(flow_of([*every_service(self.settings), Sweep()]))
        self.nodes = [f"{zone}{number}" for zone, count in zones.items() for number in range(1, count + 1)]
        for name in self.nodes:
            self.node(name, zone=name[0])
        self.beat()

    def beat(self) -> None:
        """Report that every node is ready."""
        for name in self.nodes:
            self.report(name, "Ready", "True")
        self.flow.run()

    def pass_time(self, seconds: float, *, without: frozenset[str] = frozenset()) -> None:
        """Let time pass while the probe reports every ten seconds, on all nodes except some."""
        until = self.flow.now + timedelta(seconds=seconds)
        while self.flow.now < until:
            self.flow.advance_to(min(until, self.flow.now + timedelta(seconds=10)))
            for name in self.nodes:
                if name not in without:
                    self.report(name, "Ready", "True")
            self.flow.run()

    def declare(self, kind: str, name: str, spec: Mapping[str, Any] | None = None, **given: Any) -> Record:
        """Declare an object, and let all services see it."""
        found = super().declare(kind, name, spec, **given)
        self.flow.run()
        return found

    def deploy(self, name: str, replicas: int, seconds: int | None = 300, **pod: Any) -> Record:
        """Declare a deployment whose pods tolerate being unreachable, and `bad`, for some seconds."""
        keys = ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready", "bad")
        lasting = {"tolerationSeconds": seconds} if seconds is not None else {}
        tolerations = [{"key": key, "operator": "Exists", "effect": "NoExecute", **lasting} for key in keys]
        template = {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "c"}], "tolerations": tolerations, **pod},
        }
        selector = {"matchLabels": {"app": name}}
        return self.declare("Deployment", name, {"replicas": replicas, "selector": selector, "template": template})

    def pods(self) -> dict[str, str]:
        """The node of each pod. `-` for a pod that waits."""
        placed = self.flow.table(PLACEMENTS)
        return {key: event.target.name if event.target else "-" for key, event in placed.items()}

    def copy(self) -> Snapshot:
        """A copy of the present state."""
        return copy_of(self.flow)
