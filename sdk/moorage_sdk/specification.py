"""The AsyncAPI documents of a probe and of a deployer, as FastStream makes them of its publishers and subscribers.

`python -m moorage_sdk.specification FOLDER` writes `probe.json` and `deployer.json`. `make schemas` does.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from faststream import FastStream
from faststream.kafka import KafkaBroker
from faststream.specification import AsyncAPI

from moorage_schemas.dead_letter import DeadLettered
from moorage_schemas.eviction import EvictionDecided
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.topics import BINDINGS, DEAD_LETTERS, EVICTIONS
from moorage_sdk.faststream import MoorageTopics
from moorage_sdk.settings import Connection

_SERVER = "localhost:9092"


def documents() -> dict[str, str]:
    """The documents as JSON with sorted names, by their own. FastStream has no fixed order."""
    return {"probe": _probe(), "deployer": _deployer()}


def write(folder: Path) -> None:
    """Write the documents into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, document in documents().items():
        (folder / f"{name}.json").write_text(document, "utf-8")


def _probe() -> str:
    topics = _topics()

    @topics.subscriber(DEAD_LETTERS)
    async def on_refusal(letter: DeadLettered) -> None:
        """A report that was refused. Only a probe that wants to know reads them."""

    return _document(topics.broker, "A probe of Moorage", "Reports conditions of targets.")


def _deployer() -> str:
    topics = _topics()

    @topics.subscriber(BINDINGS)
    async def on_binding(bound: WorkloadBound | None) -> None:
        """A workload is to run on a target. A record without a value ends the binding of its key."""

    @topics.subscriber(EVICTIONS)
    async def on_eviction(eviction: EvictionDecided | None) -> None:
        """Which binding has to end, and when."""

    return _document(topics.broker, "A deployer of Moorage", "Starts and stops workloads as Moorage decides.")


def _topics() -> MoorageTopics:
    """The topics of a program that reports."""
    topics = MoorageTopics(KafkaBroker(_SERVER), Connection(topic_prefix="moorage"))
    topics.reports("example/program")
    return topics


def _document(broker: Any, title: str, description: str) -> str:
    specification = AsyncAPI(
        title=title, description=description, version=version("moorage-sdk"), schema_version="3.0.0"
    )
    document = FastStream(broker, specification=specification).schema.to_specification()
    return json.dumps(json.loads(document.to_json()), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    write(Path(sys.argv[1]))
