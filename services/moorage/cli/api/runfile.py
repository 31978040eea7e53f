"""What `moorage up` leaves in the state folder, so that other commands find its gateway and its broker."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from moorage.runtime.environment import state_folder


@dataclass(frozen=True, slots=True)
class Running:
    """A Moorage that runs on this machine."""

    pid: int
    """Of the supervisor."""

    server: str
    """The gateway's address."""

    bootstrap: str
    """Kafka's addresses."""

    topic_prefix: str
    started: str
    """RFC 3339."""

    settings: dict[str, str] = field(default_factory=dict)
    """Those that were given, by the flags' fields, so that a simulation runs with the same."""


def path(folder: Path | None = None) -> Path:
    """Where the run file is; `folder` is the state folder unless said."""
    return (folder or state_folder()) / "run.json"


def write(running: Running, folder: Path | None = None) -> None:
    """Tell other commands; they see the old file or the new, never a half of one."""
    target = path(folder)
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_suffix(f".{os.getpid()}")
    fresh.write_text(json.dumps(asdict(running), indent=2) + "\n")
    fresh.replace(target)


def read(folder: Path | None = None) -> Running | None:
    """The Moorage that runs, or None: no file, an unreadable one, or one whose process is gone."""
    try:
        running = Running(**json.loads(path(folder).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return running if _alive(running.pid) else None


def remove(folder: Path | None = None) -> None:
    """Take the file away, if it is this process's own."""
    running = read(folder)
    if running is not None and running.pid == os.getpid():
        path(folder).unlink(missing_ok=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
