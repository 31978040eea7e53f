"""eviction: bindings and taints in, who must leave and when out."""

from moorage.eviction.service import Eviction, service

__all__ = ["Eviction", "service"]
