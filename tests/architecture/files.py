"""The files of the repository, for the tests of the repository."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# The paths in `.gitignore`. They are repeated here because a copy of the tree may not be a git repository.
_IGNORED = frozenset({".git", ".venv", "__pycache__", "dist", "build", "site", ".moorage", ".hypothesis", ".coverage"})
_TEXT = frozenset({".py", ".md", ".toml", ".yaml", ".yml", ".json", ".sh", ".txt", ".cfg", ""})


def files(*suffixes: str, under: str = "") -> Iterator[Path]:
    """The text files of the repository with one of these suffixes, in order. Without suffixes, all of them."""
    for folder, folders, found in os.walk(ROOT / under):
        folders[:] = sorted(one for one in folders if not _ignored(one))
        for one in sorted(found):
            path = Path(folder, one)
            if not _ignored(one) and path.suffix in (suffixes or _TEXT):
                yield path


def name(path: Path) -> str:
    """The path relative to the repository."""
    return path.relative_to(ROOT).as_posix()


@cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of a module, parsed once for all tests. It must not be modified."""
    source = path.read_text("utf-8")
    try:
        return ast.parse(source)
    except SystemError:  # of CPython before 3.11.8, if garbage is collected meanwhile (its issue 106905)
        return ast.parse(source)


def _ignored(part: str) -> bool:
    return part in _IGNORED or part.endswith(("_cache", ".egg-info"))
