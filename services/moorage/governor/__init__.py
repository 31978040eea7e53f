"""governor: how fast nodes are tainted and work is evicted, over the whole fleet."""

from moorage.governor.service import Governor, service

__all__ = ["Governor", "service"]
