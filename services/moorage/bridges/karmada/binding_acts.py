"""Writes to the bindings of a control plane: where they belong, and which clusters they leave.

Sources: github.com/karmada-io/karmada/pkg/scheduler (`patchScheduleResultForResourceBinding`,
`patchBindingStatusCondition`), pkg/controllers/cluster/taint_manager.go and pkg/controllers/gracefuleviction.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from typing import Any, Final

import orjson
import structlog

from moorage.bridges.engine.acts import Contention, send, stored_time
from moorage.bridges.engine.cluster_events import NORMAL, WARNING, event
from moorage.bridges.karmada.plane import APPLIED_PLACEMENT, SeenBinding, binding_path
from moorage.bridges.karmada.plane_tables import PlaneTables
from moorage.bridges.kube.api_error import ApiError
from moorage.bridges.kube.client import JsonObject, KubeClient
from moorage.decide.kubernetes.jsonpath import JsonPathTemplate, TemplateError
from moorage.decide.scheduling.karmada.mirrored_bindings import TAINT_MANAGER, task_reason
from moorage_schemas.placement import LeavingTarget, PlacementState, WorkloadPlaced

_log = structlog.get_logger(__name__)

_GRACEFULLY: Final = "Gracefully"
_SCHEDULED: Final = "Scheduled"
_NO_CLUSTER_FITS: Final = "NoClusterFit"
_PLACED: Final = "ScheduleBindingSucceed"
_NOT_PLACED: Final = "ScheduleBindingFailed"
_EVICTED: Final = "EvictWorkloadFromClusterSucceed"
_NOT_EVICTED: Final = "EvictWorkloadFromClusterFailed"
"""The reasons of events, as Karmada's own scheduler and taint manager have them."""

_NOT_PRESERVED: Final = "StateNotPreserved"


