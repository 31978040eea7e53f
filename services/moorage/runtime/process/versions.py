"""The versions of the installed packages."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

UNKNOWN = "unknown"


def installed_version(package: str) -> str:
    """Return the version of an installed package; `unknown` without one."""
    try:
        return version(package)
    except PackageNotFoundError:
        return UNKNOWN


def own_version() -> str:
    """Return the version of Moorage."""
    return installed_version("moorage")
