"""Bugs that are planted into the shipped code, to see whether seeds and checker find them."""

from __future__ import annotations

# Each module registers its own.
from tests.chaos.seeded.bugs import engine, evicting, governing, ingesting, kafka, tainting, work
from tests.chaos.seeded.bugs.planting import BUGS, Bug

__all__ = ["BUGS", "Bug", "engine", "evicting", "governing", "ingesting", "kafka", "tainting", "work"]
