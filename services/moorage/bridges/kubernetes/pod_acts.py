"""Writes to the pods of a cluster: evictions, bindings, why a pod waits, and that it is not ready on a lost node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

import structlog

from moorage.bridges.engine.acts import LOST, Contention, outcome_of, send, stored_time
from moorage.bridges.engine.cluster_events import NORMAL, WARNING, Regarding, event
from moorage.bridges.engine.metrics import ACTS
from moorage.bridges.kube.api_error import ApiError
from moorage.bridges.kube.client import JSON, STRATEGIC_MERGE_PATCH, JsonObject, KubeClient
from moorage.bridges.kubernetes.cluster_tables import DecidedTables, RequestedEviction
from moorage.bridges.kubernetes.reduced import SCHEDULER, SeenPod
from moorage.decide.conditions.node_readiness import is_lost
from moorage_schemas.placement import PlacementState

_log = structlog.get_logger(__name__)

_TAINT_EVICTION: Final = "TaintManagerEviction"
_UNSCHEDULABLE: Final = "Unschedulable"
_READY: Final = "Ready"


class EvictionMode(StrEnum):
    """How a pod is removed that has to leave."""

    DELETE = "delete"
    """By deletion, as Kubernetes' taint eviction does. Budgets of the cluster do not hold it; Moorage's have."""

    API = "api"
    """Through the eviction API, so that the budgets of the cluster also count."""


@dataclass(eq=False)
class PodActs:
    """The evictions and bindings of pods in a cluster.

    Attributes:
        pod: returns a pod as it was last seen, by its key. None if it does not exist.
        failed: called with the key and the uid of a pod that could not be evicted, and why. The text is empty when that
            has ended.
        node_uid: returns the uid of a node, by its name. Empty if it does not exist.
        mode: how pods are removed.
    """

    client: KubeClient
    tables: DecidedTables
    pod: Callable[[str], SeenPod | None]
    _: KW_ONLY
    tell: Callable[[JsonObject], None]
    failed: Callable[[str, str, str], None]
    node_uid: Callable[[str], str]
    mode: EvictionMode
    contention: Contention
    _removed: dict[str, str] = field(default_factory=dict, init=False)
    """The uids of the pods that were removed, by key, until they are seen to go."""

    def has_to_leave(self, key: str) -> RequestedEviction | None:
        """Return why a pod has to be removed now. None if it may stay, or goes already."""
        pod = self.pod(key)
        if pod is None or pod.leaving:
            self._removed.pop(key, None)
            self.failed(key, "", "")
            return None
        if self._removed.get(key) == pod.uid:  # the mark on it was seen, and its deletion not yet
            return None
        return self.tables.eviction_of(key, pod.uid)

    async def evict(self, key: str) -> None:
        """Remove a pod if it has to leave.

        Raises:
            ApiError: the cluster refuses, such as for one of its budgets.
            OSError: it cannot be reached.
        """
        pod, eviction = self.pod(key), self.has_to_leave(key)
        if pod is None or eviction is None:
            return
        path = _path(pod)
        try:
            if self.mode is EvictionMode.API:  # which marks the pod itself, once its budgets let it go
                await self.client.request("POST", f"{path}/eviction", body=_eviction(pod))
            else:
                await self._mark(path, pod)
                if self.has_to_leave(key) is None:  # the mark may have waited for the server for long
                    return
                options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": pod.uid}}
                await self.client.request("DELETE", path, body=options, is_next=True)
        except ApiError as error:
            if error.status in LOST:
                return
            ACTS.labels("evict", outcome_of(error)).inc()
            self.failed(key, pod.uid, str(error))
            raise
        self._removed[key] = pod.uid
        self.failed(key, pod.uid, "")
        ACTS.labels("evict", "done").inc()
        _log.info("bridge.evicted", pod=key, node=eviction.node, taint=eviction.taint)
        name = f"{pod.namespace}/{pod.name}"
        self.tell(_event(pod, NORMAL, _TAINT_EVICTION, f"Marking for deletion Pod {name}"))

    def spare(self, key: str) -> None:
        """State that a pod may stay after all, as the taint eviction controller does."""
        uid, pod = self.tables.spared.pop(key, ""), self.pod(key)
        if pod is not None and pod.uid == uid:
            name = f"{pod.namespace}/{pod.name}"
            self.tell(_event(pod, NORMAL, _TAINT_EVICTION, f"Cancelling deletion of Pod {name}"))

    async def bind(self, key: str) -> None:
        """Bind a pod that Moorage places, or record why it waits.

        Raises:
            ApiError: the cluster refuses.
            OSError: it cannot be reached.
        """
        pod = self.pod(key)
        if pod is None or pod.scheduler != SCHEDULER or pod.node or pod.leaving or pod.finished:
            return
        binding = self.tables.binding_of(key, pod.uid)
        if binding is None:
            await self._say_why_it_waits(key, pod)
            return
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": binding.target},
        }
        path = f"{_path(pod)}/binding"
        found = await send(self.client, "bind", path, body, method="POST", content_type=JSON, lost="failed")
        if found is None:  # or it was bound already, perhaps by a request whose answer was lost
            return
        text = f"Successfully assigned {pod.namespace}/{pod.name} to {binding.target}"
        self.tell(_event(pod, NORMAL, "Scheduled", text))

    def is_lost(self, node: str) -> bool:
        """Return whether a node is not ready, by the topics. One of which they contain nothing is not lost."""
        uid = self.node_uid(node)
        found = self.tables.condition_of(node, uid, _READY) if uid else None
        return is_lost(found.status if found is not None else None)

    async def follow_node(self, key: str) -> None:
        """Set a pod to not ready if its node is, as the node lifecycle controller does. Its kubelet sets it to ready.

        Raises:
            ApiError: the cluster refuses.
            OSError: it cannot be reached.
        """
        pod = self.pod(key)
        if pod is None:
            self.contention.gone(key)
            return
        if not pod.ready or not self.is_lost(pod.node) or self.contention.holds(key, pod.uid):
            return
        try:
            await self._patch_condition(_path(pod), pod, {"type": _READY, "status": "False"})
        except ApiError as error:
            ACTS.labels("unready", "conflict" if error.status in LOST else "failed").inc()
            if error.status in LOST:
                return
            raise
        ACTS.labels("unready", "done").inc()
        self.contention.written(key, pod.uid)
        self.tell(_event(pod, WARNING, "NodeNotReady", "Node is not ready"))

    async def _say_why_it_waits(self, key: str, pod: SeenPod) -> None:
        decision = self.tables.placed.get(key)
        if (
            decision is None
            or decision.uid != pod.uid
            or decision.state is not PlacementState.PENDING
            or decision.reason != _UNSCHEDULABLE
            or decision.message == pod.unscheduled
        ):
            return
        condition = {"type": "PodScheduled", "status": "False", "reason": _UNSCHEDULABLE, "message": decision.message}
        try:
            await self._patch_condition(_path(pod), pod, condition)
        except ApiError as error:
            if error.status not in LOST:
                raise
            return
        self.tell(_event(pod, WARNING, "FailedScheduling", decision.message))

    async def _mark(self, path: str, pod: SeenPod) -> None:
        """Record the reason in the pod's status, as Kubernetes' taint eviction does."""
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Moorage: deleting due to NoExecute taint",
        }
        await self._patch_condition(path, pod, condition)

    async def _patch_condition(self, path: str, pod: SeenPod, condition: JsonObject) -> None:
        at = stored_time(datetime.now(UTC))
        body = {
            "metadata": {"uid": pod.uid},
            "status": {"conditions": [{**condition, "lastProbeTime": None, "lastTransitionTime": at}]},
        }
        await self.client.request("PATCH", f"{path}/status", body=body, content_type=STRATEGIC_MERGE_PATCH)


def _path(pod: SeenPod) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def _eviction(pod: SeenPod) -> JsonObject:
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": {"preconditions": {"uid": pod.uid}},
    }


def _event(pod: SeenPod, kind: str, reason: str, message: str) -> JsonObject:
    return event(Regarding("v1", "Pod", pod.namespace, pod.name, pod.uid), kind, reason, message)
