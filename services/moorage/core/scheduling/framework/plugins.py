"""Filters and prioritizers: what every one of them says of itself, and how they are found.

A plugin is one module in a folder of plugins. The module ends with `PLUGIN = TheClass()`. Nothing else names it: what
others need to know of a plugin is among its attributes. docs/plugins.md shows how one is written.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from abc import ABC
from collections.abc import Iterable
from enum import Flag, auto
from functools import cache
from types import ModuleType
from typing import Any, ClassVar, Generic, Self, TypeVar

from moorage.core.scheduling.framework.scores import MAX_SCORE

RequestT = TypeVar("RequestT")
FleetT = TypeVar("FleetT")


class Basis(Flag):
    """What an answer may rest on beside what the workload asks for and what the targets are."""

    NOTHING_ELSE = 0
    CLOCK = auto()
    """The instant of the decision: time alone may change the answer."""

    DECIDED = auto()
    """What was decided on this workload before."""

    USAGE = auto()
    """What other workloads take of the targets, or how many of them have a target."""


class Plugin(ABC, Generic[RequestT, FleetT]):
    """A filter or a prioritizer, for requests and fleets of one kind."""

    package: ClassVar[str]
    """The package whose modules are the plugins of this kind."""

    name: str
    """Unique in its package. Decisions and explanations name the plugin by it."""

    order: ClassVar[int] = 0
    """Plugins of a kind are asked, and listed, from low to high, and by name where it is the same."""

    rests_on: ClassVar[Basis] = Basis.NOTHING_ELSE

    @property
    def help(self) -> str:
        """What it does, in one sentence: the first line of its class' docstring."""
        return (inspect.getdoc(type(self)) or "").partition("\n")[0]

    def details(self, request: RequestT, fleet: FleetT, target: str) -> Iterable[str]:
        """What it sees of one target, one fact each, for people who ask why.

        Args:
            request: the workload.
            fleet: the targets.
            target: the name of one of them.
        """
        return ()

    def flaws(self) -> Iterable[str]:
        """What is wrong with how it describes itself; a plugin with a flaw is refused when it is found."""
        if not getattr(self, "name", ""):
            yield "it has no name"
        if not type(self).__doc__:
            yield "its class has no docstring"

    @classmethod
    def discovered(cls) -> tuple[Self, ...]:
        """Every plugin of this kind, in their order.

        Raises:
            TypeError: a module of the package has no `PLUGIN` of this kind, or one that has a flaw, or whose name
                another one has.
        """
        found: tuple[Self, ...] = _plugins_in(tuple(_imported(cls.package).__path__), cls)
        return found


class Filter(Plugin[RequestT, FleetT]):
    """Rules targets out."""


class Prioritizer(Plugin[RequestT, FleetT]):
    """Scores the targets that passed every filter."""

    weight: ClassVar[int]
    """What its scores are multiplied with, unless the workload says otherwise; 0 leaves it out."""

    lowest: ClassVar[int] = 0
    highest: ClassVar[int] = MAX_SCORE
    """Between which its scores are, these included."""

    relative: ClassVar[bool] = False
    """Whether the score of a target depends on which others are scored with it."""

    @property
    def reach(self) -> int:
        """How far from 0 its scores can be, before their weight."""
        return max(abs(self.lowest), abs(self.highest))

    def flaws(self) -> Iterable[str]:
        """See `Plugin`."""
        yield from super().flaws()
        if not -MAX_SCORE <= self.lowest < self.highest <= MAX_SCORE:
            yield f"its scores are between {self.lowest} and {self.highest}, not within -{MAX_SCORE} and {MAX_SCORE}"


@cache
def _imported(package: str) -> ModuleType:
    return importlib.import_module(package)


@cache
def _plugins_in(folders: tuple[str, ...], kind: Any) -> Any:
    """The plugins of a kind; the folders are those of its package, which are searched once."""
    found: dict[str, Any] = {}
    for module in pkgutil.iter_modules(folders):
        path = f"{kind.package}.{module.name}"
        plugin = getattr(importlib.import_module(path), "PLUGIN", None)
        if not isinstance(plugin, kind):
            raise TypeError(f"{path} must have a PLUGIN that is a {kind.__name__}, not {plugin!r}")
        if flaw := next(iter(plugin.flaws()), ""):
            raise TypeError(f"{path}: {flaw}")
        if plugin.name in found:
            raise TypeError(f"{path}: another {kind.__name__} has the name {plugin.name}")
        found[plugin.name] = plugin
    return tuple(sorted(found.values(), key=lambda one: (one.order, one.name)))
