"""Why Moorage may decide otherwise than Kubernetes' own controllers. docs/bridge.md explains each to users."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Reason(StrEnum):
    """The closed list of reasons. A difference without one of them is a defect."""

    ZONE_ORDER = "zone-order"
    """Both give `NoExecute` to nodes of a zone one by one, and the token went to another node first."""

    STILL_LOOKING = "still-looking"
    """Upstream's controller looks at nodes one after another, and had not come to this one."""

    SILENT_NODE_IS_READY = "silent-node-is-ready"
    """A node that has never reported Ready has no taint here."""

    DEADLINE_FROM_TIME_ADDED = "deadline-from-time-added"
    """A tolerated time counts from the taint's `timeAdded`, not from when a controller has seen it on the pod."""

    EXPIRED_TOLERATION_KEEPS_AWAY = "expired-toleration-keeps-away"
    """A node is ruled out by a taint that the pod would tolerate no longer."""

    BUDGETS_HOLD_TAINT_EVICTIONS = "budgets-hold-taint-evictions"
    """A PodDisruptionBudget holds the eviction here, and Kubernetes' taint eviction does not look at it."""

    GONE_MEANWHILE = "gone-meanwhile"
    """The pod was gone, within the bound, before the later side acted."""

    TAINT_ENDED = "taint-ended"
    """The taint was gone, within the bound, before the later side acted."""

    DECIDED_LATER = "decided-later"
    """The node passed when the scheduler chose it, and had changed when Moorage heard of it."""

    NODE_CAME_LATER = "node-came-later"
    """The node of the pod was gone when Moorage heard of the pod, and was made again."""


@dataclass(frozen=True)
class Difference:
    """Something that Moorage decided otherwise than happened."""

    about: str
    """`taint`, `eviction` or `placement`."""

    object: str
    cluster: str
    """What happened in the cluster."""

    moorage: str
    """What Moorage decided."""

    reason: Reason | None
    """Why. None if that is not known."""

    why: str
    """What shows that it is this reason."""

    def document(self) -> dict[str, Any]:
        """The difference as a line of a list."""
        return {**self.__dict__, "reason": self.reason.value if self.reason is not None else None}
