"""How many pods a PodDisruptionBudget expects: as many as the controllers of its pods want in total.

Source: `getExpectedScale` in k8s.io/kubernetes/pkg/controller/disruption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

_REPLICA_SET: Final = "ReplicaSet"
_DEPLOYMENT: Final = "Deployment"
_APPS: Final = "apps"


class ControllerRef(NamedTuple):
    """The reference of an object to its controller."""

    group: str
    kind: str
    name: str
    uid: str


class PodScale(NamedTuple):
    """The number of pods that a controller wants."""

    uid: str
    replicas: int
    controller: ControllerRef | None = None
    """Its own controller: that of a ReplicaSet is often a Deployment."""


Find = Callable[[ControllerRef], PodScale | None]
"""Returns the object of the group, kind and name of a reference. None if it does not exist, or has no scale."""


def expected_pods(references: Iterable[ControllerRef | None], find: Find) -> int | None:
    """Return the number of pods that the controllers of some pods want.

    Args:
        references: the reference of each pod to its controller. Pods without one do not count.
        find: looks a controller up.

    Returns:
        The number. None if a controller does not exist, or does not state how many pods it wants.
    """
    wanted: dict[str, int] = {}
    for reference in {one for one in references if one is not None}:
        found = _scaling(reference, find)
        if found is None:
            return None
        wanted[found.uid] = found.replicas
    return sum(wanted.values())


def _scaling(reference: ControllerRef, find: Find) -> PodScale | None:
    """Return the object that states the number of pods: the Deployment of a ReplicaSet, if it has one."""
    found = _found(reference, find)
    if found is None or found.controller is None or not _is(reference, _REPLICA_SET):
        return found
    above = _found(found.controller, find) if _is(found.controller, _DEPLOYMENT) else None
    return above or found


def _found(reference: ControllerRef, find: Find) -> PodScale | None:
    found = find(reference)
    return found if found is not None and found.uid == reference.uid else None


def _is(reference: ControllerRef, kind: str) -> bool:
    return (reference.group, reference.kind) == (_APPS, kind)
