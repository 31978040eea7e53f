"""The cost of each room of the suite: tests, seconds and seconds of processor time, and a ceiling for each room.

A ceiling is a number of calibration loops. The loop is timed in the same run, again and again, so that a slow or busy
machine does not exceed a ceiling, and a slow test does. Where other programs take most of the processor, waiting tests
and processes of low priority are delayed by more than the loop is, so only ceilings of processor time count there.
"""

from __future__ import annotations

import heapq
import multiprocessing.forkserver
import os
import statistics
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

CEILINGS: Final = Path(__file__).parents[1] / "ceilings.toml"

OUTSIDE: Final = "(outside tests)"
"""The row of collection, of fixtures that a whole session shares, and of the broker of the run."""

_EVERY: Final = 5.0  # seconds between two calibration loops
_TURNS: Final = 150_000  # of a loop: about ten milliseconds
_MOST: Final = 5  # tests of a room that are named when it is too expensive
_BUSY: Final = 2.5  # from this ratio of a loop's time to its processor time on, the machine is busy with something else
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Cost:
    """The cost of some tests, in seconds or in calibration loops."""

    tests: int = 0
    wall: float = 0.0
    cpu: float = 0.0

    def add(self, tests: int, wall: float, cpu: float) -> None:
        """Add the cost of more tests."""
        self.tests += tests
        self.wall += wall
        self.cpu += cpu


@dataclass(slots=True)
class Meter:
    """Measures the tests of one process."""

    began: tuple[float, float] = field(default_factory=lambda: (time.perf_counter(), processor_seconds()))
    rooms: dict[str, Cost] = field(default_factory=dict)
    slowest: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    loops: list[tuple[float, float]] = field(default_factory=list)
    _calibrated: float = float("-inf")

    def calibrate(self) -> None:
        """Time the loop, if the last time was a while ago."""
        if time.perf_counter() - self._calibrated < _EVERY:
            return
        wall, cpu = time.perf_counter(), time.process_time()
        total = 0
        for number in range(_TURNS):
            total += number & 7
        self.loops.append((time.perf_counter() - wall, time.process_time() - cpu))
        self._calibrated = time.perf_counter()

    def note(self, nodeid: str, wall: float, cpu: float) -> None:
        """Add a test."""
        room = room_of(nodeid)
        self.rooms.setdefault(room, Cost()).add(1, wall, cpu)
        slowest = self.slowest.setdefault(room, [])
        (heapq.heappush if len(slowest) < _MOST else heapq.heappushpop)(slowest, (max(wall, cpu), nodeid))

    def result(self) -> dict[str, Any]:
        """Return what has been measured, in a form that can be sent to another process."""
        wall, cpu = (
            now - then for now, then in zip((time.perf_counter(), processor_seconds()), self.began, strict=True)
        )
        inside = Cost()
        for cost in self.rooms.values():
            inside.add(cost.tests, cost.wall, cost.cpu)
        outside = Cost(0, wall - inside.wall, max(0.0, cpu - inside.cpu))
        return {
            "rooms": {
                room: [cost.tests, cost.wall, cost.cpu] for room, cost in ({**self.rooms, OUTSIDE: outside}).items()
            },
            "slowest": self.slowest,
            "loop": [statistics.fmean(one[0] for one in self.loops), statistics.median(one[1] for one in self.loops)],
        }


@dataclass(slots=True)
class Report:
    """The cost of a run: the sum over its processes."""

    seconds: dict[str, Cost] = field(default_factory=dict)
    loops: dict[str, Cost] = field(default_factory=dict)
    slowest: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    ratios: list[float] = field(default_factory=list)
    """The time of a loop divided by its processor time, in each process."""

    @property
    def is_busy(self) -> bool:
        """Whether other programs take most of the processor."""
        return statistics.fmean(self.ratios) > _BUSY

    def add(self, result: dict[str, Any]) -> None:
        """Add what one process has measured."""
        wall_loop, cpu_loop = result["loop"]
        self.ratios.append(wall_loop / cpu_loop)
        for room, (tests, wall, cpu) in result["rooms"].items():
            self.seconds.setdefault(room, Cost()).add(tests, wall, cpu)
            self.loops.setdefault(room, Cost()).add(tests, wall / wall_loop, cpu / cpu_loop)
        for room, tests in result["slowest"].items():
            found = [*self.slowest.get(room, []), *((seconds, name) for seconds, name in tests)]
            self.slowest[room] = heapq.nlargest(_MOST, found)

    def table(self) -> list[str]:
        """Return the lines of the table: room, tests, seconds, seconds of processor time, and both in loops."""
        total = Cost()
        for cost in self.seconds.values():
            total.add(cost.tests, cost.wall, cost.cpu)
        rows = [("room", "tests", "wall s", "CPU s", "wall loops", "CPU loops")]
        for room in sorted(self.seconds, key=lambda one: (one == OUTSIDE, one)):
            cost, loops = self.seconds[room], self.loops[room]
            rows.append(
                (room, str(cost.tests), f"{cost.wall:.1f}", f"{cost.cpu:.1f}", f"{loops.wall:.0f}", f"{loops.cpu:.0f}")
            )
        rows.append(("all", str(total.tests), f"{total.wall:.1f}", f"{total.cpu:.1f}", "", ""))
        ratio = f"a loop takes {statistics.fmean(self.ratios):.1f} times its processor time"
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        return [
            "  ".join(
                [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
            ).rstrip()
            for row in rows
        ] + [f"{ratio}: the machine is busy, so ceilings of wall time do not count" if self.is_busy else ratio]

    def excesses(self, ceilings: dict[str, dict[str, float]]) -> list[str]:
        """Return a line for each room that costs more than its ceiling, or has none."""
        found = []
        for room, cost in sorted(self.loops.items()):
            if (ceiling := ceilings.get(room)) is None:
                found.append(
                    f"{room}: no ceiling in {CEILINGS.name}: it costs {cost.wall:.0f} and {cost.cpu:.0f} loops"
                )
                continue
            for name, value in (("wall", cost.wall), ("cpu", cost.cpu)):
                if value > ceiling[name] and not (name == "wall" and self.is_busy):
                    names = ", ".join(f"{test} ({seconds:.1f} s)" for seconds, test in self.slowest.get(room, []))
                    found.append(f"{room}: {value:.0f} loops ({name}), ceiling {ceiling[name]:.0f}. Slowest: {names}")
        return found


def ceilings_of(tier: str) -> dict[str, dict[str, float]]:
    """Return the ceilings of a tier's rooms, in calibration loops; nothing for a tier without ceilings."""
    found: dict[str, dict[str, float]] = tomllib.loads(CEILINGS.read_text("utf-8")).get(tier, {})
    return found


def room_of(nodeid: str) -> str:
    """Return the room of a test: the folder below `tests`, and the next one in `chaos`."""
    parts = nodeid.split("/")
    return "/".join(parts[1:3] if parts[1:2] == ["chaos"] else parts[1:2])


def processor_seconds() -> float:
    """Return the processor time of this process, of its children that have ended, and of what was forked for tests."""
    times = os.times()
    found = times.user + times.system + times.children_user + times.children_system
    server = multiprocessing.forkserver._forkserver
    pid = server._forkserver_pid  # type: ignore[attr-defined]  # there is no other way to it
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("ascii")
    except OSError:  # there is none, or no /proc
        return found
    ticks = stat.rpartition(")")[2].split()[11:15]
    return found + sum(map(int, ticks)) / _TICKS
