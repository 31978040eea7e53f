"""governor: limits how fast nodes are tainted and work is evicted, over the whole fleet.

`zones` grants taints at the rate of a zone. `budgets` answers eviction requests. They wait in a `wait_queue` while
`counters` hold them. The rules are in `moorage.decide.disruption`.
"""

from moorage.workers.governor.service import Governor, service

__all__ = ["Governor", "service"]
