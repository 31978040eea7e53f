"""eviction: reads bindings and taints, and writes which workloads must leave, and when.

`target_view` determines the verdicts on the workloads of one target. `guards` holds the pauses and budgets that may
hold evictions. The rules of the verdicts are in `moorage.decide.taints.eviction_verdict`.
"""

from moorage.workers.eviction.service import Eviction, service

__all__ = ["Eviction", "service"]
