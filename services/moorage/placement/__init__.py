"""placement: workloads and targets in, decisions out, with every ground kept."""

from moorage.placement.service import PlacementService, service

__all__ = ["PlacementService", "service"]
