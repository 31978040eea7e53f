"""Measures `moorage explain pod` with the query worker and from the topics, compared with `moorage get pod`.

    python bench/explain.py --nodes 1000 --pods 10000

A fleet is built in memory with its whole history and written to a broker's topics. Most nodes are ready. One failed
seven minutes ago, so its pods were evicted and replaced. One failed a minute ago, so its pods are about to leave. Then
gateway and query worker are started, and the three commands are run in turn, each as a process of its own. The output
has the medians for whole processes, and their ratios, on which other load has little effect. The benchmark checks that
both ways give the same explanation. `http_ms` is the gateway's response time: for a pod that was placed and nothing
else (`placed`), for one that is about to leave (`leaving`), for one that replaces another (`replacing`), whose chains
lead through older records, and for a whole deployment.

With `--runs 0` there is no gateway, and requests go to the query worker. This shows its response time in a large fleet.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from aiokafka import AIOKafkaProducer

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that the script runs from any folder
from bench import harness, processes, simulate

from moorage.runtime.settings import Settings
from moorage.simulation.copy.stack import Stack
from moorage_schemas.condition import ConditionReported, ConditionStatus
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.topics import CONDITION_REPORTS, PLACEMENTS, TOPICS

ZONES = 10
BEAT = 10.0
READY_WITHIN = 600.0


@dataclass(frozen=True)
class Pods:
    """Names of pods in the namespace `default`, by what happened to them."""

    placed: str
    leaving: str
    replacing: str
    deployment: str


def build(nodes: int, pods: int, beats: int) -> tuple[Stack, Pods]:
    """The fleet with its history, and the pods to explain.

    Args:
        nodes: the number of nodes.
        pods: the number of pods.
        beats: how often each node has reported that it is ready.
    """
    start = datetime.now(UTC) - timedelta(seconds=beats * BEAT + 600)
    stack = simulate.build(nodes, pods, ZONES, start)
    for _ in range(beats):
        stack.advance(BEAT)
        for number in range(nodes):
            report(stack, number, ConditionStatus.TRUE)
        stack.run()
    report(stack, 1, ConditionStatus.FALSE)
    stack.advance(400)
    report(stack, 0, ConditionStatus.FALSE)
    stack.advance(60)
    last = {record.name: record.event for record in stack.records(PLACEMENTS)}
    found = [one for one in last.values() if isinstance(one, WorkloadPlaced)]
    on = {one.workload.name: one.target.name for one in found if one.target is not None}
    replacing = [one.workload.name for one in found if one.replaces]
    return stack, Pods(
        placed=next(name for name in on if name not in replacing and on[name] not in {node(0), node(1)}),
        leaving=next(name for name in on if on[name] == node(0)),
        replacing=replacing[0],
        deployment=found[0].owner.name,
    )


def node(number: int) -> str:
    """A node's name."""
    return f"n{number:05}"


def report(stack: Stack, number: int, status: ConditionStatus) -> None:
    """Report whether a node is ready."""
    target = TargetRef(kind=TargetKind.NODE, name=node(number))
    event = ConditionReported(target=target, type="Ready", status=status, observed_time=stack.now)
    stack.produce(CONDITION_REPORTS, target.key, event, source="kubelet")


async def write(stack: Stack, settings: Settings) -> int:
    """Write the history with its times to the topics. Returns the number of records."""
    written = 0
    async with AIOKafkaProducer(
        bootstrap_servers=settings.bootstrap_servers, linger_ms=20, max_batch_size=500_000
    ) as producer:
        for topic in TOPICS:
            for record in stack.records(topic):
                await producer.send(
                    topic.name(settings.topic_prefix),
                    record.value,
                    key=record.key,
                    partition=record.partition,
                    headers=list(record.headers),
                    timestamp_ms=record.timestamp,
                )
                written += 1
        await producer.flush()
    return written


async def command(environment: Mapping[str, str], *words: str) -> tuple[float, str]:
    """Run a command. Returns the seconds from start to end, and its output."""
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "moorage.cli", *words),
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    seconds = time.perf_counter() - began
    if process.returncode or err:
        raise RuntimeError(f"moorage {' '.join(words)} ended with {process.returncode}: {err.decode()}")
    return seconds, out.decode()


