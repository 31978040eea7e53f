"""placement: takes workloads and targets, and writes decisions with all of their reasons.

`pods`, `karmada` and `ocm` each reconcile one family of workloads, with what `engine` provides to all three. The
algorithms are in `moorage.core.scheduling`.
"""

from moorage.workers.placement.service import PlacementService, service

__all__ = ["PlacementService", "service"]
