"""The environment variables `MOORAGE_…` as texts. `process_settings` interprets them. This module is quick to import.

A command that only makes requests to the gateway reads two or three of them here, and never loads the settings.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

PREFIX: Final = "MOORAGE_"
"""The prefix of every variable."""

GATEWAY_PORT: Final = 8080
"""The default of the setting `gateway_port`."""

KAFKA_VERSION: Final = "4.3.1"
"""The version of the embedded Kafka."""

STATE_DIR: Final = "MOORAGE_STATE_DIR"
"""Names the folder for Moorage's own files."""

XDG_STATE: Final = "XDG_STATE_HOME"
"""Names the folder of the states of all programs of the user."""

OTHERS: Final = frozenset(
    {
        STATE_DIR,
        "MOORAGE_JAVA",
        "MOORAGE_MAVEN_REPOSITORY",
        # The mirrored cluster that commands are about.
        "MOORAGE_FLEET_CLUSTER",
        # The proof of identity that commands, and programs with the SDK, send to the gateway.
        "MOORAGE_CA_FILE",
        "MOORAGE_CLIENT_CERT_FILE",
        "MOORAGE_CLIENT_KEY_FILE",
        "MOORAGE_TOKEN",
        "MOORAGE_TOKEN_FILE",
        "MOORAGE_REPORT_KEY_FILE",
        "MOORAGE_REPORT_KEY_ID",
        "MOORAGE_TRANSPORT",
        # Read by the project's own tests and benchmarks.
        "MOORAGE_BRIDGE_KILLS",
        "MOORAGE_DOCUMENTS",
        "MOORAGE_FUZZ_REQUESTS",
        "MOORAGE_INFORMER_SECONDS",
        "MOORAGE_KUBECTL",
        "MOORAGE_ORACLE",
        "MOORAGE_PLANES",
        "MOORAGE_SEED",
        "MOORAGE_SHADOW_BOUND",
        "MOORAGE_SHADOW_GRACE",
        "MOORAGE_SHADOW_NODES",
        "MOORAGE_SHADOW_PACE",
        "MOORAGE_SHADOW_PODS",
        "MOORAGE_SHADOW_REPORT",
        "MOORAGE_SHADOW_SECONDS",
        "MOORAGE_TEST_BROKER",
    }
)
"""Variables that are not settings."""


def variable(field: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + field.upper()


def text(field: str) -> str | None:
    """Return the text of a setting's variable, ignoring case as `Settings` does. None if it is not set."""
    wanted = variable(field)
    if (exact := os.environ.get(wanted)) is not None:
        return exact
    return next((value for name, value in os.environ.items() if name.upper() == wanted), None)


def state_folder() -> Path:
    """Return the folder of Moorage's own files: `MOORAGE_STATE_DIR`, otherwise the user's state folder."""
    if folder := os.environ.get(STATE_DIR):
        return Path(folder)
    base = os.environ.get(XDG_STATE) or Path.home() / ".local" / "state"
    return Path(base) / "moorage"
