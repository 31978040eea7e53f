"""One broker for all workers of a run: whoever needs it first starts it, and stops it when nobody uses it any more."""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path
from typing import IO

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from tests.support.brokers import (
    SERVERS_VARIABLE,
    Broker,
    BrokerMissingError,
    Choice,
    DockerBroker,
    EmbeddedBroker,
    ExternalBroker,
)

_READY_WITHIN = 60.0  # seconds


class SharedBroker:
    """This worker's hold on the broker of the run.

    Args:
        choice: which broker it is.
        folder: one that all workers of the run share.
        prefix: begins the names of this worker's topics.
    """

    def __init__(self, choice: Choice, folder: Path, prefix: str) -> None:
        self._choice = choice
        self._folder = folder
        self._prefix = prefix
        self._users: IO[str] | None = None
        self._own: Broker | None = None
        """What this worker has to close."""

        self.notes: list[str] = []
        """What the summary of the run should say."""

    async def use(self) -> Broker:
        """Return the broker, started by this worker or by another one; it lives until `close`.

        Raises:
            BrokerMissingError: the broker that was named is not there.
        """
        choice = self._choice
        if choice.kind is None:
            raise BrokerMissingError(choice.why)
        if choice.kind == "external":
            self._own = ExternalBroker(os.environ[SERVERS_VARIABLE], self._prefix)
            await self._own.start()
            return self._own
        self._users = self._open("users")
        with self._open("starting") as starting:  # one at a time; the lock goes with the file
            await asyncio.to_thread(fcntl.flock, starting, fcntl.LOCK_EX)
            await asyncio.to_thread(fcntl.flock, self._users, fcntl.LOCK_SH)
            if self._address.exists():
                return ExternalBroker(self._address.read_text(), self._prefix)
            self._own = await self._started()
            await _until_it_has_groups(self._own.bootstrap)
            self._address.write_text(self._own.bootstrap)
            return self._own

    async def close(self) -> None:
        """Let go of it; the worker that started it waits until all others have, and stops it."""
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
        """Start what was chosen; where nobody insisted on a container and it does not start, the embedded broker."""
        if self._choice.kind == "docker":
            container = DockerBroker()
            try:
                await container.start()
            except Exception as error:
                await container.close()
                if self._choice.named:
                    raise
                self.notes.append(f"the embedded broker was used, for the container did not start: {error}")
            else:
                return container
        embedded = EmbeddedBroker(self._folder / f"kafka-{os.getpid()}")
        await embedded.start()
        return embedded


async def _until_it_has_groups(bootstrap: str) -> None:
    """A new broker makes the topic of its groups when first asked about one, and until then has no coordinator."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        async with asyncio.timeout(_READY_WITHIN):
            while True:
                try:
                    await admin.list_consumer_group_offsets("nobody")
                except KafkaError as error:
                    if not error.retriable:
                        raise
                    await asyncio.sleep(0.05)  # between two looks: nothing tells when it is there
                else:
                    return
    finally:
        await admin.close()
