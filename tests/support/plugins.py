"""Filters and prioritizers outside their folders, which are discovered as if they were in them."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from moorage.decide.scheduling.framework.plugins import Plugin

EXAMPLES = Path(__file__).parents[2] / "examples" / "plugins"


@contextmanager
def added(kind: type[Plugin[Any, Any]], file: Path, folder: Path) -> Iterator[None]:
    """A plugin of one file that is discovered with the existing ones within the context.

    Args:
        kind: the kind of plugin, such as `NodeFilter`.
        file: the plugin's module. It is copied.
        folder: a folder for the copy.
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
