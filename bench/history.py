"""The history of the benchmarks: with BENCH_RECORD=1, each run appends one line of JSON to `bench/history/`.

A line has the date, the commit, the machine, its load, the parameters and the figures. It must say whether the machine
was quiet. The load average alone cannot: it contains the benchmark itself, and for a minute the one before it. So the
line also has `others`, the share of the machine's processor time that processes of others used during the run.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from bench.catalog import CATALOG, Benchmark

from moorage.runtime.settings.environment import KAFKA_VERSION
from moorage_schemas.times import format_time

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "bench" / "history"

RECORD: Final = "BENCH_RECORD"
"""The environment variable that turns recording on."""

QUIET: Final = 0.05
"""The share of the machine's processor time that others may use in a quiet run."""

_WRITTEN_BY_RUNS: Final = ("bench/history", "docs/benchmarks.md")
"""What may differ from the commit without making it dirty: recording one benchmark must not mark the next one."""


@dataclass(frozen=True, slots=True)
class MachineUsage:
    """What was used up to a moment, in seconds."""

    wall: float
    own: float
    """Processor time of this process and of its children that have ended."""

    machine: float
    """Processor time of all processes of the machine."""

    load: tuple[float, float, float]
    """The load averages of 1, 5 and 15 minutes."""

    @classmethod
    def now(cls) -> MachineUsage:
        """Measure."""
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return cls(
            wall=time.perf_counter(),
            own=sum(one.ru_utime + one.ru_stime for one in used),
            machine=busy_seconds(Path("/proc/stat").read_text("ascii")),
            load=os.getloadavg(),
        )


def busy_seconds(stat: str) -> float:
    """Return the processor seconds that all processes have used, from the text of `/proc/stat`."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, stat.split("\n", 1)[0].split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def others_share(before: MachineUsage, after: MachineUsage, cores: int) -> float:
    """Return the share of the machine's processor time that others used between two moments, 0 to 1."""
    available = (after.wall - before.wall) * cores
    return max(0.0, (after.machine - before.machine) - (after.own - before.own)) / available if available else 0.0


_BEGAN: Final = MachineUsage.now()


def record(result: Mapping[str, Any]) -> None:
    """Append the result of a benchmark to its history, if BENCH_RECORD is set. All its children must have ended.

    Args:
        result: the parameters and figures, with the name of the benchmark under `bench`.
    """
    if os.environ.get(RECORD, "") not in ("", "0"):
        append(FOLDER, line_of(result, _BEGAN, MachineUsage.now()))


def append(folder: Path, line: Mapping[str, Any]) -> None:
    """Append a line to the history of its benchmark."""
    folder.mkdir(exist_ok=True)
    with (folder / f"{line['bench']}.json").open("a", encoding="utf-8") as file:
        file.write(f"{json.dumps(line)}\n")


def read(name: str, folder: Path = FOLDER) -> list[dict[str, Any]]:
    """Return the recorded runs of a benchmark, oldest first."""
    path = folder / f"{name}.json"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def line_of(result: Mapping[str, Any], before: MachineUsage, after: MachineUsage) -> dict[str, Any]:
    """Return the line of a run.

    Raises:
        KeyError: the benchmark is not in the catalogue.
    """
    name = result["bench"]
    benchmark: Benchmark = CATALOG[name]
    commit, dirty = _commit()
    cores = os.cpu_count() or 1
    said = {"bench", "what", *benchmark.parameters}
    return {
        "bench": name,
        "date": format_time(datetime.now(UTC)),
        "commit": commit,
        "dirty": dirty,
        "arguments": [one.rpartition("/")[2] if one.startswith("/") else one for one in sys.argv[1:]],
        "machine": {
            "cpu": _cpu_model(),
            "cores": cores,
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
            "system": f"{platform.system()} {platform.release()}",
            "python": platform.python_version(),
            "kafka": (None if os.environ.get("MOORAGE_BOOTSTRAP_SERVERS") else KAFKA_VERSION)
            if benchmark.on_kafka
            else None,
        },
        "seconds": round(after.wall - before.wall, 1),
        "load": {
            "before": [round(one, 2) for one in before.load],
            "after": [round(one, 2) for one in after.load],
            "others": round(others_share(before, after, cores), 3),
        },
        "parameters": {name: result[name] for name in benchmark.parameters if name in result},
        "plotted": benchmark.plotted(result),
        "figures": {name: value for name, value in result.items() if name not in said},
    }


def quiet(line: Mapping[str, Any]) -> bool:
    """Return whether others left the machine alone during a recorded run."""
    return bool(line["load"]["others"] <= QUIET)


def full_size(line: Mapping[str, Any]) -> bool:
    """Return whether a recorded run had the size that its benchmark's goal is about."""
    return all(line["parameters"].get(name) == value for name, value in CATALOG[line["bench"]].full.items())


def _commit() -> tuple[str, bool]:
    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout

    exclude = [f":(exclude){path}*" for path in _WRITTEN_BY_RUNS]
    return git("rev-parse", "--short=12", "HEAD").strip(), bool(git("status", "--porcelain", "--", ".", *exclude))


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
