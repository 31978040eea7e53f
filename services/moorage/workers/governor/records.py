"""The records of the governor's view: bindings, the owners of workloads, and the pods of disruption budgets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from moorage_schemas.envelope import Meta


@dataclass(slots=True)
class BoundWorkload:
    """A binding as budgets see it, without the content of its key. There may be a million of them."""

    owner: str
    """The key of the workload's owner; empty when it has none."""

    target: str
    generation: int
    labels: Mapping[str, str]
    """Bindings with equal labels share one object."""

    bound_time: float
    """Seconds since the epoch."""

    unhealthy: bool = False
    uid: str = ""
    """The uid of a mirrored workload; empty for one that is declared here."""


@dataclass(slots=True)
class WorkloadOwner:
    """An owner of workloads, and its bindings."""

    wanted: int | None = None
    """The number of pods that it wants; None when it is not declared, or does not state it."""

    scaled_by: str = ""
    """The key of the mirrored Deployment that scales this mirrored ReplicaSet; empty for none."""

    scales: dict[str, None] = field(default_factory=dict)
    """The keys of the mirrored ReplicaSets that it scales."""

    bound: int = 0
    """The number of bindings of its pods."""

    on_clusters: int = 0
    """The number of bindings of the owner itself, as a resource that a policy places on clusters. Then it creates no
    pods."""

    unhealthy: dict[str, None] = field(default_factory=dict)
    """The keys of the bindings whose pods are reported unhealthy."""


@dataclass(slots=True)
class Selected:
    """The pods that a disruption budget selects."""

    pods: int = 0
    unhealthy: int = 0
    owners: dict[str, int] = field(default_factory=dict)
    """The number of selected pods of each owner. Pods without an owner are left out."""

    scale: int | None = None
    """The number of pods that those owners want; None when one of them does not state it. Valid while `scaled`."""

    scaled: bool = False


@dataclass(slots=True, weakref_slot=True, eq=False)
class Marks:
    """The changes since `clear` was last called."""

    guards: bool = True
    """Whether a pause or a budget has changed."""

    namespaces: set[str] = field(default_factory=set)
    """The namespaces in which a disruption budget has changed."""

    disruptions: set[str] = field(default_factory=set)
    """The disruption budgets whose pods have changed."""

    owners: set[str] = field(default_factory=set)
    bindings: set[str] = field(default_factory=set)
    bases: bool = True
    """Whether the number of bound workloads that a budget in percent counts has changed."""

    meta: Meta | None = None
    """The attributes of the last change."""

    def clear(self) -> None:
        """Note that nothing has changed."""
        self.guards = self.bases = False
        self.meta = None
        for changed in (self.namespaces, self.disruptions, self.owners, self.bindings):
            changed.clear()
