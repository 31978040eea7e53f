"""`Condition` (moorage.io/v1alpha1)."""

from __future__ import annotations

from moorage.kinds.kind import View
from moorage.kinds.printing.columns import Column, since, target, text


class ConditionKind(View):
    """One condition of a target."""

    kind = "Condition"
    plural = "conditions"
    singular = "condition"
    cli_names = ("cond",)
    namespaced = False
    order = 2030
    columns = (
        Column("TARGET", target("status", "target")),
        Column("TYPE", text("status", "type")),
        Column("STATUS", text("status", "status")),
        Column("REASON", text("status", "reason")),
        Column("SINCE", since("status", "lastTransitionTime")),
        Column("HEARTBEAT", since("status", "lastHeartbeatTime")),
        Column("SOURCE", text("status", "source"), wide=True),
        Column("MESSAGE", text("status", "message"), wide=True),
    )


KIND = ConditionKind()
