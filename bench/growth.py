"""Runs a fleet for two hours in twenty minutes, and judges whether anything grows for ever. The last line is JSON.

An embedded broker and all processes run as `moorage up` starts them. 500 nodes report five conditions each, 3,000
reports a second. Nodes break and heal, pods are evicted and placed, and nodes, Deployments and pods are replaced by
others with new names (`bench/growth_load.py`), so that the fleet changes all the while and its size does not. All times
are shorter, so that everything that is kept for a time comes round several times (`bench/growth_times.py`).

Every few seconds it samples the bytes of each topic, the memory, open files, threads and metrics of each process, and
the lag. Once a minute a process of its own restores the tables of every service. After the run each series is judged
(`bench/growth_verdict.py`). The results are written to a folder: `growth.json` with all samples, `growth.md` with the
tables, and `growth.svg` with the plot. The exit code is 1 if a series grows.

    bench/growth.py                                              # 20 minutes
    bench/growth.py --minutes 3 --nodes 100 --rate 600 --partitions 4    # a short round of a smaller fleet
    bench/growth.py --judge FOLDER                               # judge the samples of an earlier run again
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that the script runs from any folder
from bench import growth_verdict, harness
from bench.growth_load import Load
from bench.growth_samples import GC_LOG, Sampler
from bench.growth_times import Launch, Pace

from moorage.cli.local.stack import Stack
from moorage.runtime.embedded import EmbeddedKafka
from moorage.runtime.kafka.admin import topic_settings
from moorage.runtime.kafka.admin.topics_admin import ensure_topics

SAMPLES = 120
"""The number of samples of a run, at least one in two seconds."""

RESTORES = 20
"""The number of restores that are measured, at least 15 seconds apart."""

HEAP_MB = 512
JAVA = f"-Xms{HEAP_MB}m -XX:+AlwaysPreTouch -Xlog:gc:file={GC_LOG}"
"""Options of the broker's JVM: its heap has its full size at once, so that it does not look like growth."""


async def again(job: Callable[[], Awaitable[None]], every: float, ends: float) -> None:
    """Do something again and again until the time is over."""
    while time.monotonic() < ends:
        began = time.monotonic()
        await job()
        await asyncio.sleep(max(0.0, every - (time.monotonic() - began)))


async def telling(sampler: Sampler, load: Load) -> None:
    """Write the progress once in half a minute."""
    while True:
        await asyncio.sleep(30)
        last = {name: values[-1][1] for name, values in sampler.series.items()}
        size = sum(value for name, value in last.items() if name.startswith("bytes/")) / 2**20
        memory = sum(value for name, value in last.items() if name.startswith("uss/")) / 2**20
        harness.note(
            f"{time.monotonic() - sampler.began:6.0f} s: {load.counts['reports']:,} reports, "
            f"{load.counts['bindings_made']:,} bindings, topics {size:,.0f} MiB, memory {memory:,.0f} MiB, "
            f"lag {last.get('lag', 0):,.0f}"
        )


