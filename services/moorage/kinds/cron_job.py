"""`CronJob` (batch/v1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from moorage.core.apimachinery.unstructured import at
from moorage.kinds.families.stored import StoredKind
from moorage.kinds.printing.columns import AGE, TableColumn, count, of, text
from moorage.kinds.printing.kubernetes import of_containers, selector_text

if TYPE_CHECKING:
    from moorage.core.apimachinery.field_errors import FieldError


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

    def validate_fields(self, document: Mapping[str, Any], *, is_new: bool) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.cron_jobs import validate_cron_job

        return validate_cron_job(document)


KIND = CronJobKind()
