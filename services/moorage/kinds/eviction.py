"""`Eviction` (moorage.io/v1alpha1)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from moorage.core.apimachinery.unstructured import at
from moorage.kinds.kind import View
from moorage.kinds.printing.columns import NONE, Column, Object, of, since, taint_text, target, text, until

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moorage.kinds.status.records import ObjectId
    from moorage_schemas.base import Model


def _due(found: Object, now: datetime) -> str:
    waits = at(found, "status", "state") in {None, "Scheduled", "Held"}
    return until(at(found, "status", "deadline"), now) if waits else NONE


def _held_by(found: Object) -> str:
    held = at(found, "status", "state") == "Held"
    return (",".join(at(found, "status", "heldBy") or []) or NONE) if held else NONE


def _taints(found: Object) -> str:
    return ",".join(taint_text(taint) for taint in at(found, "status", "taints") or []) or NONE


class EvictionKind(View):
    """The eviction of a workload from a target."""

    kind = "Eviction"
    plural = "evictions"
    singular = "eviction"
    cli_names = ("ev", "evict")
    namespaced = True
    order = 2040
    columns = (
        Column("WORKLOAD", target("status", "workload")),
        Column("TARGET", target("status", "target")),
        Column("STATE", text("status", "state")),
        Column("DUE", _due),
        Column("HELD-BY", of(_held_by)),
        Column("AGE", since("status", "decidedTime")),
        Column("TAINTS", of(_taints), wide=True),
        Column("REASON", text("status", "reason"), wide=True),
        Column("MESSAGE", text("status", "message"), wide=True),
    )
    made_from = "evictions"

    def objects(self, key: str, record: Model | None) -> Iterable[ObjectId]:
        """See `View`."""
        from moorage.kinds.status.names import of_pair

        yield of_pair(self.kind, key)


KIND = EvictionKind()
