"""Which services there are: every package `moorage.<name>` that exports `service(settings)`, and the gateway."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import moorage
from moorage.cli.errors import UsageError

GATEWAY = "gateway"
_NO_SERVICES = frozenset({"core", "runtime", "cli", "conformance", "simulation", "replay", GATEWAY})


def names() -> list[str]:
    """The services, found by their folders."""
    return sorted(
        found.name.replace("_", "-")
        for found in pkgutil.iter_modules(moorage.__path__)
        if found.ispkg and found.name not in _NO_SERVICES
    )


def check(words: list[str]) -> list[str]:
    """The services of a command, each once; `all` for every one of them.

    Raises:
        UsageError: one is not known.
    """
    known = [*names(), GATEWAY]
    chosen: list[str] = []
    for word in words:
        if word == "all":
            chosen += names()
        elif word.replace("_", "-") in known:
            chosen.append(word.replace("_", "-"))
        else:
            raise UsageError(f"there is no service {word!r}; there are: {', '.join(known)}")
    return list(dict.fromkeys(chosen))


def make(name: str, settings: Any) -> Any:
    """The service of a name, as the runtime runs it."""
    package = importlib.import_module(f"moorage.{name.replace('-', '_')}")
    return package.service(settings)
