"""Measures the processor time that metrics, lines of decisions and traces take.

The last line is JSON.

The services of bench/latency.py decide on one report after another. They do so in blocks, in turn: with nothing on,
with lines at the level info, and with all of it: lines, every trace exported by OTLP to a sink in another process, and
scrapes of all metrics. `cpu_ms` is the processor time of this process per decision, all threads and the end of the
export included, without Kafka's and the sink's. A scrape is measured by itself, and counted as often as the Prometheus
of compose makes one. `plus_percent` is how much more it is than with nothing on, by the medians over the blocks. It
needs the extra `otel`.
"""

from __future__ import annotations

import asyncio
import io
import os
import statistics
import sys
import time
from collections import defaultdict
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, TextIO, cast

from typing_extensions import override

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that the script runs from any folder
from bench import harness
from bench.latency import LIFTED, consumer_of_decisions, declare, evict

from moorage.runtime.kafka.partition.worker import Worker
from moorage.runtime.process.clock import MACHINE
from moorage.runtime.process.fleet_metrics import FleetMetrics, exposition
from moorage.runtime.process.logs import configure_logs
from moorage.runtime.process.trace_setup import configure_traces, stop_traces
from moorage.runtime.settings.process_settings import Settings
from moorage.workers import condition_ingest, eviction, governor, taint_manager, timer

OFF, LINES, ALL = "off", "lines", "all"
MODES: Final = (OFF, LINES, ALL)

SCRAPES: Final = 20
"""The number of scrapes that are measured."""

SCRAPE_SECONDS: Final = 10.0
"""Seconds between two scrapes, in ops/monitoring/prometheus.yaml."""

_SINK: Final = """
import http.server
class Sink(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


async def main() -> dict[str, Any]:
    """Take blocks of decisions in turn, and compare their processor time."""
    options = harness.parser(__doc__, blocks=12, block=40, partitions=8).parse_args()
    processor: defaultdict[str, list[float]] = defaultdict(list)
    scrapes: list[float] = []
    seconds: list[float] = []
    async with harness.kafka() as bootstrap, AsyncExitStack() as stack:
        fleet_settings = await harness.fleet(bootstrap, partitions=options.partitions)
        settings = fleet_settings.model_copy(update={**LIFTED, "log_format": "json"})
        endpoint = await _sink(stack)
        writer = await stack.enter_async_context(harness.Writer(settings, acks="all", linger_ms=0))
        decisions = await stack.enter_async_context(consumer_of_decisions(settings))
        warm_up = 3 * options.partitions
        count = warm_up + options.blocks * options.block * len(MODES)
        nodes = [harness.node_ref(f"node-{number}") for number in range(count)]
        await declare(writer, nodes)
        left = iter(nodes)
        chain = [module.service(settings) for module in (condition_ingest, taint_manager, eviction, timer)]
        workers = []
        for services in ([governor.service(settings)], chain):
            workers.append(worker := Worker(services, settings, partitions=settings.partitions))
            await stack.enter_async_context(worker)
            await worker.wait_ready()
        metrics = FleetMetrics(lambda: workers, MACHINE.now)
        _switch(ALL, settings, endpoint)  # loads all modules
        for _ in range(warm_up):
            await evict(writer, decisions, next(left))
        await asyncio.to_thread(stop_traces)
        for number in range(options.blocks):
            for mode in MODES[number % len(MODES) :] + MODES[: number % len(MODES)]:
                _switch(mode, settings, endpoint)
                began, start = time.process_time(), time.monotonic()
                for _ in range(options.block):
                    await evict(writer, decisions, next(left))
                if mode == ALL:
                    seconds.append((time.monotonic() - start) / options.block)
                    await asyncio.to_thread(stop_traces)
                processor[mode].append((time.process_time() - began) / options.block)
            harness.note(" ".join(f"{mode} {processor[mode][-1] * 1000:.2f} ms" for mode in MODES))
        for _ in range(SCRAPES):
            began = time.process_time()
            await exposition(metrics, "application/openmetrics-text")
            scrapes.append(time.process_time() - began)
    medians = {mode: statistics.median(processor[mode]) for mode in MODES}
    scrape = statistics.median(scrapes)
    medians[ALL] += scrape * statistics.median(seconds) / SCRAPE_SECONDS
    return {
        "bench": "observability",
        "what": "processor time per decision with metrics, lines and traces / with nothing on, medians",
        "blocks": options.blocks,
        "block": options.block,
        "partitions": options.partitions,
        "scrape_ms": round(scrape * 1000, 2),
        "cpu_ms": {mode: round(median * 1000, 3) for mode, median in medians.items()},
        "plus_percent": {
            mode: round(100 * (median / medians[OFF] - 1), 1) for mode, median in medians.items() if mode != OFF
        },
    }


async def _sink(stack: AsyncExitStack) -> str:
    """Start the sink of traces, and return its address."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", _SINK, stdout=asyncio.subprocess.PIPE)

    async def stop() -> None:
        process.kill()
        await process.wait()

    stack.push_async_callback(stop)
    if process.stdout is None:
        raise RuntimeError("the sink has no output")
    return f"http://127.0.0.1:{(await process.stdout.readline()).decode().strip()}"


class _Nowhere(io.TextIOBase):
    """A stream that forgets what is written to it."""

    @override
    def write(self, text: str, /) -> int:
        return len(text)


def _switch(mode: str, settings: Settings, endpoint: str) -> None:
    """Turn lines and traces on or off."""
    level = "warning" if mode == OFF else "info"
    configure_logs(settings.model_copy(update={"log_level": level}), stream=cast("TextIO", _Nowhere()))
    if mode == ALL:
        os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = endpoint
        configure_traces()


if __name__ == "__main__":
    harness.run(main)
