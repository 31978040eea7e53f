"""`ResourceQuota` (v1)."""

from __future__ import annotations

from moorage.apiserver.kinds.families.stored import StoredKind
from moorage.apiserver.kinds.printing.columns import AGE, Object, TableColumn, of
from moorage.decide.kubernetes.unstructured import at


def _limits(found: Object, *, limits: bool) -> str:
    """The resources that are limited, with what is used of them, which nobody counts."""
    hard = at(found, "status", "hard")
    used = at(found, "status", "used") or {}
    names = sorted(one for one in hard if one.startswith("limits") is limits) if isinstance(hard, dict) else []
    return ", ".join(f"{name}: {used.get(name, 0)}/{hard[name]}" for name in names)


class ResourceQuotaKind(StoredKind):
    """How much all of a namespace may use."""

    kind = "ResourceQuota"
    plural = "resourcequotas"
    singular = "resourcequota"
    short_names = ("quota",)
    order = 322
    deleted_is_returned = True
    has_generation = False
    status_shown = True
    without = "nothing is limited by it"
    api_columns = (
        TableColumn("REQUEST", of(lambda found: _limits(found, limits=False))),
        TableColumn("LIMIT", of(lambda found: _limits(found, limits=True))),
        AGE,
    )


KIND = ResourceQuotaKind()
