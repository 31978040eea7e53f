"""`PriorityClass` (scheduling.k8s.io/v1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from moorage.apiserver.kinds.printing.columns import AGE, TableColumn, of, text
from moorage.apiserver.kinds.printing.kubernetes import number
from moorage.apiserver.kinds.status import built_in
from moorage.apiserver.kinds.stored import StoredKind

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.index import Index
    from moorage.apiserver.kinds.status.records import Document, ObjectId, Records
    from moorage.decide.kubernetes.field_errors import FieldError

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
    @override
    def indexes(self) -> tuple[type[Index], ...]:
        from moorage.apiserver.kinds.status.pods import PriorityIndex

        return (PriorityIndex,)

    @override
    def built_in_object(self, object_id: ObjectId, records: Records) -> Document:
        from moorage.apiserver.kinds.status.namespaces import begun
        from moorage.decide.kubernetes.hashes import uid_of

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

    @override
    def refusal(self, name: str, change: str) -> str:
        return (
            "this is a system priority class and cannot be deleted" if name in _SYSTEM and change == "deleted" else ""
        )

    @override
    def validate_fields(self, document: Mapping[str, Any], *, is_new: bool) -> list[FieldError]:
        from moorage.apiserver.rules.priorities import validate_priority_class

        return validate_priority_class(document) if is_new else []

    @override
    def validate_update(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
        from moorage.apiserver.rules.priorities import validate_priority_class_update

        return validate_priority_class_update(before, after)


KIND = PriorityClassKind()
