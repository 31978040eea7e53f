"""Measures the placement service with 100,000 managed clusters and 1,000 placements. The last line is JSON.

    .venv/bin/python bench/ocm_fleet.py [--clusters 100000] [--placements 1000]

The service runs in memory, with all its partitions in one process.

- `load_s`: from the first record of a cluster to the last, decoded from JSON and applied to the view, together with the
  clusters' taints and the sets' bindings.
- `decide_s`: from the first placement to the last decision, serialized.
- `change_ms`: from the record of one cluster's taint to the last decision that it changes (median). `change_records`
  is the number of records written for it. In OCM's layout, a cluster that leaves the middle of a list moves those after
  it.
- `peak_mb`: the highest memory use of the process. `grown_mb`: how much it had grown at the end.

Half of the placements request a hundred clusters of an environment, the others all clusters of a region, and ten of
them all clusters.
"""

from __future__ import annotations

import argparse
import gc
import resource
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that the script runs from any folder
from bench import harness, ocm_objects

from moorage.runtime import codec
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import TAINTS

REGIONS = 100
NAMESPACES = 50
EVERYTHING = 10
NUMBER = 100
MIB = 1024 * 1024


def placements(count: int) -> Iterable[ocm_objects.Write]:
    """Placements of every kind."""
    for number in range(count):
        spec: dict[str, Any] = {"predicates": ocm_objects.labelled(region=f"r{number % REGIONS}")}
        if number < EVERYTHING:
            spec = {}
        elif number % 2:
            environment = ocm_objects.ENVIRONMENTS[number // 2 % len(ocm_objects.ENVIRONMENTS)]
            spec = {"numberOfClusters": NUMBER, "predicates": ocm_objects.labelled(environment=environment)}
        yield ocm_objects.made(number, NAMESPACES, spec)


async def main() -> dict[str, Any]:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", type=int, default=100_000)
    parser.add_argument("--placements", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--partitions", type=int, default=24)
    options = parser.parse_args()
    before = harness.memory()
    process = ocm_objects.Process(options.partitions)
    load, written = 0.0, 0
    for topic, partition_key, event in (
        *ocm_objects.bindings(NAMESPACES),
        *ocm_objects.clusters(options.clusters, REGIONS),
    ):
        key = event.key if isinstance(event, ResourceDeclared) else partition_key
        value = event.model_dump_json().encode()
        began = time.perf_counter()
        process.fold(topic, key, type(event).model_validate_json(value))
        load += time.perf_counter() - began
    harness.note(f"loaded {options.clusters:,} clusters in {load:.1f} s")
    declared = list(placements(options.placements))
    gc.collect()
    loaded = harness.memory() - before
    began = time.perf_counter()
    for _, _, event in declared:
        for emit in process.declare(event):  # type: ignore[arg-type]  # placements are declared
            codec.serialize(emit)
            written += 1
    for emit in process.settle():
        codec.serialize(emit)
        written += 1
    decide = time.perf_counter() - began
    harness.note(f"decided on {options.placements:,} placements in {decide:.1f} s")
    changes, touched, rewritten = [], [], []
    for sample in range(options.samples):
        record = ocm_objects.tainted(
            ocm_objects.cluster_name(sample * (options.clusters // options.samples)), 2, "broken"
        )
        began = time.perf_counter()
        process.fold(TAINTS, record.target.key, record)
        touched.append(process.due())
        emits = process.settle()
        for emit in emits:
            codec.serialize(emit)
        changes.append(time.perf_counter() - began)
        rewritten.append(len(emits))
    gc.collect()
    return {
        "bench": "ocm_fleet",
        "what": "seconds to load a fleet of managed clusters and to decide on all placements, and the memory used",
        "clusters": options.clusters,
        "placements": options.placements,
        "partitions": options.partitions,
        "load_s": round(load, 1),
        "decide_s": round(decide, 2),
        "decide_ms_per_placement": round(decide / options.placements * 1000, 2),
        "selected": sum(decision.selected for state in process.states for decision in state.ocm.state.last.values()),
        "records": written,
        "touched": round(harness.median(touched)),
        "change_records": round(harness.median(rewritten)),
        "change_ms": round(harness.median(changes) * 1000, 1),
        "loaded_mb": round(loaded / MIB),
        "grown_mb": round((harness.memory() - before) / MIB),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MIB),
        "bytes_per_cluster": round(loaded / options.clusters),
    }


if __name__ == "__main__":
    harness.run(main)
