"""Locks on files, which the system releases when the process that holds one ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def take(file: Path) -> int | None:
    """Lock a file, which is created if it does not exist. Return None if another process holds the lock.

    Returns:
        An open file. The lock lasts until the last process that has the file open is gone.

    Raises:
        OSError: the file cannot be opened or locked.
    """
    return _locked(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), fcntl.LOCK_EX)


def held(file: Path) -> bool:
    """Return whether a process holds the lock of a file. Leaves no file behind.

    Several processes may call this at the same time. For the moment of a call, `take` fails.

    Raises:
        OSError: the file cannot be opened or locked.
    """
    try:
        found = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    lock = _locked(found, fcntl.LOCK_SH)
    if lock is not None:
        os.close(lock)
    return lock is None


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
