"""`DaemonSet` (apps/v1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moorage.kinds.families.controllers import ControllerKind

if TYPE_CHECKING:
    from moorage_schemas.resources.workloads import DaemonSet


class DaemonSetKind(ControllerKind["DaemonSet"]):
    """A daemon set: one pod on every node that fits."""

    kind = "DaemonSet"
    plural = "daemonsets"
    singular = "daemonset"
    short_names = ("ds",)
    order = 70

    @property
    def model(self) -> type[DaemonSet]:
        """See `Kind`."""
        from moorage_schemas.resources.workloads import DaemonSet

        return DaemonSet


KIND = DaemonSetKind()
