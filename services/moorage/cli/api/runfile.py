"""The file that `moorage up` writes to the state folder, so that other commands find its gateway and its broker."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from moorage.runtime.environment import state_folder


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


def write(running: Running, folder: Path | None = None) -> None:
    """Write the file atomically, so that other commands see the old or the new one."""
    target = path(folder)
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_suffix(f".{os.getpid()}")
    fresh.write_text(json.dumps(asdict(running), indent=2) + "\n")
    fresh.replace(target)


def read(folder: Path | None = None) -> Running | None:
    """Return the running `moorage up`. None if there is no file, it is unreadable, or its process has ended."""
    try:
        running = Running(**json.loads(path(folder).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return running if _alive(running.pid) else None


def remove(folder: Path | None = None) -> None:
    """Remove the file if this process has written it."""
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
