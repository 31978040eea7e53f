"""Where the gateway and the broker are: an option, the environment, a running `moorage up`, or the default address.

Finding the gateway loads neither the settings nor Kafka's client, because most commands need only its address.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from moorage.cli.api import runfile
from moorage.cli.api.client import Client
from moorage.cli.errors import CliError, UsageError
from moorage.runtime import environment

if TYPE_CHECKING:
    from moorage.runtime.settings import Settings

_LAST_PORT = 65_535


def load_settings(flags: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    """Return the settings from the environment.

    Args:
        flags: the flags of the command line by the settings' names. They take precedence over the environment.
        overrides: the settings that the command itself sets.

    Raises:
        UsageError: a variable or a flag has an invalid value. The message names it, the value and the rule.
    """
    from pydantic import ValidationError  # noqa: PLC0415 - only some commands need all settings

    from moorage.runtime.settings import Settings  # noqa: PLC0415 - as above

    given = flags or {}
    try:
        return Settings(**{**given, **overrides})
    except ValidationError as error:
        lines = []
        for problem in error.errors():
            field = "_".join(str(part) for part in problem["loc"][:1])
            where = f"--{field.replace('_', '-')}" if field in given else environment.variable(field)
            rule = problem["msg"].removeprefix("Value error, ").replace("Input should be", "must be", 1)
            lines.append(f"{where}: invalid value {problem['input']!r}: {rule}")
        raise UsageError("; ".join(lines)) from None


def gateway(ctx: typer.Context) -> str:
    """Return the gateway's address.

    Raises:
        UsageError: the port in the environment is invalid.
    """
    chosen = str(ctx.find_root().params.get("server") or "") or environment.text("server") or ""
    if not chosen:
        port = _gateway_port()
        running = runfile.read()
        chosen = running.server if running else f"http://127.0.0.1:{port}"
    if "://" not in chosen:
        chosen = f"http://{chosen}"
    return chosen.rstrip("/")


def connect(ctx: typer.Context, *, patience: float | None = None) -> Client:
    """Return a client of the gateway.

    Args:
        ctx: the context of the command.
        patience: seconds to wait for an answer, instead of the default.
    """
    return Client(gateway(ctx), patience=patience)


def kafka() -> tuple[str, str]:
    """Return the broker's addresses and the prefix of the topics.

    Raises:
        CliError: no broker is known.
    """
    settings = load_settings()
    running = runfile.read()
    if settings.bootstrap_servers:
        return settings.bootstrap_servers, settings.topic_prefix
    if running is not None:
        prefix = running.topic_prefix if environment.text("topic_prefix") is None else settings.topic_prefix
        return running.bootstrap, prefix
    raise CliError(
        "the address of Kafka is not known: MOORAGE_BOOTSTRAP_SERVERS is not set, and `moorage up` is not running.\n"
        "Start Kafka with `moorage up`, or set MOORAGE_BOOTSTRAP_SERVERS to the addresses of a cluster."
    )


def of_the_live(bootstrap: str) -> dict[str, str]:
    """Return the settings of the `moorage up` of this Kafka, except those that the environment sets."""
    from moorage.cli.flags import FIELDS  # noqa: PLC0415 - only some commands need all settings

    found = runfile.read()
    if found is None or found.bootstrap != bootstrap:
        return {}
    return {
        field: text for field, text in found.settings.items() if field in FIELDS and environment.text(field) is None
    }


def _gateway_port() -> int:
    """Return the setting `gateway_port`."""
    said = environment.text("gateway_port")
    if said is None:
        return environment.GATEWAY_PORT
    if said.isascii() and said.isdigit() and int(said) <= _LAST_PORT:
        return int(said)
    return load_settings().gateway_port  # which knows what else is a port, and says what is none
