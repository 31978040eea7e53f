"""`CronJob` (batch/v1)."""

from __future__ import annotations

from moorage.core.apimachinery.unstructured import at
from moorage.kinds.families.stored import StoredKind
from moorage.kinds.printing.columns import AGE, TableColumn, count, of, text


class CronJobKind(StoredKind):
    """Jobs that are to be made at certain times."""

    group = "batch"
    kind = "CronJob"
    plural = "cronjobs"
    singular = "cronjob"
    short_names = ("cj",)
    order = 82
    status_shown = True
    in_all = True
    without = "no Job is made by it"
    api_columns = (
        TableColumn("SCHEDULE", text("spec", "schedule", default="")),
        TableColumn("TIMEZONE", text("spec", "timeZone")),
        TableColumn("SUSPEND", of(lambda found: str(bool(at(found, "spec", "suspend"))))),
        TableColumn("ACTIVE", count("status", "active"), type="integer"),
        TableColumn("LAST SCHEDULE", text("status", "lastScheduleTime")),
        AGE,
    )


KIND = CronJobKind()
