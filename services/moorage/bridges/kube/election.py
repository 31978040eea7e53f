"""One process of several acts: the one that holds a Lease in the cluster, as Kubernetes' own controllers do it.

Who waits judges the Lease by when it has last seen it change, by its own clock. So clocks may differ.

Source: k8s.io/client-go/tools/leaderelection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import structlog
from prometheus_client import Gauge

from moorage.bridges.kube.api_error import CONFLICT, NOT_FOUND, ApiError
from moorage.bridges.kube.client import KubeClient

_log = structlog.get_logger(__name__)

LEADING = Gauge("moorage_bridge_leading", "Whether this process may write to the real cluster")

_LASTS: Final = 15.0
"""Seconds that a Lease without a duration lasts, as with client-go."""

_SHORTEST: Final = 0.001  # seconds between two attempts

_CHECKS: Final = 8
"""How often a Lease is checked in the time that it lasts. Its holder renews it four times in that time."""


def _path(namespace: str, name: str = "") -> str:
    """Return the path of a Lease, or of all in a namespace."""
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    return f"{leases}/{name}" if name else leases


class _Held(NamedTuple):
    """The holder of a Lease, and the time of its last renewal, by the holder's clock."""

    holder: str
    renewed: str


def _read(lease: dict[str, Any], lasts: float) -> tuple[_Held, float]:
    """Return the holder of a Lease, and its seconds: `lasts` if it states none."""
    spec = lease.get("spec") or {}
    held = _Held(str(spec.get("holderIdentity") or ""), str(spec.get("renewTime") or ""))
    return held, float(spec.get("leaseDurationSeconds") or lasts)


async def renewing_holder(client: KubeClient, *, namespace: str, name: str) -> str:
    """Return the holder of a Lease that is renewed. Empty if there is none.

    A Lease that is not renewed during all the time that it lasts has ended, because its holder was killed. So this may
    take that long.

    Raises:
        ApiError: the cluster refuses.
        OSError: it cannot be reached.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    seen: _Held | None = None
    while True:
        try:
            held, lasts = _read(await client.get(_path(namespace, name)), _LASTS)
        except ApiError as error:
            if error.status == NOT_FOUND:
                return ""
            raise
        seen = seen or held
        if held != seen:
            return held.holder
        if not held.holder or loop.time() >= began + lasts:
            return ""
        await asyncio.sleep(lasts / _CHECKS)


class Election:
    """The part of one process in the election by a Lease.

    Args:
        duration: seconds without a renewal after which another process takes the Lease.
        on_change: called when this process begins or ceases to lead.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        namespace: str,
        name: str,
        identity: str,
        duration: float = 3.0,
        on_change: Callable[[bool], None],
    ) -> None:
        self._client = client
        self._name = name
        self._namespace = namespace
        self._path = _path(namespace, name)
        self._identity = identity
        self._duration = duration
        self._on_change = on_change
        self._renewed_at = float("-inf")
        self._seen = _Held("", "")
        """The Lease as it was last seen."""

        self._seen_at = float("-inf")
        self._ends_at = float("-inf")
        """When the Lease of another process ends that is not renewed."""

        self._was_leading = False

    @property
    def leading(self) -> bool:
        """Whether this process holds the Lease now. It stops before another one may take it."""
        return self._now() < self._renewed_at + self._duration * 2 / 3

    async def run(self) -> None:
        """Take part until cancelled."""
        while True:
            began = self._now()
            try:
                async with asyncio.timeout(self._duration / 2):
                    if await self._attempt():
                        self._renewed_at = began
            except ApiError as error:
                if error.status != CONFLICT:  # another process was faster
                    _log.warning("election.refused", lease=self._name, error=str(error))
            except (OSError, TimeoutError) as error:
                _log.warning("election.interrupted", lease=self._name, error=str(error) or "no answer")
            self._tell()
            await asyncio.sleep(self._until_the_next())
            self._tell()

    def _until_the_next(self) -> float:
        """Return seconds until the next attempt.

        Who waits looks twice as often as the holder renews, so that it can tell since when the Lease is unchanged,
        and then at the moment at which it ends.
        """
        if self.leading:
            return self._duration / 4
        ends_in = self._ends_at - self._now()
        # Less than the clock's resolution would be no time.
        return min(self._duration / 8, max(ends_in, _SHORTEST)) if ends_in > 0 else self._duration / 8

    async def release(self) -> None:
        """Give the Lease back, so that another process need not wait."""
        if not self.leading:
            return
        try:
            async with asyncio.timeout(self._duration / 2):
                lease = await self._client.request("GET", self._path, tries=1)
                spec = lease.get("spec") or {}
                if spec.get("holderIdentity") == self._identity:
                    lease["spec"] = {**spec, "holderIdentity": "", "leaseDurationSeconds": 1}
                    await self._client.request("PUT", self._path, body=lease, tries=1)
        except (ApiError, OSError, TimeoutError) as error:
            _log.warning("election.not_released", lease=self._name, error=str(error))
        self._renewed_at = float("-inf")
        self._tell()

    async def _attempt(self) -> bool:
        """Take or renew the Lease. Return whether this process holds it."""
        try:
            lease = await self._client.request("GET", self._path, tries=1)
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            await self._client.request("POST", _path(self._namespace), body=self._document(None), tries=1)
            return True
        held, lasts = _read(lease, self._duration)
        if held != self._seen:
            self._seen, self._seen_at = held, self._now()
        self._ends_at = self._seen_at + lasts
        if held.holder not in {"", self._identity} and self._now() < self._ends_at:
            return False
        await self._client.request("PUT", self._path, body=self._document(lease), tries=1)
        return True

    def _document(self, present: dict[str, Any] | None) -> dict[str, Any]:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        spec = (present.get("spec") or {}) if present else {}
        takes = spec.get("holderIdentity") != self._identity
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": present["metadata"] if present else {"name": self._name, "namespace": self._namespace},
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": max(1, round(self._duration)),
                "acquireTime": now if takes else spec.get("acquireTime"),
                "renewTime": now,
                "leaseTransitions": int(spec.get("leaseTransitions") or 0) + (1 if takes and present else 0),
            },
        }

    def _tell(self) -> None:
        leading = self.leading
        if leading != self._was_leading:
            self._was_leading = leading
            LEADING.set(leading)
            _log.info("election.leads" if leading else "election.follows", lease=self._name)
            self._on_change(leading)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
