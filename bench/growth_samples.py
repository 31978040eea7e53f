"""Samples of a growth run: the bytes of topics, the memory of processes, lag, and what a restore reads."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import httpx
from prometheus_client.parser import text_string_to_metric_families

from moorage.runtime.settings.process_settings import Settings

_RESTORE: Final = Path(__file__).with_name("growth_restore.py")
_RESTORE_WITHIN: Final = 300.0

GC_LOG: Final = "gc.log"
_COLLECTION: Final = re.compile(r"Pause Full .* \d+M->(\d+)M\(\d+M\)")

Series = dict[str, list[tuple[float, float]]]
"""By name, the seconds since the run began and the value."""


class Sampler:
    """Takes samples of a running fleet.

    Args:
        settings: the settings of the fleet.
        data: the broker's folder of topics.
    """

    def __init__(self, settings: Settings, data: Path) -> None:
        self._settings = settings
        self._data = data
        self._http = httpx.AsyncClient(timeout=10.0, trust_env=False, limits=httpx.Limits(keepalive_expiry=1.0))
        self._collected = 0
        self.began = time.monotonic()
        self.series: Series = defaultdict(list)
        self.problems: list[str] = []

    def begin(self) -> None:
        """Set the beginning of the run, from which seconds count."""
        self.began = time.monotonic()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    def note(self, name: str, value: float) -> None:
        """Add a value of a series."""
        self.series[name].append((round(time.monotonic() - self.began, 1), value))

    async def take(self, pids: Mapping[str, int], addresses: Mapping[str, str]) -> None:
        """Take all samples but those of a restore.

        Args:
            pids: the processes by name.
            addresses: where their metrics are.
        """
        sizes, segments = await asyncio.to_thread(topic_sizes, self._data, f"{self._settings.topic_prefix}.")
        for topic, size in sizes.items():
            self.note(f"bytes/{topic}", size)
        self.note("segments", segments)
        for name, pid in pids.items():
            for what, value in process_use(pid).items():
                self.note(f"{what}/{name}", value)
        if heap := await asyncio.to_thread(self._heap):
            self.note("heap/broker", heap)
        lag = 0.0
        for name, address in addresses.items():
            try:
                text = (await self._http.get(f"{address}/metrics")).text
            except httpx.HTTPError as error:
                self.problems.append(f"{name} did not answer at {time.monotonic() - self.began:.0f} s: {error!r}")
                continue
            samples = [one for family in text_string_to_metric_families(text) for one in family.samples]
            self.note(f"metrics/{name}", len(samples))
            lag += sum(one.value for one in samples if one.name == "moorage_lag_records")
        self.note("lag", lag)

    def _heap(self) -> float:
        """The bytes of the broker's heap that were left by a full collection since the last call. 0 if there was none.

        The heap itself has its full size from the beginning, so the broker's memory grows only outside of it.
        """
        with (self._data.parent / GC_LOG).open(encoding="utf-8") as log:
            log.seek(self._collected)
            text = log.read()
            self._collected = log.tell()
        return min((float(after) for after in _COLLECTION.findall(text)), default=0.0) * 2**20

    async def restore(self) -> None:
        """Measure a restore of every service in a process of its own, which has a lower priority."""
        settings = self._settings
        process = await asyncio.create_subprocess_exec(
            *("nice", "-n", "5", sys.executable, str(_RESTORE), "--bootstrap", settings.bootstrap_servers),
            *("--prefix", settings.topic_prefix, "--partitions", str(settings.partitions)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(_RESTORE_WITHIN):
                out, errors = await process.communicate()
        except BaseException:
            process.kill()
            await process.wait()
            raise
        if process.returncode:
            self.problems.append(f"a restore failed: {errors.decode()[-500:]}")
            return
        found: dict[str, Any] = json.loads(out.splitlines()[-1])
        rows: dict[str, int] = {}
        for name, one in found.items():
            for what in ("records", "bytes", "seconds", "cpu_s"):
                self.note(f"restore_{what}/{name}", one[what])
            for topic, alive in one["alive"].items():
                rows[topic] = max(alive, rows.get(topic, 0))
        for topic, alive in rows.items():
            self.note(f"rows/{topic}", alive)


def topic_sizes(data: Path, prefix: str) -> tuple[dict[str, int], int]:
    """Bytes on disk by topic, without indexes, and the number of segments.

    Args:
        data: the broker's folder of topics.
        prefix: what the names of Moorage's own topics begin with, which is left out.
    """
    found: dict[str, int] = defaultdict(int)
    segments = 0
    for folder in data.iterdir():
        topic, dash, _ = folder.name.rpartition("-")
        if not dash or not folder.is_dir() or folder.name.endswith("-delete"):
            continue
        short = topic.removeprefix(prefix).removesuffix(".v1") if topic.startswith(prefix) else topic
        for file in os.scandir(folder):
            if file.name.endswith((".log", ".log.deleted", ".log.cleaned", ".log.swap", ".checkpoint")):
                segments += 1
                try:
                    found[short] += file.stat().st_size
                except FileNotFoundError:  # deleted in the meantime
                    continue
    return dict(found), segments


def process_use(pid: int) -> dict[str, float]:
    """The memory in bytes, the open files and the threads of a process. Empty if it has ended.

    `uss` is what would be free if it ended, `rss` also has what it shares with others, such as mapped files.
    """
    root = Path(f"/proc/{pid}")
    try:
        lines = (root / "smaps_rollup").read_text("ascii").splitlines()
        fields = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith("kB")}
        return {
            "uss": fields["Private_Clean"] + fields["Private_Dirty"],
            "rss": fields["Rss"],
            "files": sum(1 for _ in (root / "fd").iterdir()),
            "threads": sum(1 for _ in (root / "task").iterdir()),
        }
    except (OSError, KeyError):
        return {}
