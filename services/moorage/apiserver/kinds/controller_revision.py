"""`ControllerRevision` (apps/v1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moorage.apiserver.kinds.kind import Untyped
from moorage.apiserver.kinds.printing.columns import AGE, NONE, Object, TableColumn, of, text
from moorage.decide.kubernetes.unstructured import at


def _controller(found: Object) -> str:
    owners = at(found, "metadata", "ownerReferences") or []
    named = next((one for one in owners if one.get("controller")), None)
    return f"{str(named['kind']).lower()}.apps/{named['name']}" if named is not None else NONE


class ControllerRevisionKind(Untyped):
    """A template that a stateful set or a daemon set has had, with its number."""

    group = "apps"
    kind = "ControllerRevision"
    plural = "controllerrevisions"
    singular = "controllerrevision"
    namespaced = True
    has_generation = False
    order = 90
    columns = (TableColumn("CONTROLLER", of(_controller)), TableColumn("REVISION", text("revision")), AGE)

    def changed(self, wanted: dict[str, Any], shown: Mapping[str, Any]) -> dict[str, Any]:
        """See `Kind`. What a revision keeps never changes."""
        return {**wanted, "data": shown.get("data")}


KIND = ControllerRevisionKind()
