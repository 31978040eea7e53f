"""Checks and stops the broker of a data folder from outside the process that started it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path

from moorage.runtime.embedded.data_folder import BrokerState, DataDir, EmbeddedKafkaError

_POLL = 0.05  # seconds


@dataclass(frozen=True, kw_only=True)
class BrokerStatus:
    """The status of the broker of a data folder.

    Attributes:
        running: Whether its process exists.
        state: The stored state of its last start; None without one.
    """

    running: bool
    state: BrokerState | None


def status(data_dir: Path) -> BrokerStatus:
    """Return the status of the broker of this folder. Raises EmbeddedKafkaError if the folder cannot be read."""
    folder = DataDir(data_dir)
    try:
        held = folder.held()
    except OSError as error:
        raise EmbeddedKafkaError(
            f"The data folder {data_dir} cannot be read.",
            why=str(error),
            action="Make it readable and writable for this user.",
        ) from error
    state = folder.state()
    # The lock shows that something is running. Only then do the stored process ids belong to this run.
    return BrokerStatus(running=held and state is not None and state.pid != 0, state=state)


async def stop(data_dir: Path, *, timeout: float = 30.0) -> bool:  # noqa: ASYNC109 - the message also states it
    """Stop the broker of this folder in order, whichever process started it.

    Args:
        data_dir: The folder.
        timeout: Seconds after which this gives up. The broker's supervisor kills the broker well before that.

    Returns:
        Whether there was a broker to stop.

    Raises:
        EmbeddedKafkaError: This user may not stop it, or it did not stop in time.
    """
    found = status(data_dir)
    if not found.running or found.state is None:
        return False
    folder, pid = DataDir(data_dir), found.state.supervisor
    try:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    except PermissionError as error:
        raise EmbeddedKafkaError(
            f"This user may not stop the embedded Kafka on {data_dir}.",
            why=f"Its supervisor, the process {pid}, belongs to another user.",
            action="Stop it as that user.",
        ) from error
    deadline = time.monotonic() + timeout
    while folder.held():
        if time.monotonic() > deadline:
            raise EmbeddedKafkaError(
                f"The embedded Kafka on {data_dir} did not stop.",
                why=f"Its supervisor, the process {pid}, was requested to stop {timeout:g} s ago.",
                action=f"Kill its processes: kill -9 {found.state.pid} {pid}",
                log=folder.log_tail(),
            )
        await asyncio.sleep(_POLL)
    folder.remember(replace(found.state, pid=0, supervisor=0, owner=0))
    return True
