"""timer: reads deadlines, and writes `timer-fired` at or after each of them. It is independent of taints.

The table of deadlines is in `moorage.decide.timers`.
"""

from moorage.workers.timer.service import TimerService, service

__all__ = ["TimerService", "service"]