async def measure(options: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Run the fleet, and return all samples."""
    seconds = options.minutes * 60
    pace = Pace(seconds)
    os.environ["_JAVA_OPTIONS"] = JAVA
    async with EmbeddedKafka(work / "kafka", settings=pace.broker(), heap_mb=HEAP_MB) as broker:
        settings = pace.settings(broker.bootstrap, options.partitions)
        await ensure_topics(settings)
        await topic_settings.change(settings, pace.changes(settings))
        stack = Stack(settings, work, harness.note, launch=Launch(pace))
        async with stack:
            load = Load(
                stack.server,
                settings,
                nodes=options.nodes,
                rate=options.rate,
                seconds=seconds,
                chance=random.Random(options.seed),
            )
            sampler = Sampler(settings, work / "kafka" / "data")
            began = datetime.now(UTC)

            async def sample() -> None:
                pids = {child.spec.name: child.pid for child in stack.supervisor.children}
                await sampler.take({**pids, "broker": broker.pid}, stack.health)

            async with load:
                await load.settle_in()
                harness.note(f"the fleet is declared: {dict(load.counts)}")
                sampler.begin()
                ends = sampler.began + seconds
                tasks = [
                    asyncio.create_task(again(sample, max(2.0, seconds / SAMPLES), ends)),
                    asyncio.create_task(again(sampler.restore, max(15.0, seconds / RESTORES), ends)),
                    asyncio.create_task(telling(sampler, load)),
                ]
                try:
                    await load.run()
                finally:
                    for task in tasks:
                        task.cancel()
                    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            problems = [repr(one) for one in outcomes if isinstance(one, Exception)]
            used = {child.spec.name: round(harness.cpu_seconds(child.pid), 1) for child in stack.supervisor.children}
            used["broker"] = round(harness.cpu_seconds(broker.pid), 1)
            crashes = {child.spec.name: child.crashes for child in stack.supervisor.children if child.crashes}
            await sampler.close()
    return {
        "bench": "growth",
        "began": began.isoformat(timespec="seconds"),
        "seconds": seconds,
        "nodes": options.nodes,
        "rate": options.rate,
        "partitions": options.partitions,
        "load_average": os.getloadavg()[0],
        "pace": pace.described(),
        "counts": dict(sorted(load.counts.items())),
        "cpu_s": used,
        "crashes": crashes,
        "problems": [*load.problems, *sampler.problems, *problems],
        "series": sampler.series,
    }


def write_page(page: Path, table: str, found: Mapping[str, Any]) -> None:
    """Replace what is between the markers of a page: `<!-- growth NAME -->` and `<!-- end -->`."""
    counts, seconds = found["counts"], found["seconds"]
    run = (
        f"On {found['began'][:10]}: {found['nodes']} nodes, {counts['reports'] / seconds:,.0f} reports a second for "
        f"{seconds / 60:g} minutes,\n{counts['bindings_made']:,} bindings made and {counts['bindings_ended']:,} ended, "
        f"{counts['nodes_declared']:,} nodes declared.\n\n"
        f"![Bytes of topics, memory of processes, and restores over the run]({page.stem}.svg)"
    )
    text = page.read_text(encoding="utf-8")
    for name, part in {"judged": table, "run": run}.items():
        before, begin, rest = text.partition(f"<!-- growth {name} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        text = f"{before}{begin}\n{part}\n\n{end}{after}"
    page.write_text(text, encoding="utf-8")


def conclude(found: dict[str, Any], folder: Path, page: Path | None) -> dict[str, Any]:
    """Judge the samples, write the tables and the plot, and return the summary."""
    series, seconds = found["series"], found["seconds"]
    sizes: dict[float, float] = {}
    for name, samples in series.items():
        if name.startswith("bytes/"):
            for at, value in samples:
                sizes[at] = sizes.get(at, 0) + value
    judged = growth_verdict.judge_all({**series, "bytes/all topics": sorted(sizes.items())}, seconds)
    growing = [one.name for one in judged if one.grows]
    counts = found["counts"]
    table = growth_verdict.table(judged)
    (folder / "growth.md").write_text(f"{table}\n", encoding="utf-8")
    growth_verdict.plot(series, seconds, folder / "growth.svg")
    found["judged"] = [asdict(one) for one in judged]
    (folder / "growth.json").write_text(json.dumps(found), encoding="utf-8")
    print(table)
    if page is not None:
        write_page(page, table, found)
        shutil.copy(folder / "growth.svg", page.with_suffix(".svg"))
    levels = {one.name: one for one in judged}
    return {
        "bench": "growth",
        "what": "series that grow after the first quarter",
        "minutes": seconds / 60,
        "nodes": found["nodes"],
        "rate": found["rate"],
        "reports_per_s": round(counts.get("reports", 0) / seconds),
        "bindings_made": counts.get("bindings_made", 0),
        "bindings_ended": counts.get("bindings_ended", 0),
        "topics_mib": round(levels["bytes/all topics"].level / 2**20, 1) if "bytes/all topics" in levels else None,
        "judged": len(judged),
        "growing": growing,
        "crashes": found["crashes"],
        "problems": found["problems"][:5],
    }


async def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run, or judge an earlier run."""
    if options.judge:
        return conclude(json.loads((folder / "growth.json").read_text(encoding="utf-8")), folder, options.page)
    with contextlib.ExitStack() as kept:
        work = folder / "work" if options.keep else Path(kept.enter_context(tempfile.TemporaryDirectory("-growth")))
        work.mkdir(exist_ok=True)
        found = await measure(options, work)
    (folder / "growth.json").write_text(json.dumps(found), encoding="utf-8")  # even if it cannot be judged
    return conclude(found, folder, options.page)


async def main() -> dict[str, Any]:
    """Read the options, and run."""
    parser = harness.parser(__doc__, minutes=20.0, nodes=500, rate=3000.0, partitions=24, seed=1)
    parser.add_argument("--folder", type=Path, help="folder for the results; by default a new temporary one")
    parser.add_argument("--keep", action="store_true", help="keep the broker's data and the logs in the folder")
    parser.add_argument("--page", type=Path, help="also write the results into this page, such as docs/growth.md")
    parser.add_argument("--judge", type=Path, metavar="FOLDER", help="run nothing; judge the samples in this folder")
    options = parser.parse_args()
    folder = (options.judge or options.folder or Path(tempfile.mkdtemp(prefix="moorage-growth-"))).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    harness.note(f"results: {folder}")
    result = await run(options, folder)
    return {name: value for name, value in result.items() if name != "bench" or not options.judge}


if __name__ == "__main__":
    sys.exit(1 if harness.run(main)["growing"] else os.EX_OK)
