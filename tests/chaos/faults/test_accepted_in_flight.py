"""What was accepted before a deadline saves a pod, although a service on the way to its eviction stands still.

Real processes, in both forms. Everything that can save a pod is accepted while one of them stands still, until after
the deadline; then it continues. `IN_FLIGHT_ROUNDS` repeats each case.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from tests.chaos.faults.fleet import Fleet, copies_of_each, copies_of_each_chain, events, running
from tests.support.brokers import Broker
from tests.support.live import collect

from moorage.cli.api.client import Client
from moorage.cli.api.topics import BEGINNING, Seen, TopicReader
from moorage_schemas.condition import HEALTHY, ConditionReported, ConditionStatus
from moorage_schemas.envelope import Meta, to_structured
from moorage_schemas.eviction import EvictionState
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.topics import BINDINGS, EVICTIONS

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(3600)]

ROUNDS: Final = int(os.environ.get("IN_FLIGHT_ROUNDS", "1"))
COPIES: Final = 2
"""So many pods of a round are saved in each way."""

DUE: Final = 10
"""Seconds for which the pods tolerate the taint."""

LEAD: Final = 3.0
"""Seconds before the deadline at which a service stands still."""

AFTER: Final = 3.0
"""Seconds after the deadline for which it stands still."""

FORMS: Final[Mapping[str, tuple[Mapping[str, int], tuple[str, ...]]]] = {
    "one of each": (
        copies_of_each(1),
        ("condition-ingest", "taint-manager", "placement", "governor", "timer", "eviction"),
    ),
    "a chain": (copies_of_each_chain(1), ("targets", "placement", "governor")),
}
"""The processes of each form, and those that stand still."""

ENVIRONMENT: Final = {
    "MOORAGE_NODE_MONITOR_PERIOD": "1s",
    "MOORAGE_NODE_EVICTION_RATE": "1000",
    # The pods of earlier rounds stay, even if the machine is suspended for minutes.
    "MOORAGE_NODE_MONITOR_GRACE_PERIOD": "0",
    "MOORAGE_DISRUPTION_BUDGET_PATIENCE": "1d",
}
ATTEMPTS: Final = 3
"""How often a round is repeated on a machine that was too busy to accept everything in time."""

MERGE: Final = {"content-type": "application/merge-patch+json"}
PODS: Final = "/api/v1/namespaces/default/pods"
NOT_READY: Final = "node.kubernetes.io/not-ready"
TAINT: Final = {"key": "maint", "effect": "NoExecute"}


def tolerations(seconds: int) -> list[dict[str, Any]]:
    return [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
        for key in ("maint", NOT_READY)
    ]


@dataclass
class Round:
    """The nodes and pods of one round, by the names that it gives them."""

    fleet: Fleet
    http: httpx.AsyncClient
    name: str
    pods: list[str] = field(default_factory=list)
    """Those that must stay."""

    def node(self, what: str) -> str:
        return f"{self.name}-{what}"

    async def post(self, path: str, document: dict[str, Any]) -> None:
        answer = await self.http.post(path, json=document)
        assert answer.is_success, answer.text

    async def patch(self, path: str, document: dict[str, Any]) -> None:
        answer = await self.http.patch(path, json=document, headers=MERGE)
        assert answer.is_success, answer.text

    async def pod(self, what: str, node: str, labels: dict[str, str] | None = None, *, stays: bool = True) -> None:
        name = f"{self.name}-{what}"
        spec = {
            "nodeName": self.node(node),
            "containers": [{"name": "c", "image": "c:1"}],
            "tolerations": tolerations(DUE),
        }
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels or {}}, "spec": spec}
        await self.post(PODS, document)
        if stays:
            self.pods.append(name)

    async def report(self, *reports: ConditionReported) -> None:
        """Reports, which are answered 202."""
        found = [
            to_structured(Meta(id=f"{one.target.name}-{one.observed_time}", source="p", type=one.event_type), one)
            for one in reports
        ]

        def send() -> None:
            with Client(self.fleet.server) as client:
                client.report(found)

        await asyncio.to_thread(send)

    def ready(self, what: str, status: ConditionStatus) -> ConditionReported:
        target = TargetRef(kind=TargetKind.NODE, name=self.node(what))
        return ConditionReported(
            target=target, type="Ready", status=status, observed_time=datetime.now(UTC), source="kubelet"
        )

    def unhealthy(self, pod: str, node: str) -> ConditionReported:
        return ConditionReported(
            target=TargetRef(kind=TargetKind.NODE, name=self.node(node)),
            type=HEALTHY,
            status=ConditionStatus.FALSE,
            observed_time=datetime.now(UTC),
            source="probe",
            workload=WorkloadRef(kind="Pod", namespace="default", name=pod),
        )

    async def begin(self) -> None:
        """Declare the nodes, and the pods on them."""
        for what in ("tainted", "freed", "back", "other"):
            zone = {"topology.kubernetes.io/zone": self.name}
            metadata = {"name": self.node(what), "labels": zone}
            await self.post("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        await self.report(*(self.ready(what, ConditionStatus.TRUE) for what in ("tainted", "freed", "back", "other")))
        await self.pod("lost", "tainted", stays=False)
        for number in range(COPIES):
            await self.pod(f"longer-{number}", "tainted")
            await self.pod(f"paused-{number}", "tainted")
            await self.pod(f"freed-{number}", "freed")
            await self.pod(f"back-{number}", "back")
            app = {"app": f"{self.name}-{number}"}
            await self.pod(f"last-{number}", "tainted", app)
            await self.pod(f"sick-{number}", "other", app, stays=False)
            spec = {"minAvailable": 1, "selector": {"matchLabels": app}}
            budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app["app"]}}
            await self.post("/apis/policy/v1/namespaces/default/poddisruptionbudgets", {**budget, "spec": spec})

    async def disturb(self) -> None:
        """Taint two nodes, and let another one be not ready."""
        for what in ("tainted", "freed"):
            await self.patch(f"/api/v1/nodes/{self.node(what)}", {"spec": {"taints": [TAINT]}})
        await self.report(self.ready("back", ConditionStatus.FALSE))

    async def save(self) -> None:
        """Do everything that saves the pods. All of it is accepted."""
        for number in range(COPIES):
            await self.patch(f"{PODS}/{self.name}-longer-{number}", {"spec": {"tolerations": tolerations(3600)}})
            await self.patch(f"{PODS}/{self.name}-paused-{number}", {"metadata": {"labels": {"pause": "yes"}}})
        await self.patch(f"/api/v1/nodes/{self.node('freed')}", {"spec": {"taints": []}})
        sick = [self.unhealthy(f"{self.name}-sick-{number}", "other") for number in range(COPIES)]
        await self.report(self.ready("back", ConditionStatus.TRUE), *sick)


def names(seen: list[Seen], state: EvictionState) -> list[str]:
    """The pods whose evictions came to a state."""
    return [one.workload.name for one in events(seen, state)]


async def stood_still(now: Round, reader: TopicReader, service: str) -> list[str] | None:
    """Let one service stand still over the deadlines, while everything is accepted that saves the pods.

    Returns:
        The pods that were evicted, by name; None if not everything was accepted before the deadlines.
    """
    lost, end = f"{now.name}-lost", f"{now.name}-end"
    placed = {*now.pods, lost, *(f"{now.name}-sick-{number}" for number in range(COPIES))}

    def all_bound(seen: list[Seen]) -> bool:
        return placed <= {one.event.workload.name for one in seen if isinstance(one.event, WorkloadBound)}

    await now.begin()
    await collect(reader, all_bound, 180)
    await now.disturb()
    leaving = {*now.pods, lost}
    seen = await collect(reader, lambda seen: leaving <= set(names(seen, EvictionState.SCHEDULED)), 180)
    due = [one.deadline for one in events(seen, EvictionState.SCHEDULED) if one.deadline is not None]
    await asyncio.sleep((min(due) - datetime.now(UTC)).total_seconds() - LEAD)
    members = now.fleet.members(service)
    for member in members:
        os.kill(member.pid, signal.SIGSTOP)
    try:
        await now.save()
        in_time = datetime.now(UTC) < min(due)
        await asyncio.sleep((max(due) - datetime.now(UTC)).total_seconds() + AFTER)
    finally:
        for member in members:
            os.kill(member.pid, signal.SIGCONT)
    # What was due is decided with one that is due later, in no order: one is read from its timer, one from its binding.
    await now.pod("end", "tainted", stays=False)
    seen += await collect(reader, lambda new: {lost, end} <= set(names(seen + new, EvictionState.REQUESTED)), 180)
    return sorted(names(seen, EvictionState.REQUESTED)) if in_time else None


@pytest.mark.parametrize("form", FORMS)
async def test_what_is_accepted_while_a_service_stands_still_saves_a_pod(
    broker: Broker, topic_prefix: str, tmp_path: Path, form: str
) -> None:
    copies, services = FORMS[form]
    prefix = f"{topic_prefix}flight"
    async with (
        running(broker.bootstrap, prefix, tmp_path, copies, **ENVIRONMENT) as fleet,
        httpx.AsyncClient(base_url=fleet.server, timeout=30) as http,
        TopicReader(broker.bootstrap, prefix, (BINDINGS, EVICTIONS), BEGINNING) as reader,
    ):
        document = {"apiVersion": "moorage.io/v1alpha1", "kind": "EvictionPause", "metadata": {"name": "kept"}}
        spec = {"scope": {"selector": {"matchLabels": {"pause": "yes"}}}}
        await Round(fleet, http, "pause").post("/apis/moorage.io/v1alpha1/evictionpauses", {**document, "spec": spec})
        must_stay: set[str] = set()
        for number, service in enumerate(services * ROUNDS):
            for attempt in range(ATTEMPTS):
                await fleet.ready_again(60)
                now = Round(fleet, http, f"r{number}-{attempt}")
                if (left := await stood_still(now, reader, service)) is not None:
                    break
            else:
                pytest.fail("the machine is too slow to accept everything before the deadlines")
            must_stay.update(now.pods)
            # Rounds that were not in time promise nothing about their pods.
            judged = [pod for pod in left if pod in must_stay or pod.startswith(f"{now.name}-")]
            assert judged == [now.node("end"), now.node("lost")], f"{service} stood still"
