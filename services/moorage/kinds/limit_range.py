"""`LimitRange` (v1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moorage.kinds.families.stored import StoredKind
from moorage.kinds.printing.kubernetes import CREATED

if TYPE_CHECKING:
    from moorage.core.apimachinery.field_errors import FieldError


class LimitRangeKind(StoredKind):
    """How much single pods of a namespace may use."""

    kind = "LimitRange"
    plural = "limitranges"
    singular = "limitrange"
    short_names = ("limits",)
    order = 320
    created_by_update = True
    has_generation = False
    without = "nothing is limited by it"
    api_columns = (CREATED,)

    def validate_fields(self, document: Mapping[str, Any], *, is_new: bool) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.quotas import validate_limit_range

        return validate_limit_range(document)


KIND = LimitRangeKind()
