"""What the processes of a run need."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_USER, _SYSTEM = 11, 12  # fields of /proc/PID/stat after the name


@dataclass(frozen=True)
class Usage:
    """What a process has used until now."""

    cpu_seconds: float
    most_mb: float
    """The most memory that it had at once."""


def used(pids: Mapping[str, int]) -> dict[str, Usage]:
    """What processes have used, by their names. Those that do not run are left out."""
    return {name: found for name, pid in pids.items() if (found := _of(pid)) is not None}


def _of(pid: int) -> Usage | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        status = Path(f"/proc/{pid}/status").read_text("utf-8")
    except FileNotFoundError:
        return None
    peak = next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")), 0)
    return Usage((int(fields[_USER]) + int(fields[_SYSTEM])) / _TICKS, peak / 1024)
