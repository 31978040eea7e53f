"""Which targets have fallen silent: those whose Lease was not renewed while the cluster was seen.

A target is silent when a whole grace period has passed by this process's clock since it last saw a renewal. So neither
the clocks of targets nor a restart matter, and a time in which the cluster could not be reached does not count: after
it, each target has a whole grace period again.

Sources: k8s.io/kubernetes/pkg/controller/nodelifecycle (`tryUpdateNodeHealth`) and
open-cluster-management.io/ocm/pkg/registration/hub/lease.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


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

    @property
    def silent(self) -> frozenset[str]:
        """The targets that are silent."""
        return frozenset(self._silent)

    def is_silent(self, target: str) -> bool:
        """Whether a target is silent."""
        return target in self._silent

    def renewed(self, target: str, now: float, *, lease: str = "", heartbeat: str = "") -> bool:
        """Note what was seen of a target. Return whether the target is not silent any more.

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
        """Return the targets whose grace period is over and that are not known as silent. They are not noted yet.

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
