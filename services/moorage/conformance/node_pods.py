"""The operation `node_pods`: the conditions of a node that may fall silent, and the readiness of its pods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from moorage.conformance.request_fields import Answer, RequestFields
from moorage.conformance.request_objects import Object, condition_in, key_in, name_in, objects, one_object
from moorage.decide.conditions.heartbeats import JUDGED
from moorage.decide.conditions.node_readiness import is_lost, ready_on
from moorage.decide.kubernetes.unstructured import at, part
from moorage_schemas.condition import ConditionStatus
from moorage_schemas.refs import TargetKind

FIELDS: Final = ("node", "pods", "steps")

_STEP: Final = ("time", "conditions", "renewTime", "pods")
_CONDITION: Final = ("type", "status", "reason", "message", "lastHeartbeatTime", "lastTransitionTime")
_READY: Final = "Ready"
_STATUSES: Final = {one.value: one for one in ConditionStatus}
_GRACE: Final = timedelta(seconds=40)
"""The default of `node_monitor_grace_period`, as upstream."""

_STARTUP: Final = timedelta(seconds=60)
"""Upstream's grace period of a node without the condition `Ready`."""

_NEVER: Final = datetime.min.replace(tzinfo=UTC)


def node_pods(fields: RequestFields) -> Answer:
    """Return the conditions of a node and the readiness of its pods after some steps.

    A step is a moment at which something may be written, and at which the node is checked afterwards.
    """
    node = one_object(fields, "node")
    created = RequestFields(part(node, "metadata"), "node.metadata", fields.upstream).time("creationTimestamp")
    check = _AsUpstream(created or _NEVER) if fields.upstream else _AsDocumented()
    state = _State(name_in(node), {}, {})
    for pod in objects(fields, "pods"):
        state.put(pod)
    for step in fields.objects("steps", _STEP, _step):
        check.step(state, step)
    return {"conditions": state.conditions, "ready": {key: one.value for key, one in check.ready(state).items()}}


@dataclass(frozen=True, slots=True)
class _Step:
    time: datetime
    conditions: dict[str, str] | None
    """By type. None if nothing is written."""

    heartbeat: datetime | None
    """The time of the condition `Ready`."""

    renewed: datetime | None
    pods: Sequence[Object]


def _step(fields: RequestFields) -> _Step:
    time = fields.time("time")
    found = fields.objects(
        "conditions", _CONDITION, lambda one: (one.text("type"), one.text("status"), one.time("lastHeartbeatTime"))
    )
    beats = [beat for name, _, beat in found if name == _READY]
    return _Step(
        time=time or _NEVER,
        conditions={name: status for name, status, _ in found} if fields.has("conditions") else None,
        heartbeat=beats[0] if beats else None,
        renewed=fields.time("renewTime", cut=False),
        pods=objects(fields, "pods"),
    )


@dataclass(slots=True)
class _State:
    """A node and its pods as they are stored."""

    name: str
    conditions: dict[str, str]
    pods: dict[str, tuple[str, ConditionStatus | None]]
    """The node and the condition `Ready` of each pod."""

    def put(self, pod: Object) -> bool:
        """Write a pod. Return whether it has come to another node."""
        condition = condition_in(pod, _READY)
        ready = _STATUSES.get(str(condition.get("status"))) if condition is not None else None
        node, before = str(at(pod, "spec", "nodeName") or ""), self.pods.get(key_in(pod))
        self.pods[key_in(pod)] = (node, ready)
        return bool(node) and (before is None or before[0] != node)

    def on_node(self) -> list[str]:
        """Return the pods on the node."""
        return [key for key, (node, _) in self.pods.items() if node == self.name]

    def mark(self, key: str) -> None:
        """Write that a pod is not ready."""
        node, ready = self.pods[key]
        if ready is not None:
            self.pods[key] = (node, ready_on(ready, lost=True))

    @property
    def stored(self) -> dict[str, ConditionStatus]:
        """The readiness of pods as it is stored."""
        return {key: ready for key, (_, ready) in self.pods.items() if ready is not None}


class _AsDocumented:
    """A report or a renewal is a heartbeat. Pods are not ready while their node is not."""

    def __init__(self) -> None:
        self._heard = self._renewed = _NEVER

    def step(self, state: _State, step: _Step) -> None:
        for pod in step.pods:
            state.put(pod)
        if step.conditions is not None:
            state.conditions |= step.conditions
            self._heard = step.time
        if step.renewed is not None and step.renewed > self._renewed:
            self._renewed, self._heard = step.renewed, step.time
        if self._heard + _GRACE <= step.time:
            for name in JUDGED[TargetKind.NODE] & state.conditions.keys():
                state.conditions[name] = ConditionStatus.UNKNOWN.value

    def ready(self, state: _State) -> dict[str, ConditionStatus]:
        lost = is_lost(_STATUSES.get(state.conditions.get(_READY, "")))
        here = set(state.on_node())
        return {key: ready_on(one, lost=lost and key in here) for key, one in state.stored.items()}


class _AsUpstream:
    """The memory of the node lifecycle controller. What it has not observed does not count."""

    def __init__(self, created: datetime) -> None:
        self._created = created
        self._probed: datetime | None = None
        """When it last saw a sign of life. None before its first look."""

        self._ready: str | None = None
        self._beat: datetime | None = None
        """The condition `Ready` that it last saw, and its time."""

        self._present_beat: datetime | None = None
        self._lease: datetime | None = None
        self._observed_lease: datetime | None = None

    def step(self, state: _State, step: _Step) -> None:
        if step.conditions is not None:
            state.conditions.clear()
            state.conditions |= step.conditions
            self._present_beat = step.heartbeat
        if step.renewed is not None:
            self._observed_lease = step.renewed
        for pod in step.pods:
            bound = state.put(pod)
            known = self._probed is not None and self._ready is not None
            if bound and key_in(pod) in state.on_node() and known and self._ready != ConditionStatus.TRUE:
                state.mark(key_in(pod))
        self._look(state, step.time)

    def ready(self, state: _State) -> dict[str, ConditionStatus]:
        return state.stored

    def _look(self, state: _State, now: datetime) -> None:
        present, lease = state.conditions.get(_READY), self._lease
        grace = _GRACE if present is not None else _STARTUP
        if self._probed is None:
            self._see(state, self._created if present is None else now)
        elif present is None:
            self._ready, self._beat = None, None
        elif self._ready is None or self._beat != self._present_beat:
            self._see(state, now)
        if self._observed_lease is not None and (lease is None or lease < self._observed_lease):
            self._lease, self._probed = self._observed_lease, now
        if self._probed is None or now <= self._probed + grace or present == ConditionStatus.UNKNOWN:
            return
        for name in JUDGED[TargetKind.NODE]:
            state.conditions[name] = ConditionStatus.UNKNOWN.value
        if present is None:
            self._present_beat = self._created
        self._see(state, self._probed)
        self._lease = self._observed_lease
        if present == ConditionStatus.TRUE:
            for key in state.on_node():
                state.mark(key)

    def _see(self, state: _State, probed: datetime) -> None:
        """Remember the condition `Ready` as it is. The lease that was seen before is forgotten, as upstream does."""
        self._probed, self._lease = probed, None
        self._ready, self._beat = state.conditions.get(_READY), self._present_beat
