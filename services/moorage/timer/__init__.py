"""timer: durable deadlines."""

from moorage.timer.service import TimerService, service

__all__ = ["TimerService", "service"]
