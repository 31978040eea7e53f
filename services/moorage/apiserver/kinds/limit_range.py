"""`LimitRange` (v1)."""

from __future__ import annotations

from moorage.apiserver.kinds.families.stored import StoredKind
from moorage.apiserver.kinds.printing.kubernetes import CREATED


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


KIND = LimitRangeKind()
