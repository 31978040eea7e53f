"""`moorage version`."""

from __future__ import annotations

import platform
from importlib.util import find_spec

import typer

from moorage.cli.api import endpoints
from moorage.cli.errors import CliError
from moorage.cli.render import output
from moorage.runtime.process.versions import installed_version
from moorage.runtime.settings.environment import KAFKA_VERSION


def version(ctx: typer.Context, form: output.FormatOption = output.Format.TABLE) -> None:
    """Show the versions of Moorage and its dependencies.

    The last line is the address of the gateway that commands use, with its origin.
    """
    found = {
        "moorage": installed_version("moorage"),
        "moorage-schemas": installed_version("moorage-schemas"),
        "moorage-sdk": installed_version("moorage-sdk"),
        "kafka": _kafka(),
        "aiokafka": installed_version("aiokafka"),
        "python": platform.python_version(),
        "server": _server(ctx),
    }
    if form in {output.Format.JSON, output.Format.YAML}:
        output.write(output.document(found, form))
    elif form is output.Format.NAME:
        output.line(found["moorage"])
    else:
        for name, number in found.items():
            output.line(f"{name} {number}")


def _server(ctx: typer.Context) -> str:
    """Return the address of the gateway that commands use, and what names it. The server is not asked."""
    try:
        found = endpoints.server(ctx)
    except CliError as error:
        return str(error)
    return f"{found.address} ({found.origin})"


def _kafka() -> str:
    """Return the version of the embedded Kafka. An image without the embedded Kafka has none."""
    return KAFKA_VERSION if find_spec("jgo") is not None else "not embedded here"
