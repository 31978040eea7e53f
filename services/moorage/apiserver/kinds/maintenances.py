"""Kind `Maintenance`: targets are drained in a window, some at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from moorage.apiserver.kinds.kind import Document, OwnKind
from moorage.apiserver.kinds.printing.columns import AGE, NONE, Object, TableColumn, of, text
from moorage.apiserver.kinds.printing.sections import Pair, Related, Section, as_declared
from moorage.decide.kubernetes.unstructured import at
from moorage_schemas.times import format_time

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.records import Records
    from moorage_schemas.resource import ResourceDeclared


def _done(found: Object) -> str:
    targets = at(found, "status", "targets") or ()
    return f"{sum(one.get('stage') == 'Done' for one in targets)}/{len(targets)}"


def _held_by(found: Object) -> str:
    return next((holder for one in at(found, "status", "targets") or () for holder in one.get("heldBy") or ()), NONE)


def _window(found: Object) -> str:
    window = at(found, "spec", "window") or {}
    when = window.get("start") or f"{window.get('cron')} {window.get('timeZone') or 'UTC'}"
    return f"{when} for {window.get('duration')}"


class MaintenanceKind(OwnKind[Any]):
    """A maintenance of nodes."""

    kind = "Maintenance"
    model_module = "maintenances"
    short_names = ("mnt",)
    in_own_all = True
    status_shown = True
    order = 185
    apply_order = 45
    columns = (
        TableColumn("PHASE", text("status", "phase", default="<unknown>")),
        TableColumn("DONE", of(_done)),
        TableColumn("DEADLINE", text("status", "deadline")),
        TableColumn("HELD-BY", of(_held_by)),
        AGE,
        TableColumn("WINDOW", of(_window), wide=True),
        TableColumn("REASON", text("spec", "reason"), wide=True),
        TableColumn("REQUESTED-BY", text("spec", "requestedBy"), wide=True),
    )

    @override
    def status(self, resource: ResourceDeclared, records: Records) -> Document | None:
        found = records.maintenances.get(resource.name)
        if found is None or found.uid != resource.uid:
            return None
        times = {
            "beginTime": found.begin_time,
            "endTime": found.end_time,
            "deadline": found.deadline,
            "nextTime": found.next_time,
        }
        stages = Counter(one.stage for one in found.targets)
        return {
            "phase": found.phase,
            **{name: format_time(time) for name, time in times.items() if time is not None},
            "counts": dict(sorted(stages.items())),
            "targets": [
                {
                    "name": one.name,
                    "stage": one.stage,
                    "since": format_time(one.since),
                    **({"heldBy": list(one.held_by)} if one.held_by else {}),
                }
                for one in found.targets
            ],
        }

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        yield from as_declared(found)
        for one in at(found, "status", "targets") or ():
            holders = ", ".join(one.get("heldBy") or ())
            yield Pair(str(one.get("name")), f"{one.get('stage')}{f', waits for {holders}' if holders else ''}")


KINDS = (MaintenanceKind(),)
