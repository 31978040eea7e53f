"""`PriorityClass` (scheduling.k8s.io/v1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from moorage.kinds.families.stored import StoredKind
from moorage.kinds.printing.columns import AGE, TableColumn, of, text
from moorage.kinds.printing.kubernetes import number
from moorage.kinds.status import built_in

if TYPE_CHECKING:
    from moorage.core.apimachinery.field_errors import FieldError
    from moorage.kinds.status.index import Index
    from moorage.kinds.status.records import Document, ObjectId, Records

_SYSTEM: Final[Mapping[str, str]] = {
    built_in.CLUSTER_CRITICAL: "Pods without which the cluster does not work, on whichever node.",
    built_in.NODE_CRITICAL: "Pods without which their node does not work.",
}
"""The description of the classes that Kubernetes has by itself."""


class PriorityClassKind(StoredKind):
    """A name of a priority."""

    group = "scheduling.k8s.io"
    kind = built_in.PRIORITY_CLASS
    plural = "priorityclasses"
    singular = "priorityclass"
    mirrorable = True
    short_names = ("pc",)
    namespaced = False
    order = 330
    built_in = tuple(built_in.SYSTEM_PRIORITIES)
    without = "nothing is placed earlier or later by it"
    api_columns = (
        number("VALUE", "value"),
        TableColumn(
            "GLOBAL-DEFAULT",
            of(lambda found: str(bool(found.get("globalDefault"))).lower()),
            type="boolean",
            spelled="Global-Default",
        ),
        AGE,
        TableColumn("PreemptionPolicy", text("preemptionPolicy", default="PreemptLowerPriority")),
    )

    @property
    def indexes(self) -> tuple[type[Index], ...]:
        """See `Kind`."""
        from moorage.kinds.status.priorities import PriorityIndex

        return (PriorityIndex,)

    def built_in_object(self, object_id: ObjectId, records: Records) -> Document:
        """See `Kind`."""
        from moorage.core.apimachinery.hashes import uid_of
        from moorage.kinds.status.namespaces import begun

        name, since = object_id.name, begun(records)
        metadata = {"name": name, "uid": uid_of(self.kind, name), "generation": 1}
        return {
            "apiVersion": self.api_versions[0],
            "kind": self.kind,
            "metadata": {**metadata, **({"creationTimestamp": since} if since else {})},
            "value": built_in.SYSTEM_PRIORITIES[name],
            "description": _SYSTEM[name],
            "preemptionPolicy": "PreemptLowerPriority",
        }

    def refusal(self, name: str, change: str) -> str:
        """See `Kind`."""
        return (
            "this is a system priority class and cannot be deleted" if name in _SYSTEM and change == "deleted" else ""
        )

    def validate_fields(self, document: Mapping[str, Any], *, is_new: bool) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.priorities import validate_priority_class

        return validate_priority_class(document) if is_new else []

    def validate_update(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.priorities import validate_priority_class_update

        return validate_priority_class_update(before, after)


KIND = PriorityClassKind()
