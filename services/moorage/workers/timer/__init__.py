"""timer: deadlines in, `timer-fired` out, at or after each deadline; it knows nothing of taints.

The table of deadlines is `moorage.core.timers`.
"""

from moorage.workers.timer.service import TimerService, service

__all__ = ["TimerService", "service"]
