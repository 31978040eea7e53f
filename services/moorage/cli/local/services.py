"""The services and the examples.

A service is a package in `moorage.workers` that exports `service(settings)`. Gateway, query worker and webhook worker
are separate, and decide nothing. The wheel carries the folder `examples` as `moorage/_examples`.
"""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import Any

from moorage import workers
from moorage.cli.errors import CliError, UsageError

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
            raise UsageError(f"service {word!r} does not exist: expected one of {', '.join(known)}")
    return list(dict.fromkeys(chosen))


def make(name: str, settings: Any) -> Any:
    """Return a service by its name."""
    package = importlib.import_module(f"moorage.workers.{name.replace('-', '_')}")
    return package.service(settings)


_HERE = Path(__file__).resolve().parent
_PLACES = (_HERE.parents[3] / "examples", _HERE.parents[1] / "_examples", Path.cwd() / "examples")


def examples(named: Path | None = None) -> Path:
    """Return the folder `examples`. The default is the checkout or the installed package.

    Raises:
        CliError: it does not exist.
    """
    for place in (named,) if named else _PLACES:
        if (place / "fleet").is_dir() and (place / "probe.py").is_file():
            return place
    raise CliError(
        f"{named or _PLACES[0]}: no examples: expected the folder of a checkout or of Moorage's wheel.\n"
        "Name their folder with --examples."
    )
