"""`Eviction` (moorage.io/v1alpha1)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from typing_extensions import override

from moorage.apiserver.kinds.kind import View
from moorage.apiserver.kinds.printing.columns import (
    NONE,
    Object,
    TableColumn,
    of,
    since,
    taint_text,
    target,
    text,
    until,
)
from moorage.decide.kubernetes.unstructured import at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moorage.apiserver.kinds.status.records import ObjectId
    from moorage_schemas.base import Model


def _due(found: Object, now: datetime) -> str:
    waits = at(found, "status", "state") in {None, "Scheduled", "Held"}
    return until(at(found, "status", "deadline"), now) if waits else NONE


def _held_by(found: Object) -> str:
    held = at(found, "status", "state") == "Held"
    return (",".join(at(found, "status", "heldBy") or []) or NONE) if held else NONE


def acknowledged(found: Object) -> str:
    """What the deployer of an eviction's work has said: `Waiting` for it, `Failed`, `Refused` or `Done`."""
    status = found.get("status") or {}
    if status.get("acknowledged"):
        return "Done"
    if status.get("state") != "Requested":
        return NONE
    return str(at(status, "escalated", "reason") or ("Waiting" if status.get("deployer") else NONE))


def _taints(found: Object) -> str:
    return ",".join(taint_text(taint) for taint in at(found, "status", "taints") or []) or NONE


class EvictionKind(View):
    """The eviction of a workload from a target."""

    kind = "Eviction"
    plural = "evictions"
    cli_names = ("evict",)
    namespaced = True
    order = 2040
    columns = (
        TableColumn("WORKLOAD", target("status", "workload")),
        TableColumn("TARGET", target("status", "target")),
        TableColumn("STATE", text("status", "state")),
        TableColumn("DUE", _due),
        TableColumn("HELD-BY", of(_held_by)),
        TableColumn("ACKNOWLEDGED", of(acknowledged)),
        TableColumn("AGE", since("status", "decidedTime")),
        TableColumn("TAINTS", of(_taints), wide=True),
        TableColumn("REASON", text("status", "reason"), wide=True),
        TableColumn("MESSAGE", text("status", "message"), wide=True),
        TableColumn("DEPLOYER", text("status", "deployer"), wide=True),
    )
    made_from = "evictions"

    @override
    def objects(self, key: str, record: Model) -> Iterable[ObjectId]:
        from moorage.apiserver.kinds.status.names import of_pair

        yield of_pair(self.kind, key)


KIND = EvictionKind()
