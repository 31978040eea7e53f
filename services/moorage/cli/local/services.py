"""The services: every package in `moorage.workers` that exports `service(settings)`: all but the webhooks.

Beside them run the gateway, which writes what people say, the query worker, which only reads, and the webhook worker,
which sends events to receivers outside.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from moorage import workers
from moorage.cli.errors import UsageError

GATEWAY = "gateway"
QUERY = "query"
WEBHOOKS = "webhooks"


def names() -> list[str]:
    """Return the names of the services, which are found by their folders."""
    found = {module.name.replace("_", "-") for module in pkgutil.iter_modules(workers.__path__)}
    return sorted(found - {WEBHOOKS})


def check(words: list[str]) -> list[str]:
    """Return the services that a command names, each once. `all` names all that decide, without those three.

    Raises:
        UsageError: one is unknown.
    """
    known = [*names(), WEBHOOKS, QUERY, GATEWAY]
    chosen: list[str] = []
    for word in words:
        if word == "all":
            chosen += names()
        elif word.replace("_", "-") in known:
            chosen.append(word.replace("_", "-"))
        else:
            raise UsageError(f"there is no service {word!r}; must be one of {', '.join(known)}")
    return list(dict.fromkeys(chosen))


def make(name: str, settings: Any) -> Any:
    """Return a service by its name."""
    package = importlib.import_module(f"moorage.workers.{name.replace('-', '_')}")
    return package.service(settings)
