"""`Taint` (moorage.io/v1alpha1)."""

from __future__ import annotations

from datetime import datetime

from moorage.core.apimachinery.durations import age
from moorage.core.apimachinery.unstructured import at
from moorage.kinds.kind import View
from moorage.kinds.printing.columns import NONE, Column, Object, of, taint_text, target, text


def _origins(found: Object) -> str:
    if at(found, "status", "held"):
        return "held"
    return ",".join(at(found, "status", "origins") or []) or NONE


def _age(found: Object, now: datetime) -> str:
    return age(at(found, "status", "timeAdded") or at(found, "status", "since"), now)


class TaintKind(View):
    """One taint of a target."""

    kind = "Taint"
    plural = "taints"
    singular = "taint"
    namespaced = False
    order = 2050
    columns = (
        Column("TARGET", target("status", "target")),
        Column("TAINT", of(lambda found: taint_text(at(found, "status") or {}))),
        Column("ORIGIN", of(_origins)),
        Column("AGE", _age),
        Column("REASON", text("status", "reason"), wide=True),
    )


KIND = TaintKind()