async def answers(server: str, pods: Pods, runs: int) -> dict[str, float]:
    """The median response times of the gateway in milliseconds."""
    asked = {
        "placed": ("Pod", pods.placed),
        "leaving": ("Pod", pods.leaving),
        "replacing": ("Pod", pods.replacing),
        "deployment": ("Deployment", pods.deployment),
    }
    found = {}
    async with httpx.AsyncClient(base_url=server, timeout=60.0, trust_env=False) as http:
        for what, (kind, name) in asked.items():
            took = []
            for _ in range(runs):
                began = time.perf_counter()
                (await http.get("/v1/explain", params={"kind": kind, "name": name})).raise_for_status()
                took.append(time.perf_counter() - began)
            found[what] = round(harness.median(took) * 1000, 1)
    return found


async def indexed(query: processes.ServiceProcess) -> float:
    """Wait until the query worker has indexed the records of chains. Returns the seconds that this took."""
    began = time.perf_counter()
    async with httpx.AsyncClient(timeout=10.0, trust_env=False) as http:
        while True:
            report = (await http.get(f"http://127.0.0.1:{query.port}/readyz")).json()
            if report["services"]["query"]["chains"] == 1.0:
                return time.perf_counter() - began
            await asyncio.sleep(0.1)


def same(one: str, other: str) -> bool:
    """Whether two explanations are the same except for their times."""
    found = [json.loads(text) for text in (one, other)]
    for document in found:
        del document["at"]
    return bool(found[0] == found[1])


async def compare(environment: Mapping[str, str], pods: Sequence[str], runs: int) -> dict[str, Any]:
    """Run the three commands in turn, each for every pod."""
    took: dict[str, list[float]] = {"get": [], "query": [], "topics": []}
    agree = True
    for _ in range(runs):
        for pod in pods:
            seconds, _ = await command(environment, "get", "pod", pod)
            took["get"].append(seconds)
            seconds, by_query = await command(environment, "explain", "pod", pod, "-o", "json")
            took["query"].append(seconds)
            seconds, by_topics = await command(environment, "explain", "pod", pod, "-o", "json", "--from-topics")
            took["topics"].append(seconds)
            agree = agree and same(by_query, by_topics)
    get, query, topics = (harness.median(took[one]) for one in ("get", "query", "topics"))
    return {
        "get_pod_s": round(get, 2),
        "explain_s": round(query, 2),
        "explain_from_topics_s": round(topics, 2),
        "explain_to_get": round(query / get, 2),
        "from_topics_to_explain": round(topics / query, 1),
        "same": agree,
    }


async def main() -> dict[str, Any]:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument(
        "--beats", type=int, default=0, help="number of reports of each node before the failures, ten seconds apart"
    )
    parser.add_argument(
        "--runs",
        type=int,
        default=5,
        help="number of runs of each command for each pod; 0 sends requests to the query worker",
    )
    options = parser.parse_args()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    stack, pods = build(options.nodes, options.pods, options.beats)
    harness.note(f"built: {stack.topics.written:,} records")
    async with harness.kafka() as bootstrap, AsyncExitStack() as running:
        settings = await harness.fleet(bootstrap, partitions=stack.partitions)
        written = await write(stack, settings)
        del stack
        gc.collect()
        folder = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="moorage-explain-")))
        query = await processes.start_service("query", settings, folder)
        running.push_async_callback(query.stop)
        ready = await query.ready(READY_WITHIN)
        index = await indexed(query)
        harness.note(f"query worker: ready after {ready:.1f} s, all chains indexed after {index:.1f} s more")
        asked = f"http://127.0.0.1:{query.port}"
        compared: dict[str, Any] = {"same": True}
        if options.runs:
            server = {"MOORAGE_QUERY_SERVER": asked}
            gateway = await processes.start_service("gateway", settings, folder, environment=server)
            running.push_async_callback(gateway.stop)
            await gateway.ready(READY_WITHIN)
            asked = f"http://127.0.0.1:{gateway.port}"
        http = await answers(asked, pods, 4 * options.runs or 20)
        harness.note(f"answers: {http}")
        if options.runs:
            environment = {
                "MOORAGE_SERVER": asked,
                "MOORAGE_BOOTSTRAP_SERVERS": bootstrap,
                "MOORAGE_TOPIC_PREFIX": settings.topic_prefix,
            }
            compared = await compare(environment, (pods.placed, pods.leaving, pods.replacing), options.runs)
        return {
            "bench": "explain",
            "what": "explain pod with the query worker, from the topics, and get pod: whole processes",
            "nodes": options.nodes,
            "pods": options.pods,
            "records": written,
            "ready_s": round(ready, 1),
            "indexed_s": round(index, 1),
            "query_peak_mb": round(query.peak_bytes() / 1e6),
            "http_ms": http,
            **compared,
        }


if __name__ == "__main__":
    sys.exit(0 if harness.run(main)["same"] else 1)
