"""ResourceAllocatableMemory: prefers clusters with more allocatable memory."""

from __future__ import annotations

from moorage.decide.kubernetes.quantities import MEMORY
from moorage.decide.scheduling.ocm.allocatable import ResourceAllocatable


class ResourceAllocatableMemory(ResourceAllocatable):
    """Prefers clusters with more allocatable memory."""

    name = "ResourceAllocatableMemory"
    order = 40
    resource = MEMORY


PLUGIN = ResourceAllocatableMemory()
