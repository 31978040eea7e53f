"""Measures the console's first page in a real browser, with 5,000 nodes and 50,000 pods.

The last line is JSON.

A gateway with the console, on a log in memory, serves a fleet in 20 zones. A fiftieth of the nodes is not ready, a
hundredth of the pods waits, and a tenth of the others has an open eviction. Chromium loads the page several times with
an empty cache: `load_ms` is the median until the page is complete and can be used. Then nodes change one after the
other, and `live_ms` is the median from the write until the page shows it, with `live_worst_ms` for the slowest.
`prepare_ms` is how long the gateway reads everything in the background after it has begun, for which a page would have
to wait. `first_ms` is the first page after that, and `page_ms` each later one, both without a browser.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from playwright.async_api import Page, expect

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # so that the script runs from any folder
from bench import history
from tests.console.world import ConsoleWorld, KeptFront
from tests.support.browsers import opened, program, running_browser

ZONES = 20
BROKEN = 50
"""One in so many nodes is not ready."""

_LOOK = 0.01
"""Seconds between two looks at the page."""

PENDING = 100
EVICTING = 10


def node(number: int, status: str) -> dict[str, Any]:
    """A node as the API shows it."""
    zone = number % ZONES
    labels = {"topology.kubernetes.io/region": f"r{zone % 4}", "topology.kubernetes.io/zone": f"z{zone}"}
    spec = {} if status == "True" else {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"n{number:05}", "labels": labels},
        "spec": spec,
        "status": {"conditions": [{"type": "Ready", "status": status}]},
    }


def decided(kind: str, name: str, status: dict[str, Any]) -> dict[str, Any]:
    """What was decided on a pod, as the API shows it."""
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "moorage.io/v1alpha1", "kind": kind, "metadata": metadata, "status": status}


def fill(world: ConsoleWorld, nodes: int, pods: int) -> None:
    """Write the fleet."""
    for number in range(nodes):
        world.shown(node(number, "True" if number % BROKEN else "False"))
    for number in range(pods):
        name, on = f"p{number}", f"n{number % nodes:05}"
        workload = {"kind": "Pod", "namespace": "default", "name": name}
        target = {"kind": "Node", "name": on}
        about = {"workload": workload, "owner": workload, "generation": 1, "decidedTime": "2026-01-01T11:00:00Z"}
        if number % PENDING == 0:
            why = {"reason": "Unschedulable", "message": f"0/{nodes} nodes are available"}
            world.shown(decided("WorkloadPlacement", name, {**about, **why, "state": "Pending"}))
            continue
        world.shown(decided("WorkloadPlacement", name, {**about, "state": "Placed", "target": target}))
        bound = {**about, "target": target, "boundTime": about["decidedTime"]}
        world.shown(decided("Binding", f"{name}:node.{on}", bound))
        if number % EVICTING == 1:
            due = {
                "target": target,
                "state": "Scheduled",
                "deadline": "2026-01-01T12:05:00Z",
                "reason": "TaintEviction",
            }
            world.shown(decided("Eviction", f"{name}:node.{on}:1", {**about, **due}))


async def seconds_until_prepared(world: ConsoleWorld, front: KeptFront) -> float:
    """How long it takes until everything is read that pages show in short."""
    began = time.perf_counter()
    world.store.history.wake()
    while front.console.fleet.notes:  # noqa: ASYNC110 - the gateway works meanwhile, and tells nobody when it is done
        await asyncio.sleep(0)
    return time.perf_counter() - began


async def seconds_of_page(world: ConsoleWorld) -> float:
    """How long the first page takes without a browser."""
    began = time.perf_counter()
    (await world.page("/")).raise_for_status()
    return time.perf_counter() - began


async def seconds_until_shown(world: ConsoleWorld, page: Page, number: int, shown: int) -> float:
    """How long it takes until a page shows that a node is not ready any more."""
    began = time.perf_counter()
    world.shown(node(number, "True"))
    world.store.history.wake()
    counted = page.locator("#part-totals div", has_text="NotReady").locator("dd")
    async with asyncio.timeout(30):
        # `expect` looks after 0.1, 0.35, 0.85 and 1.85 s, and would measure nothing in between.
        while await counted.text_content() != str(shown):  # noqa: ASYNC110 - the browser tells nobody what it shows
            await asyncio.sleep(_LOOK)
    return time.perf_counter() - began


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measure everything."""
    front = KeptFront()
    world = ConsoleWorld(front=front)
    loads, lives = [], []
    async with world.served() as address, running_browser() as browser:
        fill(world, options.nodes, options.pods)
        prepared = await seconds_until_prepared(world, front)
        first = await seconds_of_page(world)
        pages = [await seconds_of_page(world) for _ in range(options.rounds)]
        for number in range(options.rounds):
            async with opened(browser) as tab:
                began = time.perf_counter()
                await tab.page.goto(address, wait_until="load")
                loads.append(time.perf_counter() - began)
                print(f"load {number + 1}: {loads[-1] * 1e3:.0f} ms", flush=True)
        async with opened(browser) as tab:
            await tab.page.goto(address)
            await expect(tab.page.locator("#connection")).to_have_text("Live")
            broken = -(-options.nodes // BROKEN)
            for number in range(options.rounds):
                lives.append(await seconds_until_shown(world, tab.page, number * BROKEN, broken - number - 1))
                print(f"live {number + 1}: {lives[-1] * 1e3:.0f} ms", flush=True)
    size = len((await world.page("/")).content)
    return {
        "bench": "console",
        "load_ms": round(statistics.median(loads) * 1e3),
        "load_worst_ms": round(max(loads) * 1e3),
        "live_ms": round(statistics.median(lives) * 1e3),
        "live_worst_ms": round(max(lives) * 1e3),
        "prepare_ms": round(prepared * 1e3),
        "first_ms": round(first * 1e3),
        "page_ms": round(statistics.median(pages) * 1e3, 1),
        "page_kb": round(size / 1e3),
        "nodes": options.nodes,
        "pods": options.pods,
        "rounds": options.rounds,
    }


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    if not program():
        print("bench/console.py: no browser is there: `make chromium` installs one", file=sys.stderr)
        return 2
    result = asyncio.run(measure(options))
    history.record(result)
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
