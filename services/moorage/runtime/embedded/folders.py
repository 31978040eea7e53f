"""Where the embedded broker keeps its files (XDG base directories, also on macOS)."""

from __future__ import annotations

import os
from pathlib import Path

from moorage.runtime.settings.environment import state_folder


def cache_dir() -> Path:
    """Return the folder for files that can be downloaded or made again: jars, and files derived from them."""
    value = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification says to ignore relative paths.
    base = Path(value) if value and Path(value).is_absolute() else Path.home() / ".cache"
    return base / "moorage"


def default_data_dir() -> Path:
    """Return the folder of the user's own broker. Its data survives restarts."""
    return state_folder() / "kafka"
