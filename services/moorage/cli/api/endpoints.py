"""Where the gateway and the broker are: option, environment, what `moorage up` has started, the usual places."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import typer
from pydantic import ValidationError

from moorage.cli.api.client import Client
from moorage.cli.errors import CliError, UsageError
from moorage.cli.flags import FIELDS, variable
from moorage.cli.local import runfile
from moorage.runtime.settings import Settings


def load_settings(flags: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    """The settings from the environment.

    Args:
        flags: what the command line says, by the settings' names; it goes before the environment.
        overrides: what the command itself sets.

    Raises:
        UsageError: a variable or a flag has a wrong value; names it, the value and the rule.
    """
    given = flags or {}
    try:
        return Settings(**{**given, **overrides})
    except ValidationError as error:
        lines = []
        for problem in error.errors():
            field = "_".join(str(part) for part in problem["loc"][:1])
            where = f"--{field.replace('_', '-')}" if field in given else f"MOORAGE_{field.upper()}"
            rule = problem["msg"].removeprefix("Value error, ").replace("Input should be", "must be", 1)
            lines.append(f"{where}: invalid value {problem['input']!r}: {rule}")
        raise UsageError("; ".join(lines)) from None


def gateway(ctx: typer.Context) -> str:
    """The gateway's address."""
    chosen = str(ctx.find_root().obj or "") or load_settings().server
    if not chosen:
        running = runfile.read()
        chosen = running.server if running else f"http://127.0.0.1:{load_settings().gateway_port}"
    if "://" not in chosen:
        chosen = f"http://{chosen}"
    return chosen.rstrip("/")


def connect(ctx: typer.Context) -> Client:
    """A client of the gateway."""
    return Client(gateway(ctx))


def kafka() -> tuple[str, str]:
    """The broker's addresses and the topics' prefix.

    Raises:
        CliError: no broker is known.
    """
    settings = load_settings()
    running = runfile.read()
    if settings.bootstrap_servers:
        return settings.bootstrap_servers, settings.topic_prefix
    if running is not None:
        prefix = settings.topic_prefix if "MOORAGE_TOPIC_PREFIX" in os.environ else running.topic_prefix
        return running.bootstrap, prefix
    raise CliError(
        "no Kafka is known: MOORAGE_BOOTSTRAP_SERVERS is not set and no `moorage up` runs.\n"
        "Start one with `moorage up`, or set MOORAGE_BOOTSTRAP_SERVERS to the addresses of a cluster."
    )


def of_the_live(bootstrap: str) -> dict[str, str]:
    """The settings with which the `moorage up` of this Kafka runs, but for what the environment says otherwise."""
    found = runfile.read()
    if found is None or found.bootstrap != bootstrap:
        return {}
    return {
        field: text for field, text in found.settings.items() if field in FIELDS and variable(field) not in os.environ
    }
