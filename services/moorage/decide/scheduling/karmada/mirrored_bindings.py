"""Which mirrored bindings of Karmada Moorage places: those that name its scheduler, and are not held up."""

from __future__ import annotations

from typing import Final

from moorage_schemas.resources.bindings import ResourceBinding

SCHEDULER: Final = "moorage"
"""The `spec.schedulerName` of the bindings that Moorage places."""

KARMADA_SCHEDULER: Final = "default-scheduler"
"""That of those which name none."""

TAINT_MANAGER: Final = "TaintManager"
"""The producer of the eviction tasks that follow from taints."""

_UNTOLERATED: Final = "TaintUntolerated"

CLUSTER_DELETED: Final = "ClusterDeleted"
"""The reason of work that leaves a cluster because the cluster is being deleted."""


def task_reason(reason: str) -> str:
    """Return the reason of an eviction task, given that of the departure. By default a taint is the reason."""
    return reason if reason == CLUSTER_DELETED else _UNTOLERATED


def placed_elsewhere(binding: ResourceBinding) -> str:
    """Return why another scheduler, or none, places a mirrored binding. Empty if Moorage places it."""
    spec = binding.spec
    if binding.metadata.deletion_timestamp is not None:
        return "it is being deleted"
    if spec.suspension is not None and spec.suspension.scheduling:
        return "its scheduling is suspended"
    if spec.scheduler_name != SCHEDULER:
        return f"it is placed by the scheduler {spec.scheduler_name or KARMADA_SCHEDULER}"
    return "" if spec.placement is not None else "it has no placement"
