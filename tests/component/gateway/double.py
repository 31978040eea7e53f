"""A gateway on a log in memory. Committed records are read back at once, unless a test holds them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import httpx
from tests.component.gateway.memory_records import MemoryRecords, MemoryTopics
from tests.support.waiting import until

from moorage.apiserver.http import paths
from moorage.apiserver.http.app import Front, Gateway, create_app
from moorage.apiserver.http.intake.explain import Explanations
from moorage.apiserver.machinery.api_errors import StatusError, unavailable
from moorage.apiserver.storage.derivation import Derivation
from moorage.apiserver.storage.durable_log import ReportOutcomes, Write
from moorage.apiserver.storage.object_log import LoggedRecord
from moorage.apiserver.storage.store import Store
from moorage.runtime.service import Input
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.base import Model
from moorage_schemas.condition import HEALTHY, ConditionStatus, WorkloadConditionChanged
from moorage_schemas.dead_letter import Audited
from moorage_schemas.envelope import Meta, event_id
from moorage_schemas.keys import binding_key, workload_condition_key
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.shown import COMPLETE_KEY
from moorage_schemas.taint import TaintOrigin, TaintRecord, TargetTainted
from moorage_schemas.topics import (
    AUDIT,
    BINDINGS,
    OBJECTS,
    PARTITIONS,
    RESOURCES,
    TAINTS,
    WORKLOAD_CONDITIONS,
    Topic,
    partition_of,
)

Json = dict[str, Any]
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MERGE = "application/merge-patch+json"
NAMESPACES = ("c1", "pool", "shop")
"""The namespaces that are declared in a gateway, beside those that are built in."""


class SetClock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.time = NOW

    def now(self) -> datetime:
        return self.time

    async def sleep_until(self, when: datetime) -> None:
        self.time = max(self.time, when)


class MemoryLog:
    """Keeps records in memory. What they change of the objects goes through the object log into the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._ends: dict[tuple[Topic, int], int] = {}
        self.derivation = Derivation(store)
        store.lead(self.derivation.tables, self.derivation.builder, self.derivation.clusters)
        self.objects: list[LoggedRecord] = []
        """The object log."""

        self.audit = MemoryRecords(topic=AUDIT)
        """What was written to the audit, and what a test adds."""

        self.obstacle = ""
        self.written: list[Write] = []
        self.reported: list[Write] = []
        self.open = asyncio.Event()
        """Commits wait while this is not set."""

        self.open.set()

    async def commit(self, writes: Sequence[Write], *, is_shown: bool = True) -> int:  # noqa: ARG002 - shows everything at once
        await self.open.wait()
        if self.obstacle:
            raise unavailable(self.obstacle)
        self.written += writes
        self._note(writes)
        for write in writes:
            if write.topic is OBJECTS:
                self._log(write.key, write.value)
                self._store.history.wake()
                continue
            self.append(write.topic, write.key, write.partition_key, write.event, write.meta)
        return len(self.objects)

    async def report(self, writes: Sequence[Write]) -> list[int]:
        if self.obstacle:
            raise unavailable(self.obstacle)
        self.reported += writes
        self._note(writes)
        return list(range(len(self.reported) - len(writes), len(self.reported)))

    def _note(self, writes: Sequence[Write]) -> None:
        for write in writes:
            if write.topic is AUDIT and isinstance(write.event, Audited):
                milliseconds = int(write.event.time.timestamp() * 1000)
                self.audit.add(partition_of(write.key, 3), write.event, milliseconds)

    def begin(self) -> None:
        """Begin to show what was written so far, and to record changes."""
        self.derivation.begin()
        self.emit()
        self._log(COMPLETE_KEY, b"{}")
        self._store.caught_up = True

    def append(
        self, topic: Topic, key: str, partition_key: str, event: Model | None, meta: Meta | None = None
    ) -> Input:
        """Write a record like a service."""
        partition = partition_of(partition_key, PARTITIONS)
        offset = self._ends.get((topic, partition), 0)
        self._ends[(topic, partition)] = offset + 1
        meta = meta or Meta(id=event_id(topic.short, key, offset), source="test", type=topic.event_type)
        record = Input(topic, partition, offset, key, event, meta)
        self.fold([record])
        return record

    def fold(self, records: Sequence[Input]) -> None:
        """Take records in as one batch."""
        self.derivation.fold([record for record in records if record.topic in self._store.tables.topics])
        if self._store.ready:
            self.emit()
            self._store.history.wake()

    def emit(self) -> None:
        """Append to the object log what looks different."""
        while changes := self.derivation.take(at_once=1_000_000, seconds=60):
            for change in changes:
                self._log(change.object_id.key, change.value)

    def _log(self, key: str, value: bytes | None) -> None:
        self.objects.append(LoggedRecord(len(self.objects), key, value))
        self._store.apply(self.objects[-1:])


