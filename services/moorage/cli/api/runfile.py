"""The file that `moorage up` writes to the state folder, so that other commands find its gateway and its broker.

It counts only while `moorage up` holds a lock beside it. The system releases the lock when the process ends, however it
ends. A process id would not do: after a restart of a container or a machine, another process may have it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from moorage.runtime import file_lock
from moorage.runtime.environment import state_folder

_TRIES: Final = 10
_PAUSE: Final = 0.02
"""Seconds between two tries to take the lock. A reader of the file holds it for less."""


class ClaimedError(Exception):
    """Another process of `moorage up` runs with the same state folder."""


@dataclass(frozen=True, slots=True)
class Running:
    """A running `moorage up` on this machine."""

    pid: int
    """The process id of the supervisor."""

    server: str
    """The gateway's address."""

    bootstrap: str
    """Kafka's addresses."""

    topic_prefix: str
    started: str
    """RFC 3339."""

    settings: dict[str, str] = field(default_factory=dict)
    """The settings that are not the defaults, by the flags' fields. A simulation runs with the same ones."""


def path(folder: Path | None = None) -> Path:
    """Return the path of the run file. The default folder is the state folder."""
    return (folder or state_folder()) / "run.json"


@contextmanager
def claimed(folder: Path | None = None) -> Iterator[None]:
    """Claim the run file for this process. What an earlier process left is removed, and at the end the file as well.

    Raises:
        ClaimedError: another process has claimed it.
        OSError: the folder cannot be written to.
    """
    target = path(folder)
    target.parent.mkdir(parents=True, exist_ok=True)
    lock = _claim(_lock_file(folder))
    if lock is None:
        raise ClaimedError
    try:
        target.unlink(missing_ok=True)
        yield
    finally:
        target.unlink(missing_ok=True)
        os.close(lock)


def write(running: Running, folder: Path | None = None) -> None:
    """Write the file atomically, so that other commands see the old or the new one. It must be claimed."""
    target = path(folder)
    fresh = target.with_suffix(f".{os.getpid()}")
    fresh.write_text(json.dumps(asdict(running), indent=2) + "\n")
    fresh.replace(target)


def read(folder: Path | None = None) -> Running | None:
    """Return the running `moorage up`. None if there is none, or it is still starting, or the file is unreadable."""
    try:
        if not file_lock.held(_lock_file(folder)):
            return None
        return Running(**json.loads(path(folder).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _lock_file(folder: Path | None) -> Path:
    return path(folder).with_suffix(".lock")


def _claim(file: Path) -> int | None:
    """Return an open file that holds the lock. None if another process has claimed it."""
    for left in reversed(range(_TRIES)):
        lock = file_lock.take(file)
        if lock is not None or not left:
            return lock
        time.sleep(_PAUSE)
    return None
