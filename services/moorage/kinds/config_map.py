"""`ConfigMap` (v1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moorage.core.apimachinery.unstructured import at
from moorage.kinds.kind import Untyped
from moorage.kinds.printing.columns import AGE, Object, TableColumn, count, of

if TYPE_CHECKING:
    from moorage.core.apimachinery.field_errors import FieldError


def _keys(found: Object) -> str:
    return str(len(at(found, "data") or ()) + len(at(found, "binaryData") or ()))


class ConfigMapKind(Untyped):
    """A config map. It is stored, and propagation policies can claim it."""

    kind = "ConfigMap"
    plural = "configmaps"
    singular = "configmap"
    short_names = ("cm",)
    namespaced = True
    order = 100
    has_generation = False
    columns = (TableColumn("DATA", count("data")), AGE)
    api_columns = (TableColumn("Data", of(_keys), holds="integer"), AGE)

    def validate_fields(self, document: Mapping[str, Any], *, is_new: bool) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.data import validate_config_map

        return validate_config_map(document)

    def validate_update(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.data import validate_kept

        return validate_kept(before, after, "data", "binaryData")


KIND = ConfigMapKind()
