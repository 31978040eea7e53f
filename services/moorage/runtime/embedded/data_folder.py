"""The data folder of one broker: its lock, its place, the paths of its files, and the state stored between runs."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from moorage.runtime.embedded import config
from moorage.runtime.process import shared_files
from moorage.runtime.settings.environment import state_folder


def cache_dir() -> Path:
    """Return the folder for files that can be downloaded or made again: jars, and files derived from them."""
    value = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification requires that relative paths are ignored.
    base = Path(value) if value and Path(value).is_absolute() else Path.home() / ".cache"
    return base / "moorage"


def default_data_dir() -> Path:
    """Return the folder of the user's own broker. Its data survives restarts."""
    return state_folder() / "kafka"


class EmbeddedKafkaError(RuntimeError):
    """The embedded Kafka could not do the requested operation.

    Attributes:
        what: The failure, in one sentence.
        why: The reason, if found.
        log: The last lines of the broker's own log; empty when it never ran.
    """

    def __init__(self, what: str, *, why: str, action: str, log: str = "") -> None:
        self.what = what
        self.why = why
        self.action = action
        self.log = log
        text = f"{what}\n  why: {why}\n  do:  {action}"
        if log:
            text += "\n  the broker's last lines:\n" + "\n".join(f"    | {line}" for line in log.splitlines())
        super().__init__(text)


class PortTakenError(EmbeddedKafkaError):
    """The broker ended because another program has taken one of its ports, the client's or the controller's."""


_TAIL_BYTES = 20_000


@dataclass(frozen=True, kw_only=True)
class BrokerState:
    """The stored state of the broker of a data folder, running or not.

    Attributes:
        port: The clients' port on 127.0.0.1. The next start tries it again.
        pid: The JVM's process id; 0 when it was stopped in order.
        supervisor: The process id of the supervisor, which a SIGTERM stops; 0 as above.
        owner: The process that started the broker; the broker stops when that process ends. 0 when it runs detached.
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
    """A folder that holds a broker's data. At most one broker runs on it."""

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
        """Lock the folder. Return None when a broker holds it.

        Returns:
            An open file. The lock lasts until the last process that has the file open, such as the JVM, has ended.
        """
        return shared_files.lock(self._lock_file)

    def held(self) -> bool:
        """Return whether a broker holds the folder, which may be starting or stopping. Leaves no file behind."""
        return shared_files.is_locked(self._lock_file)

    def state(self) -> BrokerState | None:
        """Return the last stored state; None when there is none, or when it cannot be read."""
        try:
            return BrokerState(**json.loads(self._state_file.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None

    def remember(self, state: BrokerState) -> None:
        """Store the state for the next start and for `moorage kafka status`."""
        shared_files.write_whole(self._state_file, json.dumps(asdict(state)).encode())

    def log_size(self) -> int:
        """Return the present size of the broker's log, to find later where new lines begin."""
        try:
            return self.log_file.stat().st_size
        except OSError:
            return 0

    def log_tail(self, *, since: int = 0, lines: int = 15) -> str:
        """Return the last lines of the broker's log and of the JVM's own output.

        Args:
            since: The beginning of this run in the log, in bytes.
            lines: The maximum number of lines of each.
        """
        parts = [_tail(self.log_file, since)[-lines:], _tail(self.console_file, 0)[-lines:]]
        return "\n".join(line for part in parts for line in part)


def _tail(file: Path, since: int) -> list[str]:
    try:
        with file.open("rb") as opened:
            size = opened.seek(0, os.SEEK_END)
            begin = since if since <= size else 0  # the log was rolled in the meantime
            opened.seek(max(begin, size - _TAIL_BYTES))
            return opened.read().decode(errors="replace").splitlines()
    except OSError:
        return []
