"""eviction: reads bindings and taints, and writes which workloads must leave, and when.

`decide.disruption.eviction_transitions` is the decision, as a table. `service` checks evictions by it. `targets`,
`tasks`, `guards`, `acknowledgements` and `freshness` are about one subject each: they fold in its records, determine
its columns of the table, and take its moves.
"""

from moorage.workers.eviction.service import Eviction, service

__all__ = ["Eviction", "service"]
