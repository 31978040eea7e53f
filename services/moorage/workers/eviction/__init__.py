"""eviction: takes bindings and taints, and writes which workloads must leave, and when.

`target_view` judges what is bound to one target; `guards` knows what may hold evictions back. The verdicts are in
`moorage.core.taints.eviction_verdict`.
"""

from moorage.workers.eviction.service import Eviction, service

__all__ = ["Eviction", "service"]
