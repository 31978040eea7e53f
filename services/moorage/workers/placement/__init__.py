"""placement: reads workloads and targets, and writes decisions with all of their reasons.

`pods`, `karmada` and `ocm` each reconcile one family of workloads. `engine` is the common base. The algorithms are in
`moorage.decide.scheduling`.
"""

from moorage.workers.placement.service import PlacementService, service

__all__ = ["PlacementService", "service"]
