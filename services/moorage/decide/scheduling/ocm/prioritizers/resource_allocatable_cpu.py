"""ResourceAllocatableCPU: prefers clusters with more allocatable cpu."""

from __future__ import annotations

from moorage.decide.kubernetes.quantities import CPU
from moorage.decide.scheduling.ocm.allocatable import ResourceAllocatable


class ResourceAllocatableCPU(ResourceAllocatable):
    """Prefers clusters with more allocatable cpu."""

    name = "ResourceAllocatableCPU"
    order = 30
    resource = CPU


PLUGIN = ResourceAllocatableCPU()
