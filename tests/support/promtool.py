"""Prometheus' own tool, which checks rules and tests them on series. Debian's package `prometheus` has it."""

from __future__ import annotations

import shutil
from functools import cache


@cache
def program() -> str:
    """The tool's path. Empty if there is none."""
    return shutil.which("promtool") or ""


def told() -> str:
    """What the header of a run says of it."""
    return program() or "MISSING, SO THE ALERTS WERE NOT TRIED ON SERIES (Debian's package `prometheus` has it)"
