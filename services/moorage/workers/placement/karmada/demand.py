"""What the replicas of a placed resource need."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Demand:
    """The number and the requests of a resource's replicas."""

    replicas: int = 0
    """0 for a resource without replicas, and for one that is scaled to 0: it goes to each cluster as a whole."""

    requests: tuple[tuple[str, int], ...] = ()
    """The requests of one replica."""

    error: str = ""
    """Why the resource cannot be read."""
