"""`ReplicaSet` (apps/v1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moorage.kinds.families.controllers import ControllerKind

if TYPE_CHECKING:
    from moorage_schemas.resources.workloads import ReplicaSet


class ReplicaSetKind(ControllerKind["ReplicaSet"]):
    """A replica set: a number of pods of one template."""

    kind = "ReplicaSet"
    plural = "replicasets"
    singular = "replicaset"
    short_names = ("rs",)
    order = 50
    scaled = True

    @property
    def model(self) -> type[ReplicaSet]:
        """See `Kind`."""
        from moorage_schemas.resources.workloads import ReplicaSet

        return ReplicaSet


KIND = ReplicaSetKind()
