"""Files that several processes use: locks, and content that a reader sees whole.

The system releases a lock when the process that holds it ends, however it ends.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_TRIES: Final = 10
_PAUSE: Final = 0.02
"""Seconds between two tries to take a lock. `is_locked` holds it for less."""


def lock(file: Path) -> int | None:
    """Lock a file, which is created if it does not exist. Return None if another process holds the lock.

    Returns:
        An open file. The lock lasts until the last process that has the file open has ended.

    Raises:
        OSError: the file cannot be opened or locked.
    """
    for _ in range(_TRIES - 1):
        if (taken := _lock_at_once(file)) is not None:
            return taken
        time.sleep(_PAUSE)
    return _lock_at_once(file)


def is_locked(file: Path) -> bool:
    """Return whether a process holds the lock of a file. Leaves no file behind.

    Several processes may call this at the same time.

    Raises:
        OSError: the file cannot be opened or locked.
    """
    try:
        found = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    taken = _locked(found, fcntl.LOCK_SH)
    if taken is not None:
        os.close(taken)
    return taken is None


Stamp = tuple[tuple[int, int, int], ...]
"""Of each file its inode, size and time of change."""


def stamp_of(files: Iterable[str | Path]) -> Stamp:
    """Return a value that differs after one of the files was changed or replaced. Empty names are skipped.

    Raises:
        OSError: a file does not exist.
    """
    found = (Path(file).stat() for file in files if file)
    return tuple((one.st_ino, one.st_size, one.st_mtime_ns) for one in found)


def write_whole(path: Path, content: bytes, *, mode: int = 0o666) -> None:
    """Write a file so that a reader, or the next start after a crash, sees either all of it or nothing.

    Args:
        path: the file.
        content: its new content.
        mode: its permissions, less those that the process's umask removes.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.unlink(missing_ok=True)  # a crashed process of the same number may have left it, with another mode
    with open(part, "wb", opener=lambda name, flags: os.open(name, flags | os.O_EXCL, mode)) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def _lock_at_once(file: Path) -> int | None:
    return _locked(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), fcntl.LOCK_EX)


def _locked(file: int, kind: int) -> int | None:
    """Return an open file when it is locked. It is closed otherwise."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    except OSError:
        os.close(file)
        raise
    return file
