"""Finds the targets that have fallen silent: those whose Lease was not renewed while the cluster was seen.

A target is silent when a whole grace period has passed by this process's clock since it last saw a renewal. So neither
the clocks of targets nor a restart matter, and a time in which the cluster could not be reached does not count: after
it, each target has a whole grace period again.

Sources: k8s.io/kubernetes/pkg/controller/nodelifecycle (`tryUpdateNodeHealth`) and
open-cluster-management.io/ocm/pkg/registration/hub/lease.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Final

import structlog

from moorage.bridges.engine.metrics import LINKED
from moorage.bridges.engine.plan import LeaseResource
from moorage.bridges.kube.api_error import NOT_FOUND, ApiError
from moorage.bridges.kube.client import KubeClient

_log = structlog.get_logger(__name__)

_PING: Final = 2.0  # seconds between two checks that the cluster answers
_CUT: Final = 10.0  # seconds without an answer after which nothing is concluded from silence
_SINGLE: Final = 5  # Leases that are read one by one before all are read at once


@dataclass(frozen=True, slots=True)
class _Renewal:
    """The last renewal of a Lease, the last heartbeat in the status, and when this process saw the later one."""

    lease: str
    heartbeat: str
    seen_at: float


class Leases:
    """The last renewals of targets.

    Args:
        grace: seconds without a renewal after which a target is silent, unless it has a grace period of its own.
    """

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._own_grace: dict[str, float] = {}
        self._renewals: dict[str, _Renewal] = {}
        self._silent: set[str] = set()

    def is_silent(self, target: str) -> bool:
        """Return whether a target is silent."""
        return target in self._silent

    def renewed(self, target: str, now: float, *, lease: str = "", heartbeat: str = "") -> bool:
        """Note what was seen of a target. Return whether the target is no longer silent.

        Args:
            target: its name.
            now: the time of this process, in seconds.
            lease: `spec.renewTime` of its Lease, if that was seen.
            heartbeat: the last heartbeat in its status, if that was seen.
        """
        known = self._renewals.get(target)
        if known is None:
            self._renewals[target] = _Renewal(lease, heartbeat, now)
            return False
        found = replace(known, lease=lease or known.lease, heartbeat=heartbeat or known.heartbeat)
        if found == known:
            return False
        self._renewals[target] = replace(found, seen_at=now)
        if target in self._silent:
            self._silent.discard(target)
            return True
        return False

    def set_grace(self, target: str, seconds: float) -> None:
        """Give a target a grace period of its own. Infinity for one that is never silent."""
        self._own_grace[target] = seconds

    def gone(self, target: str) -> None:
        """Forget a target."""
        self._renewals.pop(target, None)
        self._own_grace.pop(target, None)
        self._silent.discard(target)

    def grant(self, now: float) -> None:
        """Give each target that is not silent a whole grace period: the cluster was not seen until now."""
        self._renewals = {target: replace(known, seen_at=now) for target, known in self._renewals.items()}

    def due(self, now: float) -> list[str]:
        """Return the targets whose grace period has ended and that are not noted as silent. They are not noted yet.

        Args:
            now: the time of this process, in seconds.
        """
        return [
            target
            for target, known in self._renewals.items()
            if target not in self._silent and now - known.seen_at >= self._own_grace.get(target, self._grace)
        ]

    def silence(self, targets: Iterable[str]) -> None:
        """Note targets as silent."""
        self._silent.update(targets)


@dataclass(eq=False)
class SilenceWatch:
    """A watch over the renewals of Leases, until it is cancelled.

    Attributes:
        linked: returns whether everything that happens in the cluster is seen.
        renewed: takes a Lease that was read.
        changed: called with a target that has fallen silent.
    """

    client: KubeClient
    leases: Leases
    resource: LeaseResource
    _: KW_ONLY
    linked: Callable[[], bool]
    renewed: Callable[[dict[str, Any]], None]
    changed: Callable[[str], None]

    async def run(self) -> None:
        """Watch until cancelled."""
        was_cut = False
        while True:
            was_cut |= _now() - self.client.heard_at > _CUT
            try:
                await self.client.ping()
            except (ApiError, OSError) as error:
                _log.debug("bridge.not_linked", error=str(error))
            else:
                if was_cut or not self.linked():
                    self.leases.grant(_now())
                    was_cut = not self.linked()
                elif due := self.leases.due(_now()):
                    await self._confirm(due)
            LINKED.set(self.linked() and not was_cut)
            await asyncio.sleep(_PING)

    async def _confirm(self, due: list[str]) -> None:
        """Read the Leases themselves before targets count as silent, because a watch may be behind."""
        try:
            if len(due) <= _SINGLE:
                found: Iterable[dict[str, Any] | None] = [await self._lease(target) for target in due]
            else:
                found = (await self.client.get(self.resource.every, self.resource.params)).get("items") or ()
        except (ApiError, OSError) as error:
            _log.warning("bridge.leases_not_read", error=str(error))
            return
        for lease in found:
            if lease is not None:
                self.renewed(lease)
        # Of the others no Lease was read.
        silent = [target for target in self.leases.due(_now()) if target in due]
        self.leases.silence(silent)
        for target in silent:
            _log.info("bridge.target_silent", target=target)
            self.changed(target)

    async def _lease(self, target: str) -> dict[str, Any] | None:
        try:
            return await self.client.get(self.resource.one(target))
        except ApiError as error:
            if error.status == NOT_FOUND:  # it has none
                return None
            raise


def _now() -> float:
    return asyncio.get_running_loop().time()
