"""Filters and prioritizers that are not in their folders, found as if they were."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from moorage.core.scheduling.framework.plugins import Plugin

EXAMPLES = Path(__file__).parents[2] / "examples" / "plugins"


@contextmanager
def added(kind: type[Plugin[Any, Any]], file: Path, folder: Path) -> Iterator[None]:
    """A plugin of one file, found beside those that there are, for as long as this lasts.

    Args:
        kind: the plugin's, such as `NodeFilter`.
        file: the plugin's module. It is copied.
        folder: a folder that may be written to.
    """
    package = importlib.import_module(kind.package)
    place = folder / kind.package
    place.mkdir(parents=True)
    shutil.copy(file, place)
    package.__path__.append(str(place))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        package.__path__.remove(str(place))
        sys.modules.pop(f"{kind.package}.{file.stem}", None)
        vars(package).pop(file.stem, None)
