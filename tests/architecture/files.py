"""The files of the repository, for the tests of the repository."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# The paths in `.gitignore`. They are repeated here because a copy of the tree may not be a git repository.
_IGNORED = frozenset({".git", ".venv", "__pycache__", "dist", "build", "site", ".moorage", ".hypothesis"})
_TEXT = frozenset({".py", ".md", ".toml", ".yaml", ".yml", ".json", ".sh", ".txt", ".cfg", ""})


def files(*suffixes: str, under: str = "") -> Iterator[Path]:
    """The text files of the repository with one of these suffixes, in order. Without suffixes, all of them."""
    for path in sorted((ROOT / under).rglob("*")):
        parts = path.relative_to(ROOT).parts
        hidden = any(part in _IGNORED or part.endswith(("_cache", ".egg-info")) for part in parts)
        if path.is_file() and not hidden and path.suffix in (suffixes or _TEXT):
            yield path


def name(path: Path) -> str:
    """The path relative to the repository."""
    return path.relative_to(ROOT).as_posix()
