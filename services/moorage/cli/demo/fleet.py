"""The size of the example fleet, from its manifests."""

from __future__ import annotations

from collections.abc import Iterable

from moorage.cli.api.manifests import Manifest


def expected_pods(good: Iterable[Manifest], nodes: int) -> int:
    """Return the number of pods that the fleet's manifests ask for."""
    total = 0
    for item in good:
        kind = item.kind.kind if item.kind else ""
        if kind == "Pod":
            total += 1
        elif kind == "DaemonSet":
            total += nodes
        elif kind in {"Deployment", "StatefulSet", "ReplicaSet"}:
            total += int((item.document.get("spec") or {}).get("replicas", 1))
    return total
