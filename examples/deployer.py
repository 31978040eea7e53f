"""A deployer: starts and stops workloads as Moorage decides. Copy it, and replace the methods of `Machines`.

It is built with `moorage-sdk`, which reads the decisions and keeps to the rule of the contract. Here a workload that
"runs" is a file in a folder, so that it goes on running when the deployer is stopped or killed.

    python deployer.py --folder running

Evictions are acknowledged when their handler returns. Those of workloads that `--protect` names are refused.

It speaks to Kafka if MOORAGE_BOOTSTRAP_SERVERS is set, otherwise to the gateway (MOORAGE_SERVER).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
from collections.abc import Collection
from hashlib import sha256
from pathlib import Path

from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetRef, WorkloadRef
from moorage_sdk import Deployer, RefusedError, Remove, Running


class Machines:
    """The place where workloads run. Here each is a file.

    The file has the uid, the generation and the revision of the binding. Without them, nobody could tell after a
    restart what it was started for.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def list(self) -> list[Running]:
        """Everything that runs."""
        return [_read(path) for path in sorted(self._folder.glob("*.json"))]

    def start(self, bound: WorkloadBound) -> bool:
        """Start a workload, or note what has changed of its binding. Returns whether it did not run before."""
        running = Running.of(bound)
        path = self._path(running)
        is_new = not path.exists()
        document = {
            "workload": str(running.workload),
            "target": str(running.target),
            "uid": running.uid,
            "generation": running.generation,
            "revision": running.revision,
            "replicas": bound.replicas,
        }
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(document))
        os.replace(draft, path)  # noqa: PTH105 - all or nothing, also if the process is killed now
        return is_new

    def stop(self, running: Running) -> bool:
        """Stop exactly this workload. Returns whether it ran."""
        path = self._path(running)
        if not path.exists():
            return False
        path.unlink()
        return True

    def _path(self, running: Running) -> Path:
        # The uid is part of the name, so a new workload of the same name is never taken for the old one.
        name = sha256(f"{running.key}|{running.uid}".encode()).hexdigest()[:32]
        return self._folder / f"{name}.json"


def _read(path: Path) -> Running:
    found = json.loads(path.read_text())
    return Running(
        workload=WorkloadRef.parse(found["workload"]),
        target=TargetRef.parse(found["target"]),
        uid=found["uid"],
        generation=found["generation"],
        revision=found["revision"],
        preserved=found.get("preserved", False),
    )


def _check(removal: Remove, protected: Collection[str]) -> None:
    """Check that a workload may be stopped.

    Raises:
        RefusedError: it is protected, and was evicted. What nobody wants any more is stopped nevertheless.
    """
    if removal.eviction is not None and str(removal.running.workload) in protected:
        raise RefusedError("the workload is protected")


def build(
    machines: Machines, source: str, targets: list[str] | None = None, protected: Collection[str] = ()
) -> Deployer:
    """The deployer with its handlers. Each may be called again for something that it has done already."""
    deployer = Deployer(source, targets=targets)

    @deployer.inventory
    async def running() -> list[Running]:
        return machines.list()

    @deployer.on_placement
    async def place(bound: WorkloadBound) -> None:
        if machines.start(bound):
            print(f"start {bound.workload} on {bound.target}", flush=True)

    @deployer.on_eviction
    async def remove(removal: Remove) -> None:
        what = removal.running
        _check(removal, protected)
        if machines.stop(what):
            print(f"stop {what.workload} on {what.target}: {removal.reason}", flush=True)

    @deployer.on_schedule
    async def prepare(eviction: EvictionDecided) -> None:
        where = f"{eviction.workload} on {eviction.target}"
        if eviction.state is EvictionState.SCHEDULED and eviction.deadline is not None:
            print(f"prepare {where}: must leave at {eviction.deadline:%Y-%m-%dT%H:%M:%SZ}", flush=True)
        elif eviction.held_by:
            print(f"wait {where}: held by {', '.join(eviction.held_by)}", flush=True)

    @deployer.on_cancel
    async def keep(eviction: EvictionDecided) -> None:
        print(f"keep {eviction.workload} on {eviction.target}", flush=True)

    return deployer


def main() -> None:
    """Read the command line and deploy until stopped."""
    parser = argparse.ArgumentParser(description="Deploy workloads as files in a folder.")
    parser.add_argument("--folder", type=Path, default=Path("running"), help="where the workloads are")
    parser.add_argument("--source", default="examples/deployer", help="the source of the reports")
    parser.add_argument("--target", action="append", help="a target to serve, such as Node/n1 or Node/*; all if none")
    parser.add_argument("--protect", action="append", default=[], help="a workload whose evictions are refused")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="deployer: %(message)s")
    machines = Machines(arguments.folder)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(build(machines, arguments.source, arguments.target, arguments.protect).run())


if __name__ == "__main__":
    main()
