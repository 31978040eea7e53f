"""`moorage version`."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of

from moorage.cli.render import output


def version(form: output.FormatOption = output.Format.TABLE) -> None:
    """Show the versions of Moorage and of what it runs on."""
    found = {
        "moorage": _version("moorage"),
        "moorage-schemas": _version("moorage-schemas"),
        "kafka": _kafka(),
        "aiokafka": _version("aiokafka"),
        "python": platform.python_version(),
    }
    if form in {output.Format.JSON, output.Format.YAML}:
        output.write(output.document(found, form))
    elif form is output.Format.NAME:
        output.line(found["moorage"])
    else:
        for name, number in found.items():
            output.line(f"{name} {number}")


def _version(name: str) -> str:
    try:
        return version_of(name)
    except PackageNotFoundError:
        return "unknown"


def _kafka() -> str:
    """The version of the embedded Kafka; an image without it has none."""
    try:
        from moorage.runtime.embedded.jars import KAFKA_VERSION  # noqa: PLC0415 - its parts may be left out
    except ImportError:
        return "not embedded here"
    return KAFKA_VERSION
