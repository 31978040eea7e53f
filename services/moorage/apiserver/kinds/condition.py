"""`Condition` (moorage.io/v1alpha1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from moorage.apiserver.kinds.kind import View
from moorage.apiserver.kinds.printing.columns import TableColumn, since, target, text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moorage.apiserver.kinds.status.records import ObjectId
    from moorage_schemas.base import Model


class ConditionKind(View):
    """One condition of a target."""

    kind = "Condition"
    plural = "conditions"
    singular = "condition"
    cli_names = ("cond",)
    namespaced = False
    order = 2030
    columns = (
        TableColumn("TARGET", target("status", "target")),
        TableColumn("TYPE", text("status", "type")),
        TableColumn("STATUS", text("status", "status")),
        TableColumn("REASON", text("status", "reason")),
        TableColumn("SINCE", since("status", "lastTransitionTime")),
        TableColumn("HEARTBEAT", since("status", "lastHeartbeatTime")),
        TableColumn("SOURCE", text("status", "source"), wide=True),
        TableColumn("MESSAGE", text("status", "message"), wide=True),
    )
    made_from = "conditions"

    @override
    def objects(self, key: str, record: Model) -> Iterable[ObjectId]:
        from moorage.apiserver.kinds.status.names import about_target
        from moorage.apiserver.kinds.status.records import ObjectId
        from moorage_schemas.keys import ConditionKey

        yield ObjectId(self.kind, "", about_target(*ConditionKey.parse(key)))


KIND = ConditionKind()
