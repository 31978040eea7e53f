"""`Timer` (moorage.io/v1alpha1)."""

from __future__ import annotations

from moorage.kinds.kind import View


class TimerKind(View):
    """A deadline that is waited for."""

    kind = "Timer"
    plural = "timers"
    singular = "timer"
    namespaced = False
    order = 2060


KIND = TimerKind()
