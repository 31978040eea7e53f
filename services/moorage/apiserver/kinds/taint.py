"""`Taint` (moorage.io/v1alpha1)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from typing_extensions import override

from moorage.apiserver.kinds.kind import View
from moorage.apiserver.kinds.printing.columns import NONE, Object, TableColumn, of, taint_text, target, text
from moorage.decide.kubernetes.durations import age
from moorage.decide.kubernetes.unstructured import at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moorage.apiserver.kinds.status.records import Document, ObjectId, Records
    from moorage_schemas.base import Model


def _origins(found: Object) -> str:
    if at(found, "status", "held"):
        return "held"
    return ",".join(at(found, "status", "origins") or []) or NONE


def _age(found: Object, now: datetime) -> str:
    return age(at(found, "status", "timeAdded") or at(found, "status", "since"), now)


def _name(target: str, key: str, effect: str) -> str:
    from moorage.apiserver.kinds.status.names import about_target

    return about_target(target, effect, key)


class TaintKind(View):
    """One taint of a target."""

    kind = "Taint"
    plural = "taints"
    namespaced = False
    order = 2050
    columns = (
        TableColumn("TARGET", target("status", "target")),
        TableColumn("TAINT", of(lambda found: taint_text(at(found, "status") or {}))),
        TableColumn("ORIGIN", of(_origins)),
        TableColumn("AGE", _age),
        TableColumn("REASON", text("status", "reason"), wide=True),
    )
    made_from = "taints"

    @override
    def view_status(self, object_id: ObjectId, key: str, records: Records) -> Document | None:
        tainted = records.taints.get(key)
        if tainted is None:
            return None
        whose = {"target": tainted.target.model_dump(mode="json"), "generation": tainted.generation}
        for taint in tainted.taints:
            if _name(key, *taint.identity) == object_id.name:
                return {**whose, **taint.model_dump(mode="json"), "held": False}
        for waiting in tainted.held:
            if _name(key, waiting.key, waiting.effect) == object_id.name:
                return {**whose, **waiting.model_dump(mode="json"), "held": True}
        return None

    @override
    def objects(self, key: str, record: Model) -> Iterable[ObjectId]:
        from moorage.apiserver.kinds.status.records import ObjectId
        from moorage_schemas.taint import TargetTainted

        if isinstance(record, TargetTainted):
            yield from (ObjectId(self.kind, "", _name(key, *taint.identity)) for taint in record.taints)
            yield from (ObjectId(self.kind, "", _name(key, held.key, held.effect)) for held in record.held)


KIND = TaintKind()
