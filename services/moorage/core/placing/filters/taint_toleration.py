"""Nodes with an untolerated `NoSchedule` or `NoExecute` taint (DOMAIN §3)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from moorage.core.placing.fleet import Fleet, Mask
from moorage.core.placing.plugin import Filter
from moorage.core.placing.shape import PodShape


class TaintToleration(Filter):
    """A pod goes only where it tolerates every taint that keeps pods away."""

    name = "TaintToleration"
    order = 20

    def objections(
        self,
        shape: PodShape,
        fleet: Fleet,
        now: datetime | None,  # noqa: ARG002 - no matter of time
    ) -> Iterable[tuple[str, Mask]]:
        """See `Filter`."""
        yield "node(s) had untolerated taint(s)", ~fleet.fits_taints(shape.tolerations)


PLUGIN = TaintToleration()
