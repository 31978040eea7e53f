"""The file that `moorage up` writes to the state folder, so that other commands find its gateway and its broker.

It counts only while `moorage up` holds a lock beside it. The system releases the lock when the process ends, however it
ends. A process id would not do: after a restart of a container or a machine, another process may have it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from moorage.runtime.process import shared_files
from moorage.runtime.settings.environment import state_folder


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

    kafka_identities: str = ""
    """The folder with the passwords of Kafka's users. Empty if Kafka requires no authentication."""

    gateway_token_file: str = ""
    """The file with the token of the gateway's administrator. Empty if the gateway has other tokens."""

    gateway_ca_file: str = ""
    """The authority of the gateway's certificate. Empty if it is another one, or the gateway serves no HTTPS."""


def path(folder: Path | None = None) -> Path:
    """Return the path of the run file. The default folder is the state folder."""
    return (folder or state_folder()) / "run.json"


@contextmanager
def claimed(folder: Path | None = None) -> Iterator[None]:
    """Claim the run file for this process. What an earlier process left is removed, and at the end the file as well.

    Raises:
        ClaimedError: another process has claimed it.
        OSError: the folder cannot be written to.
        StateFolderError: the state folder cannot be used.
    """
    target = path(folder)
    from moorage.runtime.settings.state_folders import (  # noqa: PLC0415 - other commands only read the file
        ensure_state_folder,
        make_private,
    )

    if folder is None:
        ensure_state_folder()
    else:
        make_private(folder)
    lock = shared_files.lock(_lock_file(folder))
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
    shared_files.write_whole(path(folder), f"{json.dumps(asdict(running), indent=2)}\n".encode())


def read(folder: Path | None = None) -> Running | None:
    """Return the running `moorage up`. None if none runs, or it is still starting, or the file is unreadable."""
    try:
        if not shared_files.is_locked(_lock_file(folder)):
            return None
        return Running(**json.loads(path(folder).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _lock_file(folder: Path | None) -> Path:
    return path(folder).with_suffix(".lock")
