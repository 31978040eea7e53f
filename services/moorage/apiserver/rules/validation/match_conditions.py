"""Validation of the conditions by which policies add and remove taints."""

from __future__ import annotations

from typing import Final

from moorage.apiserver.rules.validation.fields import CheckedField
from moorage_schemas.condition import ConditionStatus

_AT_LEAST_ONE: Final = "must have at least one item"
_OPERATORS: Final = ("In", "NotIn")
_STATUSES: Final = tuple(status.value for status in ConditionStatus)


def check_match_conditions(spec: CheckedField) -> None:
    """Check `addOnConditions`, `removeOnConditions`, and that there are taints, as upstream's webhook does."""
    for condition in (*spec["addOnConditions"].each(), *spec["removeOnConditions"].each()):
        condition["conditionType"].check_set()
        condition["operator"].check_supported(_OPERATORS)
        condition["statusValues"].check_set(_AT_LEAST_ONE)
        for status in condition["statusValues"].each():
            status.check_supported(_STATUSES)
    spec["taints"].check_set(_AT_LEAST_ONE)