@dataclass(eq=False)
class BindingActs:
    """The writer of decisions to the bindings of a control plane.

    Attributes:
        binding: returns a binding as it was last seen, by its key. None if it does not exist.
        seen: takes a binding as the control plane has answered, which is faster than the watch.
        undone: decides when to write again what another controller has reverted.
    """

    client: KubeClient
    tables: PlaneTables
    binding: Callable[[str], SeenBinding | None]
    _: KW_ONLY
    seen: Callable[[JsonObject], None]
    undone: Contention
    tell: Callable[[JsonObject], None]

    async def place(self, key: str) -> None:
        """Give a binding its clusters and its eviction tasks, and write the decision to its status.

        Raises:
            ApiError: the control plane refuses.
            OSError: it cannot be reached.
        """
        binding = self.binding(key)
        if binding is None:
            self.undone.gone(key)
        if binding is None or binding.leaving:
            return
        path, patch = binding_path(binding.namespace, binding.name), self.patch(key, binding)
        is_moved = patch is not None and _content(patch["spec"]) != _content(_spec(binding.clusters, binding.tasks))
        if patch is not None:
            if is_moved and self.undone.holds(key, _content(patch["spec"])):
                return
            if not await self._bind(path, binding, patch):
                return
            _log.info("bridge.placed", binding=key, **patch["spec"])
            if is_moved:
                self.undone.written(key, _content(patch["spec"]))
                self._say_where(key, self.binding(key))
        present = self.binding(key)
        status = self.status_patch(key, present) if present is not None else None
        if status is None or not await self._write(f"{path}/status", status, "status"):
            return
        if not is_moved and "conditions" in status["status"]:
            self._say_where(key, present)

    async def _bind(self, path: str, binding: SeenBinding, patch: JsonObject) -> bool:
        """Write a binding, and send events about the clusters that it has left. Return whether it was written."""
        known = {str(one.get("fromCluster")) for one in binding.tasks}
        tasks = {str(one.get("fromCluster")) for one in patch["spec"]["gracefulEvictionTasks"] or ()}
        stays = {one["name"] for one in patch["spec"]["clusters"]}
        try:
            is_done = await self._write(path, patch, "bind")
        except ApiError as error:
            for name in sorted(tasks - known):
                self._event(binding, WARNING, _NOT_EVICTED, f"Not evicted from cluster {name}: {error}")
            if binding.is_placed:
                self._event(binding, WARNING, _NOT_PLACED, str(error))
            raise
        if is_done:
            for name in sorted(known - tasks - stays):
                self._event(binding, NORMAL, _EVICTED, f"Evicted from cluster {name}")
        return is_done

    def _say_where(self, key: str, binding: SeenBinding | None) -> None:
        """Send an event about where a binding was placed, or why it was not. Other schedulers do it themselves."""
        placed = self._decision(key, binding) if binding is not None else None
        if binding is None or placed is None or not binding.is_placed:
            return
        if _is_done(placed):
            parts = binding.clusters.items()
            where = ", ".join(f"{name}:{replicas}" if replicas else name for name, replicas in parts)
            self._event(binding, NORMAL, _PLACED, f"Scheduled to {where or 'no cluster'}")
        else:
            self._event(binding, WARNING, _NOT_PLACED, placed.message)

    def _event(self, binding: SeenBinding, kind: str, reason: str, message: str) -> None:
        """Send an event about a binding, and about the resource that it places, as Karmada does."""
        for about in binding.about:
            self.tell(event(about, kind, reason, message))

    def patch(self, key: str, binding: SeenBinding) -> JsonObject | None:
        """Return the merge patch that a binding needs. None if it is as it should be."""
        wanted = self._placed(key, binding) if binding.is_placed else self._evicted(key, binding)
        if wanted is None:
            return None
        clusters, tasks = wanted
        noted = orjson.dumps(binding.placement).decode()
        is_noted = not binding.is_placed or _decoded(binding.applied) == binding.placement
        if clusters == dict(binding.clusters) and tasks == list(binding.tasks) and is_noted:
            return None
        annotations = {} if is_noted else {"annotations": {APPLIED_PLACEMENT: noted}}
        return {
            "metadata": {"uid": binding.uid, "resourceVersion": binding.version, **annotations},
            "spec": _spec(clusters, tasks),
        }

    def status_patch(self, key: str, binding: SeenBinding) -> JsonObject | None:
        """Return the merge patch of the status that a scheduler keeps. None if it is as it should be."""
        placed = self._decision(key, binding)
        if placed is None or not binding.is_placed:
            return None
        done = _is_done(placed)
        listed = list(binding.status.get("conditions") or ())
        known: Mapping[str, Any] = next((one for one in listed if one.get("type") == _SCHEDULED), {})
        condition = {
            "type": _SCHEDULED,
            "status": "True" if done else "False",
            "reason": "Success" if done else _NO_CLUSTER_FITS,
            "message": "Binding has been scheduled successfully." if done else placed.message,
        }
        wanted: JsonObject = {"schedulerObservedGeneration": binding.generation}
        if placed.affinity_name:
            wanted["schedulerObservingAffinityName"] = placed.affinity_name
        if done:
            wanted["lastScheduledTime"] = stored_time(placed.decided_time)
        if any(known.get(name) != value for name, value in condition.items()):
            same = known.get("status") == condition["status"]
            at = known.get("lastTransitionTime") if same else stored_time(datetime.now(UTC))
            others = [one for one in listed if one.get("type") != _SCHEDULED]
            wanted["conditions"] = [*others, {**condition, "lastTransitionTime": at}]
        if all(binding.status.get(name) == value for name, value in wanted.items()):
            return None
        return {"metadata": {"uid": binding.uid, "resourceVersion": binding.version}, "status": wanted}

    def _decision(self, key: str, binding: SeenBinding) -> WorkloadPlaced | None:
        placed = self.tables.placed.get(key)
        return placed if placed is not None and placed.uid == binding.uid else None

    def _placed(self, key: str, binding: SeenBinding) -> tuple[dict[str, int], list[JsonObject]] | None:
        """Return the clusters and tasks of a binding that Moorage places. None if nothing was decided."""
        placed = self._decision(key, binding)
        if placed is None or placed.state is PlacementState.EVICTED:
            return None
        clusters = {one.target.name: one.replicas for one in placed.targets}
        leaving = {one.target.name: one for one in placed.leaving}
        # The tasks of others, such as those of people and of application failover, are theirs. One that keeps state has
        # to stay until the work has it on the next cluster: Karmada's graceful eviction controller ends it then.
        tasks = [
            dict(one)
            for one in binding.tasks
            if one.get("fromCluster") in leaving
            or one.get("producer") != TAINT_MANAGER
            or one.get("suppressDeletion")
            or one.get("preservedLabelState")
        ]
        there = {one.get("fromCluster") for one in tasks}
        # One that neither is on the cluster nor leaves it has left it: Karmada's own controller may have ended that.
        new = [one for name, one in leaving.items() if name not in there and name in binding.clusters]
        return clusters, [*tasks, *({**_task(one), **self._preserved(binding, one.target.name)} for one in new)]

    def _evicted(self, key: str, binding: SeenBinding) -> tuple[dict[str, int], list[JsonObject]] | None:
        """Return clusters and tasks of a binding of another scheduler, without the clusters that it has to leave."""
        clusters, tasks = dict(binding.clusters), [dict(one) for one in binding.tasks]
        for eviction in self.tables.requested(key, binding.uid):
            name = eviction.target.name
            bound = self.tables.bound.get(key, {}).get(name)
            if name not in clusters or bound is None or bound.generation != eviction.generation:
                continue
            replicas = clusters.pop(name)
            if binding.task(name) is None:
                task = _new_task(name, eviction.purge_mode or _GRACEFULLY, replicas, eviction.decided_time)
                tasks.append({**task, **self._preserved(binding, name)})
        return (clusters, tasks) if clusters != binding.clusters else None

    def _preserved(self, binding: SeenBinding, cluster: str) -> JsonObject:
        """Return the part of an eviction task that keeps the state of the work on the cluster that it leaves.

        Karmada's binding controller gives these labels to the work on the next cluster. What the status there does not
        have does not keep the work on a cluster that it does not tolerate: Karmada's taint manager would wait for it.
        """
        if not binding.preserved:
            return {}
        status = binding.status_on(cluster)
        try:
            labels = {
                str(one.get("aliasLabelName")): JsonPathTemplate(str(one.get("jsonPath"))).text(status, is_strict=True)
                for one in binding.preserved
            }
        except TemplateError as error:
            why = f"The state on cluster {cluster} was not preserved: {error}"
            self._event(binding, WARNING, _NOT_PRESERVED, why)
            return {}
        return {"preservedLabelState": labels}

    async def _write(self, path: str, patch: JsonObject, act: str) -> bool:
        """Send a patch. Return whether it was carried out."""
        found = await send(self.client, act, path, patch)
        if found is not None:
            self.seen(found)
        return found is not None


