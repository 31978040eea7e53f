"""What people, programs and probes write, in one line each, for tests that drive services."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tests.scenario.flow.driver import Flow, Record

from moorage.runtime.settings import Settings
from moorage_schemas.condition import ConditionReported, ConditionStatus
from moorage_schemas.keys import binding_key
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.resource import ResourceDeclared, TaintWish, resource_key
from moorage_schemas.taint import Toleration
from moorage_schemas.times import format_time
from moorage_schemas.topics import BINDINGS, CONDITION_REPORTS, RESOURCES

WITNESS = "witness"
"""A node that tests declare and leave alone: were every node down, no taint that evicts would be added."""


def lifted(**changes: Any) -> Settings:
    """Settings with which a node that is not ready gets the taint that evicts at once, and no source falls silent."""
    return Settings(
        **{
            "node_monitor_grace_period": 0,
            "node_eviction_rate": math.inf,
            "secondary_node_eviction_rate": math.inf,
            "large_cluster_size_threshold": 0,
            "node_monitor_period": 0,
            **changes,
        }
    )


def node(name: str) -> TargetRef:
    """The reference of a node."""
    return TargetRef(kind=TargetKind.NODE, name=name)


def pod(name: str) -> WorkloadRef:
    """The reference of a pod."""
    return WorkloadRef(kind="Pod", namespace="default", name=name)


def tolerate(key: str, seconds: int | None = None, *, value: str = "", effect: str = "NoExecute") -> Toleration:
    """A toleration of one key, for ever or for some seconds."""
    return Toleration(
        key=key,
        operator="Equal" if value else "Exists",
        value=value,
        effect=effect,
        toleration_seconds=seconds,
    )


class Fleet:
    """Declared nodes and their wishes, as the gateway would write them, and probes and bindings."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self._versions: dict[str, int] = {}
        self._lives: dict[str, int] = {}
        self._began: dict[str, datetime] = {}
        self._wishes: dict[str, dict[tuple[str, str], TaintWish]] = {}
        self._spec: dict[str, dict[str, Any]] = {}
        self._labels: dict[str, dict[str, str]] = {}
        self._bindings: dict[str, int] = {}

    def declare(self, name: str, *, zone: str = "", **spec: Any) -> Record:
        """Declare a node, or change its zone and spec."""
        self._labels[name] = {"topology.kubernetes.io/zone": zone} if zone else {}
        if name not in self._spec:
            self._lives[name] = self._lives.get(name, 0) + 1
            self._began[name] = self.flow.now
            self._versions[name] = 0
            self._wishes[name] = {}
        self._spec[name] = spec
        return self._write(name)

    def delete(self, name: str) -> Record:
        """Delete a node."""
        del self._spec[name]
        return self.flow.produce(RESOURCES, resource_key("Node", "", name), None, partition_key=node(name).key)

    def uid(self, name: str) -> str:
        """The uid that a node has now, or had last."""
        return f"uid-{name}-{self._lives.get(name, 0)}"

    def taint(
        self, name: str, key: str, effect: str = "NoExecute", value: str = "", *, time: datetime | None = None
    ) -> Record:
        """Wish a taint on a node."""
        return self._wish(name, key, effect, value, present=True, time=time)

    def untaint(self, name: str, key: str, effect: str = "NoExecute") -> Record:
        """Wish a taint away."""
        return self._wish(name, key, effect, "", present=False, time=None)

    def report(
        self,
        name: str,
        condition: str = "Ready",
        status: str = "False",
        *,
        at: datetime | None = None,
        id: str = "",  # noqa: A002 - the CloudEvents attribute's own name
        partition_key: str | None = None,
    ) -> Record:
        """Report a condition of a node, as a probe does."""
        event = ConditionReported(
            target=node(name),
            type=condition,
            status=ConditionStatus(status),
            reason="Test",
            observed_time=at or self.flow.now,
        )
        key = node(name).key
        return self.flow.produce(
            CONDITION_REPORTS, key, event, id=id, source="probe", partition_key=partition_key or key
        )

    def bind(self, workload: str, name: str, tolerations: Sequence[Toleration] = (), *, revision: int = 1) -> Record:
        """Bind a pod to a node, as placement does; a revision above one changes the standing binding."""
        key = binding_key(pod(workload), node(name))
        if revision == 1:
            self._bindings[key] = self._bindings.get(key, 0) + 1
        event = WorkloadBound(
            workload=pod(workload),
            uid=f"uid-{workload}",
            owner=pod(workload),
            target=node(name),
            generation=self._bindings[key],
            revision=revision,
            tolerations=tuple(tolerations),
            bound_time=self.flow.now,
        )
        return self.flow.produce(BINDINGS, key, event, partition_key=node(name).key)

    def unbind(self, workload: str, name: str) -> Record:
        """End a binding."""
        return self.flow.produce(BINDINGS, binding_key(pod(workload), node(name)), None, partition_key=node(name).key)

    def _wish(self, name: str, key: str, effect: str, value: str, *, present: bool, time: datetime | None) -> Record:
        wishes = self._wishes[name]
        generation = max((wish.generation for wish in wishes.values()), default=0) + 1
        wishes[key, effect] = TaintWish(
            key=key,
            effect=effect,
            value=value,
            present=present,
            generation=generation,
            time=time or self.flow.now,
            actor="tester",
        )
        return self._write(name)

    def _write(self, name: str) -> Record:
        self._versions[name] += 1
        event = ResourceDeclared(
            object={
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": name,
                    "uid": self.uid(name),
                    "creationTimestamp": format_time(self._began[name].replace(microsecond=0)),
                    "labels": self._labels[name],
                },
                "spec": self._spec[name],
            },
            version=self._versions[name],
            wishes=tuple(self._wishes[name].values()),
        )
        return self.flow.produce(RESOURCES, event.key, event, partition_key=node(name).key)
