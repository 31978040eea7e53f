"""The reason of an eviction, by the taints and requests that demand it (docs/domain.md, "Schedules and reasons")."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Final

from moorage.decide.kubernetes.taint_keys import (
    DISK_PRESSURE,
    MEMORY_PRESSURE,
    NETWORK_UNAVAILABLE,
    NOT_READY,
    OUT_OF_SERVICE,
    PID_PRESSURE,
    UNREACHABLE,
    UNSCHEDULABLE,
)
from moorage.decide.taints.dialects import karmada
from moorage_schemas.leave_request import Requester, RequesterKind
from moorage_schemas.resources.budgets import EvictionReason
from moorage_schemas.taint import Taint

MAINTENANCE_TAINT: Final = "moorage.io/maintenance"
DRAIN_TAINT: Final = "moorage.io/drain"

_FAILURES: Final = frozenset(
    {
        NOT_READY,
        UNREACHABLE,
        OUT_OF_SERVICE,
        MEMORY_PRESSURE,
        DISK_PRESSURE,
        PID_PRESSURE,
        NETWORK_UNAVAILABLE,
        karmada.NOT_READY,
        karmada.UNREACHABLE,
    }
)
_DRAINS: Final = frozenset({DRAIN_TAINT, UNSCHEDULABLE, "karpenter.sh/disrupted", "ToBeDeletedByClusterAutoscaler"})
_ORDER: Final = tuple(EvictionReason)


def eviction_reason(taints: Iterable[Taint], requesters: Iterable[Requester] = ()) -> EvictionReason:
    """Return the reason of an eviction: the first in the order of `EvictionReason` that one of its causes has.

    Args:
        taints: the taints that demand it.
        requesters: the requesters that demand it.
    """
    reasons = chain((_of_key(taint.key) for taint in taints), (_of_requester(one.kind) for one in requesters))
    return min(reasons, key=_ORDER.index, default=EvictionReason.REQUEST)


def _of_key(key: str) -> EvictionReason:
    if key in _FAILURES:
        return EvictionReason.FAILURE
    if key in _DRAINS:
        return EvictionReason.DRAIN
    return EvictionReason.MAINTENANCE if key == MAINTENANCE_TAINT else EvictionReason.TAINT


def _of_requester(kind: RequesterKind) -> EvictionReason:
    return EvictionReason.MAINTENANCE if kind is RequesterKind.MAINTENANCE else EvictionReason.REQUEST
