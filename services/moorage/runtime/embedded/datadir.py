"""The data folder of one broker: who holds it, where things are in it, what is remembered between runs."""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from moorage.runtime.embedded import config

_TAIL_BYTES = 20_000


@dataclass(frozen=True, kw_only=True)
class BrokerState:
    """What is known of the broker of a data folder, running or not.

    Attributes:
        port: The clients' port on 127.0.0.1; asked for again at the next start.
        pid: The JVM's process id, 0 when it was stopped in order.
        supervisor: The process id of the supervisor that a SIGTERM stops, 0 as above.
        owner: The process that started it and that it stops with; 0 when it runs detached.
        version: Kafka's version.
    """

    port: int
    pid: int = 0
    supervisor: int = 0
    owner: int = 0
    version: str = ""

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return f"127.0.0.1:{self.port}"


class DataDir:
    """A folder that holds a broker's data; at most one broker runs on it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.logs = path / config.LOGS
        self.log_file = path / config.LOG_FILE
        self.console_file = path / "console.log"
        self.properties_file = path / config.PROPERTIES_FILE
        self.logging_file = path / config.LOGGING_FILE
        self._state_file = path / "broker.json"
        self._lock_file = path / "lock"

    def lock(self) -> int | None:
        """Take the folder; None when a broker holds it.

        Returns:
            An open file whose lock lasts until the last process that has it open, the JVM among them, is gone.
        """
        file = os.open(self._lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return None
        except OSError:
            os.close(file)
            raise
        return file

    def held(self) -> bool:
        """Tell whether a broker, or one that is starting or stopping, holds the folder. Leaves no file behind."""
        if not self._lock_file.exists():
            return False
        file = self.lock()
        if file is None:
            return True
        os.close(file)
        return False

    def state(self) -> BrokerState | None:
        """Return what was remembered last; None when there is nothing, or nothing legible."""
        try:
            return BrokerState(**json.loads(self._state_file.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None

    def remember(self, state: BrokerState) -> None:
        """Keep this for the next start and for `moorage kafka status`."""
        config.write_whole(self._state_file, json.dumps(asdict(state)).encode())

    def log_size(self) -> int:
        """Return where the broker's log ends now, so that what comes later can be told from it."""
        try:
            return self.log_file.stat().st_size
        except OSError:
            return 0

    def log_tail(self, *, since: int = 0, lines: int = 15) -> str:
        """Return the last lines of the broker's log and of what the JVM itself printed.

        Args:
            since: Where in the log this run began, in bytes.
            lines: How many lines at most of each.
        """
        parts = [_tail(self.log_file, since)[-lines:], _tail(self.console_file, 0)[-lines:]]
        return "\n".join(line for part in parts for line in part)


def _tail(file: Path, since: int) -> list[str]:
    try:
        with file.open("rb") as opened:
            size = opened.seek(0, os.SEEK_END)
            begin = since if since <= size else 0  # rolled over meanwhile
            opened.seek(max(begin, size - _TAIL_BYTES))
            return opened.read().decode(errors="replace").splitlines()
    except OSError:
        return []
