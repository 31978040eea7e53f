"""`PriorityClass` (scheduling.k8s.io/v1)."""

from __future__ import annotations

from moorage.kinds.families.stored import StoredKind
from moorage.kinds.printing.columns import AGE, TableColumn, of, text
from moorage.kinds.printing.kubernetes import number


class PriorityClassKind(StoredKind):
    """A name of a priority."""

    group = "scheduling.k8s.io"
    kind = "PriorityClass"
    plural = "priorityclasses"
    singular = "priorityclass"
    short_names = ("pc",)
    namespaced = False
    order = 330
    without = "pods get no priority by it"
    api_columns = (
        number("VALUE", "value"),
        TableColumn("GLOBAL-DEFAULT", of(lambda found: str(bool(found.get("globalDefault"))).lower())),
        AGE,
        TableColumn("PreemptionPolicy", text("preemptionPolicy", default="PreemptLowerPriority")),
    )


KIND = PriorityClassKind()
