"""What may decide for a control plane: upstream's controllers, Moorage, or nobody."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from tests.planes.plane import Plane


class Engine(Protocol):
    """Decides for a control plane."""

    name: str

    decides: bool
    """False where nobody does."""

    patience: float
    """Seconds within which it does what it is to do at once."""

    def deciding(self, plane: Plane) -> AbstractAsyncContextManager[None]:
        """It decides for a plane, whose controllers of the same things are off."""


def name(engine: Engine | type[Engine]) -> str:
    """The name of an engine in the names of tests."""
    return engine.name
