"""A gateway with the console, on a log in memory, and a fleet to look at."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import patch

import httpx
from tests.component.gateway.double import NOW, Fixture, node_ref, pod_ref
from tests.component.gateway.test_clusters import in_cluster
from tests.component.gateway.test_dead_letters import letter
from tests.support.waiting import until

from moorage.apiserver.http.app import ServedApi
from moorage.apiserver.server import http_server, listen
from moorage.apiserver.storage.object_log import json_of, value_of
from moorage.cli.local.pages import host_of, with_pages
from moorage.console.application import Console
from moorage_schemas.condition import ConditionChanged, ConditionStatus
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import condition_key, eviction_key
from moorage_schemas.placement import FilterResult, PlacementState, TargetScore, WorkloadPlaced
from moorage_schemas.resource import Mirrored, ResourceDeclared
from moorage_schemas.taint import HeldTaint, Taint, TaintOrigin, TaintRecord, TargetTainted
from moorage_schemas.topics import CONDITIONS, EVICTIONS, PLACEMENTS, RESOURCES, TAINTS, Topic
from moorage_schemas.topics import ZONES as ZONES_TOPIC
from moorage_schemas.zone import ZoneChanged, ZoneState, ZoneTransition, ZoneWaiting

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
UNREACHABLE = "node.kubernetes.io/unreachable"
MIRRORED = ("Node/", "Pod/", "PodDisruptionBudget/")
ZONES = ("eu/eu-1", "eu/eu-2", "us/us-1")


class KeptFront:
    """Makes a console, and keeps it, so that a test reaches its parts."""

    def __init__(self) -> None:
        self.console: Any = None

    def __call__(self, app: Any, api: ServedApi) -> Any:
        self.console = Console(app, host_of(app, api))
        return self.console


class ConsoleWorld(Fixture):
    """A gateway with the console."""

    def __init__(self, **options: Any) -> None:
        super().__init__(front=options.pop("front", with_pages), **options)

    async def page(self, path: str, **options: Any) -> Any:
        """GET a page as a browser does."""
        headers = {"accept": BROWSER, **options.pop("headers", {})}
        return await self.http.get(path, headers=headers, **options)

    def declare(self, document: dict[str, Any]) -> None:
        """Write a resource as an earlier gateway has written it."""
        metadata = document["metadata"]
        key = f"{document['kind']}/{metadata.get('namespace', '')}/{metadata['name']}"
        full = {**document, "metadata": {"uid": f"uid-of-{metadata['name']}", **metadata}}
        target = f"{document['kind']}/{metadata['name']}" if document["kind"] in {"Node", "Cluster"} else key
        self.log.append(RESOURCES, key, target, ResourceDeclared(object=full, version=1))

    def node(self, name: str, zone: str = "", **spec: Any) -> None:
        """Declare a node."""
        region, _, own = zone.partition("/")
        labels = {"topology.kubernetes.io/region": region, "topology.kubernetes.io/zone": own} if zone else {}
        metadata = {"name": name, "labels": labels, "creationTimestamp": "2026-01-01T09:00:00Z"}
        self.declare({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec})

    def pod(self, name: str) -> None:
        """Declare a pod."""
        containers = [{"name": "main", "image": "app:1"}]
        metadata = {"name": name, "namespace": "default"}
        self.declare({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}})

    def condition(
        self, node: str, status: str, *, reason: str = "Probed", message: str = "", at: datetime = NOW
    ) -> None:
        """Write condition-ingest's record that a node is ready or not."""
        target = node_ref(node)
        event = ConditionChanged(
            target=target,
            type="Ready",
            status=ConditionStatus(status),
            reason=reason,
            message=message,
            source="probe/rack",
            last_transition_time=at,
            last_heartbeat_time=at,
            generation=1,
        )
        self.log.append(CONDITIONS, condition_key(target, "Ready"), target.key, event)

    def taint(self, node: str, *keys: str, held: str = "", effect: str = "NoExecute") -> None:
        """Write the taint-manager's record of a node."""
        target = node_ref(node)
        event = TargetTainted(
            target=target,
            target_uid=f"uid-of-{node}",
            generation=1,
            taints=tuple(
                TaintRecord(
                    key=key, effect=effect, time_added=NOW, origins=(TaintOrigin.CONDITION,), reason="NodeStatusUnknown"
                )
                for key in keys
            ),
            held=(HeldTaint(key=UNREACHABLE, effect="NoExecute", since=NOW, reason=held),) if held else (),
        )
        self.log.append(TAINTS, target.key, target.key, event)

    def placed(self, name: str, node: str = "", *, reason: str = "Scheduled", message: str = "") -> None:
        """Write placement's decision on a pod."""
        workload = pod_ref(name)
        event = WorkloadPlaced(
            workload=workload,
            uid=f"uid-of-{name}",
            owner=workload,
            owner_uid=f"uid-of-{name}",
            generation=1,
            state=PlacementState.PLACED if node else PlacementState.PENDING,
            target=node_ref(node) if node else None,
            reason=reason,
            message=message,
            targets_considered=12,
            filters=(
                FilterResult(filter="TaintToleration", reason="untolerated taint", count=2, targets=("n01", "n02")),
            ),
            scores=(
                TargetScore(target=node, total=190, scores={"LeastAllocated": 90, "TopologySpread": 100}),
                TargetScore(target="n04", total=150, scores={"LeastAllocated": 80, "TopologySpread": 70}),
            )
            if node
            else (),
            decided_time=NOW - timedelta(minutes=3),
        )
        self.log.append(PLACEMENTS, workload.key, workload.key, event)
        if node:
            self.bound(workload, node_ref(node))

    def evicting(
        self,
        name: str,
        node: str,
        state: str,
        *,
        held_by: tuple[str, ...] = (),
        due: float = 240.0,
        ended: float = 0.0,
        reason: str = "TaintEviction",
    ) -> None:
        """Write eviction's record of a task."""
        workload, target = pod_ref(name), node_ref(node)
        event = EvictionDecided(
            workload=workload,
            workload_uid=f"uid-of-{name}",
            owner=workload,
            target=target,
            generation=1,
            revision=1,
            state=EvictionState(state),
            deadline=NOW + timedelta(seconds=due),
            held_by=held_by,
            taints=(Taint(key=UNREACHABLE, effect="NoExecute", time_added=NOW + timedelta(seconds=due - 300)),),
            reason=reason,
            decided_time=NOW + timedelta(seconds=min(ended, 0)),
            requested_time=NOW + timedelta(seconds=min(due, 0)) if state in {"Requested", "Completed"} else None,
        )
        self.log.append(EVICTIONS, eviction_key(workload, target, 1), target.key, event)

    def zone(
        self,
        name: str,
        state: str = "Normal",
        *,
        nodes: int = 12,
        not_ready: int = 0,
        queue: tuple[str, ...] = (),
        history: tuple[tuple[float, str], ...] = (),
    ) -> None:
        """Write the governor's record of a zone."""
        event = ZoneChanged(
            zone=name,
            generation=1,
            state=ZoneState(state),
            nodes=nodes,
            not_ready=not_ready,
            rate=0.1,
            tokens=0.4,
            tokens_time=NOW,
            waiting=len(queue),
            queue=tuple(
                ZoneWaiting(target=f"Node/{one}", incident=1, since=NOW - timedelta(seconds=50)) for one in queue
            ),
            history=tuple(
                ZoneTransition(state=ZoneState(word), since=NOW - timedelta(minutes=ago), nodes=nodes, not_ready=7)
                for ago, word in history
            ),
        )
        self.log.append(ZONES_TOPIC, name, "fleet", event)

    def shown(self, document: dict[str, Any]) -> None:
        """Write an object into the object log, as the leading gateway does. It was derived from nothing."""
        metadata = document["metadata"]
        key = f"{document['kind']}/{metadata.get('namespace', '')}/{metadata['name']}"
        self.log._log(key, value_of(json_of(document)))

    @contextlib.asynccontextmanager
    async def served(self, port: int = 0) -> AsyncIterator[str]:
        """Serve it on a port of this machine within the context. Gives its address."""
        sock = listen("127.0.0.1", port)
        address = f"http://127.0.0.1:{sock.getsockname()[1]}"
        async with http_server(self.app, sock) as server:
            async with httpx.AsyncClient(base_url=address) as http:

                async def answers() -> bool:
                    assert not server.done()
                    with contextlib.suppress(httpx.TransportError):
                        return (await http.get("/livez")).status_code == 200
                    return False

                await until(answers)
            yield address


