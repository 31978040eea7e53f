"""`ResourceQuota` (v1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moorage.core.apimachinery.unstructured import at
from moorage.kinds.families.stored import StoredKind
from moorage.kinds.printing.columns import AGE, Object, TableColumn, of

if TYPE_CHECKING:
    from moorage.core.apimachinery.field_errors import FieldError


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

    def validate_fields(self, document: Mapping[str, Any], *, is_new: bool) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.quotas import validate_quota

        return validate_quota(document)

    def validate_update(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.quotas import validate_quota_update

        return validate_quota_update(before, after)


KIND = ResourceQuotaKind()
