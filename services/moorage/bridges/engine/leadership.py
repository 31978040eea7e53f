"""Which of several bridges of one cluster may send and act."""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections.abc import Awaitable, Callable

from moorage.bridges.engine.batches import BatchSender
from moorage.bridges.engine.plan import Link
from moorage.bridges.kube.client import KubeClient
from moorage.bridges.kube.election import Election


class BridgeLeadership:
    """Whether this process may send and act. Of several bridges one may.

    A bridge without acts needs no right to write to its cluster, so it has no Lease there and is always allowed.

    Args:
        client: of the cluster.
        link: says where the Lease is.
        name: of the Lease.
        is_acting: whether the bridge has acts.
        begins: called when this process begins to lead.
    """

    def __init__(
        self, client: KubeClient, link: Link, name: str, *, is_acting: bool, begins: Callable[[], None]
    ) -> None:
        self._begins = begins
        self._leading = asyncio.Event()
        self._election = (
            Election(
                client,
                namespace=link.lease_namespace,
                name=name,
                identity=f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}",
                duration=link.lease_duration,
                on_change=self._changed,
            )
            if is_acting
            else None
        )
        if self._election is None:
            self._leading.set()

    @property
    def may_send(self) -> bool:
        """Whether this process may send to the gateway."""
        return self._leading.is_set()

    @property
    def may_act(self) -> bool:
        """Whether this process may write to the cluster now."""
        return self._election is not None and self._election.leading

    def checked(self, work: Callable[[str], Awaitable[None]]) -> Callable[[str], Awaitable[None]]:
        """Return an act that is only done while this process may.

        It raises `OSError` while a leader does not know whether it still holds the Lease, because a renewal is late. An
        act that was only left out would be lost: nobody begins to lead when the renewal comes after all.
        """

        async def act(key: str) -> None:
            if self.may_act:
                await work(key)
            elif self.may_send:
                raise OSError("the Lease of this bridge is not renewed yet")

        return act

    async def run(self) -> None:
        """Take part in the election until cancelled, and give the Lease back."""
        if self._election is None:
            return
        try:
            await self._election.run()
        finally:
            await asyncio.shield(self._election.release())

    async def send(self, *senders: BatchSender) -> None:
        """Mirror and report while this process leads. One that waits reads alone."""
        while True:
            await self._leading.wait()
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(sender.run()) for sender in senders]
                while self._leading.is_set():  # noqa: ASYNC110 - who leads changes seldom
                    await asyncio.sleep(0.5)
                for task in tasks:
                    task.cancel()

    def _changed(self, leading: bool) -> None:  # noqa: FBT001 - a value that states what happened, not a switch
        if leading:
            self._leading.set()
            self._begins()
        else:
            self._leading.clear()
