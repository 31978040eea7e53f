"""Bugs that are planted into the shipped code, to test whether seeds and checker find them."""

from __future__ import annotations

# Each module registers its own.
from tests.chaos.seeded.bugs import chain, condition_ingest, engine, eviction, governor, kafka, placement, taint_manager
from tests.chaos.seeded.bugs.registry import BUGS, Bug

__all__ = [
    "BUGS",
    "Bug",
    "chain",
    "condition_ingest",
    "engine",
    "eviction",
    "governor",
    "kafka",
    "placement",
    "taint_manager",
]
