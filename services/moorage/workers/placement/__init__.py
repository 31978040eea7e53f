"""placement: workloads and targets in, decisions out, with every reason kept.

`pods`, `karmada` and `ocm` reconcile one family of workloads each, on what `engine` gives all three. The algorithms
are in `moorage.core.scheduling`.
"""

from moorage.workers.placement.service import PlacementService, service

__all__ = ["PlacementService", "service"]
