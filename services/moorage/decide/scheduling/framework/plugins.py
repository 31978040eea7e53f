"""The base classes of filters and prioritizers, and the discovery of plugins.

A plugin is one module in a folder of plugins. The module ends with `PLUGIN = TheClass()`. No other module names the
plugin: its attributes contain everything that others need. docs/plugins.md shows how to write one.
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
from typing import Any, ClassVar, Final, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

MAX_SCORE: Final = 100
"""The highest score of a prioritizer, before its weight is applied."""


def normalised(raw: NDArray[np.int64], *, reverse: bool = False) -> NDArray[np.int64]:
    """Scale numbers of all candidates so that the highest becomes 100. With `reverse`, low numbers get high scores.

    The numbers must not be negative. If all are zero, all results are zero, or 100 with `reverse`. Results are rounded
    down to integers, as upstream does.
    """
    highest = int(raw.max(initial=0))
    if highest == 0:
        return np.full(raw.size, MAX_SCORE if reverse else 0, dtype=np.int64)
    scaled: NDArray[np.int64] = raw * MAX_SCORE // highest
    return MAX_SCORE - scaled if reverse else scaled


RequestT = TypeVar("RequestT")
FleetT = TypeVar("FleetT")


class Basis(Flag):
    """The inputs of an answer, in addition to the workload's request and the targets."""

    NOTHING_ELSE = 0
    CLOCK = auto()
    """The instant of the decision. The answer may change with time alone."""

    DECIDED = auto()
    """Earlier decisions on this workload."""

    USAGE = auto()
    """The resources that other workloads take, or the number of workloads on each target."""

    PODS = auto()
    """The pods on all nodes: their namespaces and labels, the ports that they take, and what they demand of others."""

    VOLUMES = auto()
    """The volumes to which the workload's claims are bound."""


class Plugin(ABC, Generic[RequestT, FleetT]):
    """A filter or prioritizer for one kind of requests and fleets."""

    package: ClassVar[str]
    """The package that contains the plugins of this kind, one module each."""

    name: str
    """The plugin's name in decisions and explanations. It is unique in its package."""

    order: ClassVar[int] = 0
    """The position of the plugin among those of its kind when they run and are listed. Lower numbers come first. Equal
    numbers are sorted by name."""

    rests_on: ClassVar[Basis] = Basis.NOTHING_ELSE

    @property
    def help(self) -> str:
        """The purpose of the plugin, in one sentence: the first line of the class docstring."""
        return (inspect.getdoc(type(self)) or "").partition("\n")[0]

    def details(self, request: RequestT, fleet: FleetT, target: str) -> Iterable[str]:
        """Return the facts about one target that its answer depends on, one text each. `explain` shows them."""
        return ()

    def flaws(self) -> Iterable[str]:
        """Return the errors in the plugin's attributes. A plugin that has any is rejected when it is discovered."""
        if not getattr(self, "name", ""):
            yield "it has no name"
        if not type(self).__doc__:
            yield "its class has no docstring"

    @classmethod
    def discovered(cls) -> tuple[Self, ...]:
        """Return all plugins of this kind, in their order.

        Raises:
            TypeError: a module of the package has no `PLUGIN` of this kind, or its plugin has a flaw or the same name
                as another one.
        """
        found: tuple[Self, ...] = _plugins_in(tuple(_imported(cls.package).__path__), cls)
        return found


class Filter(Plugin[RequestT, FleetT]):
    """Rules targets out."""


class Prioritizer(Plugin[RequestT, FleetT]):
    """Scores the targets that passed every filter."""

    weight: ClassVar[int]
    """The factor for its scores, unless the workload sets another. With 0 the prioritizer is not used."""

    lowest: ClassVar[int] = 0
    highest: ClassVar[int] = MAX_SCORE
    """The range of its scores is `lowest` to `highest`, both inclusive."""

    relative: ClassVar[bool] = False
    """Whether the score of a target depends on the other targets that are scored."""

    @property
    def reach(self) -> int:
        """The largest absolute value of its scores, before the weight is applied."""
        return max(abs(self.lowest), abs(self.highest))

    @override
    def flaws(self) -> Iterable[str]:
        yield from super().flaws()
        if not -MAX_SCORE <= self.lowest < self.highest <= MAX_SCORE:
            yield f"its scores are between {self.lowest} and {self.highest}, not within -{MAX_SCORE} and {MAX_SCORE}"


@cache
def _imported(package: str) -> ModuleType:
    return importlib.import_module(package)


@cache
def _plugins_in(folders: tuple[str, ...], kind: Any) -> Any:
    """Return the plugins of a kind in the folders of its package. Each package is searched once."""
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
