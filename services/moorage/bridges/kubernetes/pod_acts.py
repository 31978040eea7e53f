"""Writes to the pods of a cluster: evictions, bindings, and why a pod waits."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

import structlog

from moorage.bridges.engine.cluster_events import NORMAL, WARNING, Regarding, event
from moorage.bridges.engine.metrics import ACTS
from moorage.bridges.kube.api_error import CONFLICT, NOT_FOUND, ApiError
from moorage.bridges.kube.client import STRATEGIC_MERGE_PATCH, KubeClient
from moorage.bridges.kubernetes.cluster_tables import DecidedTables, RequestedEviction
from moorage.bridges.kubernetes.seen_pod import SCHEDULER, SeenPod
from moorage_schemas.placement import PlacementState

_log = structlog.get_logger(__name__)

_UNSCHEDULABLE: Final = "Unschedulable"
_GONE: Final = frozenset({NOT_FOUND, CONFLICT})
"""What is answered about a pod that is gone, or is another one of the same name."""

JsonObject = dict[str, Any]


class EvictionMode(StrEnum):
    """How a pod is removed that has to leave."""

    DELETE = "delete"
    """By deletion, as Kubernetes' taint eviction does. Budgets of the cluster do not hold it; Moorage's have."""

    API = "api"
    """Through the eviction API, so that the budgets of the cluster are counted, too."""


class PodActs:
    """Makes pods of the cluster what the topics say.

    Args:
        client: of the cluster.
        tables: what the topics say.
        pod: returns a pod as it was last seen, by its key. None if it is not there.
        tell: sends an event to the cluster.
        failed: called with the key and the uid of a pod that could not be evicted, and why. The text is empty when that
            is over.
        mode: how pods are removed.
    """

    def __init__(
        self,
        client: KubeClient,
        tables: DecidedTables,
        pod: Callable[[str], SeenPod | None],
        *,
        tell: Callable[[JsonObject], None],
        failed: Callable[[str, str, str], None],
        mode: EvictionMode,
    ) -> None:
        self._client = client
        self._tell = tell
        self._tables = tables
        self._pod = pod
        self._failed = failed
        self._mode = mode
        self._removed: dict[str, str] = {}
        """The uids of the pods that were removed, by key, until they are seen to go."""

    def has_to_leave(self, key: str) -> RequestedEviction | None:
        """Return why a pod has to be removed now. None if it may stay, or goes already."""
        pod = self._pod(key)
        if pod is None or pod.leaving:
            self._removed.pop(key, None)
            self._failed(key, "", "")
            return None
        if self._removed.get(key) == pod.uid:  # the mark on it was seen, and its deletion not yet
            return None
        return self._tables.eviction_of(key, pod.uid)

    async def evict(self, key: str) -> None:
        """Remove a pod if it has to leave.

        Raises:
            ApiError: the cluster refuses, such as for one of its budgets.
            OSError: it cannot be reached.
        """
        pod, eviction = self._pod(key), self.has_to_leave(key)
        if pod is None or eviction is None:
            return
        path = _path(pod)
        try:
            if self._mode is EvictionMode.API:  # which marks the pod itself, once its budgets let it go
                await self._client.request("POST", f"{path}/eviction", body=_eviction(pod))
            else:
                await self._mark(path, pod)
                options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": pod.uid}}
                await self._client.request("DELETE", path, body=options)
        except ApiError as error:
            if error.status in _GONE:
                return
            ACTS.labels("evict", "failed").inc()
            self._failed(key, pod.uid, str(error))
            raise
        self._removed[key] = pod.uid
        self._failed(key, pod.uid, "")
        ACTS.labels("evict", "done").inc()
        _log.info("bridge.evicted", pod=key, node=eviction.node, taint=eviction.taint)
        name = f"{pod.namespace}/{pod.name}"
        self._tell(_event(pod, NORMAL, "TaintManagerEviction", f"Marking for deletion Pod {name}"))

    async def bind(self, key: str) -> None:
        """Bind a pod that Moorage places, or say why it waits.

        Raises:
            ApiError: the cluster refuses.
            OSError: it cannot be reached.
        """
        pod = self._pod(key)
        if pod is None or pod.scheduler != SCHEDULER or pod.node or pod.leaving or pod.finished:
            return
        binding = self._tables.binding_of(key, pod.uid)
        if binding is None:
            await self._say_why_it_waits(key, pod)
            return
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": binding.node},
        }
        try:
            await self._client.request("POST", f"{_path(pod)}/binding", body=body)
        except ApiError as error:
            ACTS.labels("bind", "failed").inc()
            if error.status in _GONE:  # or it was bound already, perhaps by a request whose answer was lost
                return
            raise
        ACTS.labels("bind", "done").inc()
        text = f"Successfully assigned {pod.namespace}/{pod.name} to {binding.node}"
        self._tell(_event(pod, NORMAL, "Scheduled", text))

    async def _say_why_it_waits(self, key: str, pod: SeenPod) -> None:
        decision = self._tables.decisions.get(key)
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
            if error.status not in _GONE:
                raise
            return
        self._tell(_event(pod, WARNING, "FailedScheduling", decision.message))

    async def _mark(self, path: str, pod: SeenPod) -> None:
        """Say in the pod's status why it goes, as Kubernetes' taint eviction does."""
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByTaintManager",
            "message": "Moorage: deleting due to NoExecute taint",
        }
        await self._patch_condition(path, pod, condition)

    async def _patch_condition(self, path: str, pod: SeenPod, condition: JsonObject) -> None:
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = {
            "metadata": {"uid": pod.uid},
            "status": {"conditions": [{**condition, "lastProbeTime": None, "lastTransitionTime": at}]},
        }
        await self._client.request("PATCH", f"{path}/status", body=body, content_type=STRATEGIC_MERGE_PATCH)


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
