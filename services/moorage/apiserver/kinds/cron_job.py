"""`CronJob` (batch/v1)."""

from __future__ import annotations

from typing import Final

from moorage.apiserver.kinds.families.stored import StoredKind
from moorage.apiserver.kinds.printing.columns import AGE, TableColumn, count, of, text
from moorage.apiserver.kinds.printing.kubernetes import of_containers, selector_text
from moorage.decide.kubernetes.unstructured import at

_SELECTOR: Final = ("spec", "jobTemplate", "spec", "selector")
_TEMPLATE: Final = ("spec", "jobTemplate", "spec", "template")


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
        TableColumn("SUSPEND", of(lambda found: str(bool(at(found, "spec", "suspend")))), type="boolean"),
        TableColumn("ACTIVE", count("status", "active"), type="integer"),
        TableColumn("LAST SCHEDULE", text("status", "lastScheduleTime")),
        AGE,
        of_containers("Containers", "name", *_TEMPLATE),
        of_containers("Images", "image", *_TEMPLATE),
        TableColumn("Selector", of(lambda found: selector_text(at(found, *_SELECTOR))), wide=True),
    )


KIND = CronJobKind()
