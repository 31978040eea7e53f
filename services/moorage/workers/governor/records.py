"""What the governor's view keeps of bindings, of what makes them, and of what disruption budgets select."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from moorage_schemas.envelope import Meta


@dataclass(slots=True)
class BoundWorkload:
    """A binding, as budgets see it, without what its key says; there may be a million."""

    owner: str
    """The key of what makes the workload; empty when nothing does."""

    target: str
    generation: int
    labels: Mapping[str, str]
    """One object for all bindings with equal ones."""

    bound_time: float
    """Seconds since the epoch."""

    unhealthy: bool = False


@dataclass(slots=True)
class WorkloadOwner:
    """What makes workloads, and its bindings."""

    wanted: int | None = None
    """How many pods; None when it is not declared, or does not say."""

    bound: int = 0
    """How many bindings its pods have."""

    on_clusters: int = 0
    """How many bindings it has itself, as a resource that a policy places on clusters: then it makes no pods."""

    unhealthy: dict[str, None] = field(default_factory=dict)
    """Keys of those of them that are reported unhealthy."""


@dataclass(slots=True)
class Selected:
    """The pods that a disruption budget selects."""

    pods: int = 0
    unhealthy: int = 0
    owners: dict[str, int] = field(default_factory=dict)
    """How many of them each owner has; pods without an owner are left out."""

    scale: int | None = None
    """How many pods those owners want; None when one does not say. Kept while `scaled`."""

    scaled: bool = False


@dataclass(slots=True, weakref_slot=True, eq=False)
class Marks:
    """What has changed since they were last taken."""

    guards: bool = True
    """A pause or a budget."""

    namespaces: set[str] = field(default_factory=set)
    """Those in which a disruption budget has changed."""

    disruptions: set[str] = field(default_factory=set)
    """Disruption budgets whose pods have changed."""

    owners: set[str] = field(default_factory=set)
    bindings: set[str] = field(default_factory=set)
    bases: bool = True
    """How many workloads are bound, where a budget in percent counts them."""

    meta: Meta | None = None
    """Of the last change."""

    def clear(self) -> None:
        """Nothing has changed."""
        self.guards = self.bases = False
        self.meta = None
        for changed in (self.namespaces, self.disruptions, self.owners, self.bindings):
            changed.clear()
