"""Time zones of the package `tzdata`, so that they are the same on every machine."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import resources
from zoneinfo import ZoneInfo


@lru_cache(maxsize=64)
def time_zone(name: str) -> ZoneInfo | None:
    """Return an IANA time zone by its name, such as `Europe/Berlin`. None if there is none."""
    parts = name.split("/")
    if not all(re.fullmatch(r"[A-Za-z0-9_+\-]+", part) for part in parts):
        return None
    try:
        with resources.files("tzdata").joinpath("zoneinfo", *parts).open("rb") as file:
            return ZoneInfo.from_file(file, key=name)
    except (OSError, ValueError, ModuleNotFoundError):
        return None