class Fixture:
    """A gateway, its parts, and a client."""

    def __init__(
        self,
        *,
        kept: int | None = None,
        ready: bool = True,
        settings: Settings | None = None,
        explanations: Explanations | None = None,
        outcomes: ReportOutcomes | None = None,
        letters: MemoryRecords | None = None,
        namespaces: Sequence[str] = NAMESPACES,
        front: Front | None = None,
    ) -> None:
        self.store = Store(kept=kept)
        self.log = MemoryLog(self.store)
        self.clock = SetClock()
        self.letters = letters or MemoryRecords()
        self.gateway = Gateway(
            store=self.store,
            log=self.log,
            clock=self.clock,
            settings=settings or Settings(),
            explanations=explanations or Explanations(),
            outcomes=outcomes,
            records=MemoryTopics(self.letters, self.log.audit),
        )
        for name in namespaces:
            self.namespace(name)
        if ready:
            self.begin()
        self.app = create_app(self.gateway, front)
        transport = httpx.ASGITransport(app=self.app)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://localhost")

    def begin(self) -> None:
        """Begin to show what the topics contain."""
        self.log.begin()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Let the gateway's controllers work within the context."""
        async with self.app.router.lifespan_context(self.app):
            yield self

    async def settled(self) -> None:
        """Return when the controllers have nothing to do."""
        await until(lambda: not self.app.state.controllers.busy)

    async def status(self, path: str) -> int:
        """The status code of a GET."""
        return (await self.call("GET", path)).status_code

    def namespace(self, name: str) -> None:
        """Declare a namespace, as an earlier gateway has written it."""
        metadata = {"name": name, "uid": f"uid-of-{name}", "labels": {"kubernetes.io/metadata.name": name}}
        document = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        key = f"Namespace//{name}"
        self.log.append(RESOURCES, key, key, ResourceDeclared(object=document, version=1))

    async def ok(self, method: str, path: str, body: Json | None = None, **options: Any) -> Json:
        """Send a request that must succeed."""
        answer = await self.call(method, path, body, **options)
        assert answer.status_code in {200, 201}, answer.text
        document: Json = answer.json()
        return document

    async def call(self, method: str, path: str, body: Any = None, **options: Any) -> httpx.Response:
        """Send a request. A PATCH is a merge patch. A whole object gets the type that its path names."""
        headers = {"content-type": MERGE} if method == "PATCH" else {}
        headers |= options.pop("headers", {})
        if body is not None:
            options["json"] = _named(body, path) if method in {"POST", "PUT"} else body
        return await self.http.request(method, path, headers=headers, **options)

    def start(self, method: str, path: str, body: Any = None) -> asyncio.Task[httpx.Response]:
        """Send a request without waiting for its answer."""
        return asyncio.create_task(self.call(method, path, body))

    def tainted(
        self, name: str, taints: Sequence[tuple[str, str, str]], *, uid: str, generation: int, applied: int = 0
    ) -> None:
        """Write the taint-manager's record of a node. Taints are (key, value, effect)."""
        target = TargetRef(kind=TargetKind.NODE, name=name)
        records = tuple(
            TaintRecord(key=key, value=value, effect=effect, time_added=NOW, origins=(TaintOrigin.CONDITION,))
            for key, value, effect in taints
        )
        event = TargetTainted(
            target=target, target_uid=uid, generation=generation, taints=records, wishes_applied=applied
        )
        self.log.append(TAINTS, target.key, target.key, event)

    def bound(
        self,
        workload: WorkloadRef,
        target: TargetRef,
        *,
        owner: WorkloadRef | None = None,
        at: datetime = NOW,
        **more: Any,
    ) -> None:
        """Write placement's record that a workload is bound to a target."""
        event = WorkloadBound(
            workload=workload, uid="u", owner=owner or workload, target=target, generation=1, bound_time=at, **more
        )
        self.log.append(BINDINGS, binding_key(workload, target), target.key, event)

    def reported(
        self,
        workload: WorkloadRef,
        target: TargetRef,
        status: ConditionStatus,
        *,
        condition: str = HEALTHY,
        at: datetime = NOW,
        source: str = "",
    ) -> None:
        """Write a deployer's report on a workload, as accepted by condition-ingest."""
        event = WorkloadConditionChanged(
            workload=workload,
            target=target,
            type=condition,
            status=status,
            reason="Probed",
            last_transition_time=at,
            last_heartbeat_time=at,
            generation=1,
            source=source,
        )
        key = workload_condition_key(workload, target, condition)
        self.log.append(WORKLOAD_CONDITIONS, key, target.key, event)

    @property
    def declared(self) -> list[Write]:
        """The records of `resources` that were written."""
        return [write for write in self.log.written if write.topic is RESOURCES]


def _named(body: Any, path: str) -> Any:
    """An object with `apiVersion` and `kind`, which custom resources must have."""
    first, *parts = path.partition("?")[0].strip("/").split("/")
    group = parts.pop(0) if first == "apis" else ""
    if first not in {"api", "apis"} or len(parts) < len(("version", "plural")):
        return body
    with contextlib.suppress(StatusError):
        found = paths.parse(group, parts[0], parts[1:])
        if isinstance(body, dict) and not found.subresource:
            return {"apiVersion": found.kind.api_version, "kind": found.kind.kind, **body}
    return body


def node(name: str = "n1", *, taints: Sequence[Json] | None = None, **spec: Any) -> Json:
    """A node."""
    full = {**spec, **({"taints": list(taints)} if taints is not None else {})}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, **({"spec": full} if full else {})}


def pod(name: str = "p1", **spec: Any) -> Json:
    """A pod."""
    containers = [{"name": "main", "image": "app:1"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": containers, **spec},
    }


def deployment(name: str = "web", replicas: int = 2) -> Json:
    """A deployment."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "app:1"}]},
            },
        },
    }


def pod_ref(name: str) -> WorkloadRef:
    """A pod in the default namespace."""
    return WorkloadRef(kind="Pod", namespace="default", name=name)


def node_ref(name: str) -> TargetRef:
    """A node."""
    return TargetRef(kind=TargetKind.NODE, name=name)


def later(seconds: float) -> datetime:
    """An instant after `NOW`."""
    return NOW + timedelta(seconds=seconds)
