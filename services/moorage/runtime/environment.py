"""The environment variables `MOORAGE_…` as texts. Light to import: what is decided by them is in `settings`.

A command that only asks the gateway reads two or three of them here and never loads the settings themselves.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

PREFIX: Final = "MOORAGE_"
"""What every variable begins with."""

GATEWAY_PORT: Final = 8080
"""The default of the setting `gateway_port`."""

STATE_DIR: Final = "MOORAGE_STATE_DIR"
"""Names the folder for Moorage's own files."""


def variable(field: str) -> str:
    """The environment variable of a setting."""
    return PREFIX + field.upper()


def text(field: str) -> str | None:
    """What the environment says of a setting, in capitals or not, as `Settings` reads it; None when it says nothing."""
    wanted = variable(field)
    if (exact := os.environ.get(wanted)) is not None:
        return exact
    return next((value for name, value in os.environ.items() if name.upper() == wanted), None)


def state_folder() -> Path:
    """Where Moorage keeps its own files: `MOORAGE_STATE_DIR`, else the user's state folder."""
    if folder := os.environ.get(STATE_DIR):
        return Path(folder)
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "moorage"
