"""One broker for all workers of a run. The first worker that needs it starts it, and stops it when none uses it."""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path
from typing import IO

from tests.support.brokers import (
    SERVERS_VARIABLE,
    Broker,
    BrokerMissingError,
    Choice,
    DockerBroker,
    EmbeddedBroker,
    ExternalBroker,
    until_it_has_groups,
)


class SharedBroker:
    """This worker's access to the broker of the run.

    Args:
        choice: the chosen broker.
        folder: a folder that all workers of the run share.
        prefix: the prefix of the names of this worker's topics.
    """

    def __init__(self, choice: Choice, folder: Path, prefix: str) -> None:
        self._choice = choice
        self._folder = folder
        self._prefix = prefix
        self._users: IO[str] | None = None
        self._own: Broker | None = None
        """The broker that this worker has to close."""

        self.notes: list[str] = []
        """Notes for the summary of the run."""

    async def use(self) -> Broker:
        """Return the broker, which this worker or another one has started. It runs until `close`.

        Raises:
            BrokerMissingError: the required broker is missing.
        """
        choice = self._choice
        if choice.kind is None:
            raise BrokerMissingError(choice.why)
        if choice.kind == "external":
            self._own = ExternalBroker(os.environ[SERVERS_VARIABLE], self._prefix)
            await self._own.start()
            return self._own
        self._users = self._open("users")
        with self._open("starting") as starting:  # one at a time; the lock ends with the file
            await asyncio.to_thread(fcntl.flock, starting, fcntl.LOCK_EX)
            await asyncio.to_thread(fcntl.flock, self._users, fcntl.LOCK_SH)
            if self._address.exists():
                return ExternalBroker(self._address.read_text(), self._prefix)
            self._own = await self._started()
            await until_it_has_groups(self._own.bootstrap)
            self._address.write_text(self._own.bootstrap)
            return self._own

    async def close(self) -> None:
        """Release the broker. The worker that started it waits until all others have released it, and stops it."""
        if self._own is not None and self._users is not None:
            await asyncio.to_thread(fcntl.flock, self._users, fcntl.LOCK_EX)
            self._address.unlink()
        if self._own is not None:
            await self._own.close()
        if self._users is not None:
            self._users.close()

    @property
    def _address(self) -> Path:
        return self._folder / "broker.address"

    def _open(self, name: str) -> IO[str]:
        return (self._folder / f"broker.{name}").open("w")

    async def _started(self) -> Broker:
        """Start the chosen broker. If a container does not start and was not required, start the embedded broker."""
        if self._choice.kind == "docker":
            container = DockerBroker()
            try:
                await container.start()
            except Exception as error:
                await container.close()
                if self._choice.named:
                    raise
                self.notes.append(f"the embedded broker was used because the container did not start: {error}")
            else:
                return container
        embedded = EmbeddedBroker(self._folder / f"kafka-{os.getpid()}")
        await embedded.start()
        return embedded
