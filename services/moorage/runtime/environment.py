"""The environment variables `MOORAGE_…` as texts. This module is quick to import; `settings` interprets the variables.

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

STATE_DIR: Final = "MOORAGE_STATE_DIR"
"""Names the folder for Moorage's own files."""


def variable(field: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + field.upper()


def text(field: str) -> str | None:
    """Return the text of a setting's variable, in upper case or not, as in `Settings`; None when it is not set."""
    wanted = variable(field)
    if (exact := os.environ.get(wanted)) is not None:
        return exact
    return next((value for name, value in os.environ.items() if name.upper() == wanted), None)


def state_folder() -> Path:
    """Return the folder of Moorage's own files: `MOORAGE_STATE_DIR`, or else the user's state folder."""
    if folder := os.environ.get(STATE_DIR):
        return Path(folder)
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "moorage"
