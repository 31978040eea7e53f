"""The readiness of the pods of a node that is not ready (docs/domain.md, "PodDisruptionBudget").

Source: `MarkPodsNotReady` in k8s.io/kubernetes/pkg/controller/util/node.
"""

from __future__ import annotations

from moorage_schemas.condition import ConditionStatus


def is_lost(ready: ConditionStatus | None) -> bool:
    """Return whether a node with this condition `Ready` is not ready. One without it counts as ready."""
    return ready is not None and ready is not ConditionStatus.TRUE


def ready_on(ready: ConditionStatus, *, lost: bool) -> ConditionStatus:
    """Return whether a pod is ready, given what is reported of it and whether its node is lost."""
    return ConditionStatus.FALSE if lost else ready
