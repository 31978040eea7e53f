"""Which pods are healthy for budgets (docs/domain.md, "PodDisruptionBudget")."""

from __future__ import annotations

from moorage_schemas.condition import ConditionStatus


def is_healthy(status: ConditionStatus | None, *, mirrored: bool) -> bool:
    """Return whether a bound pod counts as healthy.

    One that is declared here does unless it was reported otherwise, since not every deployer reports. A mirrored one
    does only if it was reported so, because Kubernetes counts pods that are ready, and its bridge reports each that is.

    Args:
        status: what was last reported of it since it was bound; of a mirrored one, by its bridge. None for nothing.
        mirrored: whether it is mirrored from a real cluster.
    """
    return status is ConditionStatus.TRUE if mirrored else status is not ConditionStatus.FALSE
