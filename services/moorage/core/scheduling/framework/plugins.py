"""How plugins are found: each module of a package is one."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Final, TypeVar

MAX_SCORE: Final = 100
"""The best score of a prioritizer, before its weight."""

P = TypeVar("P")


def plugins_in(package: str, kind: type[P]) -> tuple[P, ...]:
    """The plugins of a package, one for each of its modules, in the order of the modules' names.

    Raises:
        TypeError: a module has no `PLUGIN` of this kind.
    """
    found = []
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        plugin = getattr(importlib.import_module(f"{package}.{module.name}"), "PLUGIN", None)
        if not isinstance(plugin, kind):
            raise TypeError(f"{package}.{module.name} must have a PLUGIN that is a {kind.__name__}, not {plugin!r}")
        found.append(plugin)
    return tuple(found)