def some_fleet(world: ConsoleWorld) -> None:
    """A small fleet with one of everything."""
    for number in range(1, 37):
        name, zone = f"n{number:02}", ZONES[number % 3]
        world.node(name, zone, **({"unschedulable": True} if number == 9 else {}))
        world.condition(name, "True", at=NOW - timedelta(seconds=12))
    world.node("spare")
    world.condition(
        "n01", "False", reason="KubeletStopped", message="no answer for 40 s", at=NOW - timedelta(minutes=4)
    )
    world.condition("n02", "Unknown", reason="SourceSilent", at=NOW - timedelta(minutes=2))
    world.condition("n05", "Unknown", reason="SourceSilent", at=NOW - timedelta(seconds=50))
    world.taint("n01", "node.kubernetes.io/not-ready")
    world.taint("n02", UNREACHABLE)
    world.taint("n05", UNREACHABLE, held="zone us/us-1 grants 0.1/s", effect="NoSchedule")
    for number in range(1, 9):
        world.pod(f"web-{number}")
        world.placed(f"web-{number}", f"n{number:02}")
    world.evicting("web-1", "n01", "Requested", due=-5)
    world.evicting("web-2", "n02", "Held", held_by=("PodDisruptionBudget/default/web",), due=-90)
    world.evicting("web-5", "n05", "Scheduled", due=250)
    world.evicting("web-3", "n03", "Completed", due=-1500, ended=-1400)
    world.evicting("web-4", "n04", "Cancelled", due=-500, ended=-600)
    world.letters.add(0, letter(name="n04"))
    world.pod("batch-1")
    world.placed("batch-1", reason="Unschedulable", message="0/37 nodes are available: 37 Insufficient cpu.")
    world.zone("eu/eu-1")
    world.zone("eu/eu-2", not_ready=1)
    past = ((180, "Normal"), (90, "FullDisruption"), (80, "Normal"), (4, "PartialDisruption"))
    world.zone("us/us-1", "PartialDisruption", not_ready=2, queue=("n05",), history=past)
    some_guards(world)
    told = {
        "Scheduled": "Successfully assigned default/web-1 to n01",
        "TaintManagerEviction": "Marking for deletion Pod default/web-1",
    }
    for number, (reason, message) in enumerate(told.items()):
        world.shown(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": f"web-1.{number}", "namespace": "default"},
                "involvedObject": {"kind": "Pod", "name": "web-1", "namespace": "default"},
                "type": "Normal",
                "reason": reason,
                "message": message,
                "lastTimestamp": f"2026-01-01T11:5{number * 3}:00Z",
                "source": {"component": "placement"},
            }
        )


