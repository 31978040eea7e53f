"""A binding as the view keeps it. It is small, because there may be many of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from sys import intern
from typing import Any

from msgspec import Struct

from moorage.workers.placement.engine.pod_source import TAKES_NOTHING
from moorage_schemas.placement import PodConstraints, WorkloadBound
from moorage_schemas.taint import Toleration

Place = tuple[int, int]


class Reservation(Struct, eq=False, gc=False):
    """The resources of its node that a bound workload takes.

    It refers to nothing that refers back to it, so the garbage collector need not visit a million of them.
    """

    workload: str
    owner: str
    """The ownerReference in the binding. Pods of one owner are spread."""

    node: str
    generation: int
    revision: int
    tolerations: tuple[Toleration, ...]
    requests: tuple[tuple[str, int], ...]
    labels: tuple[tuple[str, str], ...]
    bypassed: bool
    bound_time: datetime
    deployer: str
    """The bridge that mirrors the workload from a real cluster; empty if it is declared here."""

    place: Place
    """Partition and offset in the log; (-1, -1) before it is in the log."""

    constraints: PodConstraints | None = None
    """The demands of the workload on other pods."""

    terminating: bool = False
    """Whether the workload is being deleted in its real cluster."""

    @property
    def age(self) -> tuple[int, int]:
        """A value that orders the states of one binding."""
        return (self.generation, self.revision)

    @property
    def decided_under(self) -> str:
        """The owner under which placement decides on the workload. A mirrored pod is its own."""
        return self.workload if self.deployer else self.owner

    @property
    def takes_room(self) -> bool:
        """Whether it takes anything of its node. A mirrored pod that has ended takes nothing."""
        return self.requests != TAKES_NOTHING

    @property
    def runs(self) -> bool:
        """Whether the workload is on its node in a real cluster."""
        return self.bypassed and bool(self.deployer)

    def takes_as(self, other: Reservation) -> bool:
        """Return whether another reservation takes the same of the same node for the same owner, and looks the same."""
        return (
            self.node == other.node
            and self.owner == other.owner
            and self.requests == other.requests
            and self.labels == other.labels
            and self.constraints == other.constraints
            and self.terminating == other.terminating
        )


def reservation_of(bound: WorkloadBound, place: Place = (-1, -1)) -> Reservation:
    """Return the fields of a binding that the view keeps. The names that many bindings have in common are shared."""
    workload, owner = bound.workload.key, bound.owner.key
    return Reservation(
        workload=workload,
        owner=workload if owner == workload else intern(owner),
        node=intern(bound.target.name),
        generation=bound.generation,
        revision=bound.revision,
        tolerations=_shared_tolerations(bound.tolerations),
        requests=_shared_requests(tuple(sorted(bound.requests.items()))),
        labels=_shared_labels(tuple(sorted(bound.labels.items()))) if bound.labels else (),
        bypassed=bound.bypassed,
        bound_time=bound.bound_time,
        deployer=intern(bound.deployer),
        place=place,
        constraints=_shared_constraints(bound.constraints) if bound.constraints is not None else None,
        terminating=bound.terminating,
    )


_Tolerations = tuple[Toleration, ...]
_Pairs = tuple[tuple[str, Any], ...]

# They return the same object for equal values: all pods of a template have the same ones.
_shared_tolerations: Callable[[_Tolerations], _Tolerations] = lru_cache(maxsize=65_536)(lambda found: found)
_shared_requests: Callable[[_Pairs], _Pairs] = lru_cache(maxsize=65_536)(lambda found: found)
_shared_labels: Callable[[_Pairs], _Pairs] = lru_cache(maxsize=65_536)(lambda found: found)
_shared_constraints: Callable[[PodConstraints], PodConstraints] = lru_cache(maxsize=65_536)(lambda found: found)
