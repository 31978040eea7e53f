"""Scenarios of upstream's tests, and which of them there are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

World = TypeVar("World")


@dataclass(frozen=True)
class Scenario(Generic[World]):
    """A scenario of one of upstream's tests."""

    name: str
    """Upstream's name of the test, with that of its suite or function before it."""

    run: Callable[[World], Awaitable[None]]
    """Sets it up and checks it through the API server alone. What the engine does not do raises `NotSeenError`."""


class Suite(Generic[World]):
    """The scenarios of one of upstream's suites."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.scenarios: list[Scenario[World]] = []

    def scenario(self, name: str) -> Callable[[Callable[[World], Awaitable[None]]], Callable[[World], Awaitable[None]]]:
        """Add a function as the scenario of this name."""

        def add(run: Callable[[World], Awaitable[None]]) -> Callable[[World], Awaitable[None]]:
            self.add(name, run)
            return run

        return add

    def add(self, name: str, run: Callable[[World], Awaitable[None]]) -> None:
        """Add a scenario."""
        self.scenarios.append(Scenario(f"{self.name}: {name}", run))