def some_guards(world: ConsoleWorld) -> None:
    """A budget and a pause."""
    world.declare(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
        }
    )
    world.declare(
        {
            "apiVersion": "moorage.io/v1alpha1",
            "kind": "EvictionPause",
            "metadata": {"name": "migration"},
            "spec": {"scope": {"namespaces": ["batch"]}, "reason": "the night of the migration"},
        }
    )


def some_cluster(world: ConsoleWorld, name: str = "east") -> None:
    """The same small fleet as a cluster that a bridge mirrors. What is kept for the home fleet alone is not there."""
    home, append = ConsoleWorld(), world.log.append

    def append_in_cluster(topic: Topic, key: str, _: str, event: Any) -> Any:
        if topic is RESOURCES and not key.startswith(MIRRORED):
            return None
        found = in_cluster(event, name)
        if isinstance(found, ResourceDeclared):
            found = found.model_copy(update={"mirrored": Mirrored(source=f"bridge/{name}", cluster_uid=f"uid-{name}")})
        elif isinstance(found, ZoneChanged):
            queue = tuple(one.model_copy(update={"target": f"{name}:{one.target}"}) for one in found.queue)
            found = found.model_copy(update={"zone": f"{name}:{found.zone}", "queue": queue})
        own = "|".join(f"{name}:{part}" if "/" in part else part for part in key.split("|"))
        return append(topic, own, own, found)

    with patch.object(home.log, "append", append_in_cluster):
        some_fleet(home)