def _is_done(placed: WorkloadPlaced) -> bool:
    return placed.state is PlacementState.PLACED and placed.reason in {"", _SCHEDULED}


def _content(spec: Mapping[str, Any]) -> Hashable:
    """Return what others may revert of a binding: its clusters, and those that it is leaving."""
    clusters = frozenset((one["name"], int(one.get("replicas") or 0)) for one in spec.get("clusters") or ())
    return clusters, frozenset(one.get("fromCluster") for one in spec.get("gracefulEvictionTasks") or ())


def _spec(clusters: Mapping[str, int], tasks: Sequence[Mapping[str, Any]]) -> JsonObject:
    targets = [_target(name, replicas) for name, replicas in clusters.items()]
    return {"clusters": targets, "gracefulEvictionTasks": list(tasks) or None}


def _target(name: str, replicas: int) -> JsonObject:
    return {"name": name, **({"replicas": replicas} if replicas else {})}


def _task(leaving: LeavingTarget) -> JsonObject:
    task = _new_task(leaving.target.name, leaving.purge_mode or _GRACEFULLY, leaving.replicas, leaving.since)
    grace = max(0, round((leaving.until - leaving.since).total_seconds()))
    return {**task, "reason": task_reason(leaving.reason), "gracePeriodSeconds": grace}


def _new_task(cluster: str, purge_mode: str, replicas: int, since: datetime) -> JsonObject:
    return {
        "fromCluster": cluster,
        "purgeMode": purge_mode,
        **({"replicas": replicas} if replicas else {}),
        "reason": task_reason(""),
        "producer": TAINT_MANAGER,
        "creationTimestamp": stored_time(since),
    }


def _decoded(text: str) -> Mapping[str, Any] | None:
    try:
        found = orjson.loads(text or "null")
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None
