"""What a bridge knows of a pod in the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

SCHEDULER: Final = "moorage"
"""The `spec.schedulerName` of the pods that Moorage places."""

_FINISHED: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class SeenPod:
    """A pod as it was last seen.

    Attributes:
        namespace: its namespace.
        name: its name.
        uid: its uid.
        node: the node that it is bound to. Empty if it has none.
        scheduler: `spec.schedulerName` as it is mirrored: `moorage` for the pods that Moorage places.
        leaving: whether it is being deleted.
        finished: whether it has ended, so that it neither runs nor will.
        ready: whether it is ready.
        reason: why it is not ready, if its condition says so.
        unscheduled: the message of `PodScheduled` False. Empty if it has none.
    """

    namespace: str
    name: str
    uid: str
    node: str
    scheduler: str
    leaving: bool
    finished: bool
    ready: bool
    reason: str
    unscheduled: str

    @classmethod
    def of(cls, found: Mapping[str, Any], scheduler: str = SCHEDULER) -> SeenPod:
        """Read a pod.

        Args:
            found: the pod.
            scheduler: see `scheduler_of`.
        """
        metadata, spec, status = found["metadata"], found.get("spec") or {}, found.get("status") or {}
        conditions = {str(one.get("type")): one for one in status.get("conditions") or ()}
        ready, scheduled = conditions.get("Ready", {}), conditions.get("PodScheduled", {})
        return cls(
            namespace=str(metadata.get("namespace") or ""),
            name=str(metadata["name"]),
            uid=str(metadata.get("uid") or ""),
            node=str(spec.get("nodeName") or ""),
            scheduler=scheduler_of(spec, scheduler),
            leaving=bool(metadata.get("deletionTimestamp")),
            finished=status.get("phase") in _FINISHED,
            ready=ready.get("status") == "True",
            reason=str(ready.get("reason") or ""),
            unscheduled=str(scheduled.get("message") or "") if scheduled.get("status") == "False" else "",
        )


def scheduler_of(spec: Mapping[str, Any], scheduler: str) -> str:
    """Return the `schedulerName` of a pod as it is mirrored.

    Args:
        spec: of the pod.
        scheduler: the `schedulerName` of the pods that Moorage places, beside those that name it.
    """
    named = str(spec.get("schedulerName") or "")
    return SCHEDULER if named == scheduler else named
