"""`Timer` (moorage.io/v1alpha1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import override

from moorage.apiserver.kinds.kind import View
from moorage.apiserver.kinds.printing.columns import TableColumn, target, text, until
from moorage.decide.kubernetes.unstructured import at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moorage.apiserver.kinds.status.records import ObjectId
    from moorage_schemas.base import Model


class TimerKind(View):
    """A deadline that has not passed."""

    kind = "Timer"
    plural = "timers"
    singular = "timer"
    namespaced = False
    order = 2060
    columns = (
        TableColumn("TARGET", target("status", "target")),
        TableColumn("OWNER", text("status", "owner")),
        TableColumn("DUE", lambda found, now: until(at(found, "status", "deadline"), now)),
        TableColumn("DEADLINE", text("status", "deadline"), wide=True),
        TableColumn("SUBJECT", text("status", "subject"), wide=True),
    )
    made_from = "timers"

    def listed(self, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """See `View`. The timers that are set, earliest first."""
        waiting = [item for item in items if at(item, "status", "deadline")]
        return sorted(waiting, key=lambda item: (at(item, "status", "deadline"), at(item, "metadata", "name")))

    @override
    def objects(self, key: str, record: Model) -> Iterable[ObjectId]:
        from moorage.apiserver.kinds.status.records import ObjectId

        yield ObjectId(self.kind, "", key.replace("/", "~"))


KIND = TimerKind()
