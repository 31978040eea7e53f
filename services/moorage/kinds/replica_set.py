"""`ReplicaSet` (apps/v1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from moorage.kinds.families.controllers import ControllerKind
from moorage.kinds.printing.columns import AGE, text
from moorage.kinds.printing.kubernetes import CONTAINERS, IMAGES, SELECTOR, number

if TYPE_CHECKING:
    from moorage_schemas.resources.workloads import ReplicaSet


class ReplicaSetKind(ControllerKind["ReplicaSet"]):
    """A replica set: a number of pods of one template."""

    kind = "ReplicaSet"
    plural = "replicasets"
    singular = "replicaset"
    short_names = ("rs",)
    order = 50
    field_selectors: ClassVar[Mapping[str, str]] = {"status.replicas": "0"}
    scaled = True
    api_columns = (
        number("Desired", "spec", "replicas")._replace(cell=text("spec", "replicas", default="1")),
        number("Current", "status", "replicas"),
        number("Ready", "status", "readyReplicas"),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    )

    @property
    def model(self) -> type[ReplicaSet]:
        """See `Kind`."""
        from moorage_schemas.resources.workloads import ReplicaSet

        return ReplicaSet


KIND = ReplicaSetKind()
