"""Finds the targets that have fallen silent, while their cluster is seen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import structlog

from moorage.bridge.kube.client import KubeClient
from moorage.bridge.kube.errors import NOT_FOUND, ApiError
from moorage.bridge.leases import Leases
from moorage.bridge.metrics import LINKED

_log = structlog.get_logger(__name__)

_PING: Final = 2.0  # seconds between two questions whether the cluster is there
_CUT: Final = 10.0  # seconds without an answer after which nothing is concluded from silence
_SINGLE: Final = 5  # Leases that are read one by one before all are read at once


class LeaseResource(NamedTuple):
    """Where the Leases of targets are."""

    every: str
    """The path of a list that has all of them."""

    params: dict[str, str]
    """Selectors of that list."""

    one: Callable[[str], str]
    """Returns the path of a target's Lease."""


class SilenceWatch:
    """Compares the renewals of Leases with the time until it is cancelled.

    Args:
        client: of the cluster.
        leases: what was seen of them.
        resource: where they are.
        linked: returns whether everything that happens in the cluster is seen.
        renewed: takes a Lease that was read.
        changed: called with a target that has fallen silent.
    """

    def __init__(
        self,
        client: KubeClient,
        leases: Leases,
        resource: LeaseResource,
        *,
        linked: Callable[[], bool],
        renewed: Callable[[dict[str, Any]], None],
        changed: Callable[[str], None],
    ) -> None:
        self._client = client
        self._leases = leases
        self._resource = resource
        self._linked = linked
        self._renewed = renewed
        self._changed = changed

    async def run(self) -> None:
        """Watch until cancelled."""
        was_cut = False
        while True:
            was_cut |= _now() - self._client.heard_at > _CUT
            try:
                await self._client.ping()
            except (ApiError, OSError) as error:
                _log.debug("bridge.not_linked", error=str(error))
            else:
                if was_cut or not self._linked():
                    self._leases.grant(_now())
                    was_cut = not self._linked()
                elif due := self._leases.due(_now()):
                    await self._confirm(due)
            LINKED.set(self._linked() and not was_cut)
            await asyncio.sleep(_PING)

    async def _confirm(self, due: list[str]) -> None:
        """Read the Leases themselves before targets count as silent, because a watch may be behind."""
        try:
            if len(due) <= _SINGLE:
                found: Iterable[dict[str, Any] | None] = [await self._lease(target) for target in due]
            else:
                found = (await self._client.get(self._resource.every, self._resource.params)).get("items") or ()
        except (ApiError, OSError) as error:
            _log.warning("bridge.leases_not_read", error=str(error))
            return
        for lease in found:
            if lease is not None:
                self._renewed(lease)
        # Of the others no Lease was read.
        silent = [target for target in self._leases.due(_now()) if target in due]
        self._leases.silence(silent)
        for target in silent:
            _log.info("bridge.target_silent", target=target)
            self._changed(target)

    async def _lease(self, target: str) -> dict[str, Any] | None:
        try:
            return await self._client.get(self._resource.one(target))
        except ApiError as error:
            if error.status == NOT_FOUND:  # it has none
                return None
            raise


def _now() -> float:
    return asyncio.get_running_loop().time()
