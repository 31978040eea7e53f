"""Which nodes have fallen silent: those whose Lease was not renewed while the cluster was seen.

A node is silent when a whole grace period has passed by this process's clock since it last saw a renewal. So neither
the clocks of nodes nor a restart matter, and a time in which the cluster could not be reached does not count: after it,
each node has a whole grace period again.

Source: k8s.io/kubernetes/pkg/controller/nodelifecycle (`tryUpdateNodeHealth`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class _Renewal:
    """The last renewal of a Lease, the last heartbeat in the node's status, and when this process saw the later one."""

    lease: str
    heartbeat: str
    seen_at: float


class Leases:
    """The last renewals of nodes.

    Args:
        grace: seconds without a renewal after which a node is silent.
    """

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._renewals: dict[str, _Renewal] = {}
        self._silent: set[str] = set()

    @property
    def silent(self) -> frozenset[str]:
        """The nodes that are silent."""
        return frozenset(self._silent)

    def is_silent(self, node: str) -> bool:
        """Whether a node is silent."""
        return node in self._silent

    def renewed(self, node: str, now: float, *, lease: str = "", heartbeat: str = "") -> bool:
        """Note what was seen of a node. Return whether the node is not silent any more.

        Args:
            node: its name.
            now: the time of this process, in seconds.
            lease: `spec.renewTime` of its Lease, if that was seen.
            heartbeat: the last heartbeat in its status, if that was seen.
        """
        known = self._renewals.get(node)
        if known is None:
            self._renewals[node] = _Renewal(lease, heartbeat, now)
            return False
        found = replace(known, lease=lease or known.lease, heartbeat=heartbeat or known.heartbeat)
        if found == known:
            return False
        self._renewals[node] = replace(found, seen_at=now)
        if node in self._silent:
            self._silent.discard(node)
            return True
        return False

    def gone(self, node: str) -> None:
        """Forget a node."""
        self._renewals.pop(node, None)
        self._silent.discard(node)

    def grant(self, now: float) -> None:
        """Give each node that is not silent a whole grace period: the cluster was not seen until now."""
        self._renewals = {node: replace(known, seen_at=now) for node, known in self._renewals.items()}

    def due(self, now: float) -> list[str]:
        """Return the nodes whose grace period is over and that are not known as silent. They are not noted yet.

        Args:
            now: the time of this process, in seconds.
        """
        return [
            node
            for node, known in self._renewals.items()
            if node not in self._silent and now - known.seen_at >= self._grace
        ]

    def silence(self, nodes: Iterable[str]) -> None:
        """Note nodes as silent."""
        self._silent.update(nodes)
